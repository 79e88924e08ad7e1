"""Supervision of a single NATS server whose disk was full: it stores nothing more, even with free space, so it is restarted then.

What it does not store it does not acknowledge, so nothing is lost: writers wait and try again. Meanwhile the part reports its trouble,
and submissions are refused (`refuse_submits`). One of several servers is supervised differently (`replica`).
"""

from __future__ import annotations

import asyncio
import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path
    from typing import Any

    from headrace.supervisor.processes.child_processes import Child

LOOK_EVERY = 0.25
NEEDED = 64 * 1024 * 1024
"""Bytes that have to be free before a restart is worthwhile."""
MIB = 1024 * 1024

_SIGNS = (
    b"critical write error",
    b"resources, will be disabled",
    b"no space left on device",
    b"disk quota exceeded",
    b"input/output error",
    b"read-only file system",
)
"""The server's messages, in lower case, that it could not write to a stream or its log of votes."""
_OVERLAP = max(map(len, _SIGNS)) - 1


def free(store: Path) -> int:
    """Return the free bytes on a store's disk."""
    return shutil.disk_usage(store).free


def has_sign(output: bytes) -> bool:
    """Return whether the output says that a server could not write."""
    output = output.lower()
    return any(sign in output for sign in _SIGNS)


class Signs:
    """Finds in a server's output, piece by piece, that it could not write."""

    def __init__(self) -> None:
        self._before = b""

    def on_output(self, output: bytes) -> bool:
        """Return whether this piece, or a line that it completes, says so."""
        output = self._before + output
        found = has_sign(output)
        self._before = b"" if found else output[-_OVERLAP:]  # a message is not reported again with the next piece
        return found


def set_trouble(server: Child, trouble: str, changed: Callable[[], None]) -> None:
    """Set the part's trouble, or clear it."""
    if trouble != server.trouble:
        server.trouble = trouble
        changed()


class FullDisk:
    """Supervises the only server, which keeps its streams in `store`. `changed` is called when its trouble has changed.

    `refuse`: runs while nothing can be stored.
    """

    def __init__(
        self, server: Child, store: Path, changed: Callable[[], None], refuse: Callable[[], Coroutine[Any, Any, None]]
    ) -> None:
        self._refuse = refuse
        self._server = server
        self._store = store
        self._changed = changed
        self._signs = Signs()
        self._full = asyncio.Event()

    async def before_start(self) -> None:
        """Does nothing: no other server has its streams."""

    def on_output(self, output: bytes) -> None:
        """See `ChildSupervision.on_output` for the contract."""
        if self._signs.on_output(output):
            self._full.set()

    async def watch(self) -> None:
        """Restart it once there is space. Until cancelled."""
        while True:
            await self._full.wait()
            refusing = asyncio.create_task(self._refuse())
            try:
                await self._wait_for_space()
            finally:
                refusing.cancel()
                await asyncio.wait({refusing})
            self._full.clear()
            self._server.restart()
            self._report("")

    async def _wait_for_space(self) -> None:
        while (left := free(self._store)) < NEEDED:
            self._report(
                f"the disk of {self._store} is full ({left // MIB} MiB free): nothing is written until there is room, then it goes on"
            )
            await asyncio.sleep(LOOK_EVERY)

    def _report(self, trouble: str) -> None:
        set_trouble(self._server, trouble, self._changed)
