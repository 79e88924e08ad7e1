"""The archive is brought up to the ledger once a record has waited long enough; what keeps it from that is told until it does not."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from headrace.archive import manifest
from headrace.archive.export import alone
from headrace.audit import archiving
from headrace.audit.archiving import Archiving
from headrace.bus.log import LogUnavailable
from headrace.contracts.values.durations import DAY, SECOND
from tests.unit.archive.conftest import Stream
from tests.unit.service.bus import running, until


@pytest.fixture
def stream():
    made = Stream()
    made.state("2026-10-01T00:00:00", "allocator")
    return made


def over(stream, directory, every=DAY):
    return Archiving(stream, stream.now, directory / "archive", every)


def through(directory):
    return manifest.read(directory / "archive").through


async def test_nothing_is_archived_before_one_has_waited_that_long_and_then_all_is(stream, tmp_path):
    task = over(stream, tmp_path)
    await task.check()
    stream.state("2026-10-01T23:59:59", "allocator")
    await task.check()
    assert through(tmp_path) == 0
    stream.state("2026-10-02T00:00:00", "allocator")
    await task.check()
    assert (through(tmp_path), task.trouble) == (3, "")
    stream.state("2026-10-02T23:00:00", "allocator")
    await task.check()
    assert through(tmp_path) == 3


async def test_it_goes_on_by_itself_and_does_nothing_where_it_is_switched_off(stream, tmp_path):
    stream.state("2026-10-03T00:00:00", "allocator")
    async with running(over(stream, tmp_path / "off", 0).run()), running(over(stream, tmp_path, SECOND).run()):
        await until(lambda: through(tmp_path) == 2)
    assert not (tmp_path / "off").exists()


async def test_who_finds_a_full_disk_leaves_the_rest_of_it_to_the_ledger_and_says_so_until_there_is_room(
    stream, tmp_path, monkeypatch
):
    stream.state("2026-10-03T00:00:00", "allocator")
    task = over(stream, tmp_path)
    with monkeypatch.context() as full:
        full.setattr(archiving.shutil, "disk_usage", lambda _path: SimpleNamespace(free=5 * archiving.MIB))
        await task.check()
    assert task.trouble == (
        f"the ledger is not archived: the disk of {tmp_path}/archive has 5 MiB left, and 256 MiB are kept free: make room there"
    )
    assert through(tmp_path) == 0
    await task.check()
    assert (through(tmp_path), task.trouble) == (2, "")


async def test_an_archive_that_is_damaged_or_of_another_ledger_is_a_trouble(stream, tmp_path):
    stream.state("2026-10-03T00:00:00", "allocator")
    task = over(stream, tmp_path)
    await task.check()
    (tmp_path / "archive/manifest.json").write_bytes(b"{")
    await task.check()
    assert task.trouble.startswith(f"the ledger is not archived: {tmp_path}/archive/manifest.json is damaged or cut short")
    other = Stream()
    other.state("2026-10-01T00:00:00", "governance")
    task = over(other, tmp_path / "other")
    (tmp_path / "other").mkdir()
    await over(stream, tmp_path / "other").check()
    await task.check()
    assert "the archive holds 2 records, but the ledger ends at 1" in task.trouble


async def test_who_is_not_alone_or_does_not_find_the_log_comes_again_later(stream, tmp_path, monkeypatch):
    stream.state("2026-10-03T00:00:00", "allocator")
    task = over(stream, tmp_path)
    with alone(tmp_path / "archive"):
        await task.check()
    assert (through(tmp_path), task.trouble) == (0, "")
    with monkeypatch.context() as away:

        async def nobody():
            raise LogUnavailable("nobody is there")

        away.setattr(stream, "tip", nobody)
        await task.check()
    await task.check()
    assert (through(tmp_path), task.trouble) == (2, "")
