"""Answers about the past: the whole state at a point, and the differences between two points; for one tenant, or for the provider."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from headrace.bus.log import LogError
from headrace.contracts.messages.history import DiffRequest, DiffView
from headrace.service.answering import Refused
from headrace.views.difference import difference
from headrace.views.state_at import finished

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from headrace.bus.log import Log
    from headrace.contracts.messages.history import LedgerPoint
    from headrace.domain.state.state import State
    from headrace.views.state_at import PastStates

P = ParamSpec("P")
T = TypeVar("T")


class PastQueries:
    """Queries about the past of one ledger. `clock`: microseconds since 1970."""

    def __init__(self, past: PastStates, ledger: Log, clock: Callable[[], int]) -> None:
        self._past = past
        self._ledger = ledger
        self._clock = clock
        self._looking = ThreadPoolExecutor(1, "past")

    async def diff(self, tenant: str, request: DiffRequest) -> DiffView:
        """Differences between two points. Raises `Refused`."""
        async with self.at(request.before, tenant) as (before, _), self.at(request.after, tenant) as (after, _):
            if after.sequence < before.sequence:
                raise Refused(
                    "INVALID", f"record {before.sequence} comes after record {after.sequence}: name the earlier one first"
                )
            return await self.run(difference, before, after, tenant)

    async def run(self, what: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Result of a function of past states; one at a time, because states cache derived values."""
        return await finished(asyncio.get_running_loop().run_in_executor(self._looking, partial(what, *args, **kwargs)))

    @asynccontextmanager
    async def at(self, point: LedgerPoint, tenant: str, *, is_ahead: bool = False) -> AsyncIterator[tuple[State, int]]:
        """State at a point, for the block alone, and the last sequence of the ledger; `tenant`: the one that asks. Raises `Refused`.

        `is_ahead`: for a question that is expected, which takes no place of those that were asked.
        """
        tip = await self.tip()
        async with self._past.at(point, tip, self._clock(), tenant, is_ahead=is_ahead) as state:
            yield state, tip

    async def tip(self) -> int:
        """The last sequence of the ledger. Raises `Refused`."""
        try:
            return await self._ledger.tip()
        except LogError as error:
            raise Refused("UNAVAILABLE", f"the ledger cannot be read now: {error}") from None
