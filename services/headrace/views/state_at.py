"""The state as it was: the ledger folded up to a record or a moment, beginning with the last snapshot before it.

Strategy: a question costs the reading of a snapshot and of what lies between it and there, in pieces between which orders get their turn;
so few are answered at once, fewer for one tenant, and the others are told to come again. It ends where its caller goes away. The last
answer is kept for a while, because who asks for one page asks for the next. Whoever gets a state reads it, and nobody changes it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from headrace.bus.log import LogError, LogRefused
from headrace.contracts.values.durations import format_time
from headrace.domain.fold.ledger import FoldedLedger, LedgerBroken
from headrace.domain.model.state import State
from headrace.service.answering import Refused
from headrace.service.concurrency_limit import ConcurrencyLimit, LimitReached

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.bus.log import Log
    from headrace.contracts.messages.history import LedgerPoint
    from headrace.service.snapshots import SnapshotName, Snapshots

NOBODY: dict[tuple[str, str], str] = {}
AT_ONCE, EACH = 3, 2
PIECE = 10
"""Records folded before orders get their turn."""
SILENCE = 2.0
"""Seconds after which a ledger that gives nothing more is said to be away."""
KEPT_FOR = 30.0
"""Seconds for which a state is kept for the next page."""


class Past:
    """Past states of one ledger. `at_once`: how many are worked out at the same time, and how many of them for one tenant.

    `erased`: people of whom nothing is known any more, with their pseudonyms, as of now: so they are called in every past.
    """

    def __init__(
        self,
        ledger: Log,
        snapshots: Snapshots | None = None,
        at_once: tuple[int, int] = (AT_ONCE, EACH),
        *,
        erased: Mapping[tuple[str, str], str] = NOBODY,
    ) -> None:
        self._ledger = ledger
        self._snapshots = snapshots
        self._erased = erased
        self._places = ConcurrencyLimit(*at_once)
        self._kept: tuple[tuple[int, int], State] | None = None
        self._letting_go: asyncio.TimerHandle | None = None

    async def at(self, point: LedgerPoint, tip: int, now: int, who: str = "") -> State:
        """The state at a point; `tip`: the last record there is, `now`: this moment, `who`: the tenant that asks.

        Raises `Refused` where there is no such point, or too much is asked at once.
        """
        if point.sequence < 0 or point.sequence > tip:
            raise Refused("INVALID", f"at: records are numbered from 1 to {tip} so far, there is no record {point.sequence}")
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
        """The state behind record `sequence`, or, where that is 0, behind the last record stored up to `at`.

        `tip`: the last record there is; `who`: the tenant that asks. Raises `Refused`.
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
        fold = FoldedLedger(await self.nearest(last, at))  # void records have been told of when they came
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
        """What to fold from: the state of the last snapshot up to record `last`, and up to the moment `at`; else an empty one."""
        if self._snapshots is None:
            return State()
        try:
            names = [name for name in await self._snapshots.names() if name.sequence <= last]
        except LogRefused:
            return State()  # there is no place for snapshots yet: the ledger has it all
        if at is not None:
            names = names[: await self._up_to(names, at)]
        return await self._snapshots.first_usable(reversed(names)) or State()

    async def _up_to(self, names: list[SnapshotName], at: int) -> int:
        """How many of them hold nothing that was stored after the moment."""
        low, high = 0, len(names)
        while low < high:
            middle = (low + high) // 2
            message = await self._ledger.get(names[middle].sequence)
            if message is None or message.stamped <= at:  # what is not there any more was stored before what is
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
