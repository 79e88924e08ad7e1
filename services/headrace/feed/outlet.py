"""The way to FEED: messages in order, many on their way at once, each told at least once and, within two minutes, at most once.

Strategy: a window of messages is published without asking for anything but the acknowledgement of its last: one connection keeps the
order, so that it speaks for all of them. What is not acknowledged is published again, and the server drops by message id what it has.
FEED is recent only: when more waits than FEED itself would hold, the oldest is dropped, and counted.
"""

from __future__ import annotations

import asyncio
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Protocol

import structlog
from nats import errors

from headrace.bus.jetstream import MESSAGE_ID
from headrace.bus.log import LogError, LogUnavailable
from headrace.bus.streams import FEED_MESSAGES
from headrace.bus.wakeup import Wakeup
from headrace.contracts.codec import Malformed, decode
from headrace.wire.acknowledgement import Acknowledgement

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from headrace.feed.facts_out import Outgoing

WINDOW = 256
YIELD_EVERY = 32
"""Messages written before orders and questions get their turn."""
RETRY = 0.2

_log = structlog.get_logger("headrace.feed")


class Answered(Protocol):
    """An answer from the bus."""

    @property
    def data(self) -> bytes:
        """Its bytes."""


class Wire(Protocol):
    """What is needed of a connection (`headrace.bus.connection`)."""

    async def publish(self, subject: str, payload: bytes = b"", reply: str = "", headers: dict[str, str] | None = None) -> None:
        """Send, and hear of nothing."""

    async def ask(
        self, subject: str, payload: bytes = b"", headers: Mapping[str, str] | None = None, within: float | None = None
    ) -> Answered:
        """Send, and wait for the answer; raises `LogUnavailable`, `LogRefused`."""


class Outlet:
    """Messages on their way to FEED."""

    def __init__(self, wire: Wire, waiting_max: int = FEED_MESSAGES) -> None:
        self.published = 0
        self.dropped = 0
        self._wire = wire
        self._waiting: deque[Outgoing] = deque()
        self._waiting_max = waiting_max
        self._wakeup = Wakeup()

    @property
    def waiting(self) -> int:
        """Messages that FEED is not known to have."""
        return len(self._waiting)

    def put(self, messages: Iterable[Outgoing]) -> None:
        """Publish these, in order, behind those that wait."""
        self._waiting.extend(messages)
        excess = len(self._waiting) - self._waiting_max
        if excess > 0:
            if not self.dropped:
                _log.warning("feed_drops", help="FEED cannot keep up: its oldest facts are dropped; the ledger has them all")
            self.dropped += excess
            for _ in range(excess):
                self._waiting.popleft()
        if self._waiting:
            self._wakeup.ring()

    async def run(self) -> None:
        """Publish until cancelled."""
        complaint = ""
        while True:
            while self._waiting:
                window = list(islice(self._waiting, WINDOW))
                try:
                    await self._publish(window)
                except (LogError, Malformed, errors.Error) as error:
                    if str(error) != complaint:
                        complaint = str(error)
                        _log.warning("feed_awaited", reason=complaint, waiting=self.waiting)
                    await asyncio.sleep(RETRY)
                else:
                    complaint = ""
                    self._published(window)
            await self._wakeup.sleep(None)

    async def _publish(self, window: list[Outgoing]) -> None:
        for count, message in enumerate(window[:-1], 1):
            await self._wire.publish(message.subject, message.payload, headers=_id(message))
            if not count % YIELD_EVERY:
                await asyncio.sleep(0)
        last = window[-1]
        fault = decode((await self._wire.ask(last.subject, last.payload, _id(last))).data, Acknowledgement).error
        if fault is not None:
            raise LogUnavailable(f"FEED does not take it: {fault.description}")

    def _published(self, window: list[Outgoing]) -> None:
        """Let go of a window; of what was dropped meanwhile nothing is left to let go of."""
        self.published += len(window)
        end = window[-1][:2]
        while self._waiting and self._waiting[0][:2] <= end:
            self._waiting.popleft()


def _id(message: Outgoing) -> dict[str, str]:
    return {MESSAGE_ID: f"{message.sequence}.{message.number}"}
