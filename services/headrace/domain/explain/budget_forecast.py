"""What budgets will do before they do it (R33): when one is used up if what is held now goes on, and a line that says so in time. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.contracts.values.durations import format_time
from headrace.domain.state.meters import ceiling, hours, name_of, used

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.contracts.documents.model import Budget
    from headrace.domain.model.jobs import PolicyState

NEAR_PERCENT = 80
"""Part of a budget from which on it counts as nearly used up, whatever runs now."""

_THEN = {"wait": "then new jobs wait", "borrow": "then new jobs borrow, and yield first"}


def runs_out(policy: PolicyState, budget: Budget, now: int) -> int | None:
    """When it will be used up if everything that is held now goes on and nothing else begins; None: not before its period ends."""
    meter = policy.meters[name_of(budget)]
    if now >= meter.ends:
        return None
    left = ceiling(budget) - used(meter, now)
    if left <= 0:
        return now
    moment = now - (-left // meter.held) if meter.held else meter.ends
    return moment if moment < meter.ends else None


def warning(policy: PolicyState, budget: Budget, now: int) -> str:
    """One line where the budget is used up, will be, or is near it; else nothing."""
    meter = policy.meters[name_of(budget)]
    spent = used(meter, min(now, meter.ends))
    out = runs_out(policy, budget, now)
    if out is None and (now >= meter.ends or 100 * spent < NEAR_PERCENT * ceiling(budget)):
        return ""
    numbers = f"{hours(budget.key, spent)} of {budget.hours} hours of {budget.key} are used this {budget.per}"
    if out is None:
        return f"{numbers}; the next begins at {format_time(meter.ends)}"
    if out <= now:
        return f"{numbers}: used up until {format_time(meter.ends)}, {_THEN[budget.then].removeprefix('then ')} meanwhile"
    return f"{numbers}, and what runs now uses it up at {format_time(out)}; {_THEN[budget.then]}"


def warnings(policy: PolicyState, now: int) -> Iterator[str]:
    """Those of all budgets of a policy, by name."""
    for budget in policy.document.budgets:
        line = warning(policy, budget, now)
        if line:
            yield f"budget {name_of(budget)} of policy {policy.document.name}: {line}"
