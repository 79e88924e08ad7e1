"""Earlier states: the ledger folded up to a record or a time, starting from the last snapshot before it.

Strategy: a query costs the reading of a snapshot and of the records from there on, in pieces between which orders get their turn; so only
a few are answered at once, fewer for one tenant, and the others are refused for the moment. It ends when its caller disconnects. States are
cached for a while (`cursors`), because the query for one page is followed by that for the next, and that about one moment by others about
moments nearby, to which a state is folded on. Callers only read a state, and only while they hold it.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Awaitable
from contextlib import asynccontextmanager, nullcontext
from typing import TYPE_CHECKING, TypeVar

from headrace.bus.log import LogError, LogRefused
from headrace.contracts.values.durations import format_time
from headrace.domain.fold.ledger import FoldedLedger, LedgerBroken
from headrace.domain.snapshots.snapshot import dump, load
from headrace.domain.state.state import State
from headrace.service.answering import Refused
from headrace.service.concurrency_limit import ConcurrencyLimit, LimitReached
from headrace.views.cursors import Cursor, Cursors, Mark

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from headrace.bus.log import Log
    from headrace.contracts.messages.history import LedgerPoint
    from headrace.service.snapshots import SnapshotName, Snapshots
    from headrace.views.cursors import Asked

NONE_ERASED: dict[tuple[str, str], str] = {}
AT_ONCE, EACH = 3, 2
PIECE = 10
"""Records folded before orders get their turn."""
SILENCE = 2.0
"""Timeout in seconds of a read from the ledger."""
KEPT_FOR = 30.0
"""Seconds without a query after which cached states are dropped."""
NEAR = 500
"""Records up to which a cached state is folded on without looking for a snapshot."""
BACK = 128
"""Records before a moment where a long fold leaves a mark, for steps back."""
MARKS_BACK = 4
"""Number of marks, that far from each other, which a long fold leaves if it is one of these steps."""

T = TypeVar("T")


class PastStates:
    """Past states of one ledger. `at_once`: maximum number computed at the same time, and of these for one tenant.

    `erased`: people who were erased by now, with their pseudonyms, which apply in every past state.
    """

    def __init__(
        self,
        ledger: Log,
        snapshots: Snapshots | None = None,
        at_once: tuple[int, int] = (AT_ONCE, EACH),
        *,
        erased: Mapping[tuple[str, str], str] = NONE_ERASED,
    ) -> None:
        self._ledger = ledger
        self._snapshots = snapshots
        self._erased = erased
        self._places = ConcurrencyLimit(*at_once)
        self._cursors = Cursors()
        self._letting_go: asyncio.TimerHandle | None = None

    @asynccontextmanager
    async def at(
        self, point: LedgerPoint, tip: int, now: int, who: str = "", *, is_ahead: bool = False
    ) -> AsyncIterator[State]:
        """State at a point, for the block alone; `tip`: the last sequence, `now`: the current time, `who`: the tenant that asks.

        `is_ahead`: for a question that is expected, which takes no place of those that were asked. Raises `Refused` for a point that does
        not exist, or if too many queries run.
        """
        if point.sequence < 0 or point.sequence > tip:
            raise Refused("INVALID", f"at: record {point.sequence} does not exist; records are numbered from 1 to {tip} so far")
        if point.at > now:
            raise Refused("INVALID", f"at: {format_time(point.at)} is still to come; it is {format_time(now)}")
        asked = (point.sequence or (0 if point.at else tip), point.at)
        cursor = self._cursors.there(asked)
        if cursor is None:
            cursor = await self._moved(asked, tip, None if is_ahead else who, self._cursors)
            if not cursor.sequence:
                raise Refused("NOT_FOUND", await self._nothing_yet())
            cursor.asked = asked
        self._overlay(cursor)
        try:
            yield cursor.fold.state
        finally:
            self._give_back(cursor)

    async def behind(self, sequence: int, at: int, tip: int, who: str = "") -> State:
        """State after record `sequence`, or, if that is 0, after the last record stored up to `at`, for the caller alone.

        `tip`: the last sequence; `who`: the tenant that asks. Raises `Refused`.
        """
        cursor = await self._moved((sequence, at), tip, who, None)
        self._overlay(cursor)
        return cursor.fold.state

    async def _moved(self, asked: Asked, tip: int, who: str | None, cursors: Cursors | None) -> Cursor:
        """A cursor at what is asked for; one of `cursors` is folded on if it is the nearest. Raises `Refused`."""
        sequence, time = asked
        last, at = min(sequence, tip) or tip, None if sequence else time
        try:
            with self._places.one(who) if who is not None else nullcontext():
                cursor = await self._base(last, at, cursors)
                try:
                    await self._fold(cursor, last, at, cursors)
                except asyncio.CancelledError:
                    self._give_back(cursor)  # it stands between two records
                    raise
        except LimitReached as full:
            whose = "another question of your tenant" if full.own else "other questions"
            verb = "is" if full.own else "are"
            raise Refused("UNAVAILABLE", f"{whose} about the past {verb} being answered; try again in a moment") from None
        except (LogError, LedgerBroken) as error:
            raise Refused("UNAVAILABLE", f"the ledger cannot be read now: {error}") from None
        return cursor

    async def _base(self, last: int, at: int | None, cursors: Cursors | None) -> Cursor:
        """Where to fold from: the nearest of cursors, marks and snapshots."""
        if cursors is None:
            return Cursor(FoldedLedger(await self.nearest(last, at)))
        there = cursors.nearest(last, at)
        if not there or at is not None or last - there > NEAR:
            state = await self._from_snapshot(last, at, there)
            if state is not None:
                return Cursor(FoldedLedger(state))
        base = cursors.take(cursors.nearest(last, at))  # another query may have taken it meanwhile
        if base is None:
            return Cursor(FoldedLedger(await self.nearest(last, at)))
        if isinstance(base, Mark):
            return Cursor(FoldedLedger(await finished(asyncio.to_thread(load, base.state))), base.stamped)
        return base

    async def _fold(self, cursor: Cursor, last: int, at: int | None, cursors: Cursors | None) -> None:
        """Fold on to record `last`, or, if it is given, to the last record stored up to `at`."""
        fold = cursor.fold  # void records were reported when they came
        self._take_off(cursor)
        leaves = set() if cursors is None or at is not None else _marks(fold.sequence, last, cursors)
        stops = sorted({*leaves, last})
        reader = await self._ledger.read(fold.sequence)
        try:
            while fold.sequence < last:
                stop = stops[bisect_right(stops, fold.sequence)]
                messages = await reader.batch(min(PIECE, stop - fold.sequence), SILENCE)
                if not messages:
                    raise Refused("UNAVAILABLE", f"the ledger gives nothing behind record {fold.sequence}; try again")
                for message in messages:
                    if at is not None and message.stamped > at:
                        return
                    fold.read(message)
                    cursor.stamped = message.stamped
                if cursors is not None and fold.sequence in leaves:
                    cursors.mark(Mark(fold.sequence, cursor.stamped, await finished(asyncio.to_thread(dump, fold.state))))
                await asyncio.sleep(0)
        finally:
            await reader.close()

    def _overlay(self, cursor: Cursor) -> None:
        """Let everyone who was erased by now be called so in this state."""
        erased = cursor.fold.state.tokens.erased
        cursor.erased += [person for person in self._erased if person not in erased]
        erased.update(self._erased)

    def _take_off(self, cursor: Cursor) -> None:
        """Undo `_overlay`: the fold goes on from what its records say."""
        for person in cursor.erased:
            del cursor.fold.state.tokens.erased[person]
        cursor.erased.clear()

    def _give_back(self, cursor: Cursor) -> None:
        self._cursors.give_back(cursor)
        if self._letting_go is not None:
            self._letting_go.cancel()
        self._letting_go = asyncio.get_running_loop().call_later(KEPT_FOR, self._let_go)

    async def nearest(self, last: int, at: int | None) -> State:
        """State to fold from: of the last snapshot up to record `last` and up to the time `at`; else an empty one."""
        return await self._from_snapshot(last, at, -1) or State()

    async def _from_snapshot(self, last: int, at: int | None, after: int) -> State | None:
        """State of the last usable snapshot of a record after `after`, up to record `last` and the time `at`; None without one."""
        if self._snapshots is None:
            return None
        try:
            names = [name for name in await self._snapshots.names() if name.sequence <= last]
        except LogRefused:
            return None  # the bucket of snapshots does not exist yet: the ledger has all records
        if at is not None:
            names = names[: await self._up_to(names, at)]
        return await self._snapshots.first_usable(name for name in reversed(names) if name.sequence > after)

    async def _up_to(self, names: list[SnapshotName], at: int) -> int:
        """Number of snapshots with nothing that was stored after the time."""
        low, high = 0, len(names)
        while low < high:
            middle = (low + high) // 2
            message = await self._ledger.get(names[middle].sequence)
            if message is None or message.stamped <= at:  # a record that was purged was stored before those that remain
                low = middle + 1
            else:
                high = middle
        return low

    async def _nothing_yet(self) -> str:
        try:
            first = await self._ledger.get(1)
        except LogError as error:
            raise Refused("UNAVAILABLE", f"the ledger cannot be read now: {error}") from None
        if first is None:
            raise Refused("NOT_FOUND", "at: what was then is no longer in the ledger")
        return f"at: there was nothing before {format_time(first.stamped)}, when the first record was written"

    def _let_go(self) -> None:
        self._cursors.clear()
        self._letting_go = None


def _marks(first: int, last: int, cursors: Cursors) -> set[int]:
    """Where a fold from record `first` to `last` leaves marks."""
    if last - first <= 2 * BACK:
        return set()
    count = MARKS_BACK if cursors.is_back(last, NEAR) else 1
    return {mark for number in range(1, count + 1) if (mark := last - number * BACK) > first}


async def finished(awaitable: Awaitable[T]) -> T:
    """Result of what runs in a thread; a cancelled caller goes on only when it has ended, because it reads a state that changes later."""
    future = asyncio.ensure_future(awaitable)
    cancelled = False
    while not future.done():
        try:
            await asyncio.wait((future,))
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        raise asyncio.CancelledError
    return future.result()
