"""Overviews at moments of the past.

Strategy: steps forward fold a state on (`headrace.views.state_at`). Steps back begin some records before; so after a step back, those at
which the next ones would arrive are read ahead, and their overviews are kept, which are small. They are a cache: each is what the fold up
to its record gives. It is dropped when no question comes, and keys have the number of people who were erased.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, NamedTuple

from headrace.contracts.api import overview_pb2 as pb
from headrace.contracts.messages.history import LedgerPoint
from headrace.service.answering import Refused
from headrace.views.state_at import NEAR

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.domain.state.state import State
    from headrace.governance.api.context import CallContext

STEP_MAX, STEPS = 128, 8
"""Longest step back whose next moments are read ahead, in records, and number of these."""
KEPT, BYTES_KEPT = 64, 16 << 20
"""Maximum number of overviews that are kept, and of bytes in all of them."""
KEPT_FOR = 30.0
"""Seconds without a question after which they are dropped."""


class _Key(NamedTuple):
    tenant: str
    sequence: int
    erased: int
    """Number of people who were erased by now, because overviews do not name them."""


class _ReadingAhead(NamedTuple):
    keys: tuple[_Key, ...]
    task: asyncio.Task[None]


class PastOverviews:
    """Overviews of the past. `overview`: the one of a state as a tenant may see it, at log time `now`."""

    def __init__(self, overview: Callable[[State, str, int], pb.Overview]) -> None:
        self._overview = overview
        self._kept: OrderedDict[_Key, bytes] = OrderedDict()
        self._last: dict[str, int] = {}
        self._ahead: _ReadingAhead | None = None
        self._letting_go: asyncio.TimerHandle | None = None

    async def at(self, point: LedgerPoint, call: CallContext) -> pb.Overview:
        """The overview at a point. Raises Refused."""
        past, key = call.backend.past_queries, _key(call, point.sequence)
        before, self._last[key.tenant] = self._last.get(key.tenant, 0), point.sequence
        self._forget_later()
        if self._ahead is not None and key in self._ahead.keys:
            await asyncio.wait((self._ahead.task,))
        kept = self._kept.get(key)
        if kept is None:
            async with past.at(point, key.tenant) as (state, tip):
                found = await past.run(self._overview, state, key.tenant, max(state.now, point.at))
        else:
            found, tip = pb.Overview.FromString(kept), await past.tip()
        found.tip = str(tip)
        if point.sequence and 0 < before - point.sequence <= STEP_MAX:
            self._read_ahead(point.sequence, before - point.sequence, call)
        return found

    def _read_ahead(self, sequence: int, step: int, call: CallContext) -> None:
        """Begin with the moments of the next steps back, unless enough of them are there. One reader at a time reads ahead."""
        moments = range(sequence - min(STEPS, NEAR // step) * step, sequence, step)
        keys = tuple(key for one in moments if one > 0 and (key := _key(call, one)) not in self._kept)
        if 2 * len(keys) <= len(moments):
            return
        if self._ahead is not None:
            if self._ahead.keys[0].tenant != keys[0].tenant or not set(keys).isdisjoint(self._ahead.keys):
                return
            self._ahead.task.cancel()  # who asked for it went elsewhere
        task = asyncio.create_task(self._make(keys, call))
        self._ahead = ahead = _ReadingAhead(keys, task)
        task.add_done_callback(lambda _: self._is_read(ahead))

    def _is_read(self, ahead: _ReadingAhead) -> None:
        if self._ahead is ahead:
            self._ahead = None

    async def _make(self, keys: tuple[_Key, ...], call: CallContext) -> None:
        """Make and keep overviews in the order of their moments, so that each state is folded on from the one before."""
        past = call.backend.past_queries
        with contextlib.suppress(Refused):
            for key in keys:
                async with past.at(LedgerPoint(sequence=key.sequence), key.tenant, is_ahead=True) as (state, _):
                    self._keep(key, await past.run(self._overview, state, key.tenant, state.now))

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


def _key(call: CallContext, sequence: int) -> _Key:
    return _Key(call.tenant, sequence, len(call.backend.state.tokens.erased))
