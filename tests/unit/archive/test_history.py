"""A reader goes from the archive into the stream as if nothing had ever been purged; what does not fit stops it."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from headrace.archive import manifest
from headrace.archive.history import WholeLedger
from headrace.archive.manifest import ArchiveBroken
from headrace.bus.log import Log, LogBroken, LogReader, LogUnavailable


async def purge(stream, archived, through):
    manifest.write(archived, replace(manifest.read(archived), purged=through))
    await stream.purge(through)


async def read(reader, count):
    found = []
    while len(found) < count:
        found += await reader.batch(2, wait=1.0)
    return found


@pytest.mark.parametrize("purged", range(7))
@pytest.mark.parametrize("after", range(7))
async def test_every_record_is_read_once_wherever_the_seam_is(stream, archived, purged, after):
    await purge(stream, archived, purged)
    stream.state("2026-11-03T00:00:00", "allocator")
    whole = WholeLedger(stream, archived)
    reader: LogReader = await whole.read(after)
    found = await read(reader, 7 - after)
    assert found == [each.message for each in stream.stored[after:]]
    assert reader.buffered == 0
    stream.state("2026-11-04T00:00:00", "allocator")
    assert await reader.batch() == [stream.stored[7].message]
    await reader.close()
    assert [await whole.get(n) for n in range(1, 9)] == [each.message for each in stream.stored]
    assert (await whole.tip(), await whole.get(9), await whole.get(0)) == (8, None, None)


@pytest.mark.parametrize("purged", range(7))
async def test_the_record_behind_any_other_is_found_wherever_the_seam_is(stream, archived, purged):
    await purge(stream, archived, purged)
    whole = WholeLedger(stream, archived)
    found = [await whole.following(after) for after in range(len(stream.stored) + 1)]
    assert found == [*(each.message for each in stream.stored), None]


async def test_what_the_archive_cannot_give_is_not_there(stream, archived):
    await purge(stream, archived, 4)
    (archived / manifest.FILE).write_bytes(b"nonsense")
    assert await WholeLedger(stream, archived).following(0) == stream.stored[4].message


async def test_before_the_seam_no_reader_is_at_the_tip(stream, archived):
    await purge(stream, archived, 6)
    reader = await WholeLedger(stream, archived).read(5)
    assert reader.buffered == 2
    await reader.batch()
    assert reader.buffered == 1
    reader.wake()
    async with asyncio.timeout(10):
        assert await reader.batch() == []
    assert reader.buffered == 0
    await reader.close()


async def test_a_stream_that_is_not_the_archives_own_stops_the_reader(stream, archived):
    manifest.write(archived, replace(manifest.read(archived), purged=4))
    stream.replace_now(4, b"other")
    reader = await WholeLedger(stream, archived).read(0)
    with pytest.raises(ArchiveBroken, match="record 4 is another one in the stream than in the archive"):
        await read(reader, 6)


async def test_a_purge_that_the_archive_knows_nothing_of_is_a_gap(stream, archived):
    await stream.purge(3)
    with pytest.raises(LogBroken, match="begins at 4"):
        await (await WholeLedger(stream, archived).read(0)).batch(wait=1.0)


async def test_a_missing_month_stops_only_readers_who_need_it(stream, archived):
    await purge(stream, archived, 4)
    (archived / manifest.read(archived).pieces[1].path).unlink()
    with pytest.raises(ArchiveBroken, match=r"month 2026-10, records 2 to 4\) is missing"):
        await read(await WholeLedger(stream, archived).read(0), 6)
    assert await read(await WholeLedger(stream, archived).read(4), 2) == [each.message for each in stream.stored[4:]]


async def test_it_is_a_log_that_is_never_purged_by_itself(stream, tmp_path):
    whole: Log = WholeLedger(stream, tmp_path)
    assert await whole.append("hr.ledger.allocator", b"x", 5) == 7
    assert (await whole.last("hr.ledger.allocator")).payload == b"x"
    assert await whole.now() == await stream.now()
    with pytest.raises(PermissionError):
        await whole.purge_through(1)
    reader = await whole.read(6)
    assert [each.payload for each in await reader.batch()] == [b"x"]


async def test_a_closed_reader_says_so(stream, archived):
    await purge(stream, archived, 4)
    reader = await WholeLedger(stream, archived).read(0)
    await reader.close()
    with pytest.raises(LogUnavailable, match="closed"):
        await reader.batch()


@pytest.mark.parametrize("purged", range(7))
@pytest.mark.parametrize("after", range(7))
async def test_the_next_record_of_a_writer_is_found_on_either_side_of_the_seam(stream, archived, purged, after):
    await purge(stream, archived, purged)
    messages = [each.message for each in stream.stored]
    for subject in {message.subject for message in messages}:
        wanted = next((one for one in messages if one.sequence > after and one.subject == subject), None)
        assert await WholeLedger(stream, archived).next(subject, after) == wanted
