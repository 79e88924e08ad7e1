"""R32: what the stop of the machine ended is lost; what a job ended itself is not, also where it looks the same."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from headrace.contracts.facts.fact import Ladder
from headrace.node_executor.core.phases import Lease
from headrace.node_executor.files.workspace import Workspace
from headrace.node_executor.launch.preparation import Prepared
from headrace.node_executor.leases.interruption import InterruptionCheck
from headrace.node_executor.leases.running_lease import RunningLease
from headrace.node_executor.runtimes import End
from headrace.node_executor.runtimes.job_log import Output
from tests.patience import PATIENCE
from tests.unit.node_executor.conftest import order

LADDER = Ladder(cause="preempted", callback_grace=60, term_grace=30)
STOPPED, RESTARTED = "the machine was being shut down", "the machine was restarted"


async def reason(directory: Path, end: End, *, stopping: bool, outlasted: bool, image: str = "", stopped_by: str = "") -> str:
    """Why the lease is lost, "" if it is not. `stopped_by`: what the executor ended it for before."""
    paths = Workspace(str(directory)).paths(order())
    held = RunningLease(order(image=image), Prepared(paths, {}, "/work"), Output(paths.log, 1_000))
    held.outlasted = outlasted
    lease = Lease(held.order, ladder=LADDER if stopped_by == "ladder" else None, limit=1 if stopped_by == "halt" else None)
    lease.killed = stopped_by == "limit"
    done = asyncio.Event()
    InterruptionCheck(lambda: stopping).check_then(held, lease, end, done.set)
    async with asyncio.timeout(PATIENCE):
        await done.wait()
    return held.lost


@pytest.mark.parametrize(
    ("end", "image", "while_stopping", "after_restart"),
    [
        (End(143, 1, terminated=True), "", STOPPED, RESTARTED),
        (End(143, 1), "", STOPPED, RESTARTED),
        (End(137, 1), "", STOPPED, RESTARTED),
        (End(0, 1, terminated=True), "", STOPPED, RESTARTED),
        (End(1, 1, terminated=True), "", STOPPED, RESTARTED),
        (End(None, 1), "", "", RESTARTED),
        (End(0, 1), "", "", ""),
        (End(3, 1), "", "", ""),
        (End(0, 1), "torch:2", STOPPED, ""),
        (End(143, 1), "torch:2", STOPPED, RESTARTED),
    ],
)
async def test_an_end_is_the_machines_where_it_stops_or_has_been_restarted(
    tmp_path: Path, end: End, image: str, while_stopping: str, after_restart: str
) -> None:
    assert await reason(tmp_path, end, image=image, stopping=True, outlasted=False) == while_stopping
    assert await reason(tmp_path, end, image=image, stopping=False, outlasted=True) == after_restart
    assert await reason(tmp_path, end, image=image, stopping=False, outlasted=False) == ""


@pytest.mark.parametrize("stopped_by", ["ladder", "halt", "limit"])
async def test_what_the_executor_ended_ends_as_before(tmp_path: Path, stopped_by: str) -> None:
    end = End(143, 1, terminated=True)
    assert await reason(tmp_path, end, stopping=True, outlasted=False, stopped_by=stopped_by) == ""
    assert await reason(tmp_path, end, stopping=False, outlasted=True, stopped_by=stopped_by) == ""
