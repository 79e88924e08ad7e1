"""The only NATS server, where its disk was full: it stores nothing more, not even when there is room; so it is started again then.

What it does not store it does not acknowledge, so nothing is lost: who writes waits and tries again. Meanwhile the part says what is wrong,
and whoever submits is refused (`refusing`). One of several servers is looked after otherwise (`replica`).
"""

from __future__ import annotations

import asyncio
import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path
    from typing import Any

    from headrace.supervisor.launcher.child_processes import Child

LOOK_EVERY = 0.25
ROOM = 64 * 1024 * 1024
"""Bytes that have to be free before it is worth trying again."""
MIB = 1024 * 1024

_SIGNS = (
    b"critical write error",
    b"resources, will be disabled",
    b"no space left on device",
    b"disk quota exceeded",
    b"input/output error",
    b"read-only file system",
)
"""What the server says, in whatever case, of a stream or of its log of votes that it could not write."""
_OVERLAP = max(map(len, _SIGNS)) - 1


def free(store: Path) -> int:
    """Bytes that are free where a store lies."""
    return shutil.disk_usage(store).free


def has_sign(said: bytes) -> bool:
    """Whether a server says there that it could not write."""
    said = said.lower()
    return any(sign in said for sign in _SIGNS)


class Signs:
    """Hears in what a server says, piece by piece, that it could not write."""

    def __init__(self) -> None:
        self._before = b""

    def heard(self, said: bytes) -> bool:
        """Whether this piece, or what it completes, says so."""
        said = self._before + said
        found = has_sign(said)
        self._before = b"" if found else said[-_OVERLAP:]  # what has been heard is not heard again with the next piece
        return found


def tell(server: Child, trouble: str, changed: Callable[[], None]) -> None:
    """Let the part say what is wrong with it, or that nothing is any more."""
    if trouble != server.trouble:
        server.trouble = trouble
        changed()


class FullDisk:
    """Looks after the only server, which keeps its streams in `store`. `changed` is called when what is wrong with it has.

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

    async def before_life(self) -> None:
        """There is nobody else to have its streams from."""

    def heard(self, said: bytes) -> None:
        """See `Vigil.heard`."""
        if self._signs.heard(said):
            self._full.set()

    async def watch(self) -> None:
        """Until cancelled."""
        while True:
            await self._full.wait()
            refusing = asyncio.create_task(self._refuse())
            try:
                await self._wait_for_room()
            finally:
                refusing.cancel()
                await asyncio.wait({refusing})
            self._full.clear()
            self._server.restart()
            self._tell("")

    async def _wait_for_room(self) -> None:
        while (left := free(self._store)) < ROOM:
            self._tell(
                f"the disk of {self._store} is full ({left // MIB} MiB free): nothing is written until there is room, then it goes on"
            )
            await asyncio.sleep(LOOK_EVERY)

    def _tell(self, trouble: str) -> None:
        tell(self._server, trouble, self._changed)
