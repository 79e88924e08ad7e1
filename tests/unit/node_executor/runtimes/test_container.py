"""Containers through an engine's socket: one that is played here, by plain processes, and a real one where the machine has it."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from headrace.contracts.amounts import GPU_UNITS
from headrace.contracts.documents import Mount
from headrace.contracts.facts.fact import DeviceShare
from headrace.contracts.isolation import CONTAINED, UNABLE
from headrace.node_executor import leftovers
from headrace.node_executor.accounts import Account
from headrace.node_executor.devices.nvml import NvmlDevices
from headrace.node_executor.devices.nvml_library import Nvml
from headrace.node_executor.devices.simulated import simulated
from headrace.node_executor.runtimes import CALLBACK, CannotStart, Container, End, Hears, Launch, Running, Runtime
from headrace.node_executor.runtimes.container import (
    SOCKETS,
    ContainerRuntime,
    Either,
    creation,
    description,
    device_names,
    find_engine,
    level_inside,
    levels_inside,
)
from headrace.node_executor.runtimes.container_run import Engine as Client
from headrace.node_executor.runtimes.container_run import EngineError
from headrace.node_executor.runtimes.nursery import Nursery
from headrace.node_executor.runtimes.output import Output
from headrace.node_executor.runtimes.process import ProcessRuntime
from tests.mock_engine import Engine
from tests.patience import PATIENCE

REAL_IMAGE = "busybox:latest"


def real_engine() -> str:
    """The socket of an engine that has the image for these tests; empty: there is none here."""
    path = find_engine("auto")
    try:
        return path if path and Client(path).call("GET", f"/images/{REAL_IMAGE}/json", timeout=2) else ""
    except EngineError:
        return ""


class Site:
    """A directory, an engine's socket, and a runtime between them; `again` is the next executor's."""

    def __init__(self, directory: Path, socket: str, image: str) -> None:
        self.directory, self.socket, self.image = directory, socket, image
        self.lock = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
        self.nursery = Nursery("", self.lock)
        processes = ProcessRuntime(self.nursery, str(directory / "kept"))
        self.runtime = Either(processes, ContainerRuntime(processes, socket, str(directory / "containers")))

    def launch(self, *command: str, **fields: Any) -> Launch:
        control = str(self.directory / "control")
        output = Output(str(self.directory / "log"), 1_000_000)
        env = {"PATH": "/usr/bin:/bin", "HEADRACE_CONTROL_DIR": control, "A": "b"}
        asked = fields.pop("container", Container(self.image, (str(self.directory),)))
        return Launch("x.1.0", command, env, str(self.directory), control, output, container=asked, **fields)

    def again(self) -> Site:
        self.close()
        return Site(self.directory, self.socket, self.image)

    def close(self) -> None:
        self.nursery.close()
        os.close(self.lock)

    @property
    def printed(self) -> str:
        path = self.directory / "log"
        return path.read_text() if path.exists() else ""


class Story:
    """What is heard of one start."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.running: asyncio.Future[Running] = loop.create_future()
        self.end: asyncio.Future[End] = loop.create_future()
        self.hears = Hears(lambda running, _: self.running.set_result(running), self.running.set_exception, self.end.set_result)

    async def runs(self) -> Running:
        async with asyncio.timeout(PATIENCE):
            return await self.running

    async def ends(self) -> int | None:
        await self.runs()
        async with asyncio.timeout(PATIENCE):
            return (await self.end).code


def started(site: Site, *command: str, **fields: Any) -> Story:
    story = Story()
    site.runtime.start(site.launch(*command, **fields), story.hears)
    return story


@pytest.fixture
def engine(tmp_path) -> Any:
    one = Engine(tmp_path / "engine.sock")
    yield one
    one.end()


@pytest.fixture(params=["played", "real"])
async def site(request, tmp_path) -> AsyncIterator[Site]:
    if request.param == "real":
        path = real_engine()
        if not path:
            pytest.skip(f"no container engine with {REAL_IMAGE} at {' or '.join(SOCKETS)}")
        one = Site(tmp_path, path, REAL_IMAGE)
    else:
        one = Site(tmp_path, request.getfixturevalue("engine").server_address, "trainer:1")
    yield one
    one.close()
    await asyncio.to_thread(leftovers.sweep, str(tmp_path))


async def until(site: Site, text: str) -> None:
    async with asyncio.timeout(PATIENCE):
        while text not in site.printed:
            await asyncio.sleep(0.01)


async def test_a_container_runs_prints_into_the_same_log_and_ends_with_its_code(site) -> None:
    story = started(site, "sh", "-c", "echo one $A; echo two >&2; exit 7")
    assert await story.ends() == 7
    assert sorted(site.printed.splitlines()) == ["one b", "two"]


async def test_sigterm_reaches_what_runs_inside(site) -> None:
    story = started(site, "sh", "-c", "trap 'echo asked; exit 3' TERM; echo ready; while :; do sleep 0.01; done")
    await until(site, "ready")
    (await story.runs()).terminate()
    assert await story.ends() == 3
    assert site.printed == "ready\nasked\n"


async def test_what_ignores_it_is_killed(site) -> None:
    story = started(site, "sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.01; done")
    await until(site, "ready")
    (await story.runs()).kill()
    assert await story.ends() == 137


async def test_a_callback_runs_inside_beside_the_job(site) -> None:
    story = started(site, "sh", "-c", "echo ready; while [ ! -e saved ]; do sleep 0.01; done")
    await until(site, "ready")
    saving = Story()
    launch = site.launch("sh", "-c", "echo saving; touch saved; exit 4", part=CALLBACK)._replace(name=f"x.1.0.{CALLBACK}")
    site.runtime.start(launch, saving.hears)
    assert await saving.ends() == 4
    assert await story.ends() == 0
    assert site.printed == "ready\nsaving\n"


async def test_it_outlives_the_executor_and_the_next_one_takes_it_over(site) -> None:
    story = started(site, "sh", "-c", "while [ ! -e release ]; do sleep 0.01; done; echo on; exit 6")
    await story.runs()
    heir = site.again()
    later = Story()
    assert heir.runtime.adopt(heir.launch(), later.hears)
    (site.directory / "release").touch()
    assert await later.ends() == 6
    assert site.printed == "on\n"
    heir.runtime.forget("x.1.0")
    assert os.listdir(site.directory / "kept") == os.listdir(site.directory / "containers") == []


async def test_where_what_runs_it_is_killed_nothing_of_it_is_left(site, tmp_path) -> None:
    story = started(site, "sleep", "1000")
    await story.runs()
    os.kill(int((tmp_path / "kept" / "x.1.0").read_text().split()[1]), signal.SIGKILL)
    assert await story.ends() is None
    with pytest.raises(EngineError, match=r".") as error:
        Client(site.socket).call("POST", "/containers/headrace-x.1.0/kill?signal=SIGKILL")
    assert error.value.status == 404


@pytest.mark.parametrize(
    ("image", "command", "code", "message"),
    [
        ("trainer:1", "no-such-command", 127, 'exec: "no-such-command": executable file not found in $PATH'),
        ("nowhere", "true", None, "the image nowhere cannot be pulled: manifest unknown"),
    ],
)
async def test_what_cannot_be_started_says_whose_fault_it_is(engine, tmp_path, image, command, code, message) -> None:
    """R36."""
    site = Site(tmp_path, engine.server_address, image)
    with pytest.raises(CannotStart) as error:
        await started(site, command).runs()
    assert (error.value.message, error.value.exit_code) == (message, code)
    assert engine.containers == {}
    site.close()


async def test_an_image_that_is_not_here_is_pulled(engine, tmp_path) -> None:
    site = Site(tmp_path, engine.server_address, "other")
    assert await started(site, "true").ends() == 0
    site.close()


async def test_an_engine_that_went_away_is_the_nodes_fault(engine, tmp_path) -> None:
    site = Site(tmp_path, f"{engine.server_address}.gone", "trainer:1")
    with pytest.raises(CannotStart, match="the container engine at .* does not answer") as error:
        await started(site, "true").runs()
    assert error.value.exit_code is None
    site.close()


async def test_without_an_engine_an_image_is_the_nodes_fault(tmp_path) -> None:
    site = Site(tmp_path, "", "trainer:1")
    story = Story()
    Either(ProcessRuntime(site.nursery, str(tmp_path / "kept")), None).start(site.launch("true"), story.hears)
    with pytest.raises(CannotStart, match="this node has no container engine for the image trainer:1"):
        await story.runs()
    site.close()


def test_both_have_the_whole_face_of_a_runtime() -> None:
    names = {name for name in vars(Runtime) if not name.startswith("_")}
    assert {name for made in (ContainerRuntime, Either) for name in names if not hasattr(made, name)} == set()


def asked(*, podman: bool, **fields: Any) -> dict[str, Any]:
    output = Output("/log", 1)
    mounts = (Mount(source="/srv/sets", target="/data"), Mount(source="/scratch", target="/scratch", read_only=False))
    container = Container(
        "trainer:1", ("/control", "/ckpt"), ("nvidia.com/gpu=GPU-1",), cpu=2_500, memory=64, pids=100, mounts=mounts
    )
    launch = Launch("x.1.0", ("python", "train.py"), {"A": "b"}, "/work", "/control", output, container=container, **fields)
    return creation(launch, podman=podman)


def test_of_containers_a_node_says_what_their_leases_record_and_where_they_cannot_run() -> None:
    levels = {"whole": "hardware", "fraction": "kernel", "slice": "none"}
    inside = {"container-whole": "watchdog", "container-fraction": UNABLE, "container-slice": "none"}
    assert levels_inside(levels, engine=True, parts=False) == inside
    assert levels_inside(levels, engine=True, parts=True) == inside | {"container-fraction": "watchdog"}
    assert inside["container-whole"] == level_inside(levels["whole"])
    assert levels_inside(levels, engine=False, parts=True) == dict.fromkeys(CONTAINED, UNABLE)


def test_an_engine_is_asked_for_exactly_what_was_granted() -> None:
    body = asked(podman=False, account=Account(77, 78, "alice", (109,)))
    host = body.pop("HostConfig")
    assert body == {
        "Image": "trainer:1",
        "Entrypoint": ["python", "train.py"],
        "Cmd": [],
        "Env": ["A=b"],
        "WorkingDir": "/work",
        "User": "77:78",
        "Labels": {"headrace.lease": "x.1.0"},
        "StopSignal": "SIGTERM",
    }
    assert host["Binds"] == ["/control:/control", "/ckpt:/ckpt", "/srv/sets:/data:ro", "/scratch:/scratch"]
    assert (host["NanoCpus"], host["Memory"], host["MemorySwap"], host["PidsLimit"]) == (2_500_000_000, 67108864, 67108864, 100)
    assert host["DeviceRequests"] == [{"Driver": "cdi", "DeviceIDs": ["nvidia.com/gpu=GPU-1"]}]
    assert (host["CapDrop"], host["SecurityOpt"], host["GroupAdd"]) == (["ALL"], ["no-new-privileges"], ["109"])


def test_podman_is_asked_for_devices_in_its_own_words() -> None:
    host = asked(podman=True)["HostConfig"]
    assert host["Devices"][0]["PathOnHost"] == "nvidia.com/gpu=GPU-1"
    assert "DeviceRequests" not in host


def test_devices_are_named_as_cdi_names_them(machine) -> None:
    devices = NvmlDevices(Nvml(), lambda: 0)
    whole = DeviceShare(device="GPU-a1b2c300", units=GPU_UNITS)
    [name] = device_names(devices, [whole], "x.1.0")
    assert name.startswith("nvidia.com/gpu=GPU-a1b2c300-")
    piece = DeviceShare(device="GPU-a1b2c300", units=GPU_UNITS // 7, mig="1g.10gb")
    assert device_names(devices, [piece], "x.1.0") == ("headrace.local/gpu=x.1.0",)
    assert device_names(simulated("1xL4"), [DeviceShare(device="gpu0", units=GPU_UNITS)], "x.1.0") == ()
    assert device_names(devices, [], "x.1.0") == ()
    devices.close()


def test_a_slice_is_described_by_its_device_nodes_and_what_every_gpu_needs() -> None:
    edits = {"mounts": [{"hostPath": "/lib/libcuda.so.1", "containerPath": "/lib/libcuda.so.1"}]}
    assert description("x.1.0", ["/dev/nvidia0"], edits) == {
        "cdiVersion": "0.6.0",
        "kind": "headrace.local/gpu",
        "devices": [{"name": "x.1.0", "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia0"}]}}],
        "containerEdits": edits,
    }


def test_an_engine_is_found_where_it_listens(tmp_path, engine) -> None:
    assert find_engine(engine.server_address) == engine.server_address
    assert find_engine("off") == find_engine(str(tmp_path / "nothing")) == ""
    (tmp_path / "podman").mkdir()
    os.link(engine.server_address, tmp_path / "podman" / "podman.sock")
    assert find_engine("auto", str(tmp_path)) in {*SOCKETS, f"{tmp_path}/podman/podman.sock"}
