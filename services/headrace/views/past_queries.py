"""Answers about the past: the whole state at a point, and the differences between two points; for one tenant, or for the provider."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from headrace.bus.log import LogError
from headrace.contracts.messages.history import DiffRequest, DiffView, PastRequest, PastView
from headrace.contracts.transport.codec import MESSAGE_BYTES_MAX, decode, encode
from headrace.service.answering import Refused
from headrace.views.difference import difference
from headrace.views.replay import past_view

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.bus.log import Log
    from headrace.contracts.messages.history import LedgerPoint
    from headrace.domain.state.state import State
    from headrace.service.answering import Handler
    from headrace.views.state_at import Past

ENVELOPE = 64 * 1024

P = ParamSpec("P")
T = TypeVar("T")


class PastQueries:
    """Queries about the past of one ledger. `clock`: microseconds since 1970."""

    def __init__(self, past: Past, ledger: Log, clock: Callable[[], int]) -> None:
        self._past = past
        self._ledger = ledger
        self._clock = clock
        self._looking = ThreadPoolExecutor(1, "past")

    def handlers(self, tenant: str | None = None) -> dict[str, Handler]:
        """Handlers for `headrace.service.answering.serve`; `tenant`: the tenant that every user sees it as, None: their own."""
        return {
            "state": lambda asker, _user, payload: self.state(
                asker if tenant is None else tenant, decode(payload, PastRequest)
            ),
            "diff": lambda asker, _user, payload: self.diff(asker if tenant is None else tenant, decode(payload, DiffRequest)),
        }

    async def state(self, tenant: str, request: PastRequest) -> PastView:
        """A page of the state at a point. Raises `Refused`."""
        state, tip = await self.at(request.point, tenant)
        view = await self.look(past_view, state, tenant, tip, request.point.at, request.after, request.limit)
        size = len(encode(view))
        if size > MESSAGE_BYTES_MAX - ENVELOPE:
            raise Refused(
                "REFUSED", f"limit: {len(view.jobs)} jobs and the rest are {size} bytes, too many for one answer; ask for fewer"
            )
        return view

    async def diff(self, tenant: str, request: DiffRequest) -> DiffView:
        """Differences between two points. Raises `Refused`."""
        before, _ = await self.at(request.before, tenant)
        after, _ = await self.at(request.after, tenant)
        if after.sequence < before.sequence:
            raise Refused(
                "INVALID", f"record {before.sequence} comes after record {after.sequence}: name the earlier one first"
            )
        return await self.look(difference, before, after, tenant)

    async def look(self, what: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Result of a function of past states; one at a time, because states are shared and cache derived values."""
        return await asyncio.get_running_loop().run_in_executor(self._looking, partial(what, *args, **kwargs))

    async def at(self, point: LedgerPoint, tenant: str) -> tuple[State, int]:
        """State at a point, and the last sequence of the ledger; `tenant`: the one that asks. Raises `Refused`."""
        try:
            tip = await self._ledger.tip()
        except LogError as error:
            raise Refused("UNAVAILABLE", f"the ledger cannot be read now: {error}") from None
        return await self._past.at(point, tip, self._clock(), tenant), tip
