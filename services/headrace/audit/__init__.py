"""The history, looked at by somebody who did not write it, and what is kept beside it so that nobody has to read it from its start.

The question it answers: *is the ledger whole, does what was decided follow from it, and what was true at any moment of it?*

- `taking` says when a snapshot of the fold is due, and which ones are kept; `keeper` takes them and lets go of them.
- `verify` looks at all records in one pass: `verify_chains`, `verify_seals` (with `differences`) and `verify_decisions`; what they find is
  in `findings`. `verify_reading` reads on behind what is missing, `verify_watch` does it all the time and seals what held.
- `seals` says what a seal is, `seals_kept` keeps them apart from the ledger.
- `archiving` brings the archive up to the ledger as time goes by.
- `pen` states what this service has to state, in its own chain.
- `service` is the process: it follows the ledger behind everybody else, and nobody waits for it.

It runs the pure parts of several services side by side over the recorded prefix; that is why it, with simulate, may import them.
Facts read: all. Facts written: `snapshot.taken`, `ledger.sealed`. It never decides who may hold what, and changes nothing that is recorded.
"""
