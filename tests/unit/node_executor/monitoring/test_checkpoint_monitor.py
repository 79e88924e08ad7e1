from __future__ import annotations

import asyncio
import json
import os
import threading
from pathlib import Path

import pytest

from headrace.node_executor.core import vocabulary as v
from headrace.node_executor.files.checkpoints import CheckpointWatch
from headrace.node_executor.files.inspection import FileInspector
from headrace.node_executor.files.workspace import Paths
from headrace.node_executor.launch.preparation import Prepared
from headrace.node_executor.leases.running_lease import RunningLease
from headrace.node_executor.monitoring.checkpoint_monitor import CheckpointMonitor
from headrace.node_executor.runtimes.job_log import Output
from tests.unit.node_executor.conftest import order


class Stage:
    def __init__(self, directory: Path, within: float = 10.0) -> None:
        self.directory = directory
        self.events: list[v.Event] = []
        self.saving = CheckpointMonitor(self.events.append, lambda: 5, FileInspector(within))

    def hold(self, attempt: int) -> RunningLease:
        paths = Paths(*(str(self.directory / f"{name}{attempt}") for name in ("control", "work", "saved", "log")))
        for path in paths[:3]:
            os.mkdir(path)
        return RunningLease(order(attempt=attempt), Prepared(paths, {}, "/"), Output(paths.log, 1_000))

    def save(self, held: RunningLease, name: str) -> None:
        paths = held.prepared.paths
        Path(paths.checkpoints, name).touch()
        Path(paths.registered).write_text(json.dumps({"uri": name, "step": 3}) + "\n")

    def output(self, held: RunningLease) -> str:
        return Path(held.output.path).read_text()

    def seen(self) -> list[tuple[str, str]]:
        return [(event.lease, os.path.basename(event.uri)) for event in self.events if isinstance(event, v.CheckpointSeen)]


@pytest.fixture
async def stage(tmp_path) -> Stage:
    return Stage(tmp_path, within=1.0)


async def test_what_was_saved_is_told_once(stage) -> None:
    one, other = stage.hold(1), stage.hold(2)
    stage.save(one, "1.pt")
    await stage.saving.poll([one, other])
    await stage.saving.poll([one, other])
    assert stage.seen() == [(one.order.lease, "1.pt")]


async def test_a_fifo_in_place_of_the_list_is_a_line_in_the_jobs_output_and_its_end_is_not_held_up(stage) -> None:
    held, over = stage.hold(1), asyncio.Event()
    os.mkfifo(held.prepared.paths.registered)
    await stage.saving.poll([held])
    stage.saving.poll_then(held, over.set)
    await over.wait()
    assert stage.output(held) == (
        "[headrace] the list of registered checkpoints cannot be read: it is not a regular file of the job's own\n"
    )


async def test_a_look_that_hangs_holds_up_neither_its_job_for_long_nor_the_others(stage, monkeypatch) -> None:
    answers = threading.Event()
    one, other, over = stage.hold(1), stage.hold(2), asyncio.Event()
    stage.save(one, "1.pt")
    stage.save(other, "2.pt")
    find_newest = CheckpointWatch.find_newest

    def slow(self: CheckpointWatch, *, thorough: bool = False) -> object:
        if self is one.watch:
            answers.wait()
        return find_newest(self, thorough=thorough)

    monkeypatch.setattr(CheckpointWatch, "find_newest", slow)
    try:
        await stage.saving.poll([one, other])
        stage.saving.poll_then(one, over.set)
        await over.wait()
        assert stage.seen() == [(other.order.lease, "2.pt")]
        assert stage.output(one) == ("[headrace] its checkpoints are not known: it could not be looked at within 1 s\n")
    finally:
        answers.set()


async def test_at_its_end_what_is_small_and_here_is_looked_at_without_waiting(stage) -> None:
    held, over = stage.hold(1), []
    stage.save(held, "1.pt")
    os.unlink(held.prepared.paths.registered)
    stage.saving.poll_then(held, lambda: over.append(stage.seen()))
    assert over == [[(held.order.lease, "1.pt")]]
