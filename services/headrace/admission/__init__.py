"""What may enter: every wish on SUBMIT is judged, in order, exactly once.

The question it answers: *is this well-formed, allowed, and could it ever run?*

Facts read: all. Facts written: `job.admitted`, `job.rejected`, `wish.refused`, `job.cancel_requested`,
`job.requeue_requested`, `refusals.counted`, `wishes.judged`.

`judge` holds the tests of R13 in their order, with `guards` for what groups and tenants allow, `decide` turns waiting messages into a
record that names the last wish judged; both pure. `service` reads SUBMIT, seals the jobs' texts and appends. Exactly once needs no
acknowledgement: the position is in the ledger.

It never queues what cannot run, never looks at who holds what now, never moves a job after admission.
"""
