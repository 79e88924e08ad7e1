"""The executor's hold on its data directory: one executor at a time, nothing left over from the one before, a guard behind it."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import subprocess
import sys
import time

import structlog

from headrace.node_executor import guard

WAIT = 10.0
PAUSE = 0.05

_log = structlog.get_logger("headrace.node_executor")


class Occupied(Exception):
    """Another executor uses the directory; the message says what to do."""


class Tenure:
    """Taken when made: waits for a dying predecessor, kills what it left running, starts the guard. Raises `Occupied`, `OSError`."""

    def __init__(self, data: str, wait: float = WAIT) -> None:
        self._leases = f"{data}/leases"
        os.makedirs(self._leases, 0o755, exist_ok=True)
        self._lock = _locked(f"{data}/lock", wait)
        swept = guard.sweep(self._leases)
        if swept:
            _log.warning("leftovers_killed", processes=swept)
        self._guard = self._start_guard()
        self._pidfd = -1

    @property
    def guard_pid(self) -> int:
        """The process that guards."""
        return self._guard.pid

    def watch(self) -> None:
        """From now on replace the guard if it dies. Needs a running loop."""
        self._pidfd = os.pidfd_open(self._guard.pid)
        asyncio.get_running_loop().add_reader(self._pidfd, self._guard_died)

    def release(self) -> None:
        """Let go, after everything has ended."""
        self._unwatch()
        self._dismiss_guard()
        os.close(self._lock)

    def _guard_died(self) -> None:
        self._unwatch()
        self._dismiss_guard()
        _log.warning("guard_died", exit_code=self._guard.returncode)
        self._guard = self._start_guard()
        self.watch()

    def _unwatch(self) -> None:
        if self._pidfd >= 0:
            asyncio.get_running_loop().remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = -1

    def _dismiss_guard(self) -> None:
        """The end of its input makes it sweep and leave."""
        if self._guard.stdin is not None:
            self._guard.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._guard.wait(guard.ROUNDS * guard.PAUSE)

    def _start_guard(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-I", "-S", guard.__file__, self._leases]
        return subprocess.Popen(  # noqa: S603 - our own script, by our own interpreter
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            pass_fds=(self._lock,),
            start_new_session=True,
            cwd="/",
            env={},
        )


def _locked(path: str, wait: float) -> int:
    """An exclusive lock that the guard inherits, so it lasts until both are gone."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    until = time.monotonic() + wait
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                os.close(descriptor)
                raise Occupied(
                    f"another executor uses {os.path.dirname(path)}; stop it, or give this one another --data"
                ) from None
            time.sleep(PAUSE)
        else:
            return descriptor
