"""Taking back and keeping, as the fold has it: searches, proposals, what was ordered, and what is kept (R16, R19, R26, R27)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.domain.model.jobs import JobRecord

if TYPE_CHECKING:
    from headrace.contracts.facts.fact import Place
    from headrace.contracts.facts.preemption import Victim


@dataclass(slots=True, eq=False)
class Search:
    """An open reclaim (R19): *preemption* looks for victims for `job` in a pool. `proposal` is its answer, until judged."""

    id: str
    job: JobRecord
    pool: str
    cause: str
    sequence: int
    opened_at: int
    proposal: Proposal | None = None


@dataclass(slots=True, eq=False)
class Proposal:
    """A set of victims that preemption found, and where the preemptor would go."""

    cause: str
    victims: tuple[Victim, ...]
    places: tuple[Place, ...]
    rule: str


RAN_OUT = "the preemptor did not start in time"
"""Why a nomination ended whose time was over (R27). The fold recognizes it in ledgers by this text, so it is never reworded."""
MOVED = "moved"
"""The cause of a nomination for a suspended job that goes on in another place, and of the end of its attempt (R29)."""


def nomination_time(timeout: int, expired_nominations: int, *, amended: bool) -> int:
    """How long units stay nominated (microseconds): the pool's timeout, twice as long after each nomination of the job that ran out (R27).

    Without that a job whose victims take longer to leave than `timeout` would take victim after victim and never start.
    """
    return timeout << min(expired_nominations, DOUBLINGS_MAX) if amended else timeout


DOUBLINGS_MAX = 16


@dataclass(slots=True, eq=False)
class Hold:
    """Places in a pool that are kept for a job against those who rank below it (R16)."""

    job: JobRecord
    pool: str
    places: tuple[Place, ...]
    placed_at: int
