"""Restarts parts one after the other, while everything goes on.

Each is asked to stop, started by the `up` that keeps it alive, and waited for until it is ready, before the next one is restarted. So a
new release is taken into use as well, part by part.

Standby instances go before leaders, so that a leader can hand over. Nodes leave their jobs running, and take them over again. NATS and
Postgres are other projects' and restarted only if named, because everything waits for them.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from pathlib import Path

from headrace.bus.log import LogError
from headrace.bus.nats.permissions import SERVICES, STANDBY
from headrace.supervisor.installation import CALLOUT, Installation
from headrace.supervisor.launcher.up import HEALTH_PATH
from headrace.supervisor.ledger_roles import NATS, roles
from headrace.supervisor.nats.servers import standing
from headrace.supervisor.processes import process_specs
from headrace.supervisor.processes.pidfile import ChildView, RunningInstallation, read_running
from headrace.supervisor.processes.readiness import LOOK_EVERY, Inspector, NotReady, is_well, listens

AWAY_WITHIN = 45.0
BACK_WITHIN = 120.0
"""Seconds for a part to end, and for it to be there again."""

_SIGNALS = {process_specs.POSTGRES: signal.SIGINT}


class Unknown(Exception):
    """The part does not exist; one line with those that do."""


def ours(running: RunningInstallation, deciding: Callable[[str], bool]) -> list[str]:
    """Return Headrace's own parts in the order of their restart, one for each process; `deciding`: whether an instance leads."""
    names = [child.name for child in running.children if not child.name.startswith((NATS, process_specs.POSTGRES))]
    ordered = sorted(names, key=lambda name: (_layer(name), name.removesuffix(STANDBY), deciding(name)))
    return _one_each(running, ordered)


def chosen(running: RunningInstallation, names: Iterable[str]) -> list[str]:
    """Return the parts that were named, one for each process. Raises `Unknown`."""
    there = [child.name for child in running.children]
    for name in names:
        if name not in there:
            raise Unknown(f"unknown part {name!r}; choose from {', '.join(there)}")
    return _one_each(running, names)


def _one_each(running: RunningInstallation, names: Iterable[str]) -> list[str]:
    """Return the first part of each process."""
    first: dict[tuple[str, ...], str] = {}
    for name in names:
        first.setdefault(running.sharing(name), name)
    return list(first.values())


def _layer(name: str) -> int:
    """Return the part's layer: services first, then the callout, the gateway, and nodes."""
    if name.removesuffix(STANDBY) in SERVICES:
        return 0
    return 1 if name.startswith(CALLOUT) else 2 if name == process_specs.GATEWAY else 3


class Rolling:
    """Restarts parts of one installation. Parts that share a process are restarted together."""

    def __init__(self, installation: Installation, inspector: Inspector) -> None:
        self._installation = installation
        self._inspector = inspector

    async def restart(self, name: str) -> float:
        """Restart one part; returns the seconds that it was away. Raises `NotReady` if it does not end or does not come back."""
        before = self._child(name)
        tip, since = await self._standing(name)
        log = self._log(before)
        written = log.stat().st_size if log.exists() else 0
        began = time.monotonic()
        if before.pid:
            with suppress(ProcessLookupError):
                os.kill(before.pid, signal_for(name))
        await _until(f"{name} has not been started again", AWAY_WITHIN, lambda: self._another(name, before.pid))
        await _until(
            f"{name} runs, and is not ready; more in {log}", BACK_WITHIN, lambda: self._is_back(name, tip, since, log, written)
        )
        return time.monotonic() - began

    def _log(self, child: ChildView) -> Path:
        return self._installation.logs / f"{child.process_name}.log"

    def _child(self, name: str) -> ChildView:
        running = read_running(self._installation)
        child = None if running is None else running.child(name)
        if child is None:
            raise NotReady(f"{name} is gone: `headrace up` has stopped meanwhile")
        return child

    async def _standing(self, name: str) -> tuple[int, int]:
        """Return the ledger's end, and the time there."""
        if name.startswith(NATS):
            return 0, 0
        return await self._inspector.tip(), await self._inspector.now()

    async def _another(self, name: str, pid: int) -> bool:
        child = self._child(name)
        if child.state == "given-up":
            raise NotReady(f"{name} does not start again; more in {self._log(child)}")
        return child.state == "running" and child.pid not in (0, pid)

    async def _is_back(self, name: str, tip: int, since: int, log: Path, written: int) -> bool:
        settings = self._installation.settings()
        if name.startswith(NATS):
            return await self.has_whole_ledger(name)
        if name == process_specs.POSTGRES:
            return await self._inspector.answers("accounting")
        if name == process_specs.GATEWAY:
            return await is_well(settings.api_port or 0, HEALTH_PATH, tls=self._installation.certificates() is not None)
        if name.startswith(process_specs.NODE):
            return await self._inspector.has_written(name.removeprefix(process_specs.NODE), since)
        if name.startswith(CALLOUT):
            return b'"event": "ready"' in await asyncio.to_thread(written_since, log, written)
        running = read_running(self._installation)
        parts = (name,) if running is None else running.sharing(name)
        return all([await self._inspector.caught_up(part, tip) is True for part in parts])

    async def has_whole_ledger(self, name: str) -> bool:
        """Return whether a NATS server accepts connections, and has all of the ledger: another one may lead."""
        places = zip(self._installation.servers(), self._installation.settings().client_ports, strict=True)
        if not await listens({place.name: port for place, port in places}[name]):
            return False
        with suppress(LogError):
            role = roles(standing(await self._inspector.described())).get(name)
            return role is None or (role["ledger"] != "away" and role["lag"] == 0)
        return False


def signal_for(name: str) -> int:
    return signal.SIGHUP if name.startswith(process_specs.NODE) else _SIGNALS.get(name, signal.SIGTERM)


def written_since(log: Path, size: int) -> bytes:
    data = log.read_bytes()
    return data[size:] if len(data) >= size else data  # shorter: it has begun anew


async def _until(trouble: str, within: float, ask: Callable[[], Awaitable[bool]]) -> None:
    deadline = time.monotonic() + within
    while not await ask():
        if time.monotonic() > deadline:
            raise NotReady(f"{trouble} (waited {within:g} s)")
        await asyncio.sleep(LOOK_EVERY)
