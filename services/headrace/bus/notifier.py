"""Lets one coroutine sleep until something happens; an alarm that rings while nobody sleeps is not forgotten."""

from __future__ import annotations

import asyncio


class Wakeup:
    """An alarm clock for one sleeper; cheaper than an event with a timeout, which would be a task each time."""

    def __init__(self) -> None:
        self._rung = False
        self._sleeper: asyncio.Future[None] | None = None

    @property
    def asleep(self) -> bool:
        """Whether somebody sleeps now."""
        return self._sleeper is not None

    def ring(self) -> None:
        """Wake the sleeper, or keep the next one from falling asleep."""
        self._rung = True
        if self._sleeper is not None and not self._sleeper.done():
            self._sleeper.set_result(None)

    async def sleep(self, seconds: float | None) -> bool:
        """Sleep until the alarm rings (True) or `seconds` are over (False; None: no end)."""
        if self._rung or (seconds is not None and seconds <= 0):
            await asyncio.sleep(0)  # who never sleeps still lets the others work
        else:
            loop = asyncio.get_running_loop()
            self._sleeper = sleeper = loop.create_future()
            timer = None if seconds is None else loop.call_later(seconds, _time_up, sleeper)
            try:
                await sleeper
            finally:
                self._sleeper = None
                if timer is not None:
                    timer.cancel()
        rung, self._rung = self._rung, False
        return rung


def _time_up(sleeper: asyncio.Future[None]) -> None:
    if not sleeper.done():
        sleeper.set_result(None)
