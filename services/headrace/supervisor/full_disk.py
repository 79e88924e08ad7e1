"""A NATS server whose disk was full: it never writes to that stream again, not even when there is room; so it is started again then.

What it does not store it does not acknowledge, so nothing is lost: who writes waits and tries again. Meanwhile the part says what is wrong,
and whoever submits is refused (`refusing`), where there is no other server that may store it.
"""

from __future__ import annotations

import asyncio
import shutil
from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path
    from typing import Any

    from headrace.supervisor.children import Child

LOOK_EVERY = 0.25
ROOM = 64 * 1024 * 1024
"""Bytes that have to be free before it is worth trying again."""
MIB = 1024 * 1024

_SIGN = b"critical write error"
"""What the server says in its log, in whatever case, of a stream to which it writes no more."""

_log = structlog.get_logger("headrace.supervisor")


class FullDisk:
    """Looks after one server that keeps its streams in `store`. `changed` is called when what is wrong with it has.

    `refuse`: runs while nothing can be stored; None: others can store it.
    """

    def __init__(
        self,
        server: Child,
        store: Path,
        changed: Callable[[], None],
        refuse: Callable[[], Coroutine[Any, Any, None]] | None = None,
    ) -> None:
        self._refuse = refuse
        self._server = server
        self._store = store
        self._changed = changed
        self._read = self._size()

    async def watch(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(LOOK_EVERY)
            if self._has_said_so():
                refusing = None if self._refuse is None else asyncio.create_task(self._refuse())
                try:
                    await self._wait_for_room()
                finally:
                    if refusing is not None:
                        refusing.cancel()
                        await asyncio.wait({refusing})
                self._read = self._size()
                self._server.restart()
                self._tell("")

    def _has_said_so(self) -> bool:
        """Whether it has said, since the last look, that it cannot write."""
        size = self._size()
        if size < self._read:  # the log has begun anew
            self._read = 0
        if size == self._read:
            return False
        with self._server.log.path.open("rb") as log:
            log.seek(self._read)
            said = log.read()
        self._read += len(said)
        return _SIGN in said.lower()

    async def _wait_for_room(self) -> None:
        while (free := shutil.disk_usage(self._store).free) < ROOM:
            self._tell(
                f"the disk of {self._store} is full ({free // MIB} MiB free): nothing is written until there is room, then it goes on"
            )
            await asyncio.sleep(LOOK_EVERY)

    def _tell(self, trouble: str) -> None:
        if trouble != self._server.trouble:
            if trouble and not self._server.trouble:
                _log.error("disk_full", store=str(self._store))
            self._server.trouble = trouble
            self._changed()

    def _size(self) -> int:
        path = self._server.log.path
        return path.stat().st_size if path.exists() else 0
