"""Repairs the ledger's stream in its server's store, of an installation that is down: the right records in their places.

Strategy: of every record the right one is chosen (`archive.stream_repair`), and all of them are folded, before anything is changed. A
record in a service's name that breaks the law was forged, and no service has ever taken it: if only the stream has it, it is removed on
demand, and the records behind it move up, as if it had never existed. Then the files that differ are written beside the old ones, the two
are exchanged, and the server reads all of it: only if it returns exactly what was chosen, byte for byte, sequence for sequence, time for
time, the exchange stands. The former files are kept.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import asyncpg

from headrace.accounting.storage import ledger_copy
from headrace.accounting.storage.database import Connection, Database, DatabaseRefused, DatabaseUnavailable
from headrace.archive import manifest as manifests
from headrace.archive.archive_reader import piece_of, read_piece
from headrace.archive.history import ARCHIVE
from headrace.archive.manifest import Manifest
from headrace.archive.nats_blocks import StoredRecord, StreamBlock, read
from headrace.archive.stream_repair import Choice, CopiedRecord, choose, describe
from headrace.bus.log import LogBroken, LogError, LogRefused, StoredMessage
from headrace.bus.nats.jetstream import JetStreamLog
from headrace.bus.nats.streams import ensure_stream
from headrace.contracts.transport.subjects import LEDGER_STREAM
from headrace.domain.fold.ledger import FoldedLedger, LedgerBroken
from headrace.supervisor.backup.stores import Stores
from headrace.supervisor.errors import InstallationError
from headrace.supervisor.installation import Installation
from headrace.supervisor.nats.submissions import find_loss, renumber_new
from headrace.supervisor.processes.readiness import NotReady

STEP = 2_000
"""Number of records that are processed together."""
BLOCK_BYTES = 4 * 1024 * 1024
SILENCE = 5.0
READ_TRIES = 3

Progress = Callable[[str, str], None]


class StreamDamage(NamedTuple):
    """Records that the stream should have behind `purged` (and, of each subject, the last record before), and what is wrong with it now."""

    purged: int
    records: list[StoredMessage]
    vouched: int
    """The last record that the copy, or the archive, has."""
    troubles: list[str]
    whole: frozenset[int]
    """Numbers of the files that can stay as they are, as far as known."""


class RepairResult(NamedTuple):
    """Result of a repair: what was wrong, the ledger's last sequence, and where the former files are (None: nothing was changed)."""

    troubles: list[str]
    through: int
    kept: Path | None


class _Files(NamedTuple):
    """Files in the store."""

    directory: Path
    placed: dict[int, tuple[int, StoredRecord]]
    sequences: dict[int, list[int]]
    cut: dict[int, int]


async def repair_streams(
    installation: Installation, progress: Progress, *, only_look: bool, without_end: bool = False, without_void: bool = False
) -> RepairResult:
    """Find what is wrong with the ledger and SUBMIT, and repair it.

    Raises `LogBroken`, `InstallationError`, `AlreadyRunning`, `NotReady`; nothing is changed then.
    """
    count = len(installation.servers())
    if count > 1:
        help_ = "lies on three servers, and one that is damaged is made whole by the others: stop Headrace, move that server's"
        progress("ledger", f"{help_} nats/store-N in {installation.directory} away, and start it again")
        tip, troubles = await _repair_submissions(installation, progress, count, only_look=only_look)
        return RepairResult(troubles, tip, None)
    mended = await _repair_ledger(
        installation, progress, only_look=only_look, without_end=without_end, without_void=without_void
    )
    _, troubles = await _repair_submissions(installation, progress, count, only_look=only_look)
    return mended._replace(troubles=[*mended.troubles, *troubles])


async def _repair_submissions(
    installation: Installation, progress: Progress, count: int, *, only_look: bool
) -> tuple[int, list[str]]:
    """Return the ledger's end, and what was wrong with SUBMIT; new submissions are numbered behind those that were judged."""
    async with Stores(installation, books=False) as stores:
        try:
            tip = await JetStreamLog(stores.bus, LEDGER_STREAM).tip()
        except LogRefused:
            return 0, []
        loss = await find_loss(stores.bus)
        if loss is None:
            return tip, []
        if not only_look:
            moved = await renumber_new(stores.bus, loss, count)
            progress(
                "submissions",
                f"new ones come behind submission {loss.judged}, which was judged last; {moved} that had come since were put there",
            )
        return tip, [loss.description]


async def _repair_ledger(
    installation: Installation, progress: Progress, *, only_look: bool, without_end: bool, without_void: bool
) -> RepairResult:
    directory = _store(installation)
    if not directory.exists():
        async with Stores(installation, books=False) as stores:
            await ensure_stream(stores.bus, LEDGER_STREAM)
    files = await asyncio.to_thread(_read_blocks, directory)
    found = await _find(installation, files, progress, without_end=without_end)
    found, void = await asyncio.to_thread(_fold, installation, files, found, progress)
    if void and not (only_look or without_void):
        raise LogBroken(f"{'; '.join(void)}; `headrace repair --without-void` takes {'it' if len(void) == 1 else 'them'} out")
    through = found.records[-1].sequence if found.records else found.purged
    if only_look:
        return RepairResult(found.troubles, through, None)
    if not found.troubles and await _reads(installation, found):
        return RepairResult([], through, None)
    troubles = found.troubles or [
        "the server cannot read all of it, although every record is there: a check of its own is damaged"
    ]
    return RepairResult(troubles, through, await _put_right(installation, directory, files, found, progress))


def _store(installation: Installation) -> Path:
    return installation.nats_store / "jetstream" / "CORE" / "streams" / LEDGER_STREAM / "msgs"


def _read_blocks(directory: Path) -> _Files:
    files = _Files(directory, {}, {}, {})
    for path in sorted(directory.glob("*.blk"), key=lambda path: int(path.stem)):
        number, data = int(path.stem), path.read_bytes()
        placed, end = read(data)
        files.sequences[number] = [each.record.sequence for each in placed]
        if end < len(data):
            files.cut[number] = end
        for each in placed:
            files.placed.setdefault(each.record.sequence, (number, each))
    return files


async def _find(installation: Installation, files: _Files, progress: Progress, *, without_end: bool) -> StreamDamage:
    manifest = await asyncio.to_thread(manifests.read, installation.directory / ARCHIVE)
    try:
        async with Stores(installation, nats=False) as stores:
            database = Database(stores.dsn)
            try:
                return await database.once(
                    lambda connection: _choose_all(connection, installation, manifest, files, progress, without_end)
                )
            finally:
                await database.close()
    except (NotReady, DatabaseUnavailable, DatabaseRefused, asyncpg.PostgresError, InstallationError) as error:
        progress("copy", f"the books' database cannot be read, and is left out: {error}")
        return await _choose_all(None, installation, manifest, files, progress, without_end)


async def _choose_all(
    connection: Connection | None,
    installation: Installation,
    manifest: Manifest,
    files: _Files,
    progress: Progress,
    without_end: bool,
) -> StreamDamage:
    copied = await ledger_copy.last(connection) if connection is not None else 0
    vouched = max(copied, manifest.through)
    last = max(vouched, *files.placed, 0)
    progress(
        "ledger",
        f"in the stream {len(files.placed)} records, in the copy through {copied}, in the archive through {manifest.through}",
    )
    records, troubles = await _kept(connection, installation, manifest, files), dict[int, str]()
    for first in range(manifest.purged + 1, last + 1, STEP):
        until = min(first + STEP - 1, last)
        rows = {row.sequence: CopiedRecord(*row) for row in await _copied(connection, first, until)}
        archived = await asyncio.to_thread(_archived, installation.directory / ARCHIVE, manifest, first, until)
        for sequence in range(first, until + 1):
            choice = _choice(files, sequence, rows.get(sequence), archived.get(sequence))
            if choice is None:
                nowhere = f"record {sequence} is neither in the archive nor in the copy, and cannot be read in the stream"
                if sequence <= vouched or not without_end:
                    way = "" if sequence <= vouched else f": --without-end ends the ledger at {sequence - 1}"
                    raise LogBroken(f"{nowhere}{way}; {'; '.join(describe(troubles)) or 'all before it is whole'}")
                troubles |= dict.fromkeys(range(sequence, last + 1), "was written by no service, and is left out")
                return _found(manifest.purged, records, vouched, troubles, files)
            records.append(choice.record)
            if choice.trouble:
                troubles[sequence] = choice.trouble
        progress("ledger", f"record {until} of {last}")
    return _found(manifest.purged, records, vouched, troubles, files)


def _choice(files: _Files, sequence: int, copied: CopiedRecord | None, archived: StoredMessage | None) -> Choice | None:
    number, placed = files.placed.get(sequence, (0, None))
    return choose(
        sequence, placed, copied, archived, lambda each: StreamBlock(LEDGER_STREAM, number).check(each.record) == each.check
    )


def _found(purged: int, records: list[StoredMessage], vouched: int, troubles: dict[int, str], files: _Files) -> StreamDamage:
    lines = [
        f"{files.directory / f'{number}.blk'} cannot be read from byte {end} on" for number, end in sorted(files.cut.items())
    ]
    right = {record.sequence for record in records if record.sequence not in troubles}
    whole = frozenset(
        number for number, held in files.sequences.items() if number not in files.cut and held and set(held) <= right
    )
    return StreamDamage(purged, records, vouched, [*lines, *describe(troubles)], whole)


async def _copied(connection: Connection | None, first: int, until: int) -> list[ledger_copy.CopiedRecord]:
    return await ledger_copy.between(connection, first, until) if connection is not None else []


async def _kept(
    connection: Connection | None, installation: Installation, manifest: Manifest, files: _Files
) -> list[StoredMessage]:
    """Return the last record of each subject before the purge's end, which a purge leaves; from the copy, or else from the archive."""
    kept = {}
    if connection is not None:
        for row in await ledger_copy.last_by_subject(connection, manifest.purged) if manifest.purged else ():
            choice = _choice(files, row.sequence, CopiedRecord(*row), None)
            if choice is not None:
                kept[row.sequence] = choice.record
    else:
        last = {
            record.subject: record
            for first in range(1, manifest.purged + 1, STEP)
            for _, record in sorted(
                _archived(installation.directory / ARCHIVE, manifest, first, min(first + STEP - 1, manifest.purged)).items()
            )
        }
        kept = {record.sequence: record for record in last.values()}
    return [kept[sequence] for sequence in sorted(kept)]


def _archived(directory: Path, manifest: Manifest, first: int, last: int) -> dict[int, StoredMessage]:
    found: dict[int, StoredMessage] = {}
    for piece in manifest.pieces[piece_of(manifest, first) :]:
        if piece.first > last:
            break
        found |= {record.sequence: record for record in read_piece(directory, piece, first, last)}
    return found


def _fold(installation: Installation, files: _Files, found: StreamDamage, progress: Progress) -> tuple[StreamDamage, list[str]]:
    """Return sequences and chains of the ledger to be, and a line for each record of the stream alone that breaks the law.

    Those records are then left out. Raises `LogBroken`.
    """
    ledger = FoldedLedger()
    directory = installation.directory / ARCHIVE
    manifest = manifests.read(directory)
    try:
        for piece in manifest.pieces:
            if piece.first <= found.purged:
                for record in read_piece(directory, piece, 0, found.purged):
                    ledger.read(record.message)
        lawful, void = _lawful(ledger, found)
    except LedgerBroken as error:
        raise LogBroken(f"the records of the archive, the copy and the stream together are not a ledger: {error}") from None
    progress("ledger", f"records 1 to {ledger.sequence} follow each other, and every chain of digests holds")
    if not void:
        return found, []
    whole = frozenset(number for number in found.whole if files.sequences[number][-1] < min(void))
    lines = [f"{why}, and stands in the stream alone: no service has taken it" for why in void.values()]
    return found._replace(records=lawful, whole=whole, troubles=[*found.troubles, *lines]), lines


def _lawful(ledger: FoldedLedger, found: StreamDamage) -> tuple[list[StoredMessage], dict[int, str]]:
    """Return the records without those that break the law, in their places; and why each of those does. Raises `LedgerBroken`."""
    lawful: list[StoredMessage] = []
    void: dict[int, str] = {}
    for record in found.records:
        moved = record if not void else record._replace(sequence=record.sequence - len(void))
        if record.sequence > found.purged:
            try:
                ledger.read(moved.message)
            except LedgerBroken as error:
                if record.sequence <= found.vouched or str(error) != ledger.void_reason:
                    raise
                void[record.sequence] = str(error).replace(f"record {moved.sequence} ", f"record {record.sequence} ", 1)
                continue
        lawful.append(moved)
    return lawful, void


async def _put_right(
    installation: Installation, directory: Path, files: _Files, found: StreamDamage, progress: Progress
) -> Path:
    """Exchange the files, and let the server read them; if it does not return what was chosen, the former files come back."""
    new, kept = (
        directory.with_name("msgs.new"),
        directory.with_name(f"msgs.damaged-{time.time_ns() // 1_000}"),
    )
    for whole in (found.whole, frozenset[int]()):
        shutil.rmtree(new, ignore_errors=True)
        written = await asyncio.to_thread(_write, new, files, found, whole)
        await asyncio.to_thread(_exchange, directory, new, kept)
        progress("store", f"{written} files written anew, {len(whole)} taken over; the server reads them")
        if await _reads(installation, found):
            return kept
        await asyncio.to_thread(shutil.rmtree, directory)
        await asyncio.to_thread(kept.rename, directory)
    raise InstallationError(
        "the server does not read what was written for it: this release does not know its store; nothing was changed"
    )


def _exchange(directory: Path, new: Path, kept: Path) -> None:
    """Move `new` into place; the former directory becomes `kept`."""
    directory.rename(kept)
    new.rename(directory)


def _write(new: Path, files: _Files, found: StreamDamage, whole: frozenset[int]) -> int:
    """Write all files of the store; returns how many of them are new."""
    new.mkdir(mode=0o700)
    place, number, written = 0, 1, 0
    starts = {files.sequences[each][0]: each for each in whole}
    while place < len(found.records):
        old = starts.get(found.records[place].sequence)
        if old is not None and old >= number and _is_next(files.sequences[old], found.records, place):
            shutil.copyfile(files.directory / f"{old}.blk", new / f"{old}.blk")
            place, number = place + len(files.sequences[old]), old + 1
            continue
        taken = [found.records[place]]
        size = len(taken[0].payload)
        while (
            (nxt := place + len(taken)) < len(found.records)
            and size < BLOCK_BYTES
            and found.records[nxt].sequence not in starts
        ):
            taken.append(found.records[nxt])
            size += len(found.records[nxt].payload)
        with (new / f"{number}.blk").open("wb") as file:
            file.writelines(StreamBlock(LEDGER_STREAM, number).write(taken))
        place, number, written = nxt, number + 1, written + 1
    return written


def _is_next(sequences: list[int], records: list[StoredMessage], place: int) -> bool:
    return [record.sequence for record in records[place : place + len(sequences)]] == sequences


async def _reads(installation: Installation, found: StreamDamage) -> bool:
    """Return whether the server returns exactly the records; asked again if it goes away meanwhile, or has no stream for a moment."""
    for _ in range(READ_TRIES - 1):
        with contextlib.suppress(LogError, NotReady):
            return await _reads_now(installation, found)
    return await _reads_now(installation, found)


async def _reads_now(installation: Installation, found: StreamDamage) -> bool:
    async with Stores(installation, books=False) as stores:
        log = JetStreamLog(stores.bus, LEDGER_STREAM)
        wanted = [record for record in found.records if record.sequence > found.purged]
        if await log.tip() != (found.records[-1].sequence if found.records else 0):
            return False
        for record in found.records[: len(found.records) - len(wanted)]:
            if await log.get(record.sequence) != record.message:
                return False
        reader = await log.read_stored(found.purged)
        try:
            place = 0
            while place < len(wanted):
                batch = await reader.batch(min(1_000, len(wanted) - place), SILENCE)
                if not batch or batch != wanted[place : place + len(batch)]:
                    return False
                place += len(batch)
        except LogBroken:
            return False
        finally:
            await reader.close()
    return True
