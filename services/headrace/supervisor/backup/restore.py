"""Restores an installation from a backup into a directory of its own, and verifies it from end to end.

The ledger is folded from its first record to its last, as every service does: that detects every gap, every broken chain, and every
record that breaks the law. Then the books have to be at a record that is in it.
"""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import NamedTuple

import msgspec

from headrace.accounting.storage import store
from headrace.accounting.storage.database import Database, DatabaseRefused, DatabaseUnavailable
from headrace.archive.history import ARCHIVE, WholeLedger
from headrace.bus.log import LogBroken, LogUnavailable
from headrace.bus.nats.jetstream import JetStreamLog
from headrace.bus.nats.stream_copy import load
from headrace.contracts.facts.records import digest
from headrace.contracts.transport.subjects import LEDGER_STREAM, SUBMIT_STREAM
from headrace.domain.fold.ledger import FoldedLedger, LedgerBroken
from headrace.nats_client.connection import Connection
from headrace.supervisor.backup.backup import Progress
from headrace.supervisor.backup.backup_file import BOOKS, FILES, STREAMS, Contents, move, open_backup, unpack
from headrace.supervisor.backup.pg_dump import load as load_books
from headrace.supervisor.backup.stores import Stores
from headrace.supervisor.errors import InstallationError
from headrace.supervisor.installation import Installation

STAGING = ".restoring"
READ_AT_ONCE = 500
SILENCE = 10.0
REPORT_EVERY = 50_000


class Restored(NamedTuple):
    """Result of a restore: the ledger reaches `through`, the books `booked`; `jobs` have not ended."""

    through: int
    booked: int
    jobs: int


async def restore(file: Path, installation: Installation, progress: Progress) -> Restored:
    """Restore into a directory without an installation. Raises `InstallationError`, `LogError`, `NotReady`; nothing is left then."""
    contents = open_backup(file)
    there = installation.directory
    if there.exists() and any(there.iterdir()):
        raise InstallationError(f"{there} is not empty: name another directory with --data")
    made = not there.exists()
    try:
        installation.prepare()
        return await _restore(file, contents, installation, progress)
    except BaseException:
        shutil.rmtree(there, ignore_errors=True)
        if not made:
            there.mkdir(mode=0o700, exist_ok=True)
        raise


async def _restore(file: Path, contents: Contents, installation: Installation, progress: Progress) -> Restored:
    staging = installation.directory / STAGING
    await asyncio.to_thread(unpack, file, contents, staging)
    progress("files", "read, every part as it was written")
    for path in (staging / FILES).iterdir():
        if (installation.directory / path.name).is_dir():
            shutil.rmtree(installation.directory / path.name)
    move(staging / FILES, installation.directory)
    async with Stores(installation) as stores:
        for copied in contents.streams:
            name = str(copied.config["name"])
            with (staging / STREAMS / name).open("rb") as stream:
                await load(stores.bus, copied, stream)
            progress(name, f"{copied.state.get('messages', 0)} messages through {copied.last}")
        await asyncio.to_thread(load_books, stores.dsn, staging / BOOKS)
        database = Database(stores.dsn)
        try:
            booked = await database.once(store.position)
        except (DatabaseUnavailable, DatabaseRefused) as error:
            raise InstallationError(f"the restored books cannot be read: {error}") from None
        finally:
            await database.close()
        ledger, named = await fold(stores.bus, installation, booked.sequence, progress)
        if booked.sequence and named != booked.digest:
            raise InstallationError(
                f"{file}: the books stand on record {booked.sequence}, and that is not the one in the ledger"
            )
        progress("books", f"through record {booked.sequence}")
        await _number_after_judged(stores.bus, contents, ledger)
    await asyncio.to_thread(shutil.rmtree, staging)
    jobs = sum(policy.pending + len(policy.jobs) for policy in ledger.state.policies.values())
    return Restored(ledger.sequence, booked.sequence, jobs)


async def fold(bus: Connection, installation: Installation, at: int, progress: Progress) -> tuple[FoldedLedger, str]:
    """Fold the whole ledger; returns it with the digest of the record `at`. Raises `LogBroken` at the first invalid record."""
    whole = WholeLedger(JetStreamLog(bus, LEDGER_STREAM), installation.directory / ARCHIVE)
    ledger, named, tip = FoldedLedger(), "", await whole.tip()
    reader = await whole.read(0)
    try:
        while ledger.sequence < tip:
            messages = await reader.batch(min(READ_AT_ONCE, tip - ledger.sequence), SILENCE)
            if not messages:
                raise LogUnavailable(f"the ledger gives nothing behind record {ledger.sequence}")
            for message in messages:
                ledger.read(message)
                named = digest(message.payload) if message.sequence == at else named
                if message.sequence % REPORT_EVERY == 0:
                    progress("ledger", f"record {message.sequence} of {tip}")
    except LedgerBroken as error:
        raise LogBroken(str(error)) from None
    finally:
        await reader.close()
    progress("ledger", f"records 1 to {tip} follow each other, and every chain of digests holds")
    return ledger, named


async def _number_after_judged(bus: Connection, contents: Contents, ledger: FoldedLedger) -> None:
    """Number new submissions behind all that were judged: some of those came between SUBMIT's copy and the ledger's."""
    (submits,) = (copied for copied in contents.streams if copied.config["name"] == SUBMIT_STREAM)
    if submits.last < ledger.state.judged:
        request = msgspec.json.encode({"seq": ledger.state.judged + 1})
        await bus.ask(f"$JS.API.STREAM.PURGE.{SUBMIT_STREAM}", request)
