"""A message for FEED, its position there, and what is stored until it is built. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

if TYPE_CHECKING:
    from headrace.domain.model.jobs import JobRecord


class FeedMessage(NamedTuple):
    """One message. (`sequence`, `number`) is its position; a restarted feed continues after the last position on FEED."""

    sequence: int
    number: int
    subject: str
    payload: bytes


class FeedPosition(msgspec.Struct, frozen=True, order=True):
    """Position of a message on FEED, which a restarted feed reads from the last one."""

    sequence: int
    number: int


class JobStarted(NamedTuple):
    """A job whose replicas all run, as it was when the last of them started."""

    job: str
    attempt: int
    nodes: tuple[str, ...]
    pool: str


def started(job: JobRecord) -> JobStarted:
    """`JobStarted` of a job whose last replica has just started."""
    attempt = job.attempts[-1]
    return JobStarted(job.key, job.attempt, attempt.nodes, attempt.pool)
