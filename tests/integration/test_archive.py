"""The archive of a real stream: every message whole, and one history over both."""

from __future__ import annotations

import shutil

import pytest

from headrace.archive import manifest
from headrace.archive.archive_reader import read_piece
from headrace.archive.export import export
from headrace.archive.history import WholeLedger
from headrace.archive.manifest import ArchiveBroken
from headrace.archive.purge import last_before, purge, readers
from headrace.bus.log import LogBroken, WrongLast
from headrace.bus.nats.jetstream import JetStreamLog
from headrace.bus.nats.streams import ensure_streams
from headrace.bus.writer_chain import Chain
from headrace.contracts.facts import NodeCordonedV1
from headrace.contracts.transport.subjects import LEDGER_STREAM


async def test_messages_of_a_stream_are_archived_whole(login, tmp_path):
    operator = await login("operator")
    await ensure_streams(operator)
    log = JetStreamLog(operator, LEDGER_STREAM)
    chain = Chain(log, "governance", "test")
    for n in range(5):
        await chain.append(1, n, (NodeCordonedV1(author="a.b", node=f"n{n}"),))
    await log.append("hr.ledger.node.gpu01", b"\xff", None)
    made = await export(log, tmp_path)
    held = [record for piece in made.pieces for record in read_piece(tmp_path, piece)]
    assert [(each.sequence, each.headers) for each in held] == [
        *((n + 1, b"NATS/1.0\r\nNats-Expected-Last-Subject-Sequence: %d\r\n\r\n" % n) for n in range(5)),
        (6, b""),
    ]
    assert [each.message for each in held] == [await log.get(n) for n in range(1, 7)]
    assert (made, made.through) == (manifest.read(tmp_path), 6)


QUIET, BUSY = "hr.ledger.node.gpu01", "hr.ledger.allocator"


@pytest.fixture
async def operator(login):
    """On a ledger of ten records: the second and the third are the only ones of a node."""
    connection = await login("operator")
    await ensure_streams(connection)
    log = JetStreamLog(connection, LEDGER_STREAM)
    for n in range(10):
        subject = QUIET if n in (1, 2) else BUSY
        last = await log.last(subject)
        await log.append(subject, b"%d" % n, last.sequence if last is not None else 0)
    return connection


async def all_of(log, after=0, count=10):
    reader = await log.read(after)
    found = []
    while len(found) < count:
        found += await reader.batch(3, wait=10.0)
    await reader.close()
    return found


async def test_what_is_purged_is_read_from_the_archive_and_each_writers_last_record_stays(operator, tmp_path):
    log = JetStreamLog(operator, LEDGER_STREAM)
    before = await all_of(log)
    await export(log, tmp_path)
    assert (await purge(operator, LEDGER_STREAM, tmp_path, 6, lambda *_: None)).purged == 6
    assert [n for n in range(1, 11) if await log.get(n) is not None] == [3, 7, 8, 9, 10]
    with pytest.raises(LogBroken, match="gap|begins"):
        await all_of(log)
    whole = WholeLedger(log, tmp_path)
    assert [await all_of(whole, after, 10 - after) for after in range(10)] == [before[after:] for after in range(10)]
    assert [await whole.get(n) for n in range(1, 11)] == before
    with pytest.raises(WrongLast):
        await whole.append(QUIET, b"x", 0)
    assert await whole.append(QUIET, b"x", 3) == 11
    await export(log, tmp_path)
    assert (await purge(operator, LEDGER_STREAM, tmp_path, 11, lambda *_: None)).purged == 11
    assert await all_of(whole, 0, 11) == [*before, await log.get(11)]
    assert await whole.append(BUSY, b"y", 10) == 12


async def test_a_purge_that_was_interrupted_is_done_again(operator, tmp_path, monkeypatch):
    log = JetStreamLog(operator, LEDGER_STREAM)
    before = await all_of(log)
    await export(log, tmp_path)
    made = manifest.read(tmp_path)
    manifest.write(tmp_path, manifest.Manifest(pieces=made.pieces, purged=6))  # and then the power went
    assert await all_of(WholeLedger(log, tmp_path)) == before
    await purge(operator, LEDGER_STREAM, tmp_path, 6, lambda *_: None)
    assert [n for n in range(1, 11) if await log.get(n) is not None] == [3, 7, 8, 9, 10]
    assert await all_of(WholeLedger(log, tmp_path)) == before


async def test_nothing_goes_that_the_archive_has_not_exactly(operator, tmp_path):
    log = JetStreamLog(operator, LEDGER_STREAM)
    await export(log, tmp_path / "a")
    await operator.ask(f"$JS.API.STREAM.DELETE.{LEDGER_STREAM}")
    await ensure_streams(operator)
    for n in range(10):
        await log.append(BUSY, b"%d" % n, n)  # as before, but for times and two subjects
    with pytest.raises(
        ArchiveBroken, match="record 1 is another one in the stream than in .*000000000001-000000000010.parquet"
    ):
        await purge(operator, LEDGER_STREAM, tmp_path / "a", 6, lambda *_: None)
    shutil.rmtree(tmp_path / "a")
    await export(log, tmp_path / "a")
    (tmp_path / "a" / manifest.read(tmp_path / "a").pieces[0].path).unlink()
    with pytest.raises(ArchiveBroken, match="is missing from the archive"):
        await purge(operator, LEDGER_STREAM, tmp_path / "a", 6, lambda *_: None)
    assert (await log.state()).first_seq == 1


async def test_it_is_known_how_far_each_reader_is_and_how_old_each_record(operator):
    log = JetStreamLog(operator, LEDGER_STREAM)
    assert await readers(operator, LEDGER_STREAM) == {}
    reader = await log.read(4)
    await reader.batch()
    assert list((await readers(operator, LEDGER_STREAM)).values()) == [10]
    await reader.close()
    stamps = [message.stamped for message in await all_of(log)]
    assert [await last_before(log, stamp) for stamp in (0, stamps[4], stamps[9] + 1)] == [0, 4, 10]
