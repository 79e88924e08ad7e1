"""Detects leases that hold more memory of a device than they were given, whichever mechanism is in use.

Strategy: a thread of its own, because making slices may wait for the driver for seconds. It looks several times a second; a lease over
its limit in two successive looks is reported once, so that memory freed a moment later ends no job. A process of a lease on a device that
was never given to it has a limit of 0 there.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import structlog

from headrace.node_executor.devices import OnDevice

EVERY = 0.25
LOOKS = 2
STRAY = 64
"""MiB on a device that is not its own that are tolerated: some programs look at every GPU that they can open."""

_log = structlog.get_logger("headrace.node_executor")


class Overrun(NamedTuple):
    """A lease holds more of a device than it was given (MiB)."""

    lease: str
    device: str
    limit: int
    used: int


class Limit(NamedTuple):
    """Memory of a device that a lease was given (MiB), and from where on it is killed for more."""

    given: int
    most: int


def used_by_lease(found: Mapping[str, Sequence[OnDevice]], owner: Callable[[int], str]) -> dict[tuple[str, str], int]:
    """Return by (lease, device) the MiB that its processes hold there; strangers are under the lease ""."""
    used: dict[tuple[str, str], int] = {}
    for device, those in found.items():
        for one in those:
            key = owner(one.pid), device
            used[key] = used.get(key, 0) + one.memory
    return used


class OverrunDetector:
    """Judges successive looks. `limits`: by lease and device."""

    def __init__(self) -> None:
        self._over: dict[tuple[str, str], int] = {}

    def judge(self, used: Mapping[tuple[str, str], int], limits: Mapping[tuple[str, str], Limit]) -> list[Overrun]:
        """Return the leases that were over their limit often enough, each once."""
        over: dict[tuple[str, str], int] = {}
        found = []
        for key, memory in used.items():
            lease, device = key
            limit = limits.get(key, Limit(0, STRAY))
            if lease and memory > limit.most:
                over[key] = self._over.get(key, 0) + 1
                if over[key] == LOOKS:
                    found.append(Overrun(lease, device, limit.given, memory))
        self._over = over
        return found


class Watchdog:
    """Checks until it is stopped. `report` is called in its thread.

    `on_devices` returns the processes by device, `owner` the lease of a process.
    """

    def __init__(
        self,
        on_devices: Callable[[], Mapping[str, Sequence[OnDevice]]],
        owner: Callable[[int], str],
        report: Callable[[Overrun], None],
    ) -> None:
        self._on_devices = on_devices
        self._owner = owner
        self._report = report
        self._watch = OverrunDetector()
        self._limits: dict[tuple[str, str], Limit] = {}
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)
        self.used: Mapping[tuple[str, str], int] = {}

    def start(self) -> None:
        """Start the watchdog's thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the watchdog's thread."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(5.0)

    def given(self, lease: str, limits: Mapping[str, Limit]) -> None:
        """Set what a lease may hold of each of its devices."""
        with self._lock:
            self._limits |= {(lease, device): limit for device, limit in limits.items()}

    def taken(self, lease: str) -> None:
        """Forget a lease that is over."""
        with self._lock:
            self._limits = {key: limit for key, limit in self._limits.items() if key[0] != lease}

    def _run(self) -> None:
        while not self._stopping.wait(EVERY):
            try:
                self.check()
            except Exception:  # noqa: BLE001 - whatever a driver does, it is looked at again
                _log.exception("watchdog_failed")

    def check(self) -> None:
        """Check once, and report what was found."""
        self.used = used = used_by_lease(self._on_devices(), self._owner)
        with self._lock:
            limits = dict(self._limits)
        for overrun in self._watch.judge(used, limits):
            self._report(overrun)
