"""State of a running `up` for other processes: a lock, its process and views of its children (`running.json`), and how to stop it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Self

import msgspec

if TYPE_CHECKING:
    from headrace.supervisor.installation import Installation

LOOK_EVERY = 0.05
PATIENCE = 0.3


class ChildView(msgspec.Struct, frozen=True, kw_only=True):
    """One part. `state`: `running`, `restarting`, `stopped`, `given-up`. Times in microseconds since 1970.

    `trouble`: what is wrong with it although it runs, or why it was given up; one line with the way out. `process`: name of the process
    that it shares with other parts, and of its log; empty: a process of its own, called as the part.
    """

    name: str
    state: str
    pid: int = 0
    restarts: int = 0
    since: int = 0
    exit_code: int | None = None
    trouble: str = ""
    process: str = ""

    @property
    def process_name(self) -> str:
        """Name of the part's process, and of its log."""
        return self.process or self.name


class RunningInstallation(msgspec.Struct, frozen=True, kw_only=True):
    """A running `up`. `ready`: everything has answered; `jobs`: how jobs are isolated. Times in microseconds since 1970."""

    pid: int
    since: int
    url: str = ""
    api: str = ""
    ready: bool = False
    jobs: str = ""
    children: tuple[ChildView, ...] = ()

    def child(self, name: str) -> ChildView | None:
        """Return the child of that name."""
        return next((child for child in self.children if child.name == name), None)

    def sharing(self, name: str) -> tuple[str, ...]:
        """Return the parts that share the process of this part, itself included."""
        child = self.child(name)
        return tuple(one.name for one in self.children if child is not None and one.process_name == child.process_name)


class AlreadyRunning(Exception):
    """Another `up` has this data directory; the text says which, and the way out."""


class Lock:
    """Held for as long as an `up` runs: the system releases it when the process ends, however it ends."""

    def __init__(self, installation: Installation) -> None:
        self._directory = installation.directory
        self._path = installation.directory / "lock"
        self._handle = -1

    def __enter__(self) -> Self:
        self._handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if not self._taken():
            os.close(self._handle)
            running = read_running_in(self._directory)
            who = f" (pid {running.pid})" if running else ""
            raise AlreadyRunning(
                f"Headrace runs already on {self._directory}{who}: "
                "`headrace status` looks at it, `headrace down` stops it, --data names another"
            )
        return self

    def _taken(self) -> bool:
        """Take the lock. Tries for a moment: a process that only checks whether it is held holds it for an instant."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                if time.monotonic() > deadline:
                    return False
                time.sleep(LOOK_EVERY)
            else:
                return True

    def __exit__(self, *_: object) -> None:
        _path(self._directory).unlink(missing_ok=True)
        os.close(self._handle)


def write_running(installation: Installation, running: RunningInstallation) -> None:
    """Write the state of the running `up`."""
    from headrace.supervisor.installation import write_whole  # noqa: PLC0415 - who only reads starts faster without it

    write_whole(_path(installation.directory), msgspec.json.encode(running), 0o600)


def read_running(installation: Installation) -> RunningInstallation | None:
    """Return the `up` that runs on this installation's data directory, or None."""
    return read_running_in(installation.directory)


def read_running_in(directory: Path) -> RunningInstallation | None:
    """Return the `up` that runs on this data directory, or None."""
    if not _is_locked(directory):
        return None
    deadline = time.monotonic() + 1.0
    while time.monotonic() < deadline:  # it takes the lock before it has written its state
        with contextlib.suppress(OSError, msgspec.DecodeError):
            return msgspec.json.decode(_path(directory).read_bytes(), type=RunningInstallation)
        time.sleep(LOOK_EVERY)
    return None


def stop_running(installation: Installation, within: float, *, at_once: bool = False) -> bool:
    """Stop the `up` that runs here, and wait until it has ended; False if it has not after `within` seconds.

    `at_once`: jobs get no time to save their work.
    """
    running = read_running(installation)
    if running is None:
        return True
    for _ in range(2 if at_once else 1):
        with contextlib.suppress(ProcessLookupError):
            os.kill(running.pid, signal.SIGTERM)
        time.sleep(LOOK_EVERY)
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        if not _is_locked(installation.directory):
            return True
        time.sleep(LOOK_EVERY)
    return False


def _is_locked(directory: Path) -> bool:
    try:
        handle = os.open(directory / "lock", os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(handle)
    return False


def _path(directory: Path) -> Path:
    return directory / "running.json"
