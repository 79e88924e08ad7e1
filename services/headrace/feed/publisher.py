"""The way to FEED: messages in order, many on their way at once, each told once; and never by two at a time.

Strategy: a window of messages is published without asking for anything but the acknowledgement of its last: one connection keeps the
order, so that it speaks for all of them. Each is conditional on where FEED ends, as every append to the ledger is. So none can be missing
from the middle, and a feed that slept while another one took over learns that it is deposed. (One that was stopped within a window may
find FEED where a later one of it belongs; then it tells what the other one would tell there, or what has been told, under the same id.)
What FEED did not acknowledge and yet has is looked for, and the rest published again.
FEED is recent only: when more waits than FEED itself would hold, the oldest is dropped, and counted.
"""

from __future__ import annotations

import asyncio
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Protocol

import structlog
from nats import errors

from headrace.bus.log import LogError, LogUnavailable
from headrace.bus.loop import Fenced
from headrace.bus.nats.jetstream import EXPECTED_LAST_OF_ALL, MESSAGE_ID
from headrace.bus.nats.streams import FEED_MESSAGES
from headrace.bus.notifier import Wakeup
from headrace.contracts.transport.codec import Malformed, decode
from headrace.feed.outgoing_message import FeedPosition
from headrace.nats_client.acknowledgement import TOO_LARGE, Acknowledgement

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from headrace.bus.log import Log
    from headrace.feed.outgoing_message import Outgoing

WINDOW = 256
YIELD_EVERY = 32
"""Messages written before orders and questions get their turn."""
RETRY = 0.2

_log = structlog.get_logger("headrace.feed")


class BusAnswer(Protocol):
    """An answer from the bus."""

    @property
    def data(self) -> bytes:
        """Its bytes."""


class BusConnection(Protocol):
    """What is needed of a connection (`headrace.bus.nats.connection`)."""

    async def publish(self, subject: str, payload: bytes = b"", reply: str = "", headers: dict[str, str] | None = None) -> None:
        """Send, and hear of nothing."""

    async def ask(
        self, subject: str, payload: bytes = b"", headers: Mapping[str, str] | None = None, within: float | None = None
    ) -> BusAnswer:
        """Send, and wait for the answer; raises `LogUnavailable`, `LogRefused`."""


class Publisher:
    """Messages on their way to FEED. They wait until `begin` says behind which of FEED's own sequences they go."""

    def __init__(self, wire: BusConnection, feed: Log, waiting_max: int = FEED_MESSAGES) -> None:
        self.published = 0
        self.dropped = 0
        self._wire = wire
        self._feed = feed
        self._waiting: deque[Outgoing] = deque()
        self._waiting_max = waiting_max
        self._wakeup = Wakeup()
        self._begun = asyncio.Event()
        self._last = 0

    def begin(self, last: int) -> None:
        """Go on behind FEED's last message."""
        self._last = last
        self._begun.set()

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
        """Publish until cancelled. Raises `Fenced` where somebody else tells FEED."""
        await self._begun.wait()
        while True:
            while self._waiting:
                window = list(islice(self._waiting, WINDOW))
                await self._deliver(window)
                self._published(window)
            await self._wakeup.sleep(None)

    async def _deliver(self, window: list[Outgoing]) -> None:
        """Publish again and again what FEED does not have of a window."""
        complaint, has_failed = "", False
        while window:
            try:
                if has_failed:
                    window = await self._missing(window)
                part = window[:1] if has_failed else window  # one alone says why it is not taken
                self._last = await self._publish(part) if part else self._last
                window, has_failed = window[len(part) :], False
            except Fenced:
                raise
            except (LogError, Malformed, errors.Error) as error:
                if str(error) != complaint:
                    complaint = str(error)
                    _log.warning("feed_awaited", reason=complaint, waiting=self.waiting)
                await asyncio.sleep(RETRY)
                has_failed = True

    async def _publish(self, window: list[Outgoing]) -> int:
        """The sequence of the last."""
        *first, last = window
        behind = self._last
        for message in first:
            await self._wire.publish(message.subject, message.payload, headers=_headers(message, behind))
            behind += 1
            if not behind % YIELD_EVERY:
                await asyncio.sleep(0)
        ack = decode((await self._wire.ask(last.subject, last.payload, _headers(last, behind))).data, Acknowledgement)
        if ack.error is None and ack.seq != behind + 1:  # FEED has it already, and somewhere else, under the same id
            if first:
                raise LogUnavailable("FEED has some of it already")
            return behind
        if ack.error is None:
            return ack.seq
        if ack.error.err_code == TOO_LARGE and not first:
            self.dropped += 1
            _log.error("feed_refuses", subject=last.subject, bytes=len(last.payload), reason=ack.error.description)
            return behind
        raise LogUnavailable(f"FEED does not take it: {ack.error.description}")

    async def _missing(self, window: list[Outgoing]) -> list[Outgoing]:
        """What FEED does not have of a window, of which it may have got more than it could acknowledge.

        An empty one is a server's that has lost its memory. Raises `Fenced` where it ends with what is not ours.
        """
        end = await self._end()
        if end in (0, self._last):
            self._last = end
            return window
        reached, last = end - self._last, await self._feed.get(end)
        if last is None or not 0 < reached <= len(window) or (last.subject, last.payload) != window[reached - 1][2:]:
            raise Fenced(f"somebody else tells FEED: it ends with {end}, and ended with {self._last} for us")
        self._last = end
        return window[reached:]

    async def _end(self) -> int:
        """Where FEED ends; of several servers one may say for a while that it does so before what has been acknowledged."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self._feed.doubt
        while True:
            end = await self._feed.tip()
            if not 0 < end < self._last or loop.time() >= until:
                return end
            await asyncio.sleep(RETRY)

    def _published(self, window: list[Outgoing]) -> None:
        """Let go of a window; of what was dropped meanwhile nothing is left to let go of."""
        self.published += len(window)
        end = window[-1][:2]
        while self._waiting and self._waiting[0][:2] <= end:
            self._waiting.popleft()


def _headers(message: Outgoing, behind: int) -> dict[str, str]:
    return {MESSAGE_ID: f"{message.sequence}.{message.number}", EXPECTED_LAST_OF_ALL: str(behind)}


async def stands_at(feed: Log) -> tuple[int, FeedPosition | None]:
    """Where FEED ends: by its own sequence, and by the place of its last message; None where that is gone, or none of ours.

    Raises what `feed` raises.
    """
    end = await feed.tip()
    last = await feed.get(end) if end else None
    try:
        return end, decode(last.payload, FeedPosition) if last is not None else None
    except Malformed:
        return end, None


def behind(place: FeedPosition | None, tip: int) -> FeedPosition:
    """Behind what FEED goes on; the ledger's tip where it holds nothing, or what is of another ledger."""
    return FeedPosition(tip + 1, 0) if place is None or place.sequence > tip else place
