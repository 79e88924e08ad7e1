"""Parts of a real GPU: caps, walls and the watchdog."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import time

import pytest

from headrace.contracts.facts.fact import DeviceShare
from headrace.contracts.values.amounts import GPU_UNITS
from headrace.node_executor.devices.nvml import NvmlDevices
from headrace.node_executor.enforcement import EnforcementRequest
from headrace.node_executor.enforcement.device_isolation import CgroupDeviceList
from headrace.node_executor.enforcement.discovery import unified_base
from headrace.node_executor.enforcement.enforcement import Enforcement, Mechanisms
from headrace.node_executor.enforcement.mps import CONTROL, MpsMechanism
from headrace.node_executor.enforcement.owners import LeaseOwners
from headrace.node_executor.enforcement.parts import CONTEXT, from_within, overrun_at, part_of
from headrace.node_executor.enforcement.preload import PreloadMechanism
from headrace.node_executor.enforcement.probe_run import ProbeRun
from headrace.node_executor.enforcement.watchdog import Overrun
from tests.gpu.programs import FILL, TAKE, TORCH

WITH_GPUS = importlib.util.find_spec("torch") is not None and not importlib.metadata.version("torch").endswith("+cpu")
FREED_WITHIN = 30.0


@pytest.fixture
def half(gpu: str) -> DeviceShare:
    return DeviceShare(device=gpu, units=GPU_UNITS // 2)


@pytest.fixture
def enforcement(devices: NvmlDevices, cap: PreloadMechanism, tmp_path):
    overruns: queue.Queue[Overrun] = queue.Queue()
    found = Enforcement(devices, Mechanisms(parts=(cap,)), LeaseOwners(str(tmp_path)), overruns.put)
    found.overruns = overruns
    found.prove()
    yield found
    found.close()


@pytest.fixture
def run():
    """Starts programs, and ends them with the test."""
    started = []

    def start(env: dict[str, str], script: str, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", script, *arguments]
        started.append(subprocess.Popen(command, env=os.environ | env, stdout=subprocess.PIPE, text=True))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_the_cap_from_within_proves_itself(cap: PreloadMechanism, gpu: str) -> None:
    assert cap.prove() == "cooperative"


def test_a_job_is_shown_its_half_and_can_fill_it(
    devices: NvmlDevices, enforcement: Enforcement, half, control, run, figure
) -> None:
    part = part_of(devices.gpu(half.device).memory, half.units)
    env = enforcement.enter(EnforcementRequest("a.b.c/1/0", (half,), control("a.b.c/1/0"))).env
    shown = run(env, TAKE, "1024").stdout.readline().split()
    assert shown == ["0", str(from_within(part))]
    filled = int(run(env, FILL).stdout.readline())
    figure("of a half, MiB: given, filled", (part, filled))
    left = from_within(part) - 1_024 - CONTEXT  # beside the first program, which is there still
    assert left - 64 <= filled <= left


@pytest.mark.skipif(not WITH_GPUS, reason="PyTorch is not installed, or only the one without CUDA")
@pytest.mark.parametrize("allocator", ["", "expandable_segments:True", "backend:cudaMallocAsync"])
def test_pytorch_stops_at_its_half_whatever_its_allocator(
    devices, enforcement, half, control, run, figure, allocator: str
) -> None:
    part = part_of(devices.gpu(half.device).memory, half.units)
    env = enforcement.enter(EnforcementRequest("a.b.c/1/0", (half,), control("a.b.c/1/0"))).env
    shown, got = map(int, run(env | {"PYTORCH_CUDA_ALLOC_CONF": allocator}, TORCH).stdout.readline().split())
    figure("MiB: given, shown, got", (part, shown, got))
    assert shown == from_within(part)
    assert got <= part


def test_who_gets_around_the_cap_is_seen_within_a_second_and_its_neighbour_is_left_alone(
    devices: NvmlDevices, enforcement: Enforcement, half, control, run, figure
) -> None:
    part = part_of(devices.gpu(half.device).memory, half.units)
    quarter = DeviceShare(device=half.device, units=half.units // 2)
    good, bad = (
        EnforcementRequest(f"a.b.{name}/1/0", (share,), control(name)) for name, share in (("good", quarter), ("bad", half))
    )
    neighbour = run(enforcement.enter(good).env, FILL)
    enforcement.started(good.lease, good.control, neighbour.pid)
    assert int(neighbour.stdout.readline()) > part // 4
    env = {name: value for name, value in enforcement.enter(bad).env.items() if name != "LD_PRELOAD"}
    escaped = run(env, TAKE, str(overrun_at(part)))
    enforcement.started(bad.lease, bad.control, escaped.pid)
    assert escaped.stdout.readline().split()[0] == "0"
    began = time.monotonic()
    overrun = enforcement.overruns.get(timeout=1.0)
    figure("seconds until the overrun was seen", round(time.monotonic() - began, 3))
    assert (overrun.lease, overrun.limit) == (bad.lease, part)
    assert neighbour.poll() is None


def test_memory_is_free_soon_after_a_kill(devices: NvmlDevices, gpu: str, run, figure) -> None:
    process = run({"CUDA_VISIBLE_DEVICES": devices.gpu(gpu).uuid}, TAKE, "16384")
    process.stdout.readline()
    process.kill()
    began = time.monotonic()
    while any(one.pid == process.pid for one in devices.on_devices()[gpu]):
        assert time.monotonic() - began < FREED_WITHIN
        time.sleep(0.005)
    figure("seconds from SIGKILL to free", round(time.monotonic() - began, 3))


@pytest.mark.skipif(os.geteuid() != 0, reason="device lists of cgroups take root")
def test_without_its_nodes_a_gpu_cannot_be_used_and_with_them_it_can(devices: NvmlDevices, gpu: str, figure) -> None:
    base = unified_base("gpu-check")
    if not base or not os.path.exists("/dev/nvidiactl"):
        pytest.skip("cgroup version 2 is not mounted, or the driver's nodes are not here")
    mechanism, share = CgroupDeviceList(base), DeviceShare(device=gpu, units=GPU_UNITS)
    env, answers = {"CUDA_VISIBLE_DEVICES": devices.gpu(gpu).uuid}, []
    for name, nodes in (("without", ()), ("with", devices.nodes((share,)))):
        launch = mechanism.build(name, nodes, "")
        answers.append(ProbeRun().send(("take", "16"), env, launch.group))
        mechanism.tear_down(name)
    os.rmdir(base)
    figure("answers of libcuda without and with the nodes", answers)
    assert answers[0][:1] not in ([], [0])
    assert answers[1][:1] == [0]


def test_mps_holds_what_it_is_said_to_hold(devices: NvmlDevices, gpu: str, figure) -> None:
    if not shutil.which(CONTROL):
        pytest.skip(f"{CONTROL} is not installed")
    with tempfile.TemporaryDirectory(prefix="mps-") as directory:  # a short path, as that of a socket has to be
        level = MpsMechanism(devices, f"{directory}/mps").prove()
    figure("level of MPS", level or "none")
    assert level in {"", "driver", "cooperative"}
