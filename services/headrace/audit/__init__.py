"""Independent verification of the ledger, and snapshots and an archive so that it need not be read from its start.

The question it answers: *is the ledger whole, does what was decided follow from it, and what was true at any time?*

- `snapshot_policy` says when a snapshot of the fold is due, and which ones are kept; `snapshotter` takes and deletes them.
- `verify` checks all records in one pass: `verify_chains`, `verify_seals` (with `sequence_diff`) and `verify_decisions`; results are in
  `findings`. `verify_reading` reads on after missing records, `verify_watch` verifies continuously and seals what is correct.
- `seals` defines seals, `seal_store` stores them apart from the ledger.
- `archiving` exports new records to the archive at intervals.
- `ledger_writer` appends the facts of this service, in its own chain.
- `service` is the process: it follows the ledger at low priority, and no other service waits for it.

It runs the pure parts of several services side by side over the recorded prefix; that is why it, with simulate, may import them.

Facts read: all. Facts written: `snapshot.taken`, `ledger.sealed`. It never decides who may hold what, and changes nothing that is
recorded.
"""
