"""Preemption: finds victims for accepted searches, and watches the preemptions that were ordered.

The question it answers: *which borrowed units make room for this job with the least lost work, and do all victims leave in time?*

Facts read: all. Facts written: `preemption.proposed`, `preemption.none`, `preemption.settled`, `lease.overdue`, `node.lost`.

`decide` is pure; the rules of the search are in `headrace.domain.preemption.victims`, which the allocator uses too. `service` connects it
to the bus and receives the nodes' heartbeats.

It orders no preemption: a proposal has an effect only once the allocator has accepted it.
"""
