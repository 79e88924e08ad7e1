"""Checks that the ledger is not shorter than what was read of it: the archive and the books' copy have no later record.

Checked before any service starts, because services that are ahead of the ledger wait for ever, and would be blamed for it.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import asyncpg

from headrace.accounting.storage import ledger_copy
from headrace.accounting.storage.database import Database, DatabaseRefused, DatabaseUnavailable
from headrace.archive import manifest as manifests
from headrace.archive.history import ARCHIVE
from headrace.archive.manifest import ArchiveBroken
from headrace.bus.log import LogError, LogRefused
from headrace.bus.nats.jetstream import JetStreamLog
from headrace.contracts.transport.subjects import LEDGER_STREAM, SNAPSHOT_STREAM
from headrace.supervisor.errors import InstallationError

if TYPE_CHECKING:
    from headrace.nats_client.connection import Connection
    from headrace.supervisor.installation import Installation


def check_archive(installation: Installation, tip: int) -> None:
    """Raise `InstallationError` if the archive has more than the stream; an unreadable archive is reported by its readers."""
    with suppress(ArchiveBroken):
        _see(tip, manifests.read(installation.directory / ARCHIVE).through, "its archive")


async def check_copy(dsn: str, tip: int) -> None:
    """Raise `InstallationError` if the books' copy of the ledger has more than the stream."""
    database = Database(dsn)
    try:
        _see(tip, await database.once(ledger_copy.last), "the books' copy of it")
    except (DatabaseUnavailable, DatabaseRefused, asyncpg.PostgresError):
        return  # accounting reports that
    finally:
        await database.close()


async def snapshots_gone(bus: Connection) -> str:
    """Return a warning if the ledger has no stream of snapshots; empty if it has. The installation starts without it."""
    try:
        await JetStreamLog(bus, LEDGER_STREAM).tip()
    except LogError:
        return ""
    try:
        await JetStreamLog(bus, SNAPSHOT_STREAM).tip()
    except LogRefused:
        return (
            f"the stream {SNAPSHOT_STREAM} is gone: every service reads the ledger from its first record now, which takes longer; "
            "the next snapshot is taken by itself"
        )
    except LogError:
        pass
    return ""


def _see(tip: int, through: int, where: str) -> None:
    if tip >= through:
        return
    ends = f"ends at record {tip}" if tip else "is empty"
    raise InstallationError(
        f"the ledger {ends}, and {where} goes to record {through}: the end of the stream LEDGER was lost; `headrace repair` puts it back"
    )
