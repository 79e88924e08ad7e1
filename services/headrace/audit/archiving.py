"""Exports new records to the archive as soon as one of them has waited for a given time.

The time follows from the ledger and the archive alone, so that restarts do not change how often it archives. It never purges: that needs a
login that services do not have, and an operator who asks for it.
"""

from __future__ import annotations

import asyncio
import shutil
from typing import TYPE_CHECKING

import structlog

from headrace.archive import manifest as manifests
from headrace.archive.manifest import ArchiveBusy
from headrace.bus.log import LogBroken, LogError
from headrace.contracts.values.durations import DAY

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from headrace.archive.export import Source
    from headrace.archive.manifest import Manifest

EVERY = DAY
"""Default time that a record waits for the archive, in microseconds."""
POLL_EVERY = 60.0
"""Interval in seconds at which it checks whether a record has waited long enough; failures are retried then."""
MIB = 1024 * 1024
FREE_BYTES_MIN = 256 * MIB
"""Bytes that stay free on the disk, because the ledger mostly is on the same one."""

_log = structlog.get_logger("headrace.audit")


class Archiving:
    """The background task. `every`: how long a record waits, in microseconds; 0: it does nothing. `now`: the log's time.

    `trouble`: why archiving fails, one line with the way out; "" if it does not fail.
    """

    def __init__(self, stream: Source, now: Callable[[], Awaitable[int]], directory: Path, every: int = EVERY) -> None:
        self.every = every
        self.trouble = ""
        self._stream = stream
        self._now = now
        self._directory = directory

    async def run(self) -> None:
        """Archive what is due until cancelled."""
        while self.every:
            await self.check()
            await asyncio.sleep(POLL_EVERY)
        await asyncio.Event().wait()

    async def check(self) -> None:
        """Archive if a record has waited long enough."""
        try:
            trouble = await self._archive() if await self._is_due() else ""
        except ArchiveBusy:
            return  # another process archives or makes a backup
        except (LogBroken, OSError) as error:
            trouble = str(error)
        except LogError as error:
            _log.warning("log_awaited", reason=str(error))
            return
        trouble = trouble and f"the ledger is not archived: {trouble}"
        if trouble and trouble != self.trouble:
            _log.error("not_archived", reason=trouble, help="it is tried again every minute")
        self.trouble = trouble

    async def _is_due(self) -> bool:
        through = (await asyncio.to_thread(manifests.read, self._directory)).through
        if through == await self._stream.tip():
            return False
        waits = await self._stream.get(through + 1)
        return waits is None or waits.stamped + self.every <= await self._now()

    async def _archive(self) -> str:
        """Archive now. Returns "" or why that is impossible."""
        free = shutil.disk_usage(self._directory.parent).free
        if free < FREE_BYTES_MIN:
            kept = FREE_BYTES_MIN // MIB
            return f"the disk of {self._directory} has {free // MIB} MiB left, and {kept} MiB are kept free: make room there"
        export = await asyncio.to_thread(_exporting)
        manifest = await export(self._stream, self._directory)
        _log.info("archived", through=manifest.through)
        return ""


def _exporting() -> Callable[[Source, Path], Awaitable[Manifest]]:
    from headrace.archive.export import export  # noqa: PLC0415 - half a second and 40 MiB, needed for archiving only

    return export
