"""A queue for work of limited concurrency: ordered by role, and within a role by the number of the account's earlier entries.

An account is a tenant, or the provider. Strategy: an account has at most one slot, and there are several slots, so one account cannot hold
all; the number of its waiting entries is limited, so it cannot fill the queue; and the provider's people can enter the queue when tenants
have filled theirs. An entry ends when the block that waits for it, or uses it, ends for any reason, such as a cancelled call.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import NamedTuple

SLOTS = 2
WAITING_MAX = 16
"""Maximum waiting entries of all tenants together."""
WAITING_EACH = 4
"""Maximum waiting entries of one account."""


class QueueFull(Exception):
    """The queue is full. `own`: for this account; else for all tenants."""

    def __init__(self, *, own: bool) -> None:
        super().__init__("the queue is full")
        self.own = own


class QueuePlace(NamedTuple):
    """Position of an entry. `position` counts from 1 among the waiting ones; 0: it has a slot. `since`: microseconds since 1970."""

    account: str
    caller: str
    position: int
    since: int


class _Entry:
    """An entry that waits or has a slot. `rank`: lower ranks go first."""

    __slots__ = ("account", "caller", "rank", "since", "turn")

    def __init__(self, account: str, caller: str, rank: int, since: int) -> None:
        self.account = account
        self.caller = caller
        self.rank = rank
        self.since = since
        self.turn = asyncio.Event()


class Slots:
    """The slots and their queue. The provider has the empty `account`."""

    def __init__(self, slots: int = SLOTS, waiting_max: int = WAITING_MAX, waiting_each: int = WAITING_EACH) -> None:
        self._slots = slots
        self.waiting_max = waiting_max
        self.waiting_each = waiting_each
        self._running: list[_Entry] = []
        self._waiting: list[_Entry] = []

    @asynccontextmanager
    async def one(self, account: str, caller: str, rank: int, now: int) -> AsyncIterator[None]:
        """Wait for a slot, and hold it while the block runs. Raises Full at once."""
        entry = _Entry(account, caller, rank, now)
        self._waiting.append(entry)
        self._serve()
        if not entry.turn.is_set():
            self._check_capacity(entry)
        try:
            await entry.turn.wait()
            yield
        finally:
            (self._running if entry in self._running else self._waiting).remove(entry)
            self._serve()

    def places(self) -> list[QueuePlace]:
        """All entries: those with a slot, then the waiting ones in the order in which they will be served."""
        return [
            *(QueuePlace(entry.account, entry.caller, 0, entry.since) for entry in self._running),
            *(QueuePlace(entry.account, entry.caller, number, entry.since) for number, entry in enumerate(self._line(), 1)),
        ]

    def _check_capacity(self, entry: _Entry) -> None:
        waiting = Counter(one.account for one in self._waiting)
        own = waiting[entry.account] > self.waiting_each
        if own or (entry.account and waiting.total() - waiting[""] > self.waiting_max):
            self._waiting.remove(entry)
            raise QueueFull(own=own)

    def _line(self) -> list[_Entry]:
        """Waiting entries, the next one first."""
        return [entry for _, entry in sorted(self._keys(), key=lambda pair: pair[0])]

    def _keys(self) -> Iterator[tuple[tuple[int, int], _Entry]]:
        before = Counter(entry.account for entry in self._running)
        for entry in self._waiting:
            yield (entry.rank, before[entry.account]), entry
            before[entry.account] += 1

    def _serve(self) -> None:
        """Assign free slots to the next entries whose account has none."""
        busy = {entry.account for entry in self._running}
        for entry in self._line():
            if len(self._running) < self._slots and entry.account not in busy:
                busy.add(entry.account)
                self._waiting.remove(entry)
                self._running.append(entry)
                entry.turn.set()
