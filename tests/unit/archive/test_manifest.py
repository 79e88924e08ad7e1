"""A manifest is believed as a whole, or refused with what is wrong and where."""

from __future__ import annotations

import pytest

from headrace.archive.manifest import ArchiveBroken, ArchiveFile, Manifest, read, write


def piece(first: int, last: int) -> ArchiveFile:
    return ArchiveFile(month="2026-10", first=first, last=last, size=1, digest="d", last_digest="e")


def test_what_was_written_is_read(tmp_path):
    manifest = Manifest(pieces=(piece(1, 4), piece(5, 9)), purged=4)
    write(tmp_path, manifest)
    assert read(tmp_path) == manifest
    assert (manifest.through, manifest.pieces[1].path) == (9, "ledger/month=2026-10/000000000005-000000000009.parquet")


def test_where_nothing_was_archived_there_is_nothing(tmp_path):
    assert read(tmp_path / "nowhere") == Manifest()


@pytest.mark.parametrize(
    ("manifest", "says"),
    [
        (Manifest(pieces=(piece(2, 4),)), "has a gap: records 1 to 1 are missing before"),
        (Manifest(pieces=(piece(1, 4), piece(7, 9))), "has a gap: records 5 to 6 are missing before"),
        (Manifest(pieces=(piece(1, 4), piece(4, 9))), "has an overlap before"),
        (Manifest(pieces=(piece(1, 4),), purged=5), "up to 5 were purged, but it ends at 4"),
        (Manifest(format=2), "is of format 2, this release reads format 1"),
    ],
)
def test_pieces_follow_each_other(tmp_path, manifest, says):
    write(tmp_path, manifest)
    with pytest.raises(ArchiveBroken, match=says):
        read(tmp_path)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda data: data.replace(b'"purged":0', b'"purged":1'), "has been changed"),
        (lambda data: data[:40], "damaged or cut short"),
        (lambda data: data.replace(b"2026", b"\xff026"), "has been changed|damaged"),
    ],
)
def test_a_changed_manifest_is_refused(tmp_path, change, says):
    write(tmp_path, Manifest(pieces=(piece(1, 4),)))
    path = tmp_path / "manifest.json"
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(ArchiveBroken, match=says):
        read(tmp_path)


def test_files_without_their_manifest_are_not_an_archive(tmp_path):
    (tmp_path / "ledger" / "month=2026-10").mkdir(parents=True)
    (tmp_path / "ledger" / "month=2026-10" / "000000000001-000000000004.parquet").touch()
    with pytest.raises(ArchiveBroken, match="manifest.json is missing, but"):
        read(tmp_path)
