"""What one process says of its health: named checks, and figures."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from headrace.health.metrics import Figures

ANSWER_WITHIN = 1.0
"""Seconds for everything that has to be asked of others before an answer."""

Check = Callable[[], Awaitable[str] | str]
"""Gives "" where it holds, else one line that says what is wrong. Whatever it raises is what is wrong, too."""
Refresh = Callable[[], Awaitable[None]]
"""Brings up to date what figures read, where somebody has to be asked for it."""


class Readiness(NamedTuple):
    """Whether a process is ready, and of each check what is wrong ("": nothing). `role`: `standby` where another one decides."""

    ready: bool
    role: str
    checks: dict[str, str]


class Health:
    """One process. `role` is asked anew each time."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.figures = Figures()
        self.role: Callable[[], str] = lambda: "active"
        self._checks: dict[str, Check] = {}
        self._refreshes: list[Refresh] = []

    def check(self, name: str, holds: Check) -> None:
        """It is ready only while this holds, too; a later check of the same name takes the earlier one's place."""
        self._checks[name] = holds

    def before_figures(self, refresh: Refresh) -> None:
        """Done before figures are read."""
        self._refreshes.append(refresh)

    async def readiness(self) -> Readiness:
        """All checks, side by side."""
        wrong = await asyncio.gather(*(_wrong(check) for check in self._checks.values()))
        return Readiness(not any(wrong), self.role(), dict(zip(self._checks, wrong, strict=True)))

    async def text(self) -> bytes:
        """The figures as Prometheus reads them; what cannot be brought up to date in time is as it was."""
        await asyncio.gather(*(_in_time(refresh) for refresh in self._refreshes))
        return self.figures.text()


async def _wrong(check: Check) -> str:
    try:
        async with asyncio.timeout(ANSWER_WITHIN):
            found = check()
            return found if isinstance(found, str) else await found
    except TimeoutError:
        return f"no answer within {ANSWER_WITHIN:g} s"
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what is wrong
        return str(error) or type(error).__name__


async def _in_time(refresh: Refresh) -> None:
    try:
        async with asyncio.timeout(ANSWER_WITHIN):
            await refresh()
    except Exception:  # noqa: BLE001 - the figures say themselves that they are old, and the checks why
        return
