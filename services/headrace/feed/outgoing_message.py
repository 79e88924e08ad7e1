"""One message on its way to FEED, where it stands there, and what has to be remembered until it is made. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

if TYPE_CHECKING:
    from headrace.domain.model.jobs import JobRecord


class Outgoing(NamedTuple):
    """One message. (`sequence`, `number`) is its place; a restarted feed goes on behind the last that FEED holds."""

    sequence: int
    number: int
    subject: str
    payload: bytes


class FeedPosition(msgspec.Struct, frozen=True, order=True):
    """What a restarted feed reads of the last message on FEED."""

    sequence: int
    number: int


class JobStarted(NamedTuple):
    """A job all of whose replicas run: as it was when the last of them started."""

    job: str
    attempt: int
    nodes: tuple[str, ...]
    pool: str


def started(job: JobRecord) -> JobStarted:
    """It has just come to run."""
    attempt = job.attempts[-1]
    return JobStarted(job.key, job.attempt, attempt.nodes, attempt.pool)
