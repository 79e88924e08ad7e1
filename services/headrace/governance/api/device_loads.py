"""How much devices compute, for watches of overviews: asked for in the background, at most every few seconds, for all watchers together."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, NamedTuple

import structlog

from headrace.bus.log import LogError
from headrace.contracts.api import overview_pb2 as pb
from headrace.contracts.messages.utilization import UtilizationAnswer, UtilizationRequest
from headrace.governance.api.usage import ask_books
from headrace.service.answering import Refused

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from headrace.governance.api.context import CallContext

ASK_EVERY = 5.0
FORGET_AFTER = 60.0
"""Seconds after which an answer is not shown any more."""
UNKNOWN = -1

_log = structlog.get_logger("headrace.api")


async def ask_loads(call: CallContext) -> UtilizationAnswer:
    """The last samples as the caller may see them. Raises Refused, LogError."""
    return await ask_books("utilization", call.tenant, UtilizationRequest(), UtilizationAnswer, call)


class _Known(NamedTuple):
    at: float
    answer: UtilizationAnswer


class LastLoads:
    """The last answer of *accounting* for each tenant's view."""

    def __init__(
        self,
        ask: Callable[[CallContext], Awaitable[UtilizationAnswer]] = ask_loads,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ask = ask
        self._clock = clock
        self._known: dict[str, _Known] = {}
        self._asked: dict[str, float] = {}
        self._asking: dict[str, asyncio.Task[None]] = {}

    def last(self, call: CallContext) -> UtilizationAnswer | None:
        """The last answer, None without a recent one. Asks for the next one in the background."""
        tenant, now = call.tenant, self._clock()
        if tenant not in self._asking and now >= self._asked.get(tenant, now - ASK_EVERY) + ASK_EVERY:
            self._asked[tenant] = now
            self._asking[tenant] = asyncio.ensure_future(self._refresh(call))
        known = self._known.get(tenant)
        return known.answer if known is not None and now < known.at + FORGET_AFTER else None

    async def _refresh(self, call: CallContext) -> None:
        try:
            self._known[call.tenant] = _Known(self._clock(), await self._ask(call))
        except (Refused, LogError) as error:
            _log.info("loads_unknown", reason=str(error))
        finally:
            del self._asking[call.tenant]


def loads_of(answer: UtilizationAnswer, overview: pb.Overview) -> pb.DeviceLoads:
    """Loads in the order of the devices of an overview; unknown where nothing was reported."""
    known = {
        (node.node, device): (busy, idle)
        for node in answer.nodes
        for device, busy, idle in zip(node.devices, node.busy, node.idle, strict=True)
    }
    names, loads = overview.nodes.name, pb.DeviceLoads()
    found = [
        known.get((names[node], name), (UNKNOWN, 0))
        for node, name in zip(overview.devices.node, overview.devices.name, strict=True)
    ]
    loads.busy.extend([busy for busy, _ in found])
    loads.idle.extend([idle for _, idle in found])
    return loads
