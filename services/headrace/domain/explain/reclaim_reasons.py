"""Whether a waiting job could take something back now, or soon; else which rule forbids it, with the numbers (R19, R23 - R26). Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.contracts.messages.explanation import ReclaimView
from headrace.contracts.values.durations import format_time
from headrace.domain.backfill.holds import fits_now
from headrace.domain.explain.needs import shown_holders
from headrace.domain.explain.wait_reasons import numbers_of
from headrace.domain.model.preemption_state import MOVED
from headrace.domain.preemption.eligibility import anybody_above, causes
from headrace.domain.preemption.victims import NoPlan, VictimPlan, search
from headrace.domain.queueing.gates import may_start
from headrace.domain.state.quota import limits_of, over_limit, over_reservation, policy_side, to_grant
from headrace.domain.state.trial import Trial

if TYPE_CHECKING:
    from headrace.domain.explain.expected_ends import ExpectedEnds
    from headrace.domain.model.jobs import JobRecord
    from headrace.domain.state.pools import PoolState
    from headrace.domain.state.state import State

FITS_WITHOUT = "it has room without"
NOT_YET = "it could not start if it had what it needs"
KEPT = "it has taken back what it needs: places are kept for it"
KEPT_TO_MOVE = "it was suspended and goes on in another place: places are kept for it"
NOTHING_BORROWED = "no policy in pool {} holds more than its reservation"


def reclaim_in(state: State, job: JobRecord, pool: PoolState, now: int, ends: ExpectedEnds) -> ReclaimView:
    """What taking back in this pool would give the job at log time `now`."""
    if job.nomination is not None and job.nomination.cause == MOVED:
        return ReclaimView(could=False, why=KEPT_TO_MOVE)
    if job.nomination is not None:
        return ReclaimView(could=True, why=KEPT, cause=job.nomination.cause)
    forbidden = _forbidden_with_each(state, job, pool, now)
    if forbidden:
        return ReclaimView(could=False, why=forbidden)
    found = search(state, job, pool, now)
    if isinstance(found, NoPlan) and found.retry_at is not None and found.retry_at > now:
        later = search(state, job, pool, found.retry_at)
        if isinstance(later, VictimPlan):
            why = f"those who could yield have not had their minimum run time; the first may be taken from {format_time(found.retry_at)} on"
            return _could(state, job, later, found.retry_at, why, ends)
    if isinstance(found, NoPlan):
        return ReclaimView(could=False, why=found.why)
    return _could(state, job, found, now, f"enough is borrowed in pool {pool.document.name}", ends)


def _forbidden_with_each(state: State, job: JobRecord, pool: PoolState, now: int) -> str:
    """As `_forbidden`; of a job that may be given several GPU models (R42) what is said of the first, if each is forbidden."""
    found = ""
    for request in job.request.each:
        with Trial(state) as trial:
            trial.choose(job, request)
            forbidden = _forbidden(state, job, pool, now)
        if forbidden in ("", FITS_WITHOUT):
            return forbidden
        found = found or forbidden
    return found


def _forbidden(state: State, job: JobRecord, pool: PoolState, now: int) -> str:
    """The rule that keeps it from taking back anything here; empty without a rule."""
    name, total = pool.document.name, job.request.total
    if job.waits_for or job.doomed_by or not may_start(state, job, name):
        return NOT_YET
    own = [scope for scope in limits_of(state, job, name) if scope.kind != "tenant"]
    limit = over_limit(own, pool.governed, total, beyond=job.beyond)
    if limit is not None:
        return f"its policy's own limit is in the way, for which no other job has to yield: {numbers_of(limit, 'limit')}"
    scopes = limits_of(state, job, name)
    at_limit = over_limit(scopes, pool.governed, total, beyond=job.beyond, against=to_grant(state)) is not None
    if not at_limit and fits_now(state, job, pool, now):
        return FITS_WITHOUT
    if not causes(state, job, pool):
        beyond = over_reservation(policy_side(job.policy, name), pool.governed, total)
        return f"it would be beyond its reservation: {numbers_of(beyond, 'reservation')}" if beyond is not None else ""
    if not anybody_above(state, job.policy, pool):
        return NOTHING_BORROWED.format(name)
    return ""


def _could(state: State, job: JobRecord, plan: VictimPlan, since: int, why: str, ends: ExpectedEnds) -> ReclaimView:
    """With the plan's victims, and when they will be gone if they are ordered to stop at `since`."""
    victims = [state.jobs[victim.job] for victim in plan.victims]
    graces = [victim.policy.document.preemption for victim in victims]
    longest = max((terms.callback_grace + terms.term_grace for terms in graces), default=0)
    shown, _ = shown_holders(job, victims, ends)
    return ReclaimView(could=True, why=why, cause=plan.cause, at=since + longest, victims=shown)
