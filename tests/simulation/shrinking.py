"""Makes a failing run small: fewer of everything in it and a shorter time, as long as it fails in the same way."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from msgspec.structs import replace

from headrace.contracts.values.durations import SECOND
from headrace.simulate.scenario import Nodes
from tests.simulation.plan import Plan

TRIES = 300
_NAMES = re.compile(r"[a-z0-9-]+\.[a-z]+\.[0-9a-z]{26}(/\d+/\d+)?|\d[\d.]*")


def sort_of(violation: str) -> str:
    """A violation without names and numbers: which promise was broken."""
    return _NAMES.sub("#", violation)[:120]


def shrink(plan: Plan, fails: Callable[[Plan], bool], tries: int = TRIES) -> Plan:
    """The smallest plan found for which `fails` holds; `tries` bounds how many are played."""
    left = [tries]

    def holds(smaller: Plan) -> bool:
        left[0] -= 1
        return left[0] >= 0 and fails(smaller)

    before = None
    while before != plan and left[0] > 0:
        before = plan
        for field in ("faults", "acts", "again", "jobs", "nodes"):
            plan = _without(plan, field, holds)
        for smaller in _simpler(plan):
            if holds(smaller):
                plan = smaller
    return plan


def _without(plan: Plan, field: str, holds: Callable[[Plan], bool]) -> Plan:
    """Leave out as many as can be, large pieces first."""
    kept: tuple[Any, ...] = getattr(plan, field)
    size = len(kept)
    while size >= 1:
        start = 0
        while start < len(kept):
            fewer = kept[:start] + kept[start + size :]
            if holds(replace(plan, **{field: fewer})):
                kept = fewer
                plan = replace(plan, **{field: kept})
            else:
                start += size
        size //= 2
    return plan


def _simpler(plan: Plan) -> Iterator[Plan]:
    last = max([0, *(one.at for one in (*plan.faults, *plan.acts, *plan.again, *plan.jobs))])
    for until in (last + SECOND, last + 30 * SECOND):
        if until < plan.until:
            yield replace(plan, until=until)
    for place, row in enumerate(plan.nodes):
        for fewer in _smaller(row):
            yield replace(plan, nodes=(*plan.nodes[:place], fewer, *plan.nodes[place + 1 :]))


def _smaller(row: Nodes) -> Iterator[Nodes]:
    if row.count > 1:
        yield replace(row, count=row.count - 1)
    if row.gpus > 1:
        yield replace(row, gpus=1)
