"""Who yields, and whether they did: the search for victims and the watch over what was ordered.

The question it answers: *whose borrowed units make room for this job, at the least lost work, and is everybody leaving in time?*

Facts read: all. Facts written: `preemption.proposed`, `preemption.none`, `preemption.settled`, `lease.overdue`, `node.lost`.

`decide` is pure; the rules of the search are in `headrace.domain.preemption.victims`, where the allocator finds them too. `service`
connects it to the bus and listens to the nodes' heartbeats.

It never orders anything: a proposal is a proposal until the allocator has accepted it.
"""
