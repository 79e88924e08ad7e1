"""The history, looked at by somebody who did not write it, and what is kept beside it so that nobody has to read it from its start.

The question it answers: *is the ledger whole, does what was decided follow from it, and what was true at any moment of it?*

- `taking` says when a snapshot of the fold is due, and which ones are kept; `keeper` takes them and lets go of them.
- `pen` states what this service has to state, in its own chain.
- `service` is the process: it follows the ledger behind everybody else, and nobody waits for it.

It runs the pure parts of several services side by side over the recorded prefix; that is why it, with simulate, may import them.
Facts read: all. Facts written: `snapshot.taken`. It never decides who may hold what, and changes nothing that is recorded.
"""
