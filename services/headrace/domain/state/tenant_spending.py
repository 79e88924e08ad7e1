"""What a tenant's jobs cost on nodes that pools create (R38): their part of each instance, by the GPUs that they hold. Pure.

A job has of an instance what it holds of its GPUs, from its grant to its end; what is idle is not the tenant's. A node without GPUs counts
in full for each of its jobs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.contracts.documents.model import Tenant
from headrace.contracts.values.amounts import GPU, GPU_UNITS
from headrace.contracts.values.durations import HOUR
from headrace.contracts.values.money import millionths
from headrace.domain.model.calendar import period_of
from headrace.domain.model.instances import Spending

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.domain.model.jobs import LeaseState
    from headrace.domain.state.state import State


def cap_of(state: State, tenant: str, pool: str) -> int:
    """What the tenant may spend on created nodes of the pool in a calendar month of UTC, in millionths; 0: no cap."""
    known = state.tenants.get(tenant)
    shares = known.document.shares if known is not None and isinstance(known.document, Tenant) else ()
    return next((millionths(share.cap) for share in shares if share.pool == pool), 0)


def spend(state: State, lease: LeaseState) -> None:
    """A lease on an instance ends now: its cost in this month is kept."""
    month, _ = period_of("month", None, state.now)
    if not hourly_cost(state, lease):
        return
    key = lease.pool, lease.job.policy.document.tenant
    known = state.tenants_spent.get(key)
    if known is None or known.month != month:
        known = state.tenants_spent[key] = Spending(month)
    known.amount += cost_of(state, lease, month, state.now)


def spent_by(state: State, tenant: str, pool: str, now: int) -> int:
    """What the tenant's jobs have cost on created nodes of the pool in the calendar month of UTC, in millionths."""
    month, _ = period_of("month", None, now)
    known = state.tenants_spent.get((pool, tenant))
    ended = known.amount if known is not None and known.month == month else 0
    return ended + sum(cost_of(state, one, month, now) for one in leases_of(state, tenant, pool))


def cost_of(state: State, lease: LeaseState, since: int, until: int) -> int:
    """What a lease that has not ended has cost between two moments, in millionths."""
    return hourly_cost(state, lease) * max(0, until - max(since, lease.granted_at)) // HOUR


def hourly_cost(state: State, lease: LeaseState) -> int:
    """What an hour of a lease costs: its part of the price of the instance; 0 if its node was not created by a pool."""
    instance, node = state.instances.get(lease.node), state.nodes.get(lease.node)
    if instance is None or node is None or not instance.price:
        return 0
    whole = len(node.devices) * GPU_UNITS
    return instance.price * min(lease.amounts.get(GPU, 0), whole) // whole if whole else instance.price


def leases_of(state: State, tenant: str, pool: str) -> Iterator[LeaseState]:
    """The tenant's leases on instances of the pool, and on its other nodes, which cost nothing here."""
    known = state.pools.get(pool)
    for node in known.nodes.values() if known is not None and state.instances else ():
        for lease in node.leases.values():
            if lease.job.policy.document.tenant == tenant:
                yield lease
