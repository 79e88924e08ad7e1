"""What holds for a while, as the fold keeps it: what is closed (R11), and what windows and budgets say at the moment (R33)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.contracts.facts.levels import AMENDED

if TYPE_CHECKING:
    from headrace.domain.model.jobs import PolicyState


@dataclass(slots=True, eq=False)
class Closing:
    """An object under which nothing is granted (R11): `mode` is `freeze`, `drain` or `cancel`; asked for by `author` at `at`."""

    kind: str
    tenant: str
    name: str
    mode: str
    author: str
    at: int


@dataclass(slots=True, eq=False)
class Calendar:
    """The offsets of a time zone: (moment, seconds east of UTC from then on), oldest first, known until `until`."""

    zone: str
    offsets: tuple[tuple[int, int], ...]
    until: int


@dataclass(slots=True, eq=False)
class Growth:
    """The last growth of a pool (R38): how many nodes were requested, and how many have joined. `failures`: times in a row too few joined.

    `sequence`: of the record that asked (0: read from a snapshot of release 0.2.0). `firm`: a job that asks may not run on
    spot instances, so they will not do.
    """

    nodes: int
    asked_at: int
    open: bool = True
    joined: int = 0
    failures: int = 0
    closed_until: int = 0
    sequence: int = 0
    firm: bool = False


@dataclass(slots=True, eq=False)
class Allowance:
    """What was left of a tenant's submit rate at `at` (R14), in millionths of a job."""

    drops: int
    at: int


@dataclass(slots=True, eq=False)
class TimeRules:
    """What is closed (R11), by kind, tenant and name, in the order in which it was; and what windows and budgets need (R33).

    `calendars` by zone; `timed`: the policies that have some; `period_ends`: when the first period of a budget does, 0: never.
    `allowances`: of tenants that have a submit rate. `growths`: of pools that were asked to grow. `level`: what facts may be stated
    (`contracts.facts.levels`); `scarce`: too little storage is left to admit
    jobs (`storage.stated`); `executors`: the level that each node's executor reads.
    """

    closings: dict[tuple[str, str, str], Closing] = field(default_factory=dict)
    calendars: dict[str, Calendar] = field(default_factory=dict)
    timed: dict[tuple[str, str], PolicyState] = field(default_factory=dict)
    period_ends: int = 0
    growths: dict[str, Growth] = field(default_factory=dict)
    allowances: dict[str, Allowance] = field(default_factory=dict)
    level: int = 1
    scarce: bool = False
    executors: dict[str, int] = field(default_factory=dict)

    @property
    def amended(self) -> bool:
        """True where the rules hold as release 0.2.0 amended them; below that level everything is read and decided as before."""
        return self.level >= AMENDED
