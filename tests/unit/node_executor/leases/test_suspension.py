"""Real processes that use a libcuda without a GPU, seen by NVML's mock; frozen and moved, and back (R29)."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.contracts.facts.fact import DeviceShare
from headrace.contracts.values.amounts import GPU_UNITS
from headrace.node_executor.devices.nvml import NvmlDevices
from headrace.node_executor.devices.nvml_library import Nvml
from headrace.node_executor.devices.simulated import simulated
from headrace.node_executor.leases import suspension as suspending
from headrace.node_executor.leases.suspension import CannotResume, CannotSuspend, Suspension, SuspensionTarget
from tests.mock_cuda import TRAINER, build
from tests.patience import PATIENCE

WHOLE = DeviceShare(device="GPU-a1b2c300", units=GPU_UNITS)


class Trainer:
    """A program that counts its steps while it holds memory of the first GPU."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        env = os.environ | {"HEADRACE_CONTROL_DIR": str(directory)}
        self.process = subprocess.Popen([sys.executable, "-c", TRAINER], cwd=directory, env=env)
        self.pid, self.group = self.process.pid, None

    def terminate(self) -> None: ...

    def suspend(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self.process.kill()

    @property
    def step(self) -> int:
        path = self.directory / "step"
        return int(path.read_text()) if path.exists() else 0

    async def goes_on(self) -> None:
        before = self.step
        async with asyncio.timeout(PATIENCE):
            while self.step < before + 2:
                await asyncio.sleep(0.01)

    def standing(self, *shares: DeviceShare) -> SuspensionTarget:
        return SuspensionTarget(self, shares, str(self.directory), None, 0)


@pytest.fixture
def devices(machine, tmp_path, monkeypatch):
    (tmp_path / "cuda").mkdir()
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{build(tmp_path / 'cuda')}:{machine.libraries}")
    monkeypatch.setenv("MOCK_CUDA_STATE", str(tmp_path / "cuda"))
    found = NvmlDevices(Nvml(), lambda: 0)
    yield found
    found.close()


@pytest.fixture
async def trainer(devices, tmp_path):
    (tmp_path / "job").mkdir()
    one = Trainer(tmp_path / "job")
    await one.goes_on()
    yield one
    one.kill()
    one.process.wait()


async def test_a_job_leaves_its_gpu_stands_still_and_goes_on_where_it_was(devices, trainer) -> None:
    suspension, job = Suspension(devices), trainer.standing(WHOLE)
    assert devices.holder([WHOLE]) != ""
    assert await suspension.suspend(job) == "cuda-checkpoint"
    assert devices.holder([WHOLE]) == ""
    stat = Path(f"/proc/{trainer.pid}/stat").read_text()  # noqa: ASYNC240 - a look at a local file
    assert stat.rpartition(")")[2].split()[0] == "T"
    await suspension.resume(job)
    assert devices.holder([WHOLE]) != ""
    await trainer.goes_on()


class Slow:
    """A group of processes that stand still after a number of looks."""

    def __init__(self, looks: int) -> None:
        self.looks = looks

    @property
    def is_still(self) -> bool:
        self.looks -= 1
        return self.looks < 0


async def test_it_is_waited_for_until_everything_stands_still(trainer) -> None:
    job, slow = trainer.standing(), Slow(3)
    assert await Suspension(simulated("1xH100-80GB")).suspend(job._replace(group=slow)) == "sigstop"
    assert slow.looks < 0


async def test_what_does_not_come_to_a_standstill_goes_on(devices, trainer, monkeypatch) -> None:
    monkeypatch.setattr(suspending, "STILL_WITHIN", 0.05)
    with pytest.raises(CannotSuspend, match="it does not stand still"):
        await Suspension(devices).suspend(trainer.standing(WHOLE)._replace(group=Slow(1_000)))
    assert devices.holder([WHOLE]) != ""
    await trainer.goes_on()


@pytest.mark.parametrize(
    ("refuse", "reason"),
    [
        ("lock 600", "it did not come to rest in time"),
        ("checkpoint 801", "not supported; it is as it was"),
        ("stuck 1", "its GPU did not become free: process"),
    ],
)
async def test_a_job_that_cannot_be_moved_runs_on(devices, trainer, tmp_path, monkeypatch, refuse, reason) -> None:
    monkeypatch.setattr(suspending, "FREE_WITHIN", 0.1)
    (tmp_path / "cuda" / "refuse").write_text(refuse)
    with pytest.raises(CannotSuspend, match=reason):
        await Suspension(devices).suspend(trainer.standing(WHOLE))
    assert devices.holder([WHOLE]) != ""
    await trainer.goes_on()


async def test_a_job_that_cannot_come_back_says_why(devices, trainer, tmp_path, machine, monkeypatch) -> None:
    monkeypatch.setattr(suspending, "FREE_WITHIN", 0.1)
    suspension, job = Suspension(devices), trainer.standing(WHOLE)
    await suspension.suspend(job)
    machine.process(os.getpid(), 500)
    with pytest.raises(CannotResume, match=f"its GPU is not free: process {os.getpid()}"):
        await suspension.resume(job)
    machine.gone(os.getpid())
    (tmp_path / "cuda" / "refuse").write_text("restore 304")
    with pytest.raises(
        CannotResume, match="could not be put back onto the GPU: cuCheckpointProcessRestore: the kernel refuses"
    ):
        await suspension.resume(job)


async def test_only_one_whole_gpu_is_left_and_only_with_room_for_it(devices, trainer, monkeypatch) -> None:
    half = DeviceShare(device="GPU-a1b2c300", units=GPU_UNITS // 2)
    for shares in ((WHOLE, WHOLE), (half,)):
        with pytest.raises(CannotSuspend, match="one whole GPU"):
            await Suspension(devices).suspend(trainer.standing(*shares))
    monkeypatch.setattr(suspending, "_available", lambda: 2_048)
    with pytest.raises(CannotSuspend, match="2048 MiB of memory free; 2048 MiB have to be moved"):
        await Suspension(devices).suspend(trainer.standing(WHOLE))


async def test_a_call_that_hangs_is_given_up(devices, trainer, monkeypatch) -> None:
    monkeypatch.setattr(suspending, "LOCK_WITHIN", 0.0)
    monkeypatch.setattr(suspending, "CALL_WITHIN", 0.0)
    monkeypatch.setattr(suspending, "PER_GIB", 0.0)
    with pytest.raises(CannotSuspend, match="the driver did not suspend it within 0 s"):
        await Suspension(devices).suspend(trainer.standing(WHOLE))


async def test_a_driver_that_is_too_old_suspends_nothing(machine, trainer) -> None:
    machine.reset(driver="565.57.01")
    old = NvmlDevices(Nvml(), lambda: 0)
    with pytest.raises(CannotSuspend, match="this node cannot suspend"):
        await Suspension(old).suspend(trainer.standing(WHOLE))
    old.close()


async def test_on_devices_that_do_not_exist_nothing_has_to_be_moved(trainer) -> None:
    suspension = Suspension(simulated("1xH100-80GB"))
    job = trainer.standing(DeviceShare(device="gpu0", units=GPU_UNITS))
    assert await suspension.suspend(job) == "sigstop"
    await suspension.resume(job)
    await trainer.goes_on()
