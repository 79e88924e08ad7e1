"""A queue for what only few can do at a time: by role, and within a role each account's first before anybody's second.

An account is a tenant, or the provider. Strategy: an account has one slot at most, and there are several slots, so none holds all of them;
it may have few waiting, so none fills the queue; and the provider's people find a place in the queue when tenants have filled theirs. An
entry ends when the block that waits for it, or uses it, ends, for whatever reason: a caller that goes away gives back what it has.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import NamedTuple

SLOTS = 2
WAITING_MAX = 16
"""Entries of tenants that wait, all tenants together."""
WAITING_EACH = 4
"""The same of one account."""


class Full(Exception):
    """The queue takes no more. `own`: of this account; else of tenants altogether."""

    def __init__(self, *, own: bool) -> None:
        super().__init__("the queue is full")
        self.own = own


class QueuePlace(NamedTuple):
    """Where an entry is. `position` counts from 1 among all that wait; 0: it has a slot. `since`: microseconds since 1970."""

    account: str
    caller: str
    position: int
    since: int


class _Entry:
    """One that waits or has a slot. `rank`: lower ranks go first."""

    __slots__ = ("account", "caller", "rank", "since", "turn")

    def __init__(self, account: str, caller: str, rank: int, since: int) -> None:
        self.account = account
        self.caller = caller
        self.rank = rank
        self.since = since
        self.turn = asyncio.Event()


class Slots:
    """The slots and who waits for one. Whoever has no tenant (`account` empty) is the provider."""

    def __init__(self, slots: int = SLOTS, waiting_max: int = WAITING_MAX, waiting_each: int = WAITING_EACH) -> None:
        self._slots = slots
        self.waiting_max = waiting_max
        self.waiting_each = waiting_each
        self._running: list[_Entry] = []
        self._waiting: list[_Entry] = []

    @asynccontextmanager
    async def one(self, account: str, caller: str, rank: int, now: int) -> AsyncIterator[None]:
        """Wait for a slot, and have it for as long as the block lasts. Raises `Full` at once."""
        entry = _Entry(account, caller, rank, now)
        self._waiting.append(entry)
        self._serve()
        if not entry.turn.is_set():
            self._check_room(entry)
        try:
            await entry.turn.wait()
            yield
        finally:
            (self._running if entry in self._running else self._waiting).remove(entry)
            self._serve()

    def places(self) -> list[QueuePlace]:
        """All there are: those that have a slot, then those that wait, in the order in which they will be served."""
        return [
            *(QueuePlace(entry.account, entry.caller, 0, entry.since) for entry in self._running),
            *(QueuePlace(entry.account, entry.caller, number, entry.since) for number, entry in enumerate(self._line(), 1)),
        ]

    def _check_room(self, entry: _Entry) -> None:
        waiting = Counter(one.account for one in self._waiting)
        own = waiting[entry.account] > self.waiting_each
        if own or (entry.account and waiting.total() - waiting[""] > self.waiting_max):
            self._waiting.remove(entry)
            raise Full(own=own)

    def _line(self) -> list[_Entry]:
        """Who waits, the next one first."""
        return [entry for _, entry in sorted(self._keys(), key=lambda pair: pair[0])]

    def _keys(self) -> Iterator[tuple[tuple[int, int], _Entry]]:
        before = Counter(entry.account for entry in self._running)
        for entry in self._waiting:
            yield (entry.rank, before[entry.account]), entry
            before[entry.account] += 1

    def _serve(self) -> None:
        """Give the free slots to the next ones whose account has none."""
        busy = {entry.account for entry in self._running}
        for entry in self._line():
            if len(self._running) < self._slots and entry.account not in busy:
                busy.add(entry.account)
                self._waiting.remove(entry)
                self._running.append(entry)
                entry.turn.set()
