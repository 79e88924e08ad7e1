"""The lock of the executor's data directory: one executor at a time, after all starts that the former one had ordered."""

from __future__ import annotations

import fcntl
import os
import time

WAIT = 10.0
PAUSE = 0.01


class DirectoryInUse(Exception):
    """Another executor uses the directory; the message says what to do."""


class InstanceLock:
    """Taken when created: waits for a dying predecessor, and for the starts that it has ordered. Raises `DirectoryInUse`, `OSError`.

    `lock` is inherited by the spawner and by every keeper until it has recorded what it started: the holder of the lock can find all of
    it.
    """

    def __init__(self, data: str, wait: float = WAIT) -> None:
        self.lock = _locked(f"{data}/lock", wait)

    def release(self) -> None:
        """Release the lock; running jobs continue."""
        os.close(self.lock)


def _locked(path: str, wait: float) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    until = time.monotonic() + wait
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                os.close(descriptor)
                raise DirectoryInUse(
                    f"another executor uses {os.path.dirname(path)}; stop it, or give this one another --data"
                ) from None
            time.sleep(PAUSE)
        else:
            return descriptor
