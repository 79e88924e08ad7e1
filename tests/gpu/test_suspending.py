"""A real process leaves a real GPU and comes back (R29). It takes as much free host memory as the process holds of the GPU, and more."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from headrace.contracts.facts.fact import DeviceShare
from headrace.contracts.values.amounts import GPU_UNITS
from headrace.node_executor.devices.nvml import NvmlDevices
from headrace.node_executor.leases.suspension import SPARE, Suspension, SuspensionTarget
from tests.gpu.programs import COUNT
from tests.patience import PATIENCE

SIZES = (1_024, 8_192, 32_768)
TIMES = 3


class Counter:
    """A program that counts, and what is sent to it. `directory` is its control directory."""

    def __init__(self, directory: Path, env: dict[str, str], mib: int) -> None:
        self.directory = directory
        environment = os.environ | env | {"HEADRACE_CONTROL_DIR": str(directory)}
        self.process = subprocess.Popen([sys.executable, "-c", COUNT, str(mib)], cwd=directory, env=environment)
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
                assert self.process.poll() is None, "it has ended"
                await asyncio.sleep(0.01)
        assert not (self.directory / "broken").exists(), "its memory is not what it was"


@pytest.fixture(params=SIZES)
def counter(request, devices: NvmlDevices, gpu: str, tmp_path: Path) -> Iterator[Counter]:
    if devices.labels["gpu.checkpoint"] != "yes":
        pytest.skip(f"driver {devices.labels['gpu.driver']} cannot move processes off a GPU; 570 and newer can")
    if not hasattr(ctypes.CDLL("libcuda.so.1"), "cuCheckpointProcessLock"):
        pytest.skip("libcuda here has no calls that move a process off its GPU")
    if psutil.virtual_memory().available >> 20 < 2 * SPARE * request.param or devices.gpu(gpu).memory < 2 * request.param:
        pytest.skip(f"there is not enough memory free to move {request.param} MiB")
    one = Counter(tmp_path, {"CUDA_VISIBLE_DEVICES": devices.gpu(gpu).uuid}, request.param)
    yield one
    one.kill()
    one.process.wait()


async def test_a_process_leaves_its_gpu_and_goes_on_with_its_memory_as_it_was(
    devices: NvmlDevices, gpu: str, counter: Counter, figure: Callable[[str, object], None]
) -> None:
    suspension, share = Suspension(devices), DeviceShare(device=gpu, units=GPU_UNITS)
    standing = SuspensionTarget(counter, (share,), str(counter.directory), None, 0)
    await counter.goes_on()
    for _ in range(TIMES):
        used, began = devices.samples()[gpu].memory, time.monotonic()
        assert await suspension.suspend(standing) == "cuda-checkpoint"
        off = time.monotonic() - began
        assert counter.pid not in {one.pid for one in devices.on_devices()[gpu]}
        left, began = devices.samples()[gpu].memory, time.monotonic()
        await suspension.resume(standing)
        figure("MiB before, after, s off, s back", (used, left, round(off, 3), round(time.monotonic() - began, 3)))
        await counter.goes_on()
