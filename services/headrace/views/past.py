"""The state as it was: the ledger folded again from its beginning up to a record or a moment, beside what the feed does meanwhile.

Strategy: nothing is kept for it. A question costs a read of the ledger up to there, in pieces between which orders get their turn; so few
are answered at once, and the others are told to come again.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from headrace.bus.log import LogError
from headrace.domain.fold.ledger import Ledger, LedgerBroken
from headrace.service.answering import Refused

if TYPE_CHECKING:
    from headrace.bus.log import Log
    from headrace.domain.state import State

AT_ONCE = 2
PIECE = 50
"""Records folded before orders get their turn."""
SILENCE = 2.0
"""Seconds after which a ledger that gives nothing more is said to be away."""


class Past:
    """Past states of one ledger. `at_once`: how many are worked out at the same time."""

    def __init__(self, ledger: Log, at_once: int = AT_ONCE) -> None:
        self._ledger = ledger
        self._left = at_once

    async def behind(self, sequence: int, at: int, tip: int) -> State:
        """The state behind record `sequence`, or, where that is 0, behind the last record stored up to `at`.

        `tip`: the last record there is. Raises `Refused`.
        """
        if not self._left:
            raise Refused("UNAVAILABLE", "other questions about the past are being answered; try again in a moment")
        self._left -= 1
        try:
            return await self._fold(min(sequence, tip) or tip, None if sequence else at)
        except (LogError, LedgerBroken) as error:
            raise Refused("UNAVAILABLE", f"the ledger cannot be read now: {error}") from None
        finally:
            self._left += 1

    async def _fold(self, last: int, at: int | None) -> State:
        fold = Ledger()  # void records have been told of when they came
        reader = await self._ledger.read(0)
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
