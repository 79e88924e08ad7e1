"""Who runs where, and now: the only service that grants, revokes, orders stops and ends jobs.

The question it answers: *given the ledger so far, what has to be stated next?*

Facts read: all. Facts written: `lease.granted`, `lease.revoked`, `stop.ordered`, `job.requeued`, `job.ended`, `job.dismissed`,
`hold.placed`, `hold.lifted`, `reclaim.opened`, `preemption.ordered`, `preemption.dismissed`, `nomination.ended`, `mix.learned`,
`policy.gated`, `growth.requested`, `growth.ended`, `node.set_aside`, `node.check_ordered`,
`move.ordered`.

`decide` is the round: `settlement` answers what has happened to jobs, `proposals` judges what preemption found, `granting` hands out what
is free, `learning` notes what is asked for, `gating` what windows and budgets say (R33), `growing` asks for nodes (R38). All are pure.
`service` connects them to the bus.

It never searches for victims (preemption does), never speaks to a node (feed does), never looks at a clock.
"""
