"""What is read is what was written; everything else is refused with the file, the month and the records that it should have."""

from __future__ import annotations

import shutil

import pytest

from headrace.archive import manifest
from headrace.archive.archive_reader import ArchiveReader, piece_of
from headrace.archive.export import export
from headrace.archive.manifest import ArchiveBroken


def path_of(archived, place):
    return archived / manifest.read(archived).pieces[place].path


async def all_of(reader, limit=2):
    found = []
    while batch := await reader.batch(limit):
        found += batch
    return found


@pytest.mark.parametrize(("after", "through"), [(0, 6), (0, 3), (1, 4), (5, 6), (6, 6)])
async def test_records_come_in_order_from_anywhere_to_anywhere(stream, archived, after, through):
    reader = ArchiveReader(archived, after, through)
    assert reader.buffered == through - after
    assert await all_of(reader) == [each.message for each in stream.stored[after:through]]
    assert (reader.position, reader.buffered) == (through, 0)


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda path: path.unlink(), r"month=2026-10/.*\(month 2026-10, records 2 to 4\) is missing from the archive"),
        (
            lambda path: path.write_bytes(path.read_bytes()[:-9]),
            r"\(month 2026-10, records 2 to 4\) is cut short: it has \d+ of",
        ),
        (flip, r"\(month 2026-10, records 2 to 4\) has been changed"),
        (lambda path: shutil.rmtree(path.parent), r"\(month 2026-10, records 2 to 4\) is missing"),
    ],
)
async def test_what_is_damaged_is_named_and_never_served(stream, archived, damage, says):
    damage(path_of(archived, 1))
    reader = ArchiveReader(archived, 0, 6)
    assert await reader.batch(9) == [stream.stored[0].message]
    with pytest.raises(ArchiveBroken, match=says):
        await reader.batch(9)
    assert await all_of(ArchiveReader(archived, 4, 6)) == [each.message for each in stream.stored[4:]]


async def test_a_file_in_the_place_of_another_is_refused(archived):
    shutil.copy(path_of(archived, 2), path_of(archived, 1))
    with pytest.raises(ArchiveBroken, match="records 2 to 4"):
        await ArchiveReader(archived, 1, 6).batch()


async def test_more_than_there_is_cannot_be_read(archived):
    reader = ArchiveReader(archived, 5, 9)
    assert len(await reader.batch()) == 1
    with pytest.raises(ArchiveBroken, match="ends at record 6, but 7 is wanted"):
        await reader.batch()


async def test_a_reader_goes_on_where_an_export_has_put_a_longer_file(stream, archived, monkeypatch):
    old = manifest.read(archived)
    stream.state("2026-11-03T00:00:00", "allocator")
    await export(stream, archived)
    known, read = [old], manifest.read
    monkeypatch.setattr(manifest, "read", lambda directory: known.pop() if known else read(directory))
    assert await all_of(ArchiveReader(archived, 4, 7)) == [each.message for each in stream.stored[4:]]


def test_the_piece_of_a_record_is_found(archived):
    known = manifest.read(archived)
    assert [piece_of(known, sequence) for sequence in range(1, 8)] == [0, 1, 1, 1, 2, 2, 3]


async def test_a_closed_reader_gives_nothing(archived):
    reader = ArchiveReader(archived, 0, 6)
    reader.wake()
    await reader.close()
    assert await reader.batch() == []
