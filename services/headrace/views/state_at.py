"""Earlier states: the ledger folded up to a record or a time, starting from the last snapshot before it.

Strategy: a query costs the reading of a snapshot and of the records from there on, in pieces between which orders get their turn; so only
a few are answered at once, fewer for one tenant, and the others are refused for the moment. It ends when its caller disconnects. The last
state is cached for a while, because the query for one page is followed by that for the next. Callers only read a state and never change
it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from headrace.bus.log import LogError, LogRefused
from headrace.contracts.values.durations import format_time
from headrace.domain.fold.ledger import FoldedLedger, LedgerBroken
from headrace.domain.state.state import State
from headrace.service.answering import Refused
from headrace.service.concurrency_limit import ConcurrencyLimit, LimitReached

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.bus.log import Log
    from headrace.contracts.messages.history import LedgerPoint
    from headrace.service.snapshots import SnapshotName, Snapshots

NONE_ERASED: dict[tuple[str, str], str] = {}
AT_ONCE, EACH = 3, 2
PIECE = 10
"""Records folded before orders get their turn."""
SILENCE = 2.0
"""Timeout in seconds of a read from the ledger."""
KEPT_FOR = 30.0
"""Seconds for which a state is cached for the next page."""


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
        self._kept: tuple[tuple[int, int], State] | None = None
        self._letting_go: asyncio.TimerHandle | None = None

    async def at(self, point: LedgerPoint, tip: int, now: int, who: str = "") -> State:
        """State at a point; `tip`: the last sequence, `now`: the current time, `who`: the tenant that asks.

        Raises `Refused` for a point that does not exist, or if too many queries run.
        """
        if point.sequence < 0 or point.sequence > tip:
            raise Refused("INVALID", f"at: record {point.sequence} does not exist; records are numbered from 1 to {tip} so far")
        if point.at > now:
            raise Refused("INVALID", f"at: {format_time(point.at)} is still to come; it is {format_time(now)}")
        asked = (point.sequence or (0 if point.at else tip), point.at)
        if self._kept is not None and asked in (self._kept[0], (self._kept[1].sequence, 0)):
            return self._kept[1]
        state = await self.behind(*asked, tip, who)
        if not state.sequence:
            raise Refused("NOT_FOUND", await self._nothing_yet())
        if self._letting_go is not None:
            self._letting_go.cancel()
        self._kept = asked, state
        self._letting_go = asyncio.get_running_loop().call_later(KEPT_FOR, self._let_go)
        return state

    async def behind(self, sequence: int, at: int, tip: int, who: str = "") -> State:
        """State after record `sequence`, or, if that is 0, after the last record stored up to `at`.

        `tip`: the last sequence; `who`: the tenant that asks. Raises `Refused`.
        """
        try:
            with self._places.one(who):
                state = await self._fold(min(sequence, tip) or tip, None if sequence else at)
        except LimitReached as full:
            whose = "another question of your tenant" if full.own else "other questions"
            verb = "is" if full.own else "are"
            raise Refused("UNAVAILABLE", f"{whose} about the past {verb} being answered; try again in a moment") from None
        except (LogError, LedgerBroken) as error:
            raise Refused("UNAVAILABLE", f"the ledger cannot be read now: {error}") from None
        state.tokens.erased.update(self._erased)
        return state

    async def _fold(self, last: int, at: int | None) -> State:
        fold = FoldedLedger(await self.nearest(last, at))  # void records were reported when they came
        reader = await self._ledger.read(fold.sequence)
        try:
            while fold.sequence < last:
                messages = await reader.batch(min(PIECE, last - fold.sequence), SILENCE)
                if not messages:
                    raise Refused("UNAVAILABLE", f"the ledger gives nothing behind record {fold.sequence}; try again")
                for message in messages:
                    if at is not None and message.stamped > at:
                        return fold.state
                    fold.read(message)
                await asyncio.sleep(0)
        finally:
            await reader.close()
        return fold.state

    async def nearest(self, last: int, at: int | None) -> State:
        """State to fold from: of the last snapshot up to record `last` and up to the time `at`; else an empty one."""
        if self._snapshots is None:
            return State()
        try:
            names = [name for name in await self._snapshots.names() if name.sequence <= last]
        except LogRefused:
            return State()  # the bucket of snapshots does not exist yet: the ledger has all records
        if at is not None:
            names = names[: await self._up_to(names, at)]
        return await self._snapshots.first_usable(reversed(names)) or State()

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
        self._kept = self._letting_go = None
