"""Who may be taken from at all, and in which order (R23-R25): causes, sides, short keys, lost work, protection."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from headrace.contracts.amounts import GPU, GPU_UNITS
from headrace.contracts.durations import SECOND
from headrace.domain.scopes import is_above, over_reservation, policy_side, with_reservation
from headrace.domain.state import JobState

if TYPE_CHECKING:
    from headrace.contracts.amounts import Amounts
    from headrace.domain.state import JobRecord, PolicyState, PoolState, Scope, State

RECLAIM = "reclaim"
PRIORITY = "priority"


class Candidate(NamedTuple):
    """A job that may be taken, in R25's order: policy priority, lost work, newest grant first, key."""

    priority: int
    bucket: int
    newest: tuple[int, int]
    key: str
    job: JobRecord
    lost: int


def causes(state: State, job: JobRecord, pool: PoolState) -> tuple[str, ...]:
    """By which causes (R23) the job may take anything at all, in the order in which they are tried."""
    allowed = []
    if may_reclaim(state, job, pool):
        allowed.append(RECLAIM)
    if job.policy.document.preemption.preempt_lower_priority:
        allowed.append(PRIORITY)
    return tuple(allowed)


def may_reclaim(state: State, job: JobRecord, pool: PoolState) -> bool:
    """Whether the job's side is within its reservation after admission, on every governed key of its request (R23)."""
    scopes = with_reservation(state, job.policy, pool.document.name)
    return over_reservation(scopes, pool.governed, job.request.total) is None


def anybody_above(state: State, asking: PolicyState, pool: PoolState) -> bool:
    """A cheap necessary test: some other policy holds something here above its reservation. False: no search can succeed."""
    for policy in state.policies.values():
        if policy is asking or not policy.jobs:
            continue
        held = policy.scopes.get(pool.document.name)
        if (
            held is not None
            and held.leased
            and any(is_above(policy_side(policy, pool.document.name), key) for key in held.leased)
        ):
            return True
    return False


def victim_side(state: State, preemptor: JobRecord, victim: JobRecord, pool: PoolState) -> tuple[Scope, ...]:
    """The victim's accounts just below the lowest common ancestor with the preemptor (R23): its policy's, or its tenant's share."""
    name = pool.document.name
    if victim.tenant != preemptor.tenant:
        share = state.shares.get((victim.tenant, name))
        if share is not None:
            return (share,)
    return policy_side(victim.policy, name)


def short_keys(pool: PoolState, total: Amounts) -> frozenset[str]:
    """Keys of which less is free in the pool than the preemptor needs (R24); none: the sums fit, the places do not."""
    short = set()
    for key, asked in total.items():
        usable = pool.usable.get(key)
        if usable is not None and asked and usable - max(pool.leased.get(key, 0), pool.use.get(key, 0)) < asked:
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
        if policy is job.policy or not policy.jobs or not _may_take_from(job.policy, policy, cause):
            continue
        for victim in policy.jobs.values():
            if not can_yield(victim, pool.document.name) or not _holds_short(state, job, victim, pool, short):
                continue
            until = protected_until(victim)
            if until is None or until > now:
                protected += 1
                if until is not None:
                    retry_at = until if retry_at is None else min(retry_at, until)
                continue
            candidates.append(candidate_of(victim, now))
    candidates.sort(key=lambda candidate: candidate[:4])
    return candidates, protected, retry_at


def _may_take_from(mine: PolicyState, theirs: PolicyState, cause: str) -> bool:
    if cause == RECLAIM:
        return True
    return mine.document.tenant == theirs.document.tenant and theirs.document.priority < mine.document.priority


def can_yield(victim: JobRecord, pool: str) -> bool:
    """Whether the job is running or starting, preemptible, in this pool (R24)."""
    return (
        victim.preemptible
        and victim.state in (JobState.STARTING, JobState.RUNNING)
        and any(lease.pool == pool for lease in victim.leases.values())
    )


def _holds_short(state: State, job: JobRecord, victim: JobRecord, pool: PoolState, short: frozenset[str]) -> bool:
    side = victim_side(state, job, victim, pool)
    held = victim.request.total
    return any(is_above(side, key) for key in keys_that_count(pool, short, held))


def keys_that_count(pool: PoolState, short: frozenset[str], held: Amounts) -> list[str]:
    """The short keys it holds; when sums fit but places do not, any governed key it holds (R24)."""
    counted = short & pool.governed or pool.governed
    return [key for key in held if held[key] and key in counted]


def candidate_of(victim: JobRecord, now: int) -> Candidate:
    """The job with what R25 orders by."""
    lost = lost_work(victim, now)
    sequence, place = max((lease.sequence, lease.place) for lease in victim.leases.values())
    return Candidate(victim.policy.document.priority, lost_bucket(lost), (-sequence, -place), victim.key, victim, lost)
