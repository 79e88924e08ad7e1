"""An export writes what is new, in files by month, and never takes for archived what it has not read back."""

from __future__ import annotations

import shutil

import pytest
from msgspec.structs import replace

from headrace.archive import atomic_files, manifest
from headrace.archive import export as exporting
from headrace.archive.archive_reader import read_piece
from headrace.archive.export import alone, export
from headrace.archive.manifest import ArchiveBroken, ArchiveBusy
from tests.unit.archive.conftest import longer


def held(directory):
    return [record for piece in manifest.read(directory).pieces for record in read_piece(directory, piece)]


async def test_every_record_lies_in_the_month_in_which_it_was_stored(stream, tmp_path):
    progress = []
    made = await export(stream, tmp_path, lambda *step: progress.append(step))
    assert longer(made) == [("2026-09", 1, 1), ("2026-10", 2, 4), ("2026-11", 5, 6)]
    assert (held(tmp_path), progress) == (stream.stored, [(1, 6), (4, 6), (6, 6)])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ledger", "lock", "manifest.json"]


async def test_a_later_export_writes_what_is_new_and_a_small_file_grows(stream, archived):
    before = {path: path.stat().st_mtime_ns for path in (archived / "ledger").glob("*/*.parquet")}
    assert await export(stream, archived) == manifest.read(archived)
    stream.state("2026-11-03T00:00:00", "allocator")
    stream.state("2026-12-01T00:00:00", "allocator")
    made = await export(stream, archived)
    assert longer(made) == [("2026-09", 1, 1), ("2026-10", 2, 4), ("2026-11", 5, 7), ("2026-12", 8, 8)]
    assert held(archived) == stream.stored
    after = {path: path.stat().st_mtime_ns for path in (archived / "ledger").glob("*/*.parquet")}
    assert len(before.items() & after.items()) == 2
    assert sorted(after) == sorted(archived / piece.path for piece in made.pieces)


async def test_files_are_not_larger_than_one_can_hold_in_memory(stream, tmp_path, monkeypatch):
    monkeypatch.setattr(exporting, "PIECE_RECORDS", 2)
    assert longer(await export(stream, tmp_path))[1:3] == [("2026-10", 2, 3), ("2026-10", 4, 4)]
    monkeypatch.setattr(exporting, "PIECE_BYTES", 1)
    monkeypatch.setattr(exporting, "PIECE_RECORDS", 1)
    assert [piece[1:] for piece in longer(await export(stream, tmp_path / "b"))] == [(n, n) for n in range(1, 7)]


async def test_what_an_interrupted_export_left_is_not_a_part_of_the_archive(stream, archived, monkeypatch):
    stream.state("2026-11-03T00:00:00", "allocator")

    def cut(*_):
        raise OSError("no power")

    with monkeypatch.context() as patched:
        patched.setattr(manifest, "write", cut)
        with pytest.raises(ArchiveBroken, match="cannot be written"):
            await export(stream, archived)
    assert len(list((archived / "ledger").glob("*/*.parquet"))) == 4
    assert held(archived) == stream.stored[:6]
    await export(stream, archived)
    assert (len(list((archived / "ledger").glob("*/*.parquet"))), held(archived)) == (3, stream.stored)


async def test_a_file_that_does_not_hold_what_was_written_is_not_listed(stream, tmp_path, monkeypatch):
    monkeypatch.setattr(exporting, "encode", lambda records: b"PAR1")
    monkeypatch.setattr(exporting, "decode", lambda data: [])
    with pytest.raises(ArchiveBroken, match="does not hold what was written into it"):
        await export(stream, tmp_path)
    assert manifest.read(tmp_path) == manifest.Manifest()


async def test_an_archive_of_another_ledger_is_refused(stream, archived):
    stream.replace_now(6, b"other")
    with pytest.raises(ArchiveBroken, match="record 6 is another one in the ledger than in the archive"):
        await export(stream, archived)
    stream.lose_last()
    with pytest.raises(ArchiveBroken, match="holds 6 records, but the ledger ends at 5"):
        await export(stream, archived)


async def test_one_export_at_a_time(stream, archived):
    with alone(archived), pytest.raises(ArchiveBusy, match="is being written by another process"):
        await export(stream, archived)


async def test_what_only_a_forgotten_file_holds_is_left_alone(stream, archived):
    month = archived / "ledger" / "month=2026-12"
    month.mkdir()
    shutil.copy(archived / manifest.read(archived).pieces[-1].path, month / "000000000007-000000000009.parquet")
    await export(stream, archived)
    assert (month / "000000000007-000000000009.parquet").exists()


async def test_a_first_export_that_is_cut_short_leaves_an_archive_that_is_read_and_goes_on(stream, tmp_path, monkeypatch):
    listed = manifest.write

    def cut(directory, whole):
        if whole.pieces:
            raise KeyboardInterrupt
        listed(directory, whole)

    with monkeypatch.context() as power:
        power.setattr(manifest, "write", cut)
        with pytest.raises(KeyboardInterrupt):
            await export(stream, tmp_path)
    assert (len(list(tmp_path.glob("ledger/*/*.parquet"))), manifest.read(tmp_path)) == (1, manifest.Manifest())
    assert (await export(stream, tmp_path)).through == 6


@pytest.mark.parametrize(
    ("place", "harm", "message"),
    [
        (
            2,
            lambda file: file.write_bytes(file.read_bytes()[:-1]),
            r"records 5 to 6\) is cut short: .*; bring it back from a backup",
        ),
        (2, lambda file: file.write_bytes(file.read_bytes()[:-1] + b"x"), r"records 5 to 6\) has been changed: "),
        (2, lambda file: file.unlink(), r"records 5 to 6\) is missing from the archive: bring it back from a backup"),
        (0, lambda file: file.unlink(), r"records 1 to 1\) is missing from the archive: bring it back from a backup"),
        (1, lambda file: file.write_bytes(b""), r"records 2 to 4\) is cut short: it has 0 of "),
    ],
)
async def test_where_nothing_is_new_damage_is_told_and_the_way_out(stream, archived, place, harm, message):
    harm(archived / manifest.read(archived).pieces[place].path)
    with pytest.raises(ArchiveBroken, match=message) as found:
        await export(stream, archived)
    assert str(found.value).endswith(f"; or move {archived} away and export again: the stream still has every record")


async def test_of_what_was_purged_from_the_stream_nothing_can_be_exported_again(stream, archived):
    manifest.write(archived, replace(manifest.read(archived), purged=4))
    (archived / manifest.read(archived).pieces[2].path).unlink()
    with pytest.raises(ArchiveBroken, match="is missing from the archive: bring it back from a backup$"):
        await export(stream, archived)


async def test_drafts_of_an_export_that_was_cut_short_are_removed(stream, archived):
    atomic_files.draft(archived / manifest.FILE, b"{")
    atomic_files.draft(archived / manifest.read(archived).pieces[0].path, b"x")
    await export(stream, archived)
    assert [path for path in archived.rglob("*") if path.name.endswith(atomic_files.PART)] == []
