"""What nodes would cost that pools create for jobs (R38), before anything is ordered. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.contracts.values.durations import HOUR, format_duration
from headrace.contracts.values.money import format_money
from headrace.domain.placement.offers import affordable_to, estimate, is_provided, open_offers, price_of
from headrace.domain.placement.pool_growth import GrowthRequest, nodes_for, request_for
from headrace.domain.state.tenant_spending import cap_of, spent_by

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.contracts.documents.model import Profile
    from headrace.domain.model.jobs import JobRecord
    from headrace.domain.model.requests import Request
    from headrace.domain.state.pools import PoolState
    from headrace.domain.state.state import State


def growth_costs(
    state: State, profile: Profile, request: Request, jobs: int, time_limit: int | None, now: int
) -> Iterator[str]:
    """A line for each pool of the profile that would create nodes for `jobs` equal jobs, all at once, if all its nodes were taken.

    `time_limit` in microseconds; None: it is not known how long they take, and the least is given that the nodes cost.
    """
    for name in profile.pools:
        pool = state.pools.get(name)
        burst = pool.document.burst if pool is not None else None
        one = request_for(burst.node, request) if burst is not None else None
        if pool is None or burst is None or one is None or not is_provided(state, burst):
            continue
        offers = open_offers(state, pool, now, spot=not one.shape.steady)
        if not offers:
            yield f"pool {name} cannot create nodes now: none of its offers is open"
            continue
        price = price_of(state, name, offers[0])
        nodes = nodes_for(burst.node, [GrowthRequest(one, jobs, "")], burst.max_nodes)
        if not price or not nodes:
            continue
        total = nodes * (price * (time_limit + burst.boot) // HOUR if time_limit else estimate(burst, price))
        spans = f"{format_money(total)} to the time limit of {format_duration(time_limit)}" if time_limit else ""
        count = f"{nodes} new {'node' if nodes == 1 else 'nodes'} of pool {name} by offer {offers[0].name}"
        yield f"{count}, at {format_money(price)} an hour each: {spans or f'{format_money(total)} at least'}"


def over_share(state: State, job: JobRecord, pool: PoolState, now: int) -> str | None:
    """What the tenant has spent of its cap in a pool that could create nodes for the job; None if its cap pays for one."""
    burst, tenant, spot = pool.document.burst, job.policy.document.tenant, not job.request.shape.steady
    if burst is None or request_for(burst.node, job.request) is None or affordable_to(state, tenant, pool, now, spot=spot):
        return None
    name = pool.document.name
    spent, cap = format_money(spent_by(state, tenant, name, now)), format_money(cap_of(state, tenant, name))
    return f"tenant {tenant} has spent {spent} of its cap of {cap} on nodes of pool {name} this month"
