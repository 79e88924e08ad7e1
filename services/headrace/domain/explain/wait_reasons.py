"""Why a job waits (R22): one small test for each reason, in the order in which they are tried; the first that applies is the answer.

Strategy: the two tables below are the whole rule. Tests of the first ask the job alone, those of the second hold it against one pool, as it
stands now. All are cheap, because the heads of all queues are asked about again and again: who holds what it needs is not answered here but
by `explain`. A trial on the state is undone before a test returns. Others' jobs have no name and no number in any answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from headrace.contracts.values.amounts import GPU, JOB, add_to, format_amount, format_amounts
from headrace.contracts.values.durations import format_time
from headrace.contracts.values.reasons import WAIT_SENTENCES, WaitReason
from headrace.domain.backfill.holds import fits_now, fits_without_holds, holds_before, rank_in_line
from headrace.domain.explain.availability import away_from, free_for, sums_fit
from headrace.domain.explain.growth_cost import over_share
from headrace.domain.explain.maintenance_reasons import kept_away_by
from headrace.domain.explain.topology_reasons import where_it_fails
from headrace.domain.explain.user_shares import held_by_others
from headrace.domain.indexes.pending import avoided, group_key
from headrace.domain.model.jobs import JobRecord
from headrace.domain.placement.placement import suits
from headrace.domain.placement.pool_growth import growing_for
from headrace.domain.preemption.eligibility import anybody_above, causes, may_reclaim
from headrace.domain.queueing.admissible import open_pools
from headrace.domain.queueing.freeze_drain import pool_closing, queue_closing, sentence
from headrace.domain.queueing.gates import at_array_limit, budget_exhausted, may_borrow, outside_window
from headrace.domain.state.pools import PoolState
from headrace.domain.state.quota import Shortfall, limits_of, over_limit, over_reservation, to_grant, with_reservation
from headrace.domain.state.state import State
from headrace.domain.state.trial import Trial

if TYPE_CHECKING:
    from headrace.contracts.values.amounts import Amounts
    from headrace.domain.model.jobs import Preemption

BLOCKERS_SHOWN = 10
CHECKED_NEXT = "the allocator looks at it next"
"""Of a job just admitted, or freed by what has just happened; no job goes before it, so the reason's own sentence would be untrue."""
KEY_MISSING = "the key of {owner} is missing, so what it runs cannot be read; it starts when the key is put back from a backup"
"""Of a job that is frozen by itself: its queue is not."""
OF_ANOTHER_TENANT = "a job of another tenant"


class Wait(NamedTuple):
    """A reason, the numbers as a line for people, and the jobs or one line that stand for what is in the way."""

    reason: WaitReason
    numbers: str = ""
    blockers: tuple[str, ...] = ()

    @property
    def message(self) -> str:
        """The reason's sentence, with the numbers."""
        if self.numbers == CHECKED_NEXT or self.numbers.startswith(KEY_MISSING.partition("{")[0]):
            return self.numbers
        sentence = WAIT_SENTENCES[self.reason]
        return f"{sentence}: {self.numbers}" if self.numbers else sentence


class Grounds(NamedTuple):
    """What a test found: a `Wait` without its reason."""

    numbers: str = ""
    blockers: tuple[str, ...] = ()


@dataclass(slots=True)
class WaitCase:
    """One job held against one pool at log time `now`."""

    state: State
    job: JobRecord
    pool: PoolState
    now: int
    _fits_now: bool | None = None

    @property
    def name(self) -> str:
        return self.pool.document.name

    @property
    def fits_now(self) -> bool:
        """Whether all its replicas could be placed in what is free for it now (R3, R6)."""
        if self._fits_now is None:
            self._fits_now = fits_now(self.state, self.job, self.pool, self.now)
        return self._fits_now

    @property
    def asks(self) -> str:
        """`it asks for gpu 3`."""
        governed = self.pool.governed
        asked = {key: value for key, value in self.job.request.total.items() if key != JOB or JOB in governed}
        return f"it asks for {format_amounts(asked)}"

    @property
    def free(self) -> str:
        """`gpu 2 free in pool hall; unusable: 1 gpu on n-2: cordoned by acme.olga since 2026-…`."""
        return free_for(self.state, self.job, self.pool)


JobTest = Callable[["State", "JobRecord", int], Grounds | None]
PoolTest = Callable[[WaitCase], Grounds | None]


def wait_of(state: State, job: JobRecord, now: int) -> Wait:
    """The one reason why a pending job does not run at log time `now`, in the first pool of its order."""
    pool = waits_in(state, job)
    if pool is None:
        return _of_the_job(state, job, now) or Wait(WaitReason.NO_HEALTHY_NODE, "none of the profile's pools exists")
    return wait_in(state, job, pool, now) or Wait(WaitReason.BEHIND_HIGHER_RANK, CHECKED_NEXT)


def wait_in(state: State, job: JobRecord, pool: PoolState, now: int) -> Wait | None:
    """The one reason why a pending job does not run in this pool; None: nothing is in its way there."""
    own, closing = _of_the_job(state, job, now), pool_closing(state, pool.document.name)
    if closing is not None:
        return Wait(WaitReason.FROZEN, sentence(closing))
    if own is not None:
        return own
    kept = job.nomination
    if kept is None:
        return _of_the_pool(WaitCase(state, job, pool, now))
    with Trial(state) as trial:
        trial.lift(kept)  # what is kept for it is only in the way of others
        return _of_the_pool(WaitCase(state, job, pool, now))


def waits_in(state: State, job: JobRecord) -> PoolState | None:
    """The pool in which the reason is looked for: where units are kept for the job, else the first of its order that is open to it.

    One that is closed (R11) only where all are.
    """
    if job.nomination is not None:
        return state.pools.get(job.nomination.pool)
    pools = pools_of(state, job)
    return next((pool for pool in pools if pool_closing(state, pool.document.name) is None), next(iter(pools), None))


def pools_of(state: State, job: JobRecord) -> list[PoolState]:
    """The pools of the job's order that exist and are open to it."""
    profile = state.profile(job.tenant, job.profile)
    return open_pools(state, job.policy, profile) if profile is not None else []


def shown(job: JobRecord, other: str) -> str:
    """Another job's key, or no more than that it is another tenant's."""
    return other if other.startswith(job.tenant + ".") else OF_ANOTHER_TENANT


def named(job: JobRecord, others: Iterable[JobRecord]) -> tuple[str, ...]:
    """Jobs as its tenant may know them: its own by key, not too many, all others as one line."""
    own: dict[str, None] = {}
    theirs: Amounts = {}
    for other in others:
        if other.tenant == job.tenant:
            own[other.key] = None
        else:
            add_to(theirs, other.request.total)
    listed = list(own)[:BLOCKERS_SHOWN]
    if len(own) > BLOCKERS_SHOWN:
        listed.append(f"and {len(own) - BLOCKERS_SHOWN} more")
    return (*listed, other_tenants(theirs)) if theirs else tuple(listed)


def other_tenants(amounts: Amounts) -> str:
    """The one line that stands for all others (R22): `other tenants: 3 GPUs`; other keys are shown where they hold no GPU."""
    if amounts.get(GPU):
        return f"other tenants: {format_amount(GPU, amounts[GPU])} GPUs"
    return f"other tenants: {format_amounts({key: value for key, value in amounts.items() if key != JOB})}"


def numbers_of(short: Shortfall, ceiling: str) -> str:
    """`policy acme/p uses 3 gpu of a limit of 4, it asks for 2`."""
    key = short.key
    used, asked = format_amount(key, short.used), format_amount(key, short.asked)
    return f"{short.scope.name} uses {used} {key} of a {ceiling} of {format_amount(key, short.ceiling)}, it asks for {asked}"


def _of_the_job(state: State, job: JobRecord, now: int) -> Wait | None:
    for reason, test in OF_THE_JOB:
        found = test(state, job, now)
        if found is not None:
            return Wait(reason, *found)
    return None


def _of_the_pool(case: WaitCase) -> Wait | None:
    for reason, test in OF_THE_POOL:
        found = test(case)
        if found is not None:
            return Wait(reason, *found)
    return None


def _frozen(state: State, job: JobRecord, _now: int) -> Grounds | None:
    """Its queue or every pool that it could use is closed (R11), or its text cannot be decrypted."""
    if job.locked:
        return Grounds(KEY_MISSING.format(owner=f"{job.tenant}.{job.user}"))
    closing = queue_closing(state, job.policy, job.profile)
    if closing is not None:
        return Grounds(sentence(closing))
    closings = [pool_closing(state, pool.document.name) for pool in pools_of(state, job)] if state.terms.closings else []
    shut = [sentence(closing) for closing in closings if closing is not None]
    return Grounds("; ".join(shut)) if shut and len(shut) == len(closings) else None


def _grounds(numbers: str | None) -> Grounds | None:
    return None if numbers is None else Grounds(numbers)


def _dependency(_state: State, job: JobRecord, _now: int) -> Grounds | None:
    if not job.waits_for and not job.doomed_by:
        return None
    others = tuple(shown(job, other) for other in job.waits_for) or (shown(job, job.doomed_by),)
    return Grounds(", ".join(others), others[:BLOCKERS_SHOWN])


def _at_policy_limit(case: WaitCase) -> Grounds | None:
    return _at_limit(case, "policy")


def _at_tenant_limit(case: WaitCase) -> Grounds | None:
    over = None if case.fits_now else over_share(case.state, case.job, case.pool, case.now)
    return _at_limit(case, "tenant") or _grounds(over)


def _at_limit(case: WaitCase, kind: str) -> Grounds | None:
    scopes = [scope for scope in limits_of(case.state, case.job, case.name) if (scope.kind == "tenant") == (kind == "tenant")]
    against = to_grant(case.state)
    short = over_limit(scopes, case.pool.governed, case.job.request.total, beyond=case.job.beyond, against=against)
    if short is None:
        return None
    if short.scope.kind == "user":
        numbers = numbers_of(short, "limit") + held_by_others(case.job, short.key)
        return Grounds(numbers, _own_holders(case.job, short.key, case.job.user))
    return Grounds(numbers_of(short, "limit"), _own_holders(case.job, short.key))


def _reserved_share_busy(case: WaitCase) -> Grounds | None:
    """It may run inside the reservation only: because it is not preemptible, or because its queue does not borrow (R12)."""
    job = case.job
    if may_borrow(job):
        return None
    looked_at = with_reservation(case.state, job.policy, case.name)
    short = over_reservation(looked_at, case.pool.governed, job.request.total, firm=not job.preemptible)
    return None if short is None else Grounds(numbers_of(short, "reservation"), _own_holders(job, short.key))


def _own_holders(job: JobRecord, key: str, user: str = "") -> tuple[str, ...]:
    """The policy's own jobs that hold what is short, or those of one user, oldest first."""
    held = (other.key for other in job.policy.jobs.values() if other.request.total.get(key) and user in ("", other.user))
    return tuple(islice(held, BLOCKERS_SHOWN))


def _waiting_for_preemption(case: WaitCase) -> Grounds | None:
    """Units are kept for it (R27), or victims are being looked for (R19)."""
    kept = case.job.nomination
    if kept is not None:
        leaving = [case.state.jobs[key] for key in sorted(kept.leaving) if key in case.state.jobs]
        return Grounds(_leaving(case.job, kept), named(case.job, leaving))
    if case.pool.search is not None and case.pool.search.job is case.job:
        return Grounds(f"victims are being looked for in pool {case.name}")
    return None


def _leaving(job: JobRecord, kept: Preemption) -> str:
    """How many still have to go, where all of them are its own tenant's."""
    if not kept.leaving:
        return f"all have left; its place in pool {kept.pool} is kept"
    if any(not victim.job.startswith(job.tenant + ".") for victim in kept.victims):
        return f"not all have left pool {kept.pool}"
    return f"{len(kept.leaving)} of {len(kept.victims)} still leaving"


def _victims_protected(case: WaitCase) -> Grounds | None:
    """The last search for this request found jobs that could yield but for their minimum run time (R25)."""
    last = case.pool.failed_searches.get(group_key(case.job))
    if last is None or not last.protected or case.fits_now or not causes(case.state, case.job, case.pool):
        return None
    if not anybody_above(case.state, case.job.policy, case.pool):
        return None
    return Grounds(f"the first may be taken from {format_time(last.retry_at)} on" if last.retry_at is not None else "")


def _kept_for_larger_job(case: WaitCase) -> Grounds | None:
    """It would have room but for what is kept for preemptors (R27), and for those before it that have waited too long (R16).

    One that is barred would not enter even then.
    """
    if not (case.pool.nominated or case.state.holds) or case.fits_now or case.job.barred_from == case.name:
        return None
    kept = [one for one in case.state.preemptions.values() if one.kept and one.pool == case.name and one.job is not case.job]
    holders = [hold.job for hold in holds_before(case.state, case.job, case.pool, case.now)]
    with Trial(case.state) as trial:
        for preemption in kept:
            trial.lift(preemption)
        fits = fits_without_holds(case.state, case.job, case.pool)
    if not fits:
        return None
    return Grounds(case.asks, named(case.job, (*(preemption.job for preemption in kept), *holders)))


def _behind_higher_rank(case: WaitCase) -> Grounds | None:
    """It has yielded to a job that goes first (R27), or what is free is kept from it while victims are looked for (R19)."""
    state, job, pool = case.state, case.job, case.pool
    if job.barred_from == case.name:
        preemptor = next((key for key, victims in state.barred.items() if job in victims), "")
        first = state.jobs.get(preemptor)
        blockers = named(job, [first]) if first is not None else ()
        return Grounds(f"it made room for {shown(job, preemptor)}, which goes first", blockers)
    if pool.search is None or not case.fits_now:
        return None
    mine, theirs = rank_in_line(state, job, pool), rank_in_line(state, pool.search.job, pool)
    if mine is None or theirs is None or mine < theirs:
        return None
    first = pool.search.job
    numbers = f"what is free in pool {case.name} is kept for {shown(job, first.key)} while victims are looked for"
    return Grounds(numbers, named(job, [first]))


def _no_healthy_node(case: WaitCase) -> Grounds | None:
    """No node in service could take it, whatever runs there, but for such as did not start it (R36); or its back-off is not over (R32)."""
    if case.job.not_before > case.now:
        return Grounds(f"its node was lost, or did not start it; it is tried again at {format_time(case.job.not_before)}")
    refused = avoided(case.job, case.now)
    if refused and _is_kept_away(case, refused):
        until = format_time(max(case.job.avoids[name] for name in refused))
        return Grounds(f"{', '.join(refused)} did not start it and is left alone until {until}; no other node has room")
    if _waiting_for_capacity(case) is not None:
        return None
    if any(node.grantable and suits(case.pool, node, case.job) for node in case.pool.nodes.values()):
        return None
    fitting = sum(suits(case.pool, node, case.job) for node in case.pool.nodes.values())
    where = f": {away}" if (away := away_from(case.pool, case.job)) else ""
    return Grounds(f"{fitting} nodes of pool {case.name} have what it takes, none is in service{where}")


def _is_kept_away(case: WaitCase, refused: tuple[str, ...]) -> bool:
    """Whether only nodes that did not start it have room for it."""
    if case.fits_now:
        return False
    with Trial(case.state) as trial:
        trial.avoid(case.job, tuple(name for name in case.job.avoiding if name not in refused))
        return fits_now(case.state, case.job, case.pool, case.now)


def _waiting_for_capacity(case: WaitCase) -> Grounds | None:
    pools = () if case.fits_now or case.job.request.required else pools_of(case.state, case.job)
    return _grounds(growing_for(case.state, pools, case.job.request))


def _fragmented(case: WaitCase) -> Grounds | None:
    """The sums fit, no device, node (R3) or topology domain (R40) does."""
    if case.fits_now or not sums_fit(case.state, case.job, case.pool):
        return None
    return Grounds(where_it_fails(case.state, case.job, case.pool, case.now) or f"{case.asks}; {case.free}")


def _would_exceed_reservation(case: WaitCase) -> Grounds | None:
    """Another job borrows here, but it may not take it back: with it, its own side would be beyond its reservation (R23)."""
    state, job, pool = case.state, case.job, case.pool
    if case.fits_now or may_reclaim(state, job, pool) or not anybody_above(state, job.policy, pool):
        return None
    beyond = over_reservation(with_reservation(state, job.policy, case.name), pool.governed, job.request.total)
    return Grounds(numbers_of(beyond, "reservation") if beyond is not None else case.asks)


def _no_free_capacity(case: WaitCase) -> Grounds | None:
    return None if case.fits_now else Grounds(f"{case.asks}; {case.free}")


OF_THE_JOB: tuple[tuple[WaitReason, JobTest], ...] = (
    (WaitReason.FROZEN, _frozen),
    (WaitReason.DEPENDENCY, _dependency),
    (WaitReason.OUTSIDE_WINDOW, lambda state, job, now: _grounds(outside_window(state, job, now))),
    (WaitReason.BUDGET_EXHAUSTED, lambda _, job, now: _grounds(budget_exhausted(job, now))),
    (WaitReason.AT_ARRAY_LIMIT, lambda _, job, __: _grounds(at_array_limit(job))),
)

OF_THE_POOL: tuple[tuple[WaitReason, PoolTest], ...] = (
    (WaitReason.WAITING_FOR_PREEMPTION, _waiting_for_preemption),
    (WaitReason.AT_POLICY_LIMIT, _at_policy_limit),
    (WaitReason.AT_TENANT_LIMIT, _at_tenant_limit),
    (WaitReason.RESERVED_SHARE_BUSY, _reserved_share_busy),
    (WaitReason.MAINTENANCE, lambda case: _grounds(kept_away_by(case.state, case.job, case.pool, case.now))),
    (WaitReason.VICTIMS_PROTECTED, _victims_protected),
    (WaitReason.KEPT_FOR_LARGER_JOB, _kept_for_larger_job),
    (WaitReason.BEHIND_HIGHER_RANK, _behind_higher_rank),
    (WaitReason.NO_HEALTHY_NODE, _no_healthy_node),
    (WaitReason.WAITING_FOR_CAPACITY, _waiting_for_capacity),
    (WaitReason.FRAGMENTED, _fragmented),
    (WaitReason.WOULD_EXCEED_RESERVATION, _would_exceed_reservation),
    (WaitReason.NO_FREE_CAPACITY, _no_free_capacity),
)
"""What keeps it from starting in one pool, in the order of R22. A reason may stand here more than once, each test of its own."""
