"""What a policy has used of its budgets (R33): the integral of what its leases hold, per calendar period. Exact integers.

A lease is charged from its real start, when all replicas of its job run (R35, R37), to its release; a start that never came is not (R36),
nor is a suspension. Before the installation was raised to amended rules, a lease was charged from its grant. A budget counts from the
moment it is written; a new period begins with nothing but what runs on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.contracts.values.amounts import CPU, CPU_UNITS, GPU, GPU_UNITS, MEMORY, is_gpu
from headrace.contracts.values.durations import HOUR, SECOND
from headrace.domain.model.calendar import period_of
from headrace.domain.model.derived import NOTHING
from headrace.domain.model.policy_gate import BudgetMeter

if TYPE_CHECKING:
    from headrace.contracts.documents.model import Budget
    from headrace.contracts.values.amounts import Amounts
    from headrace.domain.model.jobs import LeaseState, PolicyState
    from headrace.domain.state.state import State

_ONE = {GPU: GPU_UNITS, CPU: CPU_UNITS, MEMORY: 1024}
"""What an hour of a key is an hour of: a GPU, a core, a GiB; of other keys one."""


def _one(key: str) -> int:
    return _ONE.get(GPU if is_gpu(key) else key, 1)


def name_of(budget: Budget) -> str:
    """`gpu per month`: what a budget is called; a policy has one of each."""
    return f"{budget.key} per {budget.per}"


def ceiling(budget: Budget) -> int:
    """The whole budget in unit-microseconds."""
    return budget.hours * HOUR * _one(budget.key)


def hours(key: str, used: int) -> str:
    """Unit-microseconds as hours, cut to three decimals: `412.250`."""
    thousandths = 1_000 * used // (HOUR * _one(key))
    return f"{thousandths // 1_000}.{thousandths % 1_000:03d}"


def set_meters(state: State, policy: PolicyState) -> None:
    """A meter for each budget of the policy as it is written now; one that was there goes on."""
    meters = {}
    for budget in policy.document.budgets:
        name = name_of(budget)
        begins, ends = period_of(budget.per, state.terms.calendars.get(budget.timezone), state.now)
        meter = policy.meters.get(name) or BudgetMeter(budget.key, state.now, ends, held=_charged(policy, budget.key))
        if meter.ends <= state.now:  # the policy was gone when its period ended
            _begin(meter, begins)
        meter.ends = ends
        meters[name] = meter
    policy.meters = meters
    _note_next(state)


def turn(state: State) -> None:
    """Periods that have ended by the fold's time: the next ones have begun, with what has been held since."""
    for policy in state.terms.timed.values():
        for budget in policy.document.budgets:
            meter = policy.meters[name_of(budget)]
            if meter.ends <= state.now:
                begins, meter.ends = period_of(budget.per, state.terms.calendars.get(budget.timezone), state.now)
                _begin(meter, begins)
    _note_next(state)


def _begin(meter: BudgetMeter, begins: int) -> None:
    meter.origin, meter.seconds, meter.microseconds = begins, 0, 0


def _note_next(state: State) -> None:
    ends = (meter.ends for policy in state.terms.timed.values() for meter in policy.meters.values())
    state.terms.period_ends = min(ends, default=0)


def _charged(policy: PolicyState, key: str) -> int:
    """What all leases of the policy are charged now."""
    return sum(lease.charged.get(key, 0) for job in policy.jobs.values() for lease in job.leases.values())


def charge(lease: LeaseState, amounts: Amounts, now: int) -> None:
    """From `now` on the lease is charged `amounts`, and no more what it was charged before."""
    for meter in lease.job.policy.meters.values():
        amount = amounts.get(meter.key, 0) - lease.charged.get(meter.key, 0)
        if amount:
            meter.held += amount
            more, meter.microseconds = divmod(meter.microseconds - amount * (now - meter.origin), SECOND)
            meter.seconds += more
    lease.charged = amounts


def uncharge(lease: LeaseState, now: int) -> None:
    """From `now` on the lease is charged nothing."""
    charge(lease, NOTHING, now)


def used(meter: BudgetMeter, now: int) -> int:
    """Unit-microseconds of the current period until `now`, which lies in it."""
    return meter.seconds * SECOND + meter.microseconds + meter.held * (now - meter.origin)
