"""The health of one process: named checks, and metrics."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from headrace.health.metrics import MetricSources

ANSWER_WITHIN = 1.0
"""Maximum duration of a check or a refresh, in seconds."""

Check = Callable[[], Awaitable[str] | str]
"""Returns "" if the check holds, else one line with the problem. An exception counts as the problem."""
Refresh = Callable[[], Awaitable[None]]
"""Updates what metrics read, if that takes a request to another process."""


class Readiness(NamedTuple):
    """Whether a process is ready, and the problem of each check ("": the check holds). `role`: `active` or `standby`."""

    ready: bool
    role: str
    checks: dict[str, str]


class Health:
    """Checks and metrics of one process. `role` is called for each answer."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.metrics = MetricSources()
        self.role: Callable[[], str] = lambda: "active"
        self._checks: dict[str, Check] = {}
        self._refreshes: list[Refresh] = []

    def check(self, name: str, holds: Check) -> None:
        """Add a check that has to hold for the process to be ready; replaces an earlier check of the same name."""
        self._checks[name] = holds

    def not_before(self, name: str) -> None:
        """The process is not ready until a check of this name is added and holds."""
        self._checks.setdefault(name, lambda: "it is beginning")

    def before_metrics(self, refresh: Refresh) -> None:
        """Add a refresh that runs before metrics are read."""
        self._refreshes.append(refresh)

    async def readiness(self) -> Readiness:
        """The results of all checks, run concurrently."""
        wrong = await asyncio.gather(*(_wrong(check) for check in self._checks.values()))
        return Readiness(not any(wrong), self.role(), dict(zip(self._checks, wrong, strict=True)))

    async def text(self) -> bytes:
        """The metrics in the text format of Prometheus; a refresh that takes too long leaves the previous values."""
        await asyncio.gather(*(_in_time(refresh) for refresh in self._refreshes))
        from headrace.health.prometheus_text import prometheus_text  # noqa: PLC0415 - see there

        return prometheus_text(self.metrics)


async def _wrong(check: Check) -> str:
    try:
        async with asyncio.timeout(ANSWER_WITHIN):
            found = check()
            return found if isinstance(found, str) else await found
    except TimeoutError:
        return f"no answer within {ANSWER_WITHIN:g} s"
    except Exception as error:  # noqa: BLE001 - any error is the problem of this check
        return str(error) or type(error).__name__


async def _in_time(refresh: Refresh) -> None:
    try:
        async with asyncio.timeout(ANSWER_WITHIN):
            await refresh()
    except Exception:  # noqa: BLE001 - a check reports the problem, and the metrics show their age
        return
