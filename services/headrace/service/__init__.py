"""What all services have in common: fold the ledger from NATS, state what is decided, answer requests about their status.

The question it answers: *how do a pure decider and a log become a running service?*

- `fold` is the shared fold for the bus: void records are logged, a broken ledger stops the reader; `snapshots` finds its start.
- `hosting` runs the services of a process over one follower, which each of them may listen to.
- `deciding` combines writer chain and loop for a service that writes; `answering` serves requests, within a `concurrency_limit`.
- `intake` passes on what users publish, with `lines` for fairness between tenants; `records` serves pages of the ledger.
- `follower_status` measures the lag; `engine_version` names our software; `task_group` runs loops together.

It contains no rules, and does not interpret facts. The services' own `service` modules have what is specific to them.
"""
