"""Lets one coroutine wait for a notification; one that comes while it does not wait is remembered."""

from __future__ import annotations

import asyncio


class Notifier:
    """Notification for one waiting coroutine; cheaper than an event with a timeout, which would need a task each time."""

    def __init__(self) -> None:
        self._rung = False
        self._sleeper: asyncio.Future[None] | None = None

    @property
    def asleep(self) -> bool:
        """True while a coroutine waits."""
        return self._sleeper is not None

    def ring(self) -> None:
        """Wake the waiting coroutine, or let the next wait return at once."""
        self._rung = True
        if self._sleeper is not None and not self._sleeper.done():
            self._sleeper.set_result(None)

    async def sleep(self, seconds: float | None) -> bool:
        """Wait until notified (True) or `seconds` are over (False; None: no timeout)."""
        if self._rung or (seconds is not None and seconds <= 0):
            await asyncio.sleep(0)  # let other tasks run even if it never waits
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
