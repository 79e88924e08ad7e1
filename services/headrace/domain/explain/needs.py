"""What a waiting job needs in a pool, what of it is missing, and who has it (R22). Pure.

A tenant sees itself: of all others, what they hold or ask for is summed up in one entry without a name.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from headrace.contracts.messages.explanation import Holder, KeyNeed, PoolNeed, Waiter
from headrace.contracts.values.amounts import JOB, add_to, gpus_first, times
from headrace.contracts.values.reasons import WaitReason
from headrace.domain.backfill.holds import fits_now
from headrace.domain.explain.availability import stocks_for, sums_fit
from headrace.domain.explain.topology_reasons import replicas_per_node
from headrace.domain.explain.wait_reasons import wait_in
from headrace.domain.model.census import is_hardware
from headrace.domain.placement.placement import may_hold, pick_now
from headrace.domain.queueing.queue_position import groups_ahead, jobs_before
from headrace.domain.queueing.ranking import rank_of_job
from headrace.domain.state.quota import Shortfall, limits_of, over_limit, over_reservation, to_grant, with_reservation

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from headrace.contracts.values.amounts import Amounts
    from headrace.domain.explain.availability import Stock
    from headrace.domain.explain.expected_ends import ExpectedEnds
    from headrace.domain.explain.wait_reasons import Wait
    from headrace.domain.model.jobs import JobRecord
    from headrace.domain.model.requests import Request
    from headrace.domain.queueing.ranking import Rank
    from headrace.domain.state.pools import PoolState
    from headrace.domain.state.state import State

SHOWN_MAX = 10
"""Jobs listed by name; of the others only their number is shown."""

_AT_A_LIMIT = frozenset({WaitReason.AT_POLICY_LIMIT, WaitReason.AT_TENANT_LIMIT})
_NOBODY_HOLDS = frozenset(
    {WaitReason.FROZEN, WaitReason.OUTSIDE_WINDOW, WaitReason.BUDGET_EXHAUSTED, WaitReason.AT_ARRAY_LIMIT}
)
_BEYOND = frozenset({WaitReason.RESERVED_SHARE_BUSY, WaitReason.WOULD_EXCEED_RESERVATION})


def pool_need(state: State, job: JobRecord, pool: PoolState, now: int) -> PoolNeed:
    """What is in its way in one pool, and what is missing there."""
    wait = wait_in(state, job, pool, now)
    short = shortfall(state, job, pool, wait) if wait is not None else None
    stocks = _stocks(state, job, pool)
    keys = tuple(_key_need(key, job.request.total[key], stock) for key, stock in stocks.items())
    return PoolNeed(
        pool=pool.document.name,
        reason=wait.reason.value if wait is not None else "",
        message=wait.message if wait is not None else "",
        fit=_fit(state, job, pool, now),
        keys=keys,
        scope=short.scope.name if short is not None else "",
        unusable=tuple(one for stock in stocks.values() for one in stock.causes),
    )


def shortfall(state: State, job: JobRecord, pool: PoolState, wait: Wait) -> Shortfall | None:
    """The account that has no room for the job, where the reason is one of limits or reservations."""
    total, name = job.request.total, pool.document.name
    if wait.reason in _AT_A_LIMIT:
        kind = "tenant" if wait.reason is WaitReason.AT_TENANT_LIMIT else "policy"
        scopes = [scope for scope in limits_of(state, job, name) if (scope.kind == "tenant") == (kind == "tenant")]
        return over_limit(scopes, pool.governed, total, beyond=job.beyond, against=to_grant(state))
    if wait.reason in _BEYOND:
        firm = wait.reason is WaitReason.RESERVED_SHARE_BUSY and not job.preemptible
        return over_reservation(with_reservation(state, job.policy, name), pool.governed, total, firm=firm)
    return None


def _stocks(state: State, job: JobRecord, pool: PoolState) -> dict[str, Stock]:
    """What there is for the job of each key that it asks for and that the pool counts, GPUs first."""
    asked = (key for key, amount in gpus_first(job.request.total) if amount)
    keys = [key for key in asked if key in pool.governed or (key != JOB and key in pool.usable)]
    return stocks_for(state, job, pool, keys)


def _key_need(key: str, asked: int, stock: Stock) -> KeyNeed:
    return KeyNeed(
        key=key,
        asked=asked,
        free=stock.free,
        missing=max(0, asked - stock.free),
        used=stock.used,
        kept=stock.kept,
        unusable=stock.unusable,
        capacity=stock.capacity,
    )


def _fit(state: State, job: JobRecord, pool: PoolState, now: int) -> str:
    """Where it fails: not at all, at the sum of a key, at a single node, at a single device."""
    if fits_now(state, job, pool, now):
        return "yes"
    if not sums_fit(state, job, pool):
        return "sum"
    if job.request.required and _fits_apart(state, job, pool, now):
        return "domain"
    shape = job.request.shape
    nodes = [node for node in pool.nodes.values() if may_hold(pool, node, job)]
    if shape.whole != 1 and not (shape.fraction or shape.mig):
        return "node"
    found = any(pick_now(pool, node, job.request) for node in nodes)
    return "node" if found else "device"


def _fits_apart(state: State, job: JobRecord, pool: PoolState, now: int) -> bool:
    """Whether all replicas of a gang that requires a topology domain have room, but in different ones."""
    counts = replicas_per_node(state, job, pool, now)
    return sum(counts.values()) >= job.request.replicas


def waiters(state: State, job: JobRecord, pool: PoolState) -> tuple[tuple[Waiter, ...], int]:
    """The waiting jobs that go before it in the pool, best first; and how many more of its own tenant there are."""
    own: list[tuple[Rank, JobRecord]] = []
    others: Amounts = {}
    for rank, members in groups_ahead(state, job, pool):
        first = members[0][1]
        if first.tenant == job.tenant:
            own += [(rank_of_job(rank, place), member) for place, member in members]
        else:
            add_to(others, times(first.request.total, sum(jobs_before(member, job) for _, member in members)))
    own.sort()
    shown = [Waiter(job=member.key, request=_without_job(member.request.total)) for _, member in own[:SHOWN_MAX]]
    listed = [*shown, Waiter(request=_as_known_to(others, job))] if others else shown
    return tuple(listed), max(0, sum(jobs_before(member, job) for _, member in own) - len(shown))


def holders(state: State, job: JobRecord, pool: PoolState, wait: Wait, ends: ExpectedEnds) -> tuple[tuple[Holder, ...], int]:
    """Jobs that hold what it needs, those that end first before the others; and how many more of its own tenant there are."""
    return shown_holders(job, _holding(state, job, pool, wait), ends)


def shown_holders(job: JobRecord, those: Iterable[JobRecord], ends: ExpectedEnds) -> tuple[tuple[Holder, ...], int]:
    """Jobs that hold leases, as `job`'s tenant may know them."""
    own: list[tuple[bool, int, str, JobRecord]] = []
    theirs: Counter[Request] = Counter()
    for holder in those:
        if holder.tenant == job.tenant:
            end = ends.of(holder)
            own.append((end is None, end or 0, holder.key, holder))
        else:
            theirs[holder.request] += 1
    others: Amounts = {}
    for request, count in theirs.items():
        add_to(others, times(request.total, count))
    own.sort(key=lambda entry: entry[:3])
    listed = [
        Holder(
            job=key,
            request=_without_job(holder.request.total),
            pool=next((lease.pool for lease in holder.leases.values()), ""),
            nodes=tuple(dict.fromkeys(lease.node for lease in holder.leases.values())),
            preemptible=holder.preemptible,
            until=None if unknown else end,
        )
        for unknown, end, key, holder in own[:SHOWN_MAX]
    ]
    if others:
        listed.append(Holder(request=_as_known_to(others, job)))
    return tuple(listed), max(0, len(own) - SHOWN_MAX)


def _holding(state: State, job: JobRecord, pool: PoolState, wait: Wait) -> Iterator[JobRecord]:
    """Jobs that hold what it needs: in the account that has no room, else those that make room for it, else in the pool."""
    if wait.reason in _NOBODY_HOLDS:
        return
    if wait.reason is WaitReason.DEPENDENCY:
        yield from (state.jobs[key] for key in job.waits_for if key in state.jobs)
        return
    if job.nomination is not None:
        yield from (state.jobs[key] for key in sorted(job.nomination.leaving) if key in state.jobs)
        return
    short = shortfall(state, job, pool, wait)
    limited = short if wait.reason in _AT_A_LIMIT or wait.reason is WaitReason.RESERVED_SHARE_BUSY else None
    name = pool.document.name
    keys = [limited.key] if limited is not None else _missing(state, job, pool)
    on_nodes = limited is None and all(is_hardware(key) for key in keys)
    for policy in (*state.policies.values(), *state.deleted_policies.values()):
        if limited is not None and (
            policy is not job.policy if limited.scope.kind != "tenant" else policy.key[0] != job.tenant
        ):
            continue
        by_user = limited is not None and limited.scope.kind == "user"
        anywhere = limited is not None and (by_user or limited.scope is policy.wide)
        for holder in policy.jobs.values():
            if not any(map(holder.request.total.get, keys)) or (by_user and holder.user != job.user):
                continue
            here = anywhere or next(iter(holder.leases.values())).pool == name  # all in one pool (R18)
            if here and not (on_nodes and _is_out_of_reach(state, job, holder)):
                yield holder


def _is_out_of_reach(state: State, job: JobRecord, holder: JobRecord) -> bool:
    """Whether nothing would be free for the job if `holder` ended: all its nodes are healthy, and the job may go to none of them."""
    there = [lease for lease in holder.leases.values() if lease.node in state.nodes]
    nodes = [(state.pools[lease.pool], state.nodes[lease.node]) for lease in there]
    return bool(nodes) and all(node.healthy and not may_hold(pool, node, job) for pool, node in nodes)


def _missing(state: State, job: JobRecord, pool: PoolState) -> list[str]:
    """The keys with too little free; if the sums fit, all that it asks for."""
    asked, found = job.request.total, _stocks(state, job, pool)
    return [key for key, stock in found.items() if stock.free < asked[key]] or [key for key in found if key != JOB]


def _without_job(amounts: Amounts) -> dict[str, int]:
    return {key: value for key, value in amounts.items() if key != JOB}


def _as_known_to(others: Amounts, job: JobRecord) -> dict[str, int]:
    """Of others only the keys that the job asks for itself, and never how many jobs they are."""
    return {key: value for key, value in others.items() if key != JOB and job.request.total.get(key)}
