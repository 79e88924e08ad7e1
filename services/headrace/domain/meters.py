"""What a policy has used of its budgets (R33): the integral of what its leases hold, per calendar period. Exact integers.

Counted from grant to release like everything that is charged (R37): suspension is not, because nothing is held then. A budget counts
from the moment it is written; a new period begins with nothing but what runs on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.contracts.amounts import CPU, CPU_UNITS, GPU, GPU_UNITS, MEMORY
from headrace.contracts.durations import HOUR, SECOND
from headrace.domain.calendar import period_of
from headrace.domain.terms import Meter

if TYPE_CHECKING:
    from headrace.contracts.amounts import Amounts
    from headrace.contracts.documents import Budget
    from headrace.domain.state import PolicyState, State

_ONE = {GPU: GPU_UNITS, CPU: CPU_UNITS, MEMORY: 1024}
"""What an hour of a key is an hour of: a GPU, a core, a GiB; of other keys one."""


def name_of(budget: Budget) -> str:
    """`gpu per month`: what a budget is called; a policy has one of each."""
    return f"{budget.key} per {budget.per}"


def ceiling(budget: Budget) -> int:
    """The whole budget in unit-microseconds."""
    return budget.hours * HOUR * _ONE.get(budget.key, 1)


def hours(key: str, used: int) -> str:
    """Unit-microseconds as hours, cut to three decimals: `412.250`."""
    thousandths = 1_000 * used // (HOUR * _ONE.get(key, 1))
    return f"{thousandths // 1_000}.{thousandths % 1_000:03d}"


def set_meters(state: State, policy: PolicyState) -> None:
    """A meter for each budget of the policy as it is written now; one that was there goes on."""
    meters = {}
    for budget in policy.document.budgets:
        name = name_of(budget)
        begins, ends = period_of(budget.per, state.terms.calendars.get(budget.timezone), state.now)
        meter = policy.meters.get(name) or Meter(budget.key, state.now, ends)
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


def _begin(meter: Meter, begins: int) -> None:
    meter.origin, meter.seconds, meter.rest = begins, 0, 0


def _note_next(state: State) -> None:
    ends = (meter.ends for policy in state.terms.timed.values() for meter in policy.meters.values())
    state.terms.period_ends = min(ends, default=0)


def count(policy: PolicyState, amounts: Amounts, now: int, sign: int) -> None:
    """With sign 1: a lease of the policy holds `amounts` from `now` on. With -1: it does no more."""
    for meter in policy.meters.values():
        amount = amounts.get(meter.key, 0)
        if amount:
            change = -sign * amount * (now - meter.origin)
            more, meter.rest = divmod(meter.rest + change, SECOND)
            meter.seconds += more


def used(policy: PolicyState, meter: Meter, now: int) -> int:
    """Unit-microseconds of the current period until `now`, which lies in it."""
    held = policy.wide.leased.get(meter.key, 0)
    return meter.seconds * SECOND + meter.rest + held * (now - meter.origin)
