"""Why a job waits (R22): exactly one reason, with the numbers behind it. A pure function of state, job and time; nothing is recorded.

The first reason that applies in the first pool of the job's order is told. Others' jobs appear by name only within the asker's tenant;
the rest is one line ("other tenants: 3 GPUs").
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from headrace.contracts.amounts import GPU, JOB, format_amount, format_amounts
from headrace.contracts.durations import format_time
from headrace.contracts.queries import WhyView
from headrace.contracts.reasons import WAIT_SENTENCES, WaitReason
from headrace.domain import capacity
from headrace.domain.admissible import open_pools
from headrace.domain.eligibility import anybody_above, may_reclaim
from headrace.domain.forecast import expected_start
from headrace.domain.placement import find_places, model_allowed
from headrace.domain.scopes import Shortfall, over_capacity, over_limit, over_reservation, scopes_of, with_reservation
from headrace.domain.searches import search_key
from headrace.domain.state import JobState

if TYPE_CHECKING:
    from headrace.domain.state import JobRecord, PoolState, State

BLOCKERS_SHOWN = 10


class Wait(NamedTuple):
    """A reason, the numbers as a line for people, and who or what is in the way."""

    reason: WaitReason
    numbers: str = ""
    blockers: tuple[str, ...] = ()

    @property
    def message(self) -> str:
        """The reason's sentence, with the numbers."""
        sentence = WAIT_SENTENCES[self.reason]
        return f"{sentence}: {self.numbers}" if self.numbers else sentence


def explain(state: State, job: JobRecord, now: int) -> WhyView:
    """The whole answer to *why* at log time `now`."""
    if job.state is not JobState.PENDING:
        return WhyView(job=job.key, state=job.state, reason=job.reason, message=job.message or _not_waiting(job))
    wait = wait_of(state, job, now)
    pool = first_pool(state, job)
    start, assumption = (None, "") if pool is None else expected_start(state, job, pool, now)
    return WhyView(
        job=job.key,
        state="pending",
        reason=wait.reason,
        message=wait.message,
        blockers=wait.blockers,
        position=position(state, job),
        could_reclaim=pool is not None and may_reclaim(state, job, pool),
        expected_start=start,
        assumption=assumption,
    )


def _not_waiting(job: JobRecord) -> str:
    if job.state is JobState.STOPPING and job.stop is not None:
        return f"it is being stopped ({job.stop.cause})" + (
            f" for {_shown(job, job.stop.preemptor)}" if job.stop.preemptor else ""
        )
    where = ", ".join(sorted({lease.node for lease in job.leases.values()}))
    return f"it is not waiting: it is {job.state}" + (f" on {where}" if where else "")


def first_pool(state: State, job: JobRecord) -> PoolState | None:
    """The first pool of the job's order that exists and is open to it."""
    profile = state.profile(job.tenant, job.profile)
    return next(iter(open_pools(state, job.policy, profile)), None) if profile is not None else None


def position(state: State, job: JobRecord) -> int:
    """The job's place in its queue, from 1; 0 when it does not stand in line (a dependency, a nomination)."""
    group = state.pending.group_of(job)
    if group is None:
        return 0
    mine = (-job.priority, job.admitted_at, job.order, job.key)
    ahead = 0
    for other_group in state.pending.groups.values():
        if other_group.policy is job.policy and other_group.profile == job.profile:
            for other in other_group.members.values():
                ahead += (-other.priority, other.admitted_at, other.order, other.key) < mine
    return ahead + 1


def wait_of(state: State, job: JobRecord, now: int) -> Wait:
    """The one reason why a pending job does not run at log time `now`."""
    if job.waits_for or job.doomed_by:
        return Wait(WaitReason.DEPENDENCY, ", ".join(job.waits_for) or job.doomed_by)
    if job.nomination is not None:
        leaving = tuple(sorted(job.nomination.leaving))
        return Wait(
            WaitReason.WAITING_FOR_PREEMPTION, f"{len(leaving)} of {len(job.nomination.victims)} still leaving", leaving
        )
    pool = first_pool(state, job)
    if pool is None:
        return Wait(WaitReason.NO_HEALTHY_NODE, "none of the profile's pools exists")
    if job.not_before > now:
        return Wait(WaitReason.NO_HEALTHY_NODE, f"its node was lost; it is tried again at {format_time(job.not_before)}")
    return _by_limits(state, job, pool) or _by_preemption(state, job, pool) or _by_capacity(state, job, pool)


def _by_limits(state: State, job: JobRecord, pool: PoolState) -> Wait | None:
    total = job.request.total
    scopes = scopes_of(state, job.policy, pool.document.name)
    short = over_limit(scopes, pool.governed, total, beyond=job.beyond)
    if short is not None:
        reason = WaitReason.AT_TENANT_LIMIT if short.scope.kind == "tenant" else WaitReason.AT_POLICY_LIMIT
        return Wait(reason, _numbers(short, "limit"), _holders(job, short.key))
    link = next((link for link in job.policy.document.profiles if link.name == job.profile), None)
    if not job.preemptible or (link is not None and not link.borrow):
        looked_at = with_reservation(state, job.policy, pool.document.name)
        short = over_reservation(looked_at, pool.governed, total, firm=not job.preemptible)
        if short is not None:
            return Wait(WaitReason.RESERVED_SHARE_BUSY, _numbers(short, "reservation"), _holders(job, short.key))
    return None


def _numbers(short: Shortfall, ceiling: str) -> str:
    key = short.key
    used, asked = format_amount(key, short.used), format_amount(key, short.asked)
    return f"{short.scope.name} uses {used} {key} of a {ceiling} of {format_amount(key, short.ceiling)}, it asks for {asked}"


def _holders(job: JobRecord, key: str) -> tuple[str, ...]:
    """The policy's own jobs that hold what is short, oldest first."""
    held = [other.key for other in job.policy.jobs.values() if other.request.total.get(key)]
    return tuple(held[:BLOCKERS_SHOWN])


def _by_preemption(state: State, job: JobRecord, pool: PoolState) -> Wait | None:
    name = pool.document.name
    if pool.search is not None and pool.search.job is job:
        return Wait(WaitReason.WAITING_FOR_PREEMPTION, f"victims are being looked for in pool {name}")
    if job.barred_from == name:
        preemptor = next((key for key, victims in state.barred.items() if job in victims), "")
        return Wait(WaitReason.BEHIND_HIGHER_RANK, f"it made room for {_shown(job, preemptor)}, which goes first")
    last = pool.fruitless.get(search_key(job))
    if last is not None and last.protected and last.epoch == pool.epoch:
        until = f", the first until {format_time(last.retry_at)}" if last.retry_at is not None else ""
        return Wait(WaitReason.VICTIMS_PROTECTED, f"{last.protected} protected{until}")
    return None


def _shown(job: JobRecord, other: str) -> str:
    """Another job's key, or no more than that it is another tenant's."""
    return other if other.startswith(job.tenant + ".") else "a job of another tenant"


def _by_capacity(state: State, job: JobRecord, pool: PoolState) -> Wait:
    total, name = job.request.total, pool.document.name
    asked = format_amounts({key: value for key, value in total.items() if key != JOB or JOB in pool.governed})
    short = over_capacity(pool, total)
    if short is None and find_places(state, job, pool) is not None:
        return Wait(WaitReason.BEHIND_HIGHER_RANK, "it would fit now; better-ranked jobs are looked at first")
    fitting = [node for node in pool.nodes.values() if model_allowed(node, job.request.shape)]
    if not any(node.grantable for node in fitting):
        return Wait(WaitReason.NO_HEALTHY_NODE, f"{len(fitting)} nodes of pool {name} have what it takes, none is in service")
    if pool.nominated and _fits_without_nominations(state, job, pool):
        others = [
            preemption.job.key for preemption in state.preemptions.values() if preemption.kept and preemption.pool == name
        ]
        return Wait(WaitReason.KEPT_FOR_LARGER_JOB, f"it asks for {asked}", tuple(_shown(job, other) for other in others))
    if short is None:
        return Wait(WaitReason.FRAGMENTED, f"it asks for {asked}; {_free(pool)} free in pool {name}", _in_the_way(job, pool))
    if not may_reclaim(state, job, pool) and anybody_above(state, job.policy, pool):
        beyond = over_reservation(with_reservation(state, job.policy, name), pool.governed, total)
        numbers = _numbers(beyond, "reservation") if beyond is not None else f"it asks for {asked}"
        return Wait(WaitReason.WOULD_EXCEED_RESERVATION, numbers, _in_the_way(job, pool))
    return Wait(WaitReason.NO_FREE_CAPACITY, f"it asks for {asked}; {_free(pool)} free in pool {name}", _in_the_way(job, pool))


def _free(pool: PoolState) -> str:
    return format_amounts({key: max(0, pool.usable.get(key, 0) - pool.leased.get(key, 0)) for key in sorted(pool.governed)})


def _fits_without_nominations(state: State, job: JobRecord, pool: PoolState) -> bool:
    kept = [
        preemption for preemption in state.preemptions.values() if preemption.kept and preemption.pool == pool.document.name
    ]
    for preemption in kept:
        capacity.lift(state, preemption)
    fits = over_capacity(pool, job.request.total) is None and find_places(state, job, pool) is not None
    for preemption in kept:
        capacity.nominate(state, preemption)
    return fits


def _in_the_way(job: JobRecord, pool: PoolState) -> tuple[str, ...]:
    """Who holds what it needs: jobs of the same tenant by name, all others as one line."""
    own: dict[str, None] = {}
    others = 0
    for node in pool.nodes.values():
        for lease in node.leases.values():
            if lease.job.tenant == job.tenant:
                own[lease.job.key] = None
            else:
                others += lease.amounts.get(GPU, 0)
    shown = list(own)[:BLOCKERS_SHOWN]
    if len(own) > BLOCKERS_SHOWN:
        shown.append(f"and {len(own) - BLOCKERS_SHOWN} more")
    return (*shown, f"other tenants: {format_amount(GPU, others)} GPUs") if others else tuple(shown)
