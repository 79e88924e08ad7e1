"""Publishes messages to FEED in order, many at once, each exactly once, and from one instance only.

Strategy: a window of messages is published and only its last is acknowledged: one connection keeps the order, so the acknowledgement
covers all of them. Each message is conditional on FEED's last sequence, as every append to the ledger is. So none can be missing from the
middle, and a feed that was suspended while another one took over gets `Fenced`. (One that was stopped within a window may find that FEED
ends where a later message of it belongs; then it publishes what the other one would publish there, or what is there already, under the
same id.) When the acknowledgement is missing, the window is compared with FEED's end and the rest is published again.

FEED holds recent messages only: when more wait than FEED itself would hold, the oldest are dropped and counted.
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
from headrace.bus.notifier import Notifier
from headrace.contracts.transport.codec import Malformed, decode
from headrace.feed.outgoing_message import FeedPosition
from headrace.nats_client.acknowledgement import TOO_LARGE, Acknowledgement

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from headrace.bus.log import Log
    from headrace.feed.outgoing_message import FeedMessage

WINDOW = 256
YIELD_EVERY = 32
"""Messages written before orders and queries get their turn."""
RETRY = 0.2

_log = structlog.get_logger("headrace.feed")


class BusAnswer(Protocol):
    """An answer from the bus."""

    @property
    def data(self) -> bytes:
        """Payload of the answer."""


class BusConnection(Protocol):
    """The part of a connection that is needed (`headrace.nats_client.connection`)."""

    async def publish(self, subject: str, payload: bytes = b"", reply: str = "", headers: dict[str, str] | None = None) -> None:
        """Send without waiting for an answer."""

    async def ask(
        self, subject: str, payload: bytes = b"", headers: Mapping[str, str] | None = None, within: float | None = None
    ) -> BusAnswer:
        """Send, and wait for the answer. Raises `LogUnavailable`, `LogRefused`."""


class Publisher:
    """Queue of messages for FEED. They wait until `begin` names the sequence of FEED after which they go."""

    def __init__(self, wire: BusConnection, feed: Log, waiting_max: int = FEED_MESSAGES) -> None:
        self.published = 0
        self.dropped = 0
        self._wire = wire
        self._feed = feed
        self._waiting: deque[FeedMessage] = deque()
        self._waiting_max = waiting_max
        self._wakeup = Notifier()
        self._begun = asyncio.Event()
        self._last = 0

    def begin(self, last: int) -> None:
        """Continue after FEED's message `last`."""
        self._last = last
        self._begun.set()

    @property
    def waiting(self) -> int:
        """Number of messages that FEED has not acknowledged."""
        return len(self._waiting)

    def put(self, messages: Iterable[FeedMessage]) -> None:
        """Publish these in order, after those that wait."""
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
        """Publish until cancelled. Raises `Fenced` if another instance publishes."""
        await self._begun.wait()
        while True:
            while self._waiting:
                window = list(islice(self._waiting, WINDOW))
                await self._deliver(window)
                self._published(window)
            await self._wakeup.sleep(None)

    async def _deliver(self, window: list[FeedMessage]) -> None:
        """Publish a window, and again what FEED does not have of it, until FEED has all of it."""
        complaint, has_failed = "", False
        while window:
            try:
                if has_failed:
                    window = await self._missing(window)
                part = window[:1] if has_failed else window  # a single message gets the reason of a refusal
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

    async def _publish(self, window: list[FeedMessage]) -> int:
        """Publish messages; returns the sequence of the last."""
        *first, last = window
        behind = self._last
        for message in first:
            await self._wire.publish(message.subject, message.payload, headers=_headers(message, behind))
            behind += 1
            if not behind % YIELD_EVERY:
                await asyncio.sleep(0)
        ack = decode((await self._wire.ask(last.subject, last.payload, _headers(last, behind))).data, Acknowledgement)
        if ack.error is None and ack.seq != behind + 1:  # FEED has it already, at another sequence, under the same id
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

    async def _missing(self, window: list[FeedMessage]) -> list[FeedMessage]:
        """The messages of a window that FEED does not have; it may have more than it acknowledged.

        An empty FEED is that of a server that restarted. Raises `Fenced` if FEED ends with a message of another instance.
        """
        end = await self._end()
        if end in (0, self._last):
            self._last = end
            return window
        reached, last = end - self._last, await self._feed.get(end)
        if last is None or not 0 < reached <= len(window) or (last.subject, last.payload) != window[reached - 1][2:]:
            raise Fenced(f"another instance publishes on FEED: it ends with {end}, this instance ended it with {self._last}")
        self._last = end
        return window[reached:]

    async def _end(self) -> int:
        """Last sequence of FEED. One of several servers may for a while report a sequence before acknowledged messages."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self._feed.doubt
        while True:
            end = await self._feed.tip()
            if not 0 < end < self._last or loop.time() >= until:
                return end
            await asyncio.sleep(RETRY)

    def _published(self, window: list[FeedMessage]) -> None:
        """Remove a published window; messages that were dropped meanwhile are gone already."""
        self.published += len(window)
        end = window[-1][:2]
        while self._waiting and self._waiting[0][:2] <= end:
            self._waiting.popleft()


def _headers(message: FeedMessage, behind: int) -> dict[str, str]:
    return {MESSAGE_ID: f"{message.sequence}.{message.number}", EXPECTED_LAST_OF_ALL: str(behind)}


async def feed_end(feed: Log) -> tuple[int, FeedPosition | None]:
    """Last sequence of FEED, and the position of its last message; None if it is gone, or not one of ours. Raises what `feed` raises."""
    end = await feed.tip()
    last = await feed.get(end) if end else None
    try:
        return end, decode(last.payload, FeedPosition) if last is not None else None
    except Malformed:
        return end, None


def behind(place: FeedPosition | None, tip: int) -> FeedPosition:
    """Position after which FEED continues; after the ledger's tip if FEED is empty or of another ledger."""
    return FeedPosition(tip + 1, 0) if place is None or place.sequence > tip else place
