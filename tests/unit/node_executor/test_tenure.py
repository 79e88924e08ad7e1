from __future__ import annotations

import asyncio
import os
import subprocess

import pytest

from headrace.node_executor import guard
from headrace.node_executor.tenure import Occupied, Tenure
from tests.patience import PATIENCE


def leftover(data: str) -> subprocess.Popen[bytes]:
    env = {"HEADRACE_CONTROL_DIR": f"{data}/leases/x.1.0"}
    return subprocess.Popen(["/bin/sleep", "1000"], env=env, start_new_session=True)


def test_a_data_directory_has_one_executor_at_a_time(tmp_path) -> None:
    first = Tenure(str(tmp_path))
    with pytest.raises(Occupied, match="another executor uses"):
        Tenure(str(tmp_path), wait=0.1)
    first.release()
    Tenure(str(tmp_path), wait=0.1).release()


def test_what_a_former_executor_left_running_is_ended_first(tmp_path) -> None:
    process = leftover(str(tmp_path))
    tenure = Tenure(str(tmp_path))
    assert process.wait(PATIENCE) == -9
    tenure.release()


def test_the_guard_ends_what_still_runs_when_the_executor_lets_go(tmp_path) -> None:
    tenure = Tenure(str(tmp_path))
    process = leftover(str(tmp_path))
    tenure.release()
    assert process.wait(PATIENCE) == -9


async def test_a_guard_that_dies_is_replaced(tmp_path) -> None:
    tenure = Tenure(str(tmp_path))
    tenure.watch()
    old = tenure.guard_pid
    os.kill(old, 9)
    async with asyncio.timeout(PATIENCE):
        while tenure.guard_pid == old:
            await asyncio.sleep(0.01)
    process = leftover(str(tmp_path))
    assert guard.started_from(f"{tmp_path}/leases") == [process.pid]
    tenure.release()
    assert process.wait(PATIENCE) == -9
