"""A real executor with real jobs, cgroups and NVML's real binding; the GPUs, and the driver below, are the mock's."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.contracts.facts import DeviceDrainedV1, LeaseOverranV1, NodeRegisteredV1
from headrace.contracts.facts.fact import DeviceShare
from headrace.contracts.messages.orders import Samples, StartOrder
from headrace.contracts.transport.codec import decode
from headrace.contracts.values.amounts import GPU_UNITS
from headrace.contracts.values.isolation import CONTAINED, UNABLE
from headrace.node_executor.devices.nvml_library import Nvml
from headrace.node_executor.devices.nvml_values import Instance
from tests.integration.nodes import Executor, Feed, until
from tests.mock_nvml import STATE, XID, Machine

FIRST, SECOND = "GPU-a1b2c300", "GPU-a1b2c301"
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mechanisms that the kernel enforces take root")

TAKE = """
import ctypes, sys, time
cuda = ctypes.CDLL("libcuda.so.1")
context, at = ctypes.c_void_p(), ctypes.c_uint64()
print(cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), cuda.cuCtxSetCurrent(context))
print([cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(int(size) << 20)) for size in sys.argv[1:]], flush=True)
time.sleep(600)
"""


OPENS = """
import json, os
def opening(path):
    try:
        os.close(os.open(path, os.O_RDWR))
    except OSError as error:
        return error.errno
    return 0
print(json.dumps([opening(f"/dev/nvidia{number}") for number in range(2)]))
"""
NODES = (Path("/dev/nvidia0"), Path("/dev/nvidia1"))
PYTHON = shutil.which("python3", path=os.defpath) or sys.executable
"""A Python that accounts of jobs can run."""


@pytest.fixture
def words(machine: Machine, tmp_path, monkeypatch) -> tuple[str, ...]:
    """For the node: the mock's two H100; the first is in MIG mode."""
    machine.set("mig", 1)
    monkeypatch.setenv("HEADRACE_NATIVE_DIR", str(tmp_path / "native"))
    return ("--devices", "nvml")


async def begin(feed: Feed, number: int, share: DeviceShare, *command: str) -> str:
    """A job that finds the mock of libcuda; its key."""
    job = f"acme.alice.01j9z3k4m5n6p7q8r9s0t1v2{number:02d}"
    order = StartOrder(
        lease=f"{job}/1/0",
        job=job,
        attempt=1,
        granted=50 + number,
        devices=(share,),
        amounts={},
        command=command,
        env={name: os.environ[name] for name in ("LD_LIBRARY_PATH", STATE)},
    )
    feed.starts[order.lease] = order
    await feed.push(starts=(order,))
    return job


async def test_a_node_says_what_it_has_and_what_it_has_proved(node, feed) -> None:
    (registered,) = [fact for fact in feed.facts if isinstance(fact, NodeRegisteredV1)]
    assert [(device.device, device.model, device.mig) for device in registered.devices] == [
        (FIRST, "H100-80GB", True),
        (SECOND, "H100-80GB", False),
    ]
    assert registered.labels["gpu.driver"] == "580.95.05"
    assert registered.isolation == "cooperative"
    assert registered.levels == {"whole": "hardware", "slice": "hardware", **dict.fromkeys(CONTAINED, UNABLE)}


async def test_a_job_gets_its_slice_just_there_and_nothing_is_left_of_it(node, feed) -> None:
    share = DeviceShare(device=FIRST, units=63_000, mig="3g.40gb", start=4)
    job = await begin(feed, 0, share, "sh", "-c", 'echo "$CUDA_VISIBLE_DEVICES"; while [ ! -e go ]; do sleep 0.01; done')
    started = await feed.started(job)
    nvml = Nvml()
    (made,) = nvml.instances(nvml.uuids[0])
    name = nvml.slice_name(nvml.uuids[0], made.id)
    assert (started.isolation, made) == ("hardware", Instance(made.id, made.kind, 4, 4))
    (node.data / "leases" / f"{job}.1.0" / "work" / "go").touch()
    ended = await feed.ended(job)
    assert (ended.outcome, ended.exit_code) == ("exited", 0)
    assert (await feed.read_log(job)).data == f"{name}\n"
    assert nvml.instances(nvml.uuids[0]) == []
    nvml.close()


async def test_a_part_of_a_gpu_is_a_part_and_who_gets_around_it_is_killed_and_its_neighbour_is_not(node, feed) -> None:
    half = DeviceShare(device=SECOND, units=GPU_UNITS // 2)
    good = await begin(feed, 0, half, sys.executable, "-c", TAKE, "50000", "30000")
    await until(lambda: "[2, 0]" in _log(node, good))
    assert (await feed.started(good)).isolation == "cooperative"
    bad = await begin(feed, 1, half, "env", "-u", "LD_PRELOAD", sys.executable, "-c", TAKE, "45000")
    ended = await feed.ended(bad)
    (overran,) = feed.of(bad, LeaseOverranV1)
    assert (overran.device, overran.limit, overran.used) == (SECOND, 40_267, 45_500)
    assert (ended.exit_code, ended.message) == (137, f"it held 45500 MiB of {SECOND}, 40267 MiB are its own")
    assert ended.exited_at - overran.at < 1_000_000
    assert feed.of(good, LeaseOverranV1) == []
    assert f"{good}/1/0" in feed.starts


@pytest.fixture
async def apart(feed, nats_server, machine: Machine) -> AsyncIterator[Executor]:
    """A node whose jobs run under accounts of their own, which may load the mock."""
    for folder in (machine.libraries, *machine.libraries.parents[:-2], machine.state.parent):
        os.chmod(folder, os.stat(folder).st_mode | 0o011)
    machine.state.chmod(0o666)
    with tempfile.TemporaryDirectory(prefix="headrace-", ignore_cleanup_errors=True) as folder:
        os.chmod(folder, 0o755)
        node = Executor(Path(folder), nats_server)
        node.start("--devices", "nvml", "--run-as", "own", "--on-stop", "end")
        await until(lambda: feed.count(NodeRegisteredV1))
        yield node
        assert node.process is not None
        node.process.terminate()
        await asyncio.to_thread(node.process.wait)


async def test_the_cap_is_loaded_in_a_job_that_runs_under_an_account_of_its_own(feed, apart: Executor) -> None:
    half = DeviceShare(device=FIRST, units=GPU_UNITS // 2)
    job = await begin(feed, 0, half, PYTHON, "-c", TAKE, "50000", "30000")
    await until(lambda: "[2, 0]" in _log(apart, job))
    assert (await feed.started(job)).isolation == "cooperative"
    assert "cannot be preloaded" not in _log(apart, job)


async def test_who_avoids_the_cap_is_ended_also_under_an_account_of_its_own(feed, apart: Executor) -> None:
    half = DeviceShare(device=FIRST, units=GPU_UNITS // 2)
    job = await begin(feed, 0, half, "env", "-u", "LD_PRELOAD", PYTHON, "-c", TAKE, "45000")
    ended = await feed.ended(job)
    assert (ended.exit_code, ended.message) == (137, f"it held 45500 MiB of {FIRST}, 40267 MiB are its own")


@pytest.fixture
def gpu_nodes() -> Iterator[None]:
    """Device nodes of two GPUs, which this machine has no driver for, so opening them is "No such device or address"."""
    made = []
    try:
        for number, path in enumerate(NODES):
            if not path.exists():
                os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(195, number))
                made.append(path)
                path.chmod(0o666)
        if [opening(path) for path in NODES] != [errno.ENXIO] * 2:
            pytest.skip("this machine has GPUs, or lets nobody open their device nodes")
        yield
    except PermissionError as error:
        pytest.skip(f"device nodes cannot be made here: {error}")
    finally:
        for path in made:
            path.unlink()


def opening(path: Path) -> int:
    """The errno of opening it; 0: it was opened."""
    try:
        os.close(os.open(path, os.O_RDWR))
    except OSError as error:
        return error.errno or 0
    return 0


async def test_a_job_opens_the_device_node_of_its_own_gpu_and_of_no_other(feed, gpu_nodes, apart: Executor) -> None:
    output = {}
    for number, device in enumerate((FIRST, SECOND)):
        job = await begin(feed, number, DeviceShare(device=device, units=GPU_UNITS), PYTHON, "-c", OPENS)
        assert (await feed.started(job)).isolation == "hardware"
        await feed.ended(job)
        output[device] = json.loads((await feed.read_log(job)).data)
    mine, refused = errno.ENXIO, (errno.EPERM, errno.ENOENT)
    assert [output[FIRST][0], output[SECOND][1]] == [mine, mine]
    assert output[FIRST][1] in refused
    assert output[SECOND][0] in refused


async def test_a_gpu_that_fails_is_drained_by_a_fact_and_the_job_on_it_is_lost(node, feed, machine) -> None:
    job = await feed.start(0, "sh", "-c", "while [ ! -e go ]; do sleep 0.01; done; exit 7", devices=(SECOND,))
    assert (await feed.started(job)).isolation == "hardware"
    machine.event(XID, 31, gpu=1)
    await until(lambda: machine.event(XID, 79, gpu=1) or feed.count(DeviceDrainedV1))  # who listens later hears the next one
    (drained,) = [fact for fact in feed.facts if isinstance(fact, DeviceDrainedV1)]
    assert (drained.device, drained.cause, drained.code) == (SECOND, "xid", 79)
    (node.data / "leases" / f"{job}.1.0" / "work" / "go").touch()
    ended = await feed.ended(job)
    assert (ended.outcome, ended.exit_code, ended.message) == (
        "lost",
        7,
        f"device {SECOND} failed: XID 79: it has fallen off the bus",
    )
    refused = await feed.ended(await feed.start(1, "true", devices=(SECOND,)))
    assert (refused.outcome, "is drained" in refused.message) == ("refused", True)


async def test_what_devices_and_leases_do_is_told_while_it_happens(node, feed, machine) -> None:
    samples: list[Samples] = []

    async def receive(message: Any) -> None:
        samples.append(decode(message.data, Samples))

    await feed.connection.subscribe("hr.telemetry.gpu01.samples", cb=receive)
    machine.set("gpu_util", 70, gpu=1)
    job = await begin(feed, 0, DeviceShare(device=SECOND, units=GPU_UNITS), sys.executable, "-c", TAKE, "1000")
    await until(lambda: samples and any(one.devices.get(SECOND) == 1_500 for one in samples[-1].leases))
    (lease,) = samples[-1].leases
    assert (lease.lease, lease.processes >= 1) == (f"{job}/1/0", True)
    second = samples[-1].devices[1]
    assert (second.device, second.busy, second.memory_used, second.held > 0) == (SECOND, 70, 1_500, True)


def _log(node: Executor, job: str) -> str:
    path = node.data / "logs" / f"{job}.1.0.log"
    return path.read_text() if path.exists() else ""
