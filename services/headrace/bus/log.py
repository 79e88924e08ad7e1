"""Definition of a log: an ordered, gapless, append-only sequence of messages by subject. It has two implementations.

Sequences start at 1 and have no gaps; a reader that finds one raises `LogBroken` and never skips. An append is conditional on the last
sequence of its subject, so that a second or suspended instance can never fork a writer's history.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from headrace.nats_client.errors import LogError, LogFull, LogRefused, LogUnavailable, NoStorage, WrongLast

__all__ = [
    "Log",
    "LogBroken",
    "LogDiverged",
    "LogError",
    "LogFull",
    "LogReader",
    "LogRefused",
    "LogUnavailable",
    "Message",
    "NoStorage",
    "StoredMessage",
    "WrongLast",
]
"""Errors of requests and appends are those of the NATS client; the two below are those of readers.

LogError
├── LogUnavailable, LogRefused, WrongLast   see `headrace.nats_client.errors`
├── LogDiverged   what has been read from one of several servers is not what they have: start again, and read anew
└── LogBroken    a gap or a damaged message: stop, a person has to look
"""


class LogDiverged(LogError):
    """One of several servers has delivered a message that the others do not have: state derived from it is wrong."""


class LogBroken(LogError):
    """A gap in the sequences, or bytes other than those that were written."""


class Message(NamedTuple):
    """One stored message. `stamped` is the server's time of storage, in microseconds since 1970."""

    sequence: int
    subject: str
    stamped: int
    payload: bytes


class StoredMessage(NamedTuple):
    """One stored message with all its parts: `time` is the server's, in nanoseconds since 1970.

    `headers` are their bytes as sent, may be empty.
    """

    sequence: int
    subject: str
    time: int
    headers: bytes
    payload: bytes

    @property
    def message(self) -> Message:
        """The message for readers of facts."""
        return Message(self.sequence, self.subject, self.time // 1_000, self.payload)


class LogReader(Protocol):
    """An open read position. Messages come in order, without gaps, each exactly once."""

    async def batch(self, limit: int = 1_000, wait: float | None = None) -> list[Message]:
        """At least one message and at most `limit`; an empty list after `wait` seconds without any (None: no timeout).

        Raises `LogBroken` on a gap in the stream itself; a message lost in transit is fetched again.
        """

    @property
    def buffered(self) -> int:
        """Number of messages that have arrived and were not returned yet."""

    def wake(self) -> None:
        """Let the current `batch`, or else the next one that would wait, return at once, empty if no message has arrived."""

    async def close(self) -> None:
        """Stop reading; may be called more than once."""


class Log(Protocol):
    """One stream of messages."""

    @property
    def doubt(self) -> float:
        """Seconds for which it may report less than has been read: one of several servers may answer after it has lost the lead."""

    async def append(self, subject: str, payload: bytes, expected_last: int | None) -> int:
        """Store durably and return the sequence.

        `expected_last` is the sequence of the subject's last message (0: no message); None appends without a condition. Raises
        `WrongLast`, `LogRefused`, `LogUnavailable`; after the last the message may or may not be stored, and a repeated append without a
        condition may store it twice.
        """

    async def read(self, after: int) -> LogReader:
        """A reader whose first message is the first one stored with a sequence greater than `after`.

        If the stream no longer holds `after + 1` but something later, the first `batch` raises `LogBroken` unless the stream was purged on
        purpose (SUBMIT): then it begins at its first message.
        """

    async def last(self, subject: str) -> Message | None:
        """The last message on a subject (without wildcards)."""

    async def get(self, sequence: int) -> Message | None:
        """One message by its sequence; None if it does not exist or was purged."""

    async def next(self, subject: str, after: int) -> Message | None:
        """The first message on a subject (without wildcards) with a greater sequence than `after`; None if it does not exist yet."""

    async def following(self, after: int) -> Message | None:
        """The first message after a sequence, on any subject; None if it does not exist yet."""

    async def tip(self) -> int:
        """The sequence of the last message in the stream; 0 if it is empty."""

    async def now(self) -> int:
        """The time with which the log stamps what it stores, in microseconds since 1970."""

    async def purge_through(self, sequence: int) -> None:
        """Delete messages up to and including `sequence` (SUBMIT, once judged)."""
