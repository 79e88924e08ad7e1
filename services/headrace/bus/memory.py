"""The in-memory implementation of the log: the same promises as JetStream's, in one process, with the clock as an argument.

Simulations use the synchronous core (`append_now`, `messages_after` ...); services and tests use the asynchronous interface of `Log`. One
test suite covers both implementations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from headrace.bus.log import LogBroken, LogRefused, Message, WrongLast
from headrace.bus.notifier import Notifier

DUPLICATE_WINDOW = 120_000_000
"""How long a message id is remembered, in microseconds: two minutes, the default of a server."""


class _Known(NamedTuple):
    sequence: int
    stamped: int


class MemoryLog:
    """One stream. `clock` gives the time of storage in microseconds; `cap` limits the messages of one subject (0: no limit).

    `begins_late`: the stream is purged on purpose, so a reader may find its beginning gone (SUBMIT). `after`: number of messages that were
    stored and purged before; `lasts` are the sequences of the last ones by subject. `duplicate_window` is in microseconds.
    """

    def __init__(
        self,
        clock: Callable[[], int],
        *,
        cap: int = 0,
        begins_late: bool = False,
        after: int = 0,
        lasts: Mapping[str, int] | None = None,
        duplicate_window: int = DUPLICATE_WINDOW,
    ) -> None:
        self._clock = clock
        self._duplicate_window = duplicate_window
        self._cap = cap
        self.begins_late = begins_late
        self._messages: list[Message] = []
        self._forgotten = after
        self._last_of: dict[str, Message] = {
            subject: Message(sequence, subject, 0, b"") for subject, sequence in (lasts or {}).items()
        }
        self._count_of: dict[str, int] = {}
        self._known: dict[str, _Known] = {}
        self.readers: set[MemoryReader] = set()

    @property
    def first(self) -> int:
        """The sequence of the first message that is stored, or of the next one to come."""
        return self._forgotten + 1

    @property
    def last_sequence(self) -> int:
        """The sequence of the last message ever stored; 0 if nothing was stored."""
        return self._forgotten + len(self._messages)

    def append_now(self, subject: str, payload: bytes, expected_last: int | None, message_id: str = "") -> int:
        """Store and return the sequence, as `Log.append` does, at once.

        As a server, it takes a message whose id it remembers for that earlier one, and returns the earlier one's sequence.
        """
        last = self._last_of.get(subject)
        if expected_last is not None and expected_last != (last.sequence if last else 0):
            raise WrongLast(f"the last message on {subject} is {last.sequence if last else 0}, not {expected_last}")
        now = self._clock()
        if message_id and (known := self._remembered(message_id, now)):
            return known.sequence
        if self._cap and self._count_of.get(subject, 0) >= self._cap:
            raise LogRefused(f"maximum messages per subject exceeded: {subject} has {self._cap}")
        message = Message(self.last_sequence + 1, subject, now, bytes(payload))
        self._messages.append(message)
        self._last_of[subject] = message
        self._count_of[subject] = self._count_of.get(subject, 0) + 1
        if message_id:
            self._known[message_id] = _Known(message.sequence, now)
        for reader in self.readers:
            reader.stored()
        return message.sequence

    def messages_after(self, sequence: int, limit: int | None = None) -> list[Message]:
        """Messages with a greater sequence, in order, at most `limit`."""
        start = max(0, sequence - self._forgotten)
        return self._messages[start : None if limit is None else start + limit]

    def count_after(self, sequence: int) -> int:
        """Number of messages with a greater sequence."""
        return max(0, min(len(self._messages), self.last_sequence - sequence))

    @property
    def doubt(self) -> float:
        return 0.0

    async def append(self, subject: str, payload: bytes, expected_last: int | None) -> int:
        return self.append_now(subject, payload, expected_last)

    async def read(self, after: int) -> MemoryReader:
        reader = MemoryReader(self, after)
        self.readers.add(reader)
        return reader

    async def last(self, subject: str) -> Message | None:
        return self.last_of(subject)

    async def get(self, sequence: int) -> Message | None:
        return self.get_now(sequence)

    async def following(self, after: int) -> Message | None:
        return next(iter(self.messages_after(after, 1)), None)

    async def next(self, subject: str, after: int) -> Message | None:
        return next((message for message in self.messages_after(after) if message.subject == subject), None)

    async def tip(self) -> int:
        return self.last_sequence

    async def now(self) -> int:
        return self._clock()

    async def purge_through(self, sequence: int) -> None:
        self.purge_now(sequence)

    def last_of(self, subject: str) -> Message | None:
        """Synchronous form of `Log.last`."""
        return self._last_of.get(subject)

    def get_now(self, sequence: int) -> Message | None:
        """Synchronous form of `Log.get`."""
        return self._messages[sequence - self.first] if self.first <= sequence <= self.last_sequence else None

    def purge_now(self, sequence: int) -> None:
        """Synchronous form of `Log.purge_through`."""
        gone = self._messages[: max(0, sequence - self._forgotten)]
        del self._messages[: len(gone)]
        self._forgotten += len(gone)
        for message in gone:
            self._count_of[message.subject] -= 1
            if self._last_of[message.subject] is message:
                del self._last_of[message.subject], self._count_of[message.subject]

    def replace_now(self, sequence: int, payload: bytes) -> None:
        """Make a stored message say something else, as a damaged disk does: for tests of what finds that."""
        place = sequence - self.first
        self._messages[place] = self._messages[place]._replace(payload=payload)

    def forget_reader(self, reader: MemoryReader) -> None:
        """Stop waking a closed reader."""
        self.readers.discard(reader)

    def _remembered(self, message_id: str, now: int) -> _Known | None:
        while self._known:  # ordered by time of storage
            oldest = next(iter(self._known))
            if self._known[oldest].stamped > now - self._duplicate_window:
                break
            del self._known[oldest]
        return self._known.get(message_id)


class MemoryReader:
    """A read position in a `MemoryLog`."""

    def __init__(self, log: MemoryLog, after: int) -> None:
        self._log = log
        self._after = after
        self._wakeup = Notifier()

    async def batch(self, limit: int = 1_000, wait: float | None = None) -> list[Message]:
        self._check_for_gap()
        if not self.buffered:
            await self._wakeup.sleep(wait)
            self._check_for_gap()
        messages = self._log.messages_after(self._after, limit)
        if messages:
            self._after = messages[-1].sequence
        return messages

    @property
    def buffered(self) -> int:
        return self._log.count_after(self._after)

    def wake(self) -> None:
        self._wakeup.ring()

    def stored(self) -> None:
        """Wake the reader if it waits."""
        if self._wakeup.asleep:
            self._wakeup.ring()

    async def close(self) -> None:
        self._log.forget_reader(self)

    def _check_for_gap(self) -> None:
        if self._after > self._log.last_sequence:
            raise LogBroken(f"the log ends at {self._log.last_sequence}, but {self._after} has been read: it lost its end")
        if self._after < self._log.first - 1:
            if not self._log.begins_late:
                raise LogBroken(f"the log begins at {self._log.first}, but {self._after + 1} has not been read: a gap")
            self._after = self._log.first - 1
