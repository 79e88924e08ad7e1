"""Allocation of resources to jobs: the only service that grants and revokes leases, orders stops and ends jobs.

The question it answers: *given the ledger so far, what has to be stated next?*

Facts read: all. Facts written: `lease.granted`, `lease.revoked`, `stop.ordered`, `job.requeued`, `job.ended`, `job.dismissed`,
`hold.placed`, `hold.lifted`, `reclaim.opened`, `preemption.ordered`, `preemption.dismissed`, `nomination.ended`, `mix.learned`,
`policy.gated`, `growth.requested`, `growth.ended`, `node.set_aside`, `node.check_ordered`,
`move.ordered`.

`decide` is the round: `job_lifecycle` settles events of jobs, `proposals` judges what preemption found, `granting` grants free units,
`demand_mix` states what is usually requested, `windows_budgets` opens and closes policies' gates (R33), `scale_up` requests nodes (R38).
All are pure. `service` connects them to the bus.

For `granting`: `candidate_index` keeps all pending jobs by pool, on `request_bitsets` < `pool_requests` < `request_classes` <
`backfill_candidates` < `pool_queue`, each importing only those before it; `feasibility_cache` has what fits in one round, with the holds of
jobs that have waited too long (`backfill_reservations`, R16), and `hold_placement` looks for new ones;
`reclaim_requests` opens searches for victims (R19, R23); `suspend_resume` and `relocation` resume and move suspended jobs (R29).

It never searches for victims (preemption does), never sends to a node (feed does), never reads a clock.
"""
