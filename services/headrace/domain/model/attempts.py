"""One try at running a job, and how its leases ended: what is kept for looking back and for settling it (R14, R29-R32).

What makes them is written out, for the reason that `jobs` names.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.domain.model.job_states import JobState

if TYPE_CHECKING:
    from collections.abc import Sequence


DISPUTED = "disputed"
"""Outcome of a refused start if the node says that another lease still holds a device: a disagreement, not counted as a refusal (R36)."""


@dataclass(slots=True, eq=False)
class Ending:
    """How one replica's lease ended, until the allocator has settled the attempt. `outcome` as in `lease.ended`, `revoked`, `disputed`."""

    rank: int
    outcome: str
    exit_code: int | None
    finished: bool
    stopping: bool
    message: str
    node: str

    @property
    def is_success(self) -> bool:
        """Whether the process ended well."""
        return self.outcome == "exited" and self.exit_code == 0

    @property
    def is_plain(self) -> bool:
        """Whether the process ended well by itself, and neither finished early nor during a stop."""
        return self.exit_code == 0 and self.outcome == "exited" and not self.finished and not self.stopping


@dataclass(slots=True, eq=False)
class Attempt:
    """Times in log time, 0 where not yet; `sequence` is that of its grant."""

    number: int
    pool: str
    nodes: tuple[str, ...]
    devices: tuple[str, ...]
    granted_at: int
    sequence: int
    started_at: int = 0
    ended_at: int = 0
    exit_code: int | None = None
    cause: str = ""
    resume_from: str = ""

    def close(self, endings: Sequence[Ending], cause: str, now: int) -> None:
        """It is over: the first exit code that tells of a failure is that of the attempt, else the first of all."""
        self.ended_at, self.cause = now, cause
        codes = [ending.exit_code for ending in endings]
        self.exit_code = next((code for code in codes if code), codes[0] if codes else None)


@dataclass(slots=True, eq=False)
class PastJob:
    """What is remembered of a job that has left the fold, so that the same id is not judged twice (R14)."""

    digest: str
    state: JobState
    at: int


def new_ending(
    rank: int,
    outcome: str,
    exit_code: int | None = None,
    *,
    finished: bool = False,
    stopping: bool = False,
    message: str = "",
    node: str = "",
) -> Ending:
    """As the record says that closed the lease."""
    ending = Ending.__new__(Ending)
    ending.rank = rank
    ending.outcome = outcome
    ending.exit_code = exit_code
    ending.finished = finished
    ending.stopping = stopping
    ending.message = message
    ending.node = node
    return ending


def new_attempt(number: int, pool: str, now: int, sequence: int, resume_from: str) -> Attempt:
    """One whose first lease has just been granted by the record of that sequence."""
    attempt = Attempt.__new__(Attempt)
    attempt.number = number
    attempt.pool = pool
    attempt.nodes = attempt.devices = ()
    attempt.granted_at = now
    attempt.sequence = sequence
    attempt.resume_from = resume_from
    attempt.started_at = attempt.ended_at = 0
    attempt.exit_code = None
    attempt.cause = ""
    return attempt
