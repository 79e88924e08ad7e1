"""What is kept beside the ledger, so that nobody has to read it from its beginning, and what is stated about the ledger itself.

The question it answers: *what was true then, and can it be trusted?*

- `taking` says when a snapshot of the fold is due, and which ones are kept; `keeper` takes them and lets go of them.
- `pen` states what this service has to state, in its own chain.
- `service` is the process: it follows the ledger behind everybody else, and nobody waits for it.

Facts read: all. Facts written: `snapshot.taken`. It never decides who may hold what. It may run several services' pure parts side by side.
"""
