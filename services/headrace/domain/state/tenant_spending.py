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
    hourly = hourly_cost(state, lease)
    if not hourly:
        return
    key = lease.pool, lease.job.policy.document.tenant
    known = state.tenants_spent.get(key)
    if known is None or known.month != month:
        known = state.tenants_spent[key] = Spending(month)
    known.amount += hourly * max(0, state.now - max(month, lease.granted_at)) // HOUR


def spent_by(state: State, tenant: str, pool: str, now: int) -> int:
    """What the tenant's jobs have cost on created nodes of the pool in the calendar month of UTC, in millionths."""
    month, _ = period_of("month", None, now)
    known = state.tenants_spent.get((pool, tenant))
    ended = known.amount if known is not None and known.month == month else 0
    leases = _leases(state, tenant, pool)
    return ended + sum(hourly_cost(state, one) * max(0, now - max(month, one.granted_at)) // HOUR for one in leases)


def hourly_cost(state: State, lease: LeaseState) -> int:
    """What an hour of a lease costs: its part of the price of the instance; 0 if its node was not created by a pool."""
    instance, node = state.instances.get(lease.node), state.nodes.get(lease.node)
    if instance is None or node is None or not instance.price:
        return 0
    whole = len(node.devices) * GPU_UNITS
    return instance.price * min(lease.amounts.get(GPU, 0), whole) // whole if whole else instance.price


def _leases(state: State, tenant: str, pool: str) -> Iterator[LeaseState]:
    known = state.pools.get(pool)
    for node in known.nodes.values() if known is not None and state.instances else ():
        for lease in node.leases.values():
            if lease.job.policy.document.tenant == tenant:
                yield lease
