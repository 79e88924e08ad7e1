"""A hall that a lender has filled, and an owner that asks for its reservation."""

from __future__ import annotations

from headrace.domain.preemption import victim_search
from headrace.domain.preemption.eligibility import RECLAIM, short_keys
from headrace.domain.preemption.victim_candidates import VictimCandidates
from tests.unit.domain.hall import Hall

QUARTERS = [(f"{node}-{device}", node, device, 1) for node in ("n1", "n2") for device in range(4)]


def lent(*held, nodes=2, devices=4, size=4, replicas=1, lender=None, **pool):
    """`held`: (name, node, first device, GPUs), granted a second after each other; `owner` asks for `replicas` of `size`."""
    hall = Hall(nodes=nodes, devices=devices, **pool)
    hall.policy("lender", reservation=lender)
    for taken in sorted({job[3] for job in held}):
        hall.policy(f"of{taken}", size=taken)
    for name, node, first, taken in held:
        job = hall.admit(f"of{taken}", name)
        job.policy = hall.state.policies["acme", "lender"]
        hall.start(hall.grant(job, (node, first, taken)))
        hall.later(1)
    hall.policy("owner", reservation=nodes * devices, size=size, replicas=replicas)
    return hall, hall.admit("owner", "o")


def context(hall, job):
    eligible = VictimCandidates(hall.state, job, hall.pool, RECLAIM, short_keys(hall.state, job, hall.pool), hall.now)
    return victim_search.SearchContext(hall.state, job, hall.pool, RECLAIM), eligible
