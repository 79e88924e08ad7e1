"""Plans in which every pool creates its nodes, in a cloud with faults (`cloud`)."""

from __future__ import annotations

from msgspec import structs

from headrace.contracts.documents import model as d
from headrace.contracts.values.durations import SECOND
from tests.simulation.plan import Plan

BURST = d.Burst(
    provider="local",
    node=d.BurstNode(gpus=4, gpu_model="H100-80GB", cpus=64, memory=1 << 20),
    offers=(d.Offer(name="spot", price="1", market="spot"), d.Offer(name="plain", price="2")),
    max_nodes=3,
    boot=20 * SECOND,
    idle=5 * SECOND,
)


def overflowing(plan: Plan) -> Plan:
    """The plan with few GPUs in each pool and a cloud behind it, and with policies that have no limits."""
    law = plan.documents
    pools = tuple(structs.replace(pool, burst=BURST, capacity={}) for pool in law.pools)
    policies = tuple(structs.replace(policy, limit={}, per_pool={}, budgets=(), windows=()) for policy in law.policies)
    tenants = tuple(structs.replace(tenant, shares=()) for tenant in law.tenants)
    nodes = tuple(structs.replace(row, gpus=1) for row in plan.nodes)
    return structs.replace(plan, nodes=nodes, documents=structs.replace(law, pools=pools, policies=policies, tenants=tenants))
