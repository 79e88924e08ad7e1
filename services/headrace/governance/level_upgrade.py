"""Follows the presence of services, and raises the installation's level when every service and node supports it (`levels`)."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

import structlog

from headrace.contracts.facts.levels import LEVEL, PRESENCE_UNKNOWN
from headrace.contracts.messages.queries import Presence
from headrace.contracts.transport.codec import Malformed, decode
from headrace.contracts.transport.subjects import presence
from headrace.governance.levels import ServicePresence, is_new, nodes_too_old, raising
from headrace.service.answering import Refused

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from nats.aio.msg import Msg

    from headrace.contracts.messages.queries import ApplyAnswer
    from headrace.governance.decide import Operation
    from headrace.service.deciding import Deciding

POLL_EVERY = 1.0

HOLD = "HEADRACE_HOLD_LEVEL"
"""Environment variable that holds the level, so that the previous release can still be installed again."""
HELD = "`--hold-level` keeps it there; `headrace up --no-hold-level` lets it go on"

_log = structlog.get_logger("headrace.governance")


class LevelUpgrade:
    """The level of one installation. `decided`: judges and states an operation. `expected`: services that have to be present."""

    def __init__(
        self,
        deciding: Deciding,
        decided: Callable[[Operation], Awaitable[ApplyAnswer]],
        expected: tuple[str, ...],
        newest: int = LEVEL,
    ) -> None:
        self.newest = newest
        self._deciding = deciding
        self._decided = decided
        self._expected = expected
        self._attendance: ServicePresence | None = None
        self._held = deciding.service.environment.get(HOLD) == "1"

    def held_back(self) -> tuple[str, ...]:
        """Reasons why the installation is below the newest level, one line each."""
        state = self._deciding.fold.state
        if state.terms.level >= self.newest:
            return ()
        now = asyncio.get_running_loop().time()
        attendance = self._attendance
        services = [PRESENCE_UNKNOWN] if attendance is None else attendance.objections(self.newest, now, new=is_new(state))
        return (*([HELD] if self._held else []), *services, *nodes_too_old(state, self.newest))

    async def run(self) -> None:
        """Follow presence and raise the level until cancelled."""
        await self._deciding.caught_up.wait()
        attendance = self._attendance = ServicePresence(self._expected, asyncio.get_running_loop().time())
        received = asyncio.Event()

        async def on_presence(message: Msg) -> None:
            try:
                announcement = decode(message.data, Presence)
            except Malformed:
                return
            if message.subject == presence(announcement.service):  # only that service may publish there
                attendance.receive(announcement, asyncio.get_running_loop().time())
                received.set()

        await self._deciding.service.connection.subscribe(presence("*"), cb=on_presence)
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL_EVERY):
                    await received.wait()
            received.clear()
            if self._deciding.fold.state.terms.level < self.newest and not self.held_back():
                try:
                    await self._decided(raising(self.newest))
                except Refused as error:
                    _log.error("level_not_raised", reason=str(error))
                else:
                    _log.info("level_raised", level=self._deciding.fold.state.terms.level)
