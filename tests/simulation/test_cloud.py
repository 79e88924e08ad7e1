"""Every pool creates its nodes, in a cloud with faults, while everything else goes wrong too: nothing is made twice or ended under a lease,
and at the end nothing runs that the ledger does not know (R38).

`HEADRACE_CLOUDS=200 pytest tests/simulation/test_cloud.py` plays more runs.
"""

from __future__ import annotations

import os
from collections import Counter

from msgspec import structs

from headrace.contracts.documents import model as d
from headrace.contracts.values.durations import SECOND
from tests.simulation.plan import Plan, draw
from tests.simulation.world import play

SEEDS = [str(500 + place) for place in range(int(os.environ.get("HEADRACE_CLOUDS", "0")))] or [
    "500",
    "506",
    "508",
    "509",
    "510",
]
"""By default few, in which the cloud is asked often."""
BURST = d.Burst(
    provider="local",
    node=d.BurstNode(gpus=4, gpu_model="H100-80GB", cpus=64, memory=1 << 20),
    offers=(d.Offer(name="spot", price="1", market="spot"), d.Offer(name="plain", price="2")),
    max_nodes=3,
    boot=20 * SECOND,
    idle=5 * SECOND,
)


def overflowing(seed: str) -> Plan:
    """A plan whose pools have few GPUs and a cloud behind them, and whose policies have no limits."""
    plan = draw(seed)
    law = plan.documents
    pools = tuple(structs.replace(pool, burst=BURST, capacity={}) for pool in law.pools)
    policies = tuple(structs.replace(policy, limit={}, per_pool={}, budgets=(), windows=()) for policy in law.policies)
    tenants = tuple(structs.replace(tenant, shares=()) for tenant in law.tenants)
    nodes = tuple(structs.replace(row, gpus=1) for row in plan.nodes)
    return structs.replace(plan, nodes=nodes, documents=structs.replace(law, pools=pools, policies=policies, tenants=tenants))


def test_clouds_keep_their_promises_whatever_goes_wrong() -> None:
    counts: Counter[str] = Counter()
    for seed in SEEDS:
        outcome = play(overflowing(seed))
        assert outcome.violations == [], f"seed {seed}"
        counts += outcome.counts
    assert counts["cloud: made"] >= len(SEEDS)
    assert counts["cloud: ended"] <= counts["cloud: made"]
