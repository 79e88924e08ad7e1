"""Who may be taken from at all, and in which order (R23-R25): causes, sides, short keys, lost work, protection."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from headrace.contracts.amounts import GPU, GPU_UNITS
from headrace.contracts.durations import SECOND
from headrace.domain.scopes import is_above, over_reservation, policy_side
from headrace.domain.state import JobState

if TYPE_CHECKING:
    from headrace.contracts.amounts import Amounts
    from headrace.domain.state import JobRecord, PolicyState, PoolState, Scope, State

RECLAIM = "reclaim"
PRIORITY = "priority"


class Candidate(NamedTuple):
    """A job that may be taken.

    It is ordered by: sheltered by its policy's own reservation (R24), policy priority, lost work, newest grant first, key (R25).
    """

    sheltered: bool
    priority: int
    bucket: int
    newest: tuple[int, int]
    key: str
    job: JobRecord
    lost: int

    @property
    def order(self) -> tuple[object, ...]:
        """What candidates are compared by."""
        return self[:5]


def causes(state: State, job: JobRecord, pool: PoolState) -> tuple[str, ...]:
    """By which causes (R23) the job may take anything at all, in the order in which they are tried."""
    allowed = []
    if may_reclaim(state, job, pool):
        allowed.append(RECLAIM)
    if job.policy.document.preemption.preempt_lower_priority:
        allowed.append(PRIORITY)
    return tuple(allowed)


def may_reclaim(state: State, job: JobRecord, pool: PoolState) -> bool:
    """Whether the job may reclaim from anybody: from its own tenant's policies, or from other tenants (R23)."""
    sides = (policy_side(job.policy, pool.document.name), _share_side(state, job.policy, pool))
    return any(side and _stays_within(side, job, pool) for side in sides)


def _stays_within(side: tuple[Scope, ...], job: JobRecord, pool: PoolState) -> bool:
    """Whether a side is within its reservation after admission, on every governed key of the request (R23)."""
    return over_reservation(side, pool.governed, job.request.total) is None


def side_below(state: State, policy: PolicyState, other: PolicyState, pool: PoolState) -> tuple[Scope, ...]:
    """The accounts of `policy` just below its lowest common ancestor with `other` (R23): its own, or its tenant's share.

    A tenant without a share here, or with one that reserves nothing, is transparent (R7).
    """
    across = policy.document.tenant != other.document.tenant
    return (across and _share_side(state, policy, pool)) or policy_side(policy, pool.document.name)


def _share_side(state: State, policy: PolicyState, pool: PoolState) -> tuple[Scope, ...]:
    share = state.shares.get((policy.document.tenant, pool.document.name))
    return (share,) if share is not None and share.reservation is not None else ()


def anybody_above(state: State, asking: PolicyState, pool: PoolState) -> bool:
    """A cheap necessary test: some other policy's side is above its reservation here. False: no search can succeed."""
    for policy in state.policies.values():
        held = policy.scopes.get(pool.document.name)
        if policy is asking or not policy.jobs or held is None or not held.leased:
            continue
        side = side_below(state, policy, asking, pool)
        if any(is_above(side, key) for key in held.leased if key in pool.governed):
            return True
    return False


def short_keys(state: State, job: JobRecord, pool: PoolState) -> frozenset[str]:
    """Keys of which less is left than the preemptor needs, in the pool or under its tenant's limit (R23, R24).

    None: the sums fit, the places do not.
    """
    short = set()
    share = state.shares.get((job.tenant, pool.document.name))
    for key, asked in job.request.total.items():
        usable = pool.usable.get(key)
        if usable is not None and asked and usable - max(pool.leased.get(key, 0), pool.use.get(key, 0)) < asked:
            short.add(key)
        if share is not None and key in share.limit and asked and share.use.get(key, 0) + asked > share.limit[key]:
            short.add(key)
    return frozenset(short)


def lost_work(job: JobRecord, now: int) -> int:
    """GPU-unit-seconds that stopping the job now would cost (R25): since its last checkpoint of this attempt, else since its start."""
    if not job.started_at:
        return 0
    since = max(job.started_at, job.checkpoint_at if job.checkpoint_attempt == job.attempt else 0)
    span = max(0, now - since)
    every = job.policy.document.preemption.assume_checkpoint_every
    if every is not None:
        span = min(span, every)
    return job.request.amounts.get(GPU, 0) * job.request.replicas * span // SECOND


def lost_bucket(lost: int) -> int:
    """floor(log2) of whole GPU-seconds, 0 below two: small differences do not decide (R25)."""
    return max(0, (lost // GPU_UNITS).bit_length() - 1)


def protected_until(job: JobRecord) -> int | None:
    """When its minimum run time is served (R25); None: it has not started, so nobody knows; 0: it has none."""
    needed = max(job.policy.document.preemption.min_runtime, job.min_runtime)
    if not needed:
        return 0
    return job.started_at + needed if job.started_at else None


def eligible(
    state: State, job: JobRecord, pool: PoolState, cause: str, short: frozenset[str], now: int
) -> tuple[list[Candidate], int, int | None]:
    """Victims allowed by R24, in R25's order; how many are protected, and when the first of those is free to take."""
    candidates, protected, retry_at = [], 0, None
    for policy in state.policies.values():
        if policy is job.policy or not policy.jobs or not may_take_from(state, job, policy, pool, cause):
            continue
        side = side_below(state, policy, job.policy, pool)
        for victim in policy.jobs.values():
            if not can_yield(victim, pool.document.name) or not _holds_short(victim, side, pool, short):
                continue
            until = protected_until(victim)
            if until is None or until > now:
                protected += 1
                if until is not None:
                    retry_at = until if retry_at is None else min(retry_at, until)
                continue
            candidates.append(candidate_of(job, victim, pool, now))
    candidates.sort(key=lambda candidate: candidate.order)
    return candidates, protected, retry_at


def may_take_from(state: State, job: JobRecord, theirs: PolicyState, pool: PoolState, cause: str) -> bool:
    """Whether the job may take from a policy at all: its own side stays within its reservation, or it has the higher priority (R23)."""
    mine = job.policy
    if cause == RECLAIM:
        return _stays_within(side_below(state, mine, theirs, pool), job, pool)
    return mine.document.tenant == theirs.document.tenant and theirs.document.priority < mine.document.priority


def can_yield(victim: JobRecord, pool: str) -> bool:
    """Whether the job is running or starting, preemptible, in this pool (R24)."""
    return (
        victim.preemptible
        and victim.state in (JobState.STARTING, JobState.RUNNING)
        and any(lease.pool == pool for lease in victim.leases.values())
    )


def _holds_short(victim: JobRecord, side: tuple[Scope, ...], pool: PoolState, short: frozenset[str]) -> bool:
    return any(is_above(side, key) for key in keys_that_count(pool, short, victim.request.total))


def keys_that_count(pool: PoolState, short: frozenset[str], held: Amounts) -> list[str]:
    """The short keys it holds; when sums fit but places do not, any governed key it holds (R24)."""
    counted = short & pool.governed or pool.governed
    return [key for key in held if held[key] and key in counted]


def candidate_of(job: JobRecord, victim: JobRecord, pool: PoolState, now: int) -> Candidate:
    """The victim with what it is ordered by. Across tenants, leases of policies above their own reservation go first (R24)."""
    lost = lost_work(victim, now)
    own = policy_side(victim.policy, pool.document.name)
    sheltered = victim.tenant != job.tenant and not any(
        is_above(own, key) for key in victim.request.total if key in pool.governed
    )
    sequence, place = max((lease.sequence, lease.place) for lease in victim.leases.values())
    return Candidate(
        sheltered, victim.policy.document.priority, lost_bucket(lost), (-sequence, -place), victim.key, victim, lost
    )
