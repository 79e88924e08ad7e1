"""Admission control: every submission on SUBMIT is judged, in order, exactly once.

The question it answers: *is this well-formed, allowed, and could it ever run?*

Facts read: all. Facts written: `job.admitted`, `job.rejected`, `wish.refused`, `job.cancel_requested`,
`job.requeue_requested`, `refusals.counted`, `wishes.judged`.

`judge` has the tests of R13 in their order, with `guards` for what groups and tenants allow and `runtime` for a group's runtime rules;
`decide` turns waiting messages into a record that names the last submission judged; `trial` judges without stating; `review` judges a
record again. These are pure. `service` reads SUBMIT, seals the jobs' texts and appends. Exactly once needs no acknowledgement: the
position is in the ledger.

It never queues a job that cannot run, never reads which resources are in use, never moves a job after admission.
"""
