"""Who may be taken from at all (R23-R25): causes, sides, short keys, lost work, protection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.contracts.values.amounts import GPU, GPU_UNITS
from headrace.contracts.values.durations import SECOND
from headrace.domain.model.job_states import JobState
from headrace.domain.model.jobs import PolicyState
from headrace.domain.queueing.fairness_sides import lends, lends_as, share_side, side_below, stays_within
from headrace.domain.queueing.gates import may_borrow, must_borrow
from headrace.domain.queueing.ranking import may_hold_inside
from headrace.domain.state.idleness import is_idle
from headrace.domain.state.quota import is_above, lending_side, limits_of, over_limit, policy_side
from headrace.domain.state.supply import is_short

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from headrace.contracts.values.amounts import Amounts
    from headrace.domain.model.jobs import JobRecord, Scope
    from headrace.domain.model.requests import Request
    from headrace.domain.state.pools import PoolState
    from headrace.domain.state.state import State

RECLAIM = "reclaim"
PRIORITY = "priority"


@dataclass(slots=True, frozen=True, eq=False)
class VictimGroup:
    """Jobs of one policy with one request: what there is to ask before they are taken is asked once for all of them.

    `held`: what one of them holds of governed keys. `side`: the account, or those, that has to be above its reservation on one of `keys`
    (R24); `lends`: whether it is. `owed`: the accounts that all have to be within theirs before it could reclaim (R23). `sheltered`: not
    above its policy's own reservation, while a job of another tenant asks. `idle`: they count as borrowed whatever is reserved, because
    they are marked as idle (R39); `spare`: of these, those that are inside their reservation, which are taken last.
    """

    policy: PolicyState
    held: Amounts
    side: tuple[Scope, ...]
    owed: tuple[Scope, ...]
    keys: tuple[str, ...]
    lends: bool
    sheltered: bool
    gpu: int
    idle: bool = False
    spare: bool = False


def causes(state: State, job: JobRecord, pool: PoolState) -> tuple[str, ...]:
    """By which causes (R23) the job may take anything at all, in the order in which they are tried.

    None if it may run inside its reservation only and that is busy (R12, R13), whichever job would yield to it: it could not start. No
    search opens for a job in that state, but while one lasts another job of the policy may have taken what was left, in another pool too.
    """
    if not may_borrow(job) and not may_hold_inside(state, job, pool):
        return ()
    allowed = []
    if may_reclaim(state, job, pool):
        allowed.append(RECLAIM)
    if job.policy.document.preemption.preempt_lower_priority:
        allowed.append(PRIORITY)
    return tuple(allowed)


def first_that_may_take(state: State, job: JobRecord, pools: Sequence[PoolState]) -> Request | None:
    """The first of its requests, one for each GPU model (R42), with which the job may take something back in one of the pools.

    None: with each it is beyond its policy's own limits, which never preempt (R23), or may take nothing.
    """
    before = job.request
    try:
        for request in before.each:
            job.request = request
            if any(causes(state, job, pool) and not _is_at_own_limit(state, job, pool) for pool in pools):
                return request
    finally:
        job.request = before
    return None


def _is_at_own_limit(state: State, job: JobRecord, pool: PoolState) -> bool:
    own = (scope for scope in limits_of(state, job, pool.document.name) if scope.kind != "tenant")
    return over_limit(own, pool.governed, job.request.total, beyond=job.beyond) is not None


def may_reclaim(state: State, job: JobRecord, pool: PoolState) -> bool:
    """Whether the job may reclaim at all: from its own tenant's policies, or from other tenants (R23)."""
    if must_borrow(job.policy):  # what it starts now is borrowed (R33)
        return False
    sides = (policy_side(job.policy, pool.document.name), share_side(state, job.policy, pool))
    return any(side and stays_within(side, job, pool) for side in sides)


def anybody_above(state: State, asking: PolicyState, pool: PoolState) -> bool:
    """A cheap necessary test: some other policy's side is above its reservation here. False: no search can succeed."""
    return any(lends(state, policy, asking, pool) for policy in state.policies.values())


def short_keys(state: State, job: JobRecord, pool: PoolState) -> frozenset[str]:
    """Keys with less left than the preemptor needs, in the pool or under its tenant's limit (R23, R24).

    None: the sums fit, the places do not.
    """
    in_service = state.terms.amended
    short = set()
    share = state.shares.get((job.tenant, pool.document.name))
    for key, asked in job.request.total.items():
        if key in pool.usable and asked and is_short(pool, key, job.policy.key, asked, in_service=in_service):
            short.add(key)
        if share is not None and key in share.limit and asked and share.use.get(key, 0) + asked > share.limit[key]:
            short.add(key)
    return frozenset(short)


def lost_work(job: JobRecord, now: int) -> int:
    """GPU-unit-seconds that stopping the job now would cost (R25): since its last checkpoint of this attempt, else since its start."""
    if not job.started_at:
        return 0
    since = max(job.started_at, job.checkpoint_at if job.checkpoint_attempt == job.attempt else 0)
    span = max(0, now - since - (job.paused - job.paused_saved))
    every = job.policy.document.preemption.assume_checkpoint_every
    if every is not None:
        span = min(span, every)
    return job.request.amounts.get(GPU, 0) * job.request.replicas * span // SECOND


def lost_bucket(lost: int) -> int:
    """floor(log2) of whole GPU-seconds, 0 below two: small differences do not decide (R25)."""
    return max(0, (lost // GPU_UNITS).bit_length() - 1)


def protected_until(job: JobRecord) -> int | None:
    """When its minimum run time is served (R25), counted from its start or its last resumption; 0: it has none.

    None: unknown, because it has not started, or not resumed.
    """
    needed = max(job.policy.document.preemption.min_runtime, job.min_runtime)
    if not needed:
        return 0
    runs = job.started_at and not any(lease.resuming for lease in job.leases.values())
    return max(job.started_at, job.resumed_at) + needed if runs else None


def may_take_from(state: State, job: JobRecord, theirs: PolicyState, pool: PoolState, cause: str) -> bool:
    """Whether the job may take from a policy at all: its own side stays within its reservation, or it has the higher priority (R23)."""
    mine = job.policy
    if cause == RECLAIM:
        return not must_borrow(mine) and stays_within(side_below(state, mine, theirs, pool), job, pool)
    return mine.document.tenant == theirs.document.tenant and theirs.document.priority < mine.document.priority


def can_leave(victim: JobRecord, away: Container[str]) -> bool:
    """True if all nodes of the job are ready, so that an order to stop reaches them (R32)."""
    return not any(lease.node in away for lease in victim.leases.values())


def can_yield(victim: JobRecord, pool: str) -> bool:
    """Whether the job is running or starting, preemptible, in this pool (R24)."""
    if not victim.preemptible or (victim.state is not JobState.RUNNING and victim.state is not JobState.STARTING):
        return False
    for lease in victim.leases.values():
        return lease.pool == pool  # one pool for all replicas (R18)
    return False


def keys_that_count(state: State, job: JobRecord, pool: PoolState, short: frozenset[str], held: Amounts) -> list[str]:
    """The short keys it holds; when sums fit but places do not, any governed key that it holds and `job` asks for (R24).

    Before the amendment any governed key that it holds.
    """
    counted = short & pool.governed or pool.governed
    asked = job.request.total if state.terms.amended else held
    return [key for key in held if held[key] and asked.get(key) and key in counted]


def counts_as_idle(victim: JobRecord, cause: str) -> bool:
    """Whether the job counts as borrowed because it is idle (R39): by reclaim alone, for what was taken by priority could come back."""
    return cause == RECLAIM and bool(victim.policy.idle) and is_idle(victim)


def kind_of(
    state: State,
    job: JobRecord,
    pool: PoolState,
    short: frozenset[str],
    policy: PolicyState,
    request: Request,
    *,
    idle: bool = False,
) -> VictimGroup:
    """What there is to know of a policy's jobs with a request before they may be taken for `job`; `idle`: of those that are."""
    own, side = lending_side(state, policy, pool.document.name), lends_as(state, policy, job.policy, pool)
    owed = side_below(state, policy, job.policy, pool)
    held = {key: value for key, value in request.total.items() if key in pool.governed}
    keys = tuple(keys_that_count(state, job, pool, short, request.total))
    above = any(is_above(side, key) for key in keys)
    sheltered = policy.document.tenant != job.tenant and not any(is_above(own, key) for key in held)
    lends = above or (idle and bool(keys))
    gpu = request.amounts.get(GPU, 0) * request.replicas
    return VictimGroup(policy, held, side, owed, keys, lends, sheltered, gpu, idle, idle and not above)
