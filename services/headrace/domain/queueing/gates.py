"""Whether anything may start: what is closed (R11), windows that are shut, budgets that are used up (R33).

Strategy: the allocator evaluates each policy's windows and budgets when their result may change (`next_change`), and states the result
(`policy.gated`). So all later steps, and the reasons to wait, read the fold and not at a clock, and a policy's jobs are worked out
anew only when its gate has changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.contracts.values.durations import format_time
from headrace.contracts.values.reasons import WaitReason
from headrace.domain.model import calendar as c
from headrace.domain.model.policy_gate import PolicyGate
from headrace.domain.queueing.freeze_drain import is_closed
from headrace.domain.state.meters import ceiling, hours, name_of, used

if TYPE_CHECKING:
    from headrace.contracts.documents.model import Budget, Window
    from headrace.domain.indexes.pending import JobGroup
    from headrace.domain.model.jobs import JobRecord, PolicyState
    from headrace.domain.model.time_rules import Calendar
    from headrace.domain.state.state import State

PREEMPT = "preempt"
WAIT = "wait"
OPEN = PolicyGate(shut=False, stops=False, spent=())


# ---- what the fold says ----


def may_start(state: State, job: JobRecord | JobGroup, pool: str) -> bool:
    """Whether the job, or the jobs of the group, may be granted anything in the pool."""
    return gated(job) is None and not is_closed(state, job, pool) and not job.locked and pool not in job.outlasts


def gated(job: JobRecord | JobGroup) -> WaitReason | None:
    """What keeps the policy's jobs of this kind from starting; None: nothing."""
    gate = job.policy.gate
    if gate is None:
        return None
    if gate.shut:
        return WaitReason.OUTSIDE_WINDOW
    return WaitReason.BUDGET_EXHAUSTED if spent_for(job) is not None else None


def spent_for(job: JobRecord | JobGroup) -> Budget | None:
    """The first budget that is used up and lets such jobs wait: all, or those that may not borrow (R12)."""
    borrows = may_borrow(job)
    return next((budget for budget in _spent(job.policy) if budget.then == WAIT or not borrows), None)


def may_borrow(job: JobRecord | JobGroup) -> bool:
    """Whether it may hold anything beyond the reservation: it could be taken back (R13), and its queue borrows (R12)."""
    return job.preemptible and next((link.borrow for link in job.policy.document.profiles if link.name == job.profile), True)


def must_borrow(policy: PolicyState) -> bool:
    """Whether what starts now is borrowed and preemptible, whatever the reservation says, because a budget is used up."""
    return policy.gate is not None and any(budget.then != WAIT for budget in _spent(policy))


def _spent(policy: PolicyState) -> list[Budget]:
    gate = policy.gate
    return [] if gate is None else [budget for budget in policy.document.budgets if name_of(budget) in gate.spent]


# ---- what time says ----


def gate_at(state: State, policy: PolicyState, now: int) -> PolicyGate:
    """What the policy's windows and budgets say at `now`."""
    windows = _windows(state, policy)
    shut = bool(windows) and not any(c.is_open(window, calendar, now) for window, calendar in windows)
    spent = (name_of(budget) for budget in policy.document.budgets if _is_spent(policy, budget, now))
    return PolicyGate(shut, shut and _stops(windows, now), tuple(spent))


def _windows(state: State, policy: PolicyState) -> list[tuple[Window, Calendar | None]]:
    return [(window, state.terms.calendars.get(window.timezone)) for window in policy.document.windows]


def _stops(windows: list[tuple[Window, Calendar | None]], now: int) -> bool:
    """Whether the window that closed last, or one of several that did together, stops what runs."""
    closed = [(c.last_close(window, calendar, now), window.on_close == PREEMPT) for window, calendar in windows]
    return max(((at, stops) for at, stops in closed if at is not None), default=(0, False))[1]


def _is_spent(policy: PolicyState, budget: Budget, now: int) -> bool:
    meter = policy.meters[name_of(budget)]
    return now < meter.ends and used(meter, now) >= ceiling(budget)


def next_change(state: State, policy: PolicyState, now: int) -> int | None:
    """When windows and budgets may say something else, if nothing starts or ends before; None: never."""
    moments = [c.next_edge(_windows(state, policy), now)]
    for budget in policy.document.budgets:
        meter = policy.meters[name_of(budget)]
        moments.append(meter.ends)
        left = ceiling(budget) - used(meter, now)
        if left > 0 and meter.held:
            moments.append(now - -left // meter.held)
    return min((moment for moment in moments if moment is not None and moment > now), default=None)


def opens_at(state: State, policy: PolicyState, now: int) -> int | None:
    """When a window that is shut opens next."""
    return c.next_edge(_windows(state, policy), now)


# ---- for people ----


def outside_window(state: State, job: JobRecord, now: int) -> str | None:
    """When the next window opens, for a job that waits for it; None if it waits for something else."""
    if gated(job) is not WaitReason.OUTSIDE_WINDOW:
        return None
    opens = opens_at(state, job.policy, now)
    return f"the next opens at {format_time(opens)}" if opens is not None else ""


def budget_exhausted(job: JobRecord, now: int) -> str | None:
    """What is used of the budget that keeps a job waiting, and when the next begins; None without a budget in its way."""
    budget = spent_for(job)
    if budget is None:
        return None
    meter = job.policy.meters[name_of(budget)]
    spent = hours(budget.key, used(meter, now))
    numbers = f"{spent} of {budget.hours} hours of {budget.key} are used this {budget.per}; the next begins at "
    return numbers + format_time(meter.ends)


def at_array_limit(job: JobRecord) -> str | None:
    """How many elements of the job's array run, if that keeps the job from starting; else None."""
    array = job.array
    if array is None or not array.is_full or job.nomination is not None:
        return None
    return f"{array.busy} of at most {array.range.at_once} run"
