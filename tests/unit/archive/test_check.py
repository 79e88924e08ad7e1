"""A check finds all that is wrong, not only what is met first."""

from __future__ import annotations

from headrace.archive import manifest
from headrace.archive.check import check


def test_a_good_archive_has_no_trouble(archived):
    progress = []
    assert check(archived, lambda *step: progress.append(step)) == (manifest.read(archived), [])
    assert progress == [(1, 6), (4, 6), (6, 6)]


def test_everything_that_is_wrong_is_told(archived):
    first, second, third = (archived / piece.path for piece in manifest.read(archived).pieces)
    first.unlink()
    second.write_bytes(b"")
    third.with_name("000000000005-000000000005.parquet").touch()
    _, troubles = check(archived)
    assert [trouble.partition(": ")[0].rpartition("/")[2] for trouble in troubles] == [
        "000000000001-000000000001.parquet (month 2026-09, records 1 to 1) is missing from the archive",
        "000000000002-000000000004.parquet (month 2026-10, records 2 to 4) is cut short",
        "000000000005-000000000005.parquet is not in manifest.json",
    ]
