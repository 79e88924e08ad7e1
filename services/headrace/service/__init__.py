"""What every service does alike: fold the ledger through the bus, state what is decided, answer how it is.

The question it answers: *how do a pure decider and a log become a running service?*

- `fold` is the shared fold as the bus wants it: void records are told, a broken ledger stops the reader;
  `snapshots` are where it begins.
- `deciding` puts fold, chain and loop together for a writer; `answering` serves request-reply; `engine` names our version.

It knows no rule and no fact's meaning. The services' own `service` modules say only what is theirs.
"""
