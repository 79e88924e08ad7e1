"""FEED without a leader although enough servers are there: it is deleted and made again.

FEED is in the servers' memories. A restarted server has nothing of it, and the servers let it vote on a leader only when all have been
heard (NATS 2.12.8): while a third one is away FEED has no leader, for ever if that one never comes back. The streams on disks have
leaders all the while. A feed that is started meanwhile waits for FEED, and with it nodes wait for their orders.

So it is deleted and made again, on the servers that are there, and copied to the others as they come back. What it held is lost: news of
the last minutes, which the feed alone reads, to know where to go on (an empty one begins with now). Watchers listen to the feed itself,
not to FEED. Removing the absent server's copy would keep the news, but the servers do not always accept that.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from headrace.bus.log import LogError, LogUnavailable
from headrace.bus.nats.streams import ensure_stream
from headrace.contracts.transport.subjects import FEED_STREAM, LEDGER_STREAM
from headrace.supervisor.nats.servers import described

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.nats_client.connection import Connection

LOOK_EVERY = 1.0
WAITS_FOR = 12.0
"""Seconds for which FEED may be without a leader while the ledger has one: the servers' election takes up to 9 of them."""
AWAITED_FOR = 60.0
MADE_ANEW = "FEED had no leader, and has been made anew: its news of the last minutes is gone"


class Leaderless:
    """Supervises FEED on several servers, which is to have `replicas` copies. `bus`: an operator's. `progress`: told of each step."""

    def __init__(
        self,
        bus: Connection,
        copies: int,
        progress: Callable[[str], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._bus = bus
        self._copies = copies
        self._progress = progress
        self._clock = clock
        self._since: float | None = None
        self._deleted = False

    async def watch(self) -> None:
        """Look regularly until cancelled."""
        while True:
            with suppress(LogError):  # tried again with the next look
                await self.ensure_led()
            await asyncio.sleep(LOOK_EVERY)

    async def until_led(self, patience: float = AWAITED_FOR) -> None:
        """Look until it is led. Raises `LogUnavailable` if that takes longer than `patience` seconds, and what `ensure_stream` does."""
        deadline = self._clock() + patience
        while True:
            with suppress(LogUnavailable):
                if await self.ensure_led():
                    return
            if self._clock() > deadline:
                raise LogUnavailable(f"{FEED_STREAM} has no leader: are most of the NATS servers there?")
            await asyncio.sleep(LOOK_EVERY)

    async def ensure_led(self) -> bool:
        """Return whether it is led; make it again if not, or add missing copies. Raises what `ensure_stream` does."""
        ledger, feed = await described(self._bus, LEDGER_STREAM), await described(self._bus, FEED_STREAM)
        if feed.config is not None and feed.is_led:
            if self._deleted:
                self._progress(MADE_ANEW)
            self._since, self._deleted = None, False
            if feed.config.num_replicas < self._copies:
                await ensure_stream(self._bus, FEED_STREAM, self._copies)
            return True
        if not ledger.is_led:  # too few servers are there, or they have not agreed yet
            self._since = None
            return False
        now = self._clock()
        self._since = now if self._since is None else self._since
        if feed.is_answer and now - self._since >= WAITS_FOR:
            self._since, self._deleted = now, True
            with suppress(LogUnavailable):  # its leader would confirm: without one the request is not answered
                await self._bus.ask(f"$JS.API.STREAM.DELETE.{FEED_STREAM}")
            feed = await described(self._bus, FEED_STREAM)
        if self._deleted and feed.is_missing:
            await ensure_stream(self._bus, FEED_STREAM, self._copies)
        return False
