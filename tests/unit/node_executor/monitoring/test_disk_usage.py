from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from headrace.node_executor.core import vocabulary as v
from headrace.node_executor.files.workspace import Paths
from headrace.node_executor.launch.preparation import Prepared
from headrace.node_executor.leases.running_lease import RunningLease
from headrace.node_executor.monitoring.disk_usage import DiskUsageMonitor, Size, over, used
from headrace.node_executor.runtimes.job_log import Output
from tests.unit.node_executor.conftest import order

PLENTY = Size(10**12, 10**9)


class Stage:
    """Leases that run in directories of their own, and what is told of them."""

    def __init__(self, directory: Path, most: Size, within: float = 60.0) -> None:
        self.directory = directory
        self.events: list[v.Event] = []
        self.held: list[RunningLease] = []
        self.measuring = DiskUsageMonitor(self.events.append, lambda: self.held, lambda: 5, most, within)

    def hold(self, attempt: int) -> Path:
        control = self.directory / str(attempt)
        (control / "work").mkdir(parents=True)
        paths = Paths(str(control), f"{control}/work", f"{control}-saved", f"{control}.log")
        held = RunningLease(order(attempt=attempt), Prepared(paths, {}, "/"), Output(paths.log, 1_000))
        held.running = object()  # type: ignore[assignment]
        self.held.append(held)
        return control / "work"

    def overruns(self) -> list[tuple[str, str]]:
        return [(event.lease, event.message) for event in self.events if isinstance(event, v.Overran)]


def fill(directory: Path, files: int) -> None:
    for number in range(files):
        (directory / str(number)).touch()


def test_bytes_and_entries_are_counted_and_links_are_not_followed(tmp_path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "file").write_bytes(b"x" * 100_000)
    (tmp_path / "a" / "link").symlink_to("/")
    empty = used(str(tmp_path / "a" / "b"), PLENTY)
    whole = used(str(tmp_path), PLENTY)
    assert (empty.files, whole.files, empty.bytes >= 100_000, whole.partial) == (1, 4, True, False)
    assert used(str(tmp_path / "nowhere"), PLENTY) == Size()


def test_a_file_with_several_names_takes_its_bytes_once(tmp_path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 1_000_000)
    once = used(str(tmp_path), PLENTY)
    for number in range(10):
        os.link(tmp_path / "file", tmp_path / f"name{number}")
    assert used(str(tmp_path), PLENTY) == once._replace(files=11)


def test_a_count_stops_where_it_is_over_and_says_when_it_is_partial(tmp_path) -> None:
    fill(tmp_path, 100)
    assert used(str(tmp_path), Size(10**12, 10)) == Size(0, 11)
    assert used(str(tmp_path), PLENTY, within=-1.0).partial


@pytest.mark.parametrize(
    ("size", "message"),
    [
        (Size(2 << 20, 10), ""),
        (Size(3 << 20, 1), "its working directory took 3 MiB; 2 MiB is the most"),
        (Size(0, 11), "its working directory has more than 10 files, which is the most"),
        (Size(0, 1, partial=True), ""),
        (
            Size(0, 1, partial=True, too_deep=True),
            "its working directory has directories more than 256 levels deep, which cannot be counted",
        ),
    ],
)
def test_what_is_over_says_why(size, message) -> None:
    assert over(size, Size(2 << 20, 10)) == message


async def test_a_job_with_too_many_empty_files_is_told_and_its_neighbour_is_not(tmp_path) -> None:
    stage = Stage(tmp_path, Size(10**12, 50))
    fill(stage.hold(1), 40)
    fill(stage.hold(2), 60)
    await stage.measuring.measure()
    message = "its working directory has more than 50 files, which is the most"
    assert stage.overruns() == [(order(attempt=2).lease, message)]
    assert (tmp_path / "2.log").read_text() == f"[headrace] {message}\n"


async def test_files_beside_the_working_directory_count_as_well(tmp_path) -> None:
    stage = Stage(tmp_path, Size(10**12, 50))
    fill(stage.hold(1).parent, 60)
    await stage.measuring.measure()
    assert [lease for lease, _ in stage.overruns()] == [order(attempt=1).lease]


async def test_a_count_that_is_partial_is_reported_once(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("headrace.node_executor.monitoring.disk_usage.used", lambda *_: Size(3 << 20, 7, partial=True))
    stage = Stage(tmp_path, PLENTY)
    stage.hold(1)
    await stage.measuring.measure()
    await stage.measuring.measure()
    assert (stage.overruns(), (tmp_path / "1.log").read_text()) == (
        [],
        "[headrace] its working directory was counted in part only: at least 3 MiB in 7 files\n",
    )


async def test_a_directory_that_does_not_answer_holds_up_no_other_and_the_round_ends(tmp_path, monkeypatch) -> None:
    answers, counted = threading.Event(), []

    def slow(directory: str, most: Size) -> Size:
        counted.append(os.path.basename(directory))
        if directory.endswith("/1"):
            answers.wait()
        return Size(0, most.files + 1) if directory.endswith("/2") else Size()

    monkeypatch.setattr("headrace.node_executor.monitoring.disk_usage.used", slow)
    stage = Stage(tmp_path, Size(1, 1), within=1.0)
    for attempt in (1, 2, 3):
        stage.hold(attempt)
    try:
        await stage.measuring.measure()
        await stage.measuring.measure()
        assert sorted(counted) == ["1", "2", "2", "3", "3"]
        assert [lease for lease, _ in stage.overruns()] == [order(attempt=2).lease] * 2
        assert (tmp_path / "1.log").read_text() == (
            "[headrace] its working directory could not be counted: it could not be looked at within 1 s\n"
        )
    finally:
        answers.set()
