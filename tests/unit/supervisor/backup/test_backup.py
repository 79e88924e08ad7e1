"""What a backup can say about itself when it is made."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.archive import manifest as manifests
from headrace.supervisor.backup.backup import damaged_members
from headrace.supervisor.backup.backup_file import FILES, Contents, member_of
from tests.unit.archive.conftest import archive_of_two_months

if TYPE_CHECKING:
    from pathlib import Path


def backup_of(data: Path) -> Contents:
    files = [path for path in sorted(data.rglob("*")) if path.is_file() and path.name != "lock"]
    members = tuple(member_of(f"{FILES}/{path.relative_to(data)}", path) for path in files)
    return Contents(release="1", at=1, through=1, streams=(), members=members)


@pytest.fixture
async def data(tmp_path):
    await archive_of_two_months(tmp_path / "archive")
    return tmp_path


def test_of_an_archive_that_is_whole_or_not_there_nothing_is_said(data, tmp_path):
    assert damaged_members(backup_of(data), data) == []
    assert damaged_members(backup_of(data), tmp_path / "none") == []


def test_a_damaged_or_missing_file_of_the_archive_is_named(data):
    first, second = (data / "archive" / piece.path for piece in manifests.read(data / "archive").pieces)
    first.write_bytes(first.read_bytes()[:-1])
    second.unlink()
    way_out = "is not what was archived: `headrace archive check` says how, and the way out"
    assert damaged_members(backup_of(data), data) == [f"{first} {way_out}", f"{second} {way_out}"]
    (data / "archive" / manifests.FILE).write_bytes(b"{")
    (trouble,) = damaged_members(backup_of(data), data)
    assert "manifest.json is damaged or cut short" in trouble
