"""Overviews at moments of the past.

Strategy: steps forward fold a state on (`headrace.views.state_at`). Steps back begin some records before; so on the way to the moment that
is asked for, those at which the next steps back will arrive are passed, and their overviews are kept, which are small. They are a cache:
each is what the fold up to its record gives. It is dropped when no question comes, and keys have the number of people who were erased.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, NamedTuple

from headrace.contracts.api import overview_pb2 as pb
from headrace.views.state_at import NOTHING, Passing

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.contracts.messages.history import LedgerPoint
    from headrace.domain.state.state import State
    from headrace.governance.api.context import CallContext

STEP_MAX, STEPS = 16, 8
"""Longest step back whose next moments are kept, in records, and number of these."""
KEPT, BYTES_KEPT = 64, 16 << 20
"""Maximum number of overviews that are kept, and of bytes in all of them."""
KEPT_FOR = 30.0
"""Seconds without a question after which they are dropped."""


class _Key(NamedTuple):
    tenant: str
    sequence: int
    erased: int
    """Number of people who were erased by now, because overviews do not name them."""


class PastOverviews:
    """Overviews of the past. `overview`: the one of a state as a tenant may see it, at log time `now`."""

    def __init__(self, overview: Callable[[State, str, int], pb.Overview]) -> None:
        self._overview = overview
        self._kept: OrderedDict[_Key, bytes] = OrderedDict()
        self._last: dict[str, int] = {}
        self._letting_go: asyncio.TimerHandle | None = None

    async def at(self, point: LedgerPoint, call: CallContext) -> pb.Overview:
        """The overview at a point. Raises Refused."""
        past, tenant = call.backend.past_queries, call.tenant
        erased = len(call.backend.state.tokens.erased)
        before, self._last[tenant] = self._last.get(tenant, 0), point.sequence
        self._forget_later()
        kept = self._kept.get(_Key(tenant, point.sequence, erased))
        if kept is not None:
            found = pb.Overview.FromString(kept)
            found.tip = str(await past.tip())
            return found

        async def look(state: State) -> None:
            self._keep(_Key(tenant, state.sequence, erased), await past.run(self._overview, state, tenant, state.now))

        step = before - point.sequence if point.sequence else 0
        ahead = (
            frozenset(point.sequence - step * number for number in range(1, STEPS + 1)) if 0 < step <= STEP_MAX else frozenset()
        )
        async with past.at(point, tenant, Passing(ahead, look) if ahead else NOTHING) as (state, tip):
            found = await past.run(self._overview, state, tenant, max(state.now, point.at))
        found.tip = str(tip)
        return found

    def _keep(self, key: _Key, overview: Any) -> None:
        self._kept[key] = overview.SerializeToString()
        while len(self._kept) > KEPT or (len(self._kept) > 1 and sum(map(len, self._kept.values())) > BYTES_KEPT):
            self._kept.popitem(last=False)

    def _forget_later(self) -> None:
        if self._letting_go is not None:
            self._letting_go.cancel()
        self._letting_go = asyncio.get_running_loop().call_later(KEPT_FOR, self._forget)

    def _forget(self) -> None:
        self._kept.clear()
        self._last.clear()
