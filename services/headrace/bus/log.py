"""What a log is: an ordered, gapless, append-only sequence of messages by subject. Two twins implement it.

The law: sequences start at 1 and have no gaps; a reader that finds one raises `LogBroken` and never skips. An append is
conditional on the last sequence of its subject, so that a second instance or a zombie can never fork a writer's history.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol


class LogError(Exception):
    """Something about the log went wrong.

    LogError
    ├── LogUnavailable   the server cannot be reached, or did not answer in time: try again
    │   └── NoStorage    it has no room on its disk, and has stored nothing: try again when somebody has made room
    ├── LogRefused       the server said no (no permission, too large): the message says why
    │   └── LogFull      the subject or the stream holds as much as it may: try again when some of it has been read
    ├── LogStrayed       what has been read from one of several servers is not what they have: start again, and read anew
    ├── WrongLast        the subject has another last message than the writer thought: read on, decide again
    └── LogBroken        a gap or a damaged message: stop, a person has to look
    """


class LogUnavailable(LogError):
    """The server cannot be reached, or did not answer in time."""


class NoStorage(LogUnavailable):
    """The disk is full, and the message has not been stored; the text says of which machine."""


class LogRefused(LogError):
    """The server refused the message; the text says why."""


class LogFull(LogRefused):
    """The subject or the stream holds as much as it may until some of it has been read."""


class WrongLast(LogError):
    """Another message stands on the subject since the writer last looked."""


class LogStrayed(LogError):
    """One of several servers has told something else than what they have: whatever was made of it is wrong."""


class LogBroken(LogError):
    """A gap in the sequences, or bytes that are not those that were written."""


class Message(NamedTuple):
    """One stored message. `stamped` is the server's time of storage, in microseconds since 1970."""

    sequence: int
    subject: str
    stamped: int
    payload: bytes


class StoredMessage(NamedTuple):
    """One stored message whole: `time` is the server's, in nanoseconds since 1970; `headers` are their bytes as sent, empty without."""

    sequence: int
    subject: str
    time: int
    headers: bytes
    payload: bytes

    @property
    def message(self) -> Message:
        """As readers of facts see it."""
        return Message(self.sequence, self.subject, self.time // 1_000, self.payload)


class LogReader(Protocol):
    """An open read position. Messages come in order, without gaps, each exactly once."""

    async def batch(self, limit: int = 1_000, wait: float | None = None) -> list[Message]:
        """At least one message and at most `limit`; an empty list after `wait` seconds without any (None: no end).

        Raises `LogBroken` on a gap that the stream itself has; a message lost on the way is fetched again silently.
        """

    @property
    def buffered(self) -> int:
        """How many messages have arrived and were not handed out yet."""

    def wake(self) -> None:
        """Let the `batch` that waits, or else the next one that would, return at once, empty if there is nothing."""

    async def close(self) -> None:
        """Stop reading; more than once does no harm."""


class Log(Protocol):
    """One stream."""

    @property
    def doubt(self) -> float:
        """Seconds for which it may say of itself less than has been read: of several servers one may answer that leads no more."""

    async def append(self, subject: str, payload: bytes, expected_last: int | None) -> int:
        """Store durably and return the sequence.

        `expected_last` is the sequence of the subject's last message (0: none); None appends without a condition. Raises
        `WrongLast`, `LogRefused`, `LogUnavailable`; after the last the message may or may not be stored, and a repeated append
        without a condition may store it twice.
        """

    async def read(self, after: int) -> LogReader:
        """A reader whose first message is the first one stored with a sequence greater than `after`.

        If the stream no longer holds `after + 1` but something later, the first `batch` raises `LogBroken` unless the stream was
        purged on purpose (SUBMIT): then it begins at the first message there is.
        """

    async def last(self, subject: str) -> Message | None:
        """The last message on a subject (no wildcards)."""

    async def get(self, sequence: int) -> Message | None:
        """One message by its sequence; None where it is not there (any more)."""

    async def next(self, subject: str, after: int) -> Message | None:
        """The first message on a subject (no wildcards) with a greater sequence than `after`; None where there is none yet."""

    async def following(self, after: int) -> Message | None:
        """The first message behind a sequence that is there, on whichever subject; None where there is none."""

    async def tip(self) -> int:
        """The sequence of the last message in the stream; 0 where it is empty."""

    async def now(self) -> int:
        """The time by which the log stamps what it stores, in microseconds since 1970."""

    async def purge_through(self, sequence: int) -> None:
        """Forget messages up to and including `sequence` (SUBMIT, once judged)."""
