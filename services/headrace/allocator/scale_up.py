"""Requests for nodes (R38): after the last grant, jobs that a pool could run after it has grown request the fewest nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.contracts import facts as f
from headrace.contracts.facts.levels import PROVISIONING
from headrace.contracts.values.durations import MINUTE
from headrace.domain.model.calendar import period_of
from headrace.domain.model.dedication import owner_of_new, reach_in
from headrace.domain.placement.offers import (
    ANY_NUMBER,
    OUTCOMES,
    affordable_to,
    closed,
    is_provided,
    offers_of,
    open_offers,
    reopens_at,
)
from headrace.domain.placement.pool_growth import (
    GrowthRequest,
    closed_for,
    creatable_nodes,
    due_at,
    may_hold,
    nodes_for,
    replicas_in,
    request_for,
)
from headrace.domain.queueing.access import may_enter
from headrace.domain.queueing.gates import may_borrow, may_start
from headrace.domain.queueing.ranking import may_hold_inside
from headrace.domain.state.quota import limits_of, with_reservation
from headrace.domain.state.tenant_spending import cap_of
from headrace.domain.state.trial import Trial

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.contracts.facts import AnyFact
    from headrace.contracts.values.amounts import Amounts
    from headrace.domain.indexes.pending import JobGroup
    from headrace.domain.model.jobs import Scope
    from headrace.domain.model.requests import Request
    from headrace.domain.model.time_rules import Growth
    from headrace.domain.state.pools import PoolState
    from headrace.domain.state.state import State

CLOSED_LEAST = MINUTE
"""Least time for which a pool is not asked again after growth that failed."""

NAMED_MAX = 100
"""Maximum jobs that a request names."""


def end_growth(state: State, now: int) -> Iterator[AnyFact]:
    """Ends of growth that has arrived, or has taken too long: then the pool is closed for growth for a while."""
    for name, growth in sorted(state.terms.growths.items()):
        pool = state.pools.get(name)
        if not growth.open:
            continue
        if growth.joined >= growth.nodes:
            yield f.GrowthEndedV1(pool=name, outcome="grown", nodes=growth.joined)
        elif pool is not None and (outcome := _why_failed(state, pool, growth, now)):
            until = max(now + CLOSED_LEAST, reopens_at(state, pool, now) or now + closed_for(growth))
            yield f.GrowthEndedV1(pool=name, outcome=outcome, nodes=growth.joined, closed_until=until)
        elif pool is None or now >= due_at(pool, growth):
            until = now + closed_for(growth)
            yield f.GrowthEndedV1(pool=name, outcome="late", nodes=growth.joined, closed_until=until)


def _why_failed(state: State, pool: PoolState, growth: Growth, now: int) -> str:
    """How growth has ended that brings no more nodes: nothing is ordered, and no offer is open; empty while more may come."""
    if not is_provided(state, pool.document.burst) or open_offers(state, pool, now, spot=not growth.firm):
        return ""
    orders = [one for one in state.instances.values() if one.growth == growth.sequence and one.pool == pool.document.name]
    if any(one.serves and not one.joined_at for one in orders):
        return ""
    burst = pool.document.burst
    codes = [closed(state, pool.document.name, offer, now) for offer in (offers_of(burst) if burst is not None else ())]
    last = max((one for one in orders if one.refused), key=lambda one: (one.ended_at, one.name), default=None)
    return OUTCOMES.get(last.refused if last is not None else codes[0] if codes else "", "late")


def next_growth(state: State, now: int) -> int | None:
    """Time at which growth is given up, or a pool may be asked again."""
    moments = []
    for name, growth in state.terms.growths.items():
        pool = state.pools.get(name)
        moments.append(due_at(pool, growth) if growth.open and pool is not None else growth.closed_until)
    moments += [until for pool in state.pools.values() if (until := reopens_at(state, pool, now)) is not None]
    if any(cap_of(state, tenant, pool) for pool, tenant in state.tenants_spent):
        moments.append(period_of("month", None, now)[1])
    return min((moment for moment in moments if moment > now), default=None)


def ask_for_growth(state: State, now: int) -> Iterator[AnyFact]:
    """A request for each pool in which jobs need nodes; called after the last grant."""
    creatable = {name: creatable_nodes(state, pool, now) for name, pool in state.pools.items()}
    if not any(creatable.values()):
        return
    asks: dict[str, list[GrowthRequest]] = {}
    left = TenantCaps(state, now)
    for group in state.pending.groups.values():
        pool = _asks_in(state, group, creatable, left, now)
        if pool is not None:
            with Trial(state) as trial:
                _choose_model(trial, group, pool, state.terms.level)
                within = _within(state, group, pool)
            count = left.take(group, pool, min(_jobs_of(group), within))
            if count > 0:
                asks.setdefault(pool.document.name, []).append(_ask(group, count, pool, state.terms.level))
    for name in sorted(asks):
        burst = state.pools[name].document.burst
        nodes = nodes_for(burst.node, asks[name], creatable[name], state.terms.level) if burst is not None else 0
        if nodes:
            jobs = sorted(ask.name for ask in asks[name])[:NAMED_MAX]
            yield f.GrowthRequestedV1(pool=name, nodes=nodes, jobs=tuple(jobs))


def _choose_model(trial: Trial, group: JobGroup, pool: PoolState, level: int) -> None:
    """On trial the next job of the group asks for the GPU model that the pool's nodes would have, if it may be given several (R42)."""
    burst, head = pool.document.burst, group.head()
    if group.request.choices is not None and burst is not None and head is not None:
        trial.choose(head, request_for(burst.node, group.request, level) or group.request)


def _jobs_of(group: JobGroup) -> int:
    """How many jobs wait there: of an array, as many as may still start at once."""
    jobs = 0
    for job in group.members.values():
        array = job.array
        more = job.stands_for
        jobs += more if array is None or not array.range.at_once else min(more, array.range.at_once - array.busy)
    return jobs


def _ask(group: JobGroup, count: int, pool: PoolState, level: int) -> GrowthRequest:
    burst, head = pool.document.burst, group.head()
    request = request_for(burst.node, group.request, level) if burst is not None else None
    return GrowthRequest(request or group.request, count, head.key if head is not None else "")


class TenantCaps:
    """How many nodes each tenant's caps still pay for to the end of their estimate, while requests of one round are collected."""

    def __init__(self, state: State, now: int) -> None:
        self._state = state
        self._now = now
        self._left: dict[tuple[str, str], int] = {}

    def nodes(self, group: JobGroup, pool: PoolState) -> int:
        """Number of nodes of the pool; any number without a cap."""
        key = group.policy.document.tenant, pool.document.name
        if key not in self._left:
            steady = group.request.shape.steady
            self._left[key] = affordable_to(self._state, key[0], pool, self._now, spot=not steady)
        return self._left[key]

    def take(self, group: JobGroup, pool: PoolState, jobs: int) -> int:
        """How many of these jobs the cap pays for; what their nodes cost is taken off it."""
        burst, nodes = pool.document.burst, self.nodes(group, pool)
        if nodes >= ANY_NUMBER or burst is None:
            return jobs
        level = self._state.terms.level
        request = request_for(burst.node, group.request, level) or group.request
        count = min(jobs, nodes * replicas_in(burst.node, request.shape, level) // request.replicas)
        taken = nodes_for(burst.node, [GrowthRequest(request, count, "")], nodes, level)
        self._left[group.policy.document.tenant, pool.document.name] = nodes - taken
        return count


def _asks_in(state: State, group: JobGroup, creatable: dict[str, int], left: TenantCaps, now: int) -> PoolState | None:
    """The first pool in which growth would help; None while one grows for it, or victims are searched.

    The order is that in which jobs are granted places: for each GPU model that the jobs may be given (R42), the pools of the profile.
    """
    profile = state.profile(group.policy.document.tenant, group.profile)
    pools = [pool for name in (profile.pools if profile is not None else ()) if (pool := state.pools.get(name)) is not None]
    pools = [pool for pool in pools if _is_open_to(state, group, pool)]
    for request in group.request.each:
        for pool in pools:
            name, burst = pool.document.name, pool.document.burst
            if pool.search is not None and pool.search.job.key in group.members:
                return None
            if burst is None or request.required or not may_hold(burst.node, request.shape, state.terms.level):
                continue
            growth = state.terms.growths.get(name)
            if growth is not None and growth.open:
                return None
            if is_provided(state, burst) and not open_offers(state, pool, now, spot=not request.shape.steady):
                continue
            if creatable[name] and _may_hold_lease(state, group, pool, request) and left.nodes(group, pool):
                return pool
    return None


def _may_hold_lease(state: State, group: JobGroup, pool: PoolState, request: Request) -> bool:
    """Whether the next job of the group may be granted anything in the pool with this one of its requests."""
    with Trial(state) as trial:
        head = group.head()
        if group.request.choices is not None and head is not None:
            trial.choose(head, request)
        return may_borrow(group) or may_hold_inside(state, group, pool)


def _is_open_to(state: State, group: JobGroup, pool: PoolState) -> bool:
    document, name = group.policy.document, pool.document.name
    if state.terms.level >= PROVISIONING and owner_of_new(pool.document) not in reach_in(pool.document, group.policy.key):
        return False  # its nodes would be another's (R21)
    return name != group.barred_from and may_enter(pool, document.tenant, document.group) and may_start(state, group, name)


def _within(state: State, group: JobGroup, pool: PoolState) -> int:
    """Number of jobs of the group that fit under every limit, and in its reservation if it may not borrow."""
    counts = [_jobs_of(group)]
    for scope in limits_of(state, group, pool.document.name):
        if not (group.beyond and scope.kind != "tenant"):
            counts += _times(scope.limit, scope.use, group, pool)
    if not may_borrow(group):
        for scope in with_reservation(state, group.policy, pool.document.name):
            counts += _times(_reserved(scope, pool), scope.use if group.preemptible else scope.firm, group, pool)
    counts += _times(pool.document.capacity, pool.use, group, pool)
    return min(counts)


def _reserved(scope: Scope, pool: PoolState) -> Amounts:
    return {key: (scope.reservation or {}).get(key, 0) for key in pool.governed}


def _times(ceiling: Amounts, use: Amounts, group: JobGroup, pool: PoolState) -> Iterator[int]:
    for key, asked in group.request.total.items():
        if asked and key in ceiling and key in pool.governed:
            yield max(0, ceiling[key] - use.get(key, 0)) // asked
