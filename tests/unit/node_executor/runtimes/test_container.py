"""Containers through the socket of an engine that is played here, by plain processes; of a real one with `HEADRACE_TEST_ENGINE=real`
(`make test-containers`)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.contracts.values.isolation import CONTAINED, UNABLE
from headrace.contracts.values.networks import NETWORKS
from headrace.node_executor.containers import SOCKETS, find_engine, remembered
from headrace.node_executor.enforcement.in_containers import level_inside, levels_inside
from headrace.node_executor.runtimes import CALLBACK, CannotStart, Container, End, Launch, Running, Runtime, RuntimeListener
from headrace.node_executor.runtimes.container import ContainerRuntime
from headrace.node_executor.runtimes.container_engine import Engine as Client
from headrace.node_executor.runtimes.container_engine import EngineError
from headrace.node_executor.runtimes.container_run import NETWORK_FAILED
from headrace.node_executor.runtimes.either import Either
from headrace.node_executor.runtimes.job_log import Output, pieces
from headrace.node_executor.runtimes.keeper_client import Spawner
from headrace.node_executor.runtimes.process import ProcessRuntime
from headrace.node_executor.system import native, orphans
from headrace.node_executor.system.c_programs import CONTAINER_INIT, STATIC
from tests.mock_engine import Contained, Engine
from tests.mock_nvml import compiler
from tests.patience import PATIENCE
from tests.real_engine import NotHere, Podman, podman

IS_REAL = os.environ.get("HEADRACE_TEST_ENGINE", "") == "real"
needs_compiler = pytest.mark.skipif(compiler() is None, reason="the first process of a container is built by a C compiler")


class Site:
    """A directory, an engine, and a runtime between them; `again` is the next executor's."""

    def __init__(self, directory: Path, engine: Engine | Podman, init: str, image: str = "") -> None:
        self.directory, self.engine, self.init, self.image = directory, engine, init, image or engine.image
        self.lock = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
        self.spawner = Spawner("", self.lock)
        processes = ProcessRuntime(self.spawner, str(directory / "kept"))
        self.containers = ContainerRuntime(processes, engine.socket, str(directory / "containers"), init, f"n:{directory}")
        self.runtime = Either(processes, self.containers)

    def launch(self, *command: str, name: str = "x.1.0", **fields: Any) -> Launch:
        control = str(self.directory / "control")
        output = Output(str(self.directory / "log"), 100_000_000)
        env = {"PATH": "/usr/bin:/bin", "HEADRACE_CONTROL_DIR": control, "A": "b"}
        network = "host" if self.engine.no_bridge else "private"
        asked = fields.pop("container", Container(self.image, (str(self.directory),), network=network))
        return Launch(name, command, env, str(self.directory), control, output, container=asked, **fields)

    def again(self) -> Site:
        self.close()
        return Site(self.directory, self.engine, self.init, self.image)

    def close(self) -> None:
        self.spawner.close()
        os.close(self.lock)

    @property
    def client(self) -> Client:
        return Client(self.engine.socket)

    @property
    def there(self) -> list[str]:
        """The leases whose containers the engine has."""
        return sorted(one["Labels"]["headrace.lease"] for one in self.client.call("GET", ALL % f"n:{self.directory}"))

    @property
    def printed(self) -> str:
        path = self.directory / "log"
        return "".join(Path(piece).read_text() for _, piece in pieces(str(path))) if path.exists() else ""


ALL = "/containers/json?all=1&filters=%%7B%%22label%%22:%%5B%%22headrace.executor=%s%%22%%5D%%7D"


class Story:
    """What is heard of one start."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.running: asyncio.Future[Running] = loop.create_future()
        self.end: asyncio.Future[End] = loop.create_future()
        self.listener = RuntimeListener(
            lambda running, _: self.running.set_result(running), self.running.set_exception, self.end.set_result
        )

    async def runs(self) -> Running:
        async with asyncio.timeout(PATIENCE):
            return await self.running

    async def ends(self) -> int | None:
        await self.runs()
        async with asyncio.timeout(PATIENCE):
            return (await self.end).code


def started(site: Site, *command: str, **fields: Any) -> Story:
    story = Story()
    site.runtime.start(site.launch(*command, **fields), story.listener)
    return story


@pytest.fixture(scope="session")
def init(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The first process of containers, as a node builds it; where it cannot, the engine's own."""
    return native.built(CONTAINER_INIT, str(tmp_path_factory.mktemp("native")), STATIC)


@pytest.fixture(scope="session")
def real() -> Iterator[Podman]:
    """A real engine, where one works."""
    with tempfile.TemporaryDirectory(prefix="hr-", dir="/tmp", ignore_cleanup_errors=True) as short:
        trying = podman(Path(short))
        try:
            one = next(trying)
        except NotHere as reason:
            pytest.skip(f"no container engine works here: {reason}")
        yield one
        next(trying, None)


@pytest.fixture
def engine(tmp_path) -> Any:
    one = Engine(tmp_path / "engine.sock")
    yield one
    one.end()


@pytest.fixture
async def site(request, tmp_path, init) -> AsyncIterator[Site]:
    one = Site(tmp_path, request.getfixturevalue("real" if IS_REAL else "engine"), init)
    yield one
    one.close()
    await asyncio.to_thread(orphans.sweep, str(tmp_path))
    for name in one.there:
        await asyncio.to_thread(one.client.remove, f"headrace-{name}")


async def becomes(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not holds():
            await asyncio.sleep(0.01)


async def until(site: Site, text: str) -> None:
    await becomes(lambda: text in site.printed)


async def test_a_container_runs_prints_into_the_same_log_and_ends_with_its_code(site) -> None:
    story = started(site, "sh", "-c", "echo one $A; echo two >&2; exit 7")
    assert await story.ends() == 7
    assert sorted(site.printed.splitlines()) == ["one b", "two"]


@needs_compiler
async def test_sigterm_reaches_every_process_inside_and_it_ends_with_the_last_of_them(site) -> None:
    saving = "trap 'echo asked; sleep 0.3; echo saved; exit 3' TERM; echo ready; while :; do sleep 0.01; done"
    story = started(site, "sh", "-c", f'sh -c "{saving}"; echo never')
    await until(site, "ready")
    (await story.runs()).terminate()
    assert await story.ends() == 143
    assert [line for line in site.printed.splitlines() if line != "Terminated"] == ["ready", "asked", "saved"]


@needs_compiler
async def test_without_sigterm_it_ends_with_its_first_process_and_takes_the_others_with_it(site) -> None:
    story = started(site, "sh", "-c", "sleep 1000 & exit 5")
    assert await story.ends() == 5
    assert site.there == []


async def test_everything_that_was_printed_before_the_end_is_in_the_log(site) -> None:
    story = started(site, "sh", "-c", "seq 1 200000; echo -n end")
    assert await story.ends() == 0
    assert site.printed == "".join(f"{number}\n" for number in range(1, 200_001)) + "end"


@pytest.mark.parametrize("ends", ["before", "after"])
async def test_it_outlives_a_restart_of_its_engine_and_nothing_that_it_prints_is_lost_or_printed_twice(site, ends: str) -> None:
    command = "echo one; while [ ! -e more ]; do sleep 0.01; done; seq 1 500; touch done; "
    story = started(site, "sh", "-c", f"{command} while [ ! -e release ]; do sleep 0.01; done; echo last; exit 6")
    await until(site, "one\n")
    await story.runs()
    site.engine.stop()
    (site.directory / "more").touch()
    if ends == "before":
        (site.directory / "release").touch()
    await becomes((site.directory / "done").exists)
    await asyncio.to_thread(site.engine.start)
    (site.directory / "release").touch()
    assert await story.ends() == 6
    assert site.printed == "one\n" + "".join(f"{number}\n" for number in range(1, 501)) + "last\n"


@pytest.mark.parametrize("seconds", ["0", "1000"])
async def test_what_was_being_started_when_its_engine_was_killed_runs_once(site, seconds: str) -> None:
    story = started(site, "sh", "-c", f"echo one; exec sleep {seconds}")
    await until(site, "one\n")
    site.engine.stop()
    await asyncio.to_thread(site.engine.start)
    running = await story.runs()
    running.kill()
    assert await story.ends() in {0, 137, None}
    assert site.printed.count("one") == 1


async def test_what_was_to_be_killed_while_its_engine_was_away_is_killed_as_soon_as_that_is_there(site) -> None:
    story = started(site, "sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.01; done")
    await until(site, "ready")
    running = await story.runs()
    site.engine.stop()
    running.terminate()
    running.kill()
    await asyncio.sleep(0)
    assert not story.end.done()
    await asyncio.to_thread(site.engine.start)
    assert await story.ends() in {137, None}
    assert site.there == []


def pidfd_of(pid: int) -> int:
    """The descriptor by which this process watches another one."""
    (found,) = (
        one.name for one in Path("/proc/self/fdinfo").iterdir() if one.exists() and f"\nPid:\t{pid}\n" in one.read_text()
    )
    return int(found)


async def test_where_what_runs_it_was_killed_with_the_executor_the_next_one_takes_the_container_over(site) -> None:
    story = started(site, "sh", "-c", "echo one; while [ ! -e release ]; do sleep 0.01; done; echo two; exit 6")
    await until(site, "one\n")
    await story.runs()
    keeper, runner = (int(word) for word in (site.directory / "kept" / "x.1.0").read_text().split()[1:3])
    asyncio.get_running_loop().remove_reader(pidfd_of(keeper))
    for pid in (keeper, runner):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    await becomes(lambda: not os.path.exists(f"/proc/{runner}"))
    heir, later = site.again(), Story()
    assert heir.runtime.adopt(heir.launch(), later.listener)
    await later.runs()
    (site.directory / "release").touch()
    assert await later.ends() == 6
    assert site.printed == "one\ntwo\n"
    heir.close()
    site.lock = os.open(site.directory / "lock", os.O_RDWR | os.O_CLOEXEC)


async def test_containers_of_leases_that_are_over_are_removed_and_those_of_other_executors_are_not(site) -> None:
    stories = [started(site, "sleep", "1000", name=name) for name in ("x.1.0", "y.1.0")]
    for story in stories:
        await story.runs()
    processes = ProcessRuntime(site.spawner, str(site.directory / "kept"))
    other = ContainerRuntime(processes, site.engine.socket, str(site.directory / "other"), site.init, "other")
    assert await other.reconcile(set) == ([], {})
    assert await site.containers.reconcile(lambda: {"x.1.0"}) == (["y.1.0"], {})
    assert site.there == ["x.1.0"]


def labelled(site: Site, *names: str) -> None:
    for name in names:
        labels = {"headrace.lease": name, "headrace.executor": f"n:{site.directory}"}
        site.engine.containers[f"headrace-{name}"] = Contained({"Labels": labels}, ["true"])


async def test_a_container_that_cannot_be_removed_does_not_keep_the_others_from_it(engine, tmp_path) -> None:
    site = Site(tmp_path, engine, "")
    labelled(site, "a.1.0", "b.1.0", "c.1.0")
    engine.unremovable = {"headrace-a.1.0"}
    assert await site.containers.reconcile(set) == (["b.1.0", "c.1.0"], {"a.1.0": "device or resource busy"})
    assert list(engine.containers) == ["headrace-a.1.0"]
    site.close()


async def test_files_that_a_crash_left_before_a_container_was_started_are_removed_also_without_an_engine(
    engine, tmp_path
) -> None:
    site, folder = Site(tmp_path, engine, ""), tmp_path / "containers"
    engine.stop()
    kept = ["engine", "x.1.0.json", "x.1.0.abort.json", "x.1.0.printed"]
    for name in (*kept, "y.1.0.json", "y.1.0.told", "y.1.0.told.new", "y.1.0.printed", "y.1.0.abort.json"):
        (folder / name).touch()
    with pytest.raises(EngineError):
        await site.containers.reconcile(lambda: {"x.1.0"})
    assert sorted(os.listdir(folder)) == sorted(kept)
    site.close()


@pytest.mark.parametrize("answer", ["nonsense", '{"message": 1}', '[{"Labels": null}, 5]', "null"])
async def test_an_engine_that_answers_nonsense_ends_neither_the_executor_nor_what_it_looks_after(
    engine, tmp_path, answer
) -> None:
    site = Site(tmp_path, engine, "")
    engine.says = answer
    with contextlib.suppress(EngineError):
        assert await site.containers.reconcile(set) == ([], {})
    site.close()


async def test_while_an_engine_hangs_everything_else_goes_on(tmp_path) -> None:
    """Its calls have threads of their own."""
    with socket.socket(socket.AF_UNIX) as deaf:
        deaf.bind(str(tmp_path / "engine.sock"))
        deaf.listen(128)
        site = Site(tmp_path, SimpleNamespace(socket=str(tmp_path / "engine.sock"), no_bridge=""), "", "image")
        stories = [started(site, "true", name=f"x.{number}.0") for number in range(100)]
        async with asyncio.timeout(PATIENCE / 2):
            assert await asyncio.to_thread(lambda: 7) == 7
        assert not any(story.running.done() for story in stories)
    results = await asyncio.gather(*(story.running for story in stories), return_exceptions=True)
    assert [type(one) for one in results] == [CannotStart] * 100
    site.close()


async def test_what_ignores_it_is_killed(site) -> None:
    story = started(site, "sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.01; done")
    await until(site, "ready")
    (await story.runs()).kill()
    assert await story.ends() == 137


async def test_a_callback_runs_inside_beside_the_job(site) -> None:
    story = started(site, "sh", "-c", "echo ready; while [ ! -e go ]; do sleep 0.01; done")
    await until(site, "ready")
    saving = Story()
    launch = site.launch("sh", "-c", "echo saving; exit 4", part=CALLBACK)._replace(name=f"x.1.0.{CALLBACK}")
    site.runtime.start(launch, saving.listener)
    assert await saving.ends() == 4
    (site.directory / "go").touch()
    assert await story.ends() == 0
    assert site.printed == "ready\nsaving\n"


async def test_a_callback_that_takes_too_long_is_killed_and_its_job_is_not(site) -> None:
    story = started(site, "sh", "-c", "echo ready; while [ ! -e go ]; do sleep 0.01; done; exit 3")
    await until(site, "ready")
    saving = Story()
    launch = site.launch("sh", "-c", "echo saving; sleep 1000", part=CALLBACK)._replace(name=f"x.1.0.{CALLBACK}")
    site.runtime.start(launch, saving.listener)
    await until(site, "saving")
    (await saving.runs()).kill()
    assert await saving.ends() == 137
    (site.directory / "go").touch()
    assert await story.ends() == 3


async def test_it_outlives_the_executor_and_the_next_one_takes_it_over(site) -> None:
    story = started(site, "sh", "-c", "while [ ! -e release ]; do sleep 0.01; done; echo on; exit 6")
    await story.runs()
    heir = site.again()
    later = Story()
    assert heir.runtime.adopt(heir.launch(), later.listener)
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
        site.client.call("POST", "/containers/headrace-x.1.0/kill?signal=SIGKILL")
    assert error.value.status == 404


@pytest.mark.parametrize(
    ("image", "refusal", "code"),
    [
        ("nowhere", "manifest unknown", 125),
        ("nowhere", "dial tcp: lookup registry.local: no such host", None),
    ],
)
async def test_an_image_that_cannot_be_pulled_is_the_jobs_fault_or_the_nodes(
    engine, tmp_path, init, image, refusal, code
) -> None:
    """R36."""
    engine.refusal = refusal
    site = Site(tmp_path, engine, init, image)
    with pytest.raises(CannotStart) as error:
        await started(site, "true").runs()
    assert (error.value.message, error.value.exit_code) == (f"the image nowhere cannot be pulled: {refusal}", code)
    assert engine.containers == {}
    site.close()


@needs_compiler
async def test_a_command_that_is_not_there_is_the_jobs_failure_and_says_so(site) -> None:
    assert await started(site, "no-such-command").ends() == 127
    assert site.printed == "[headrace] command not found: no-such-command\n"


async def test_where_the_engines_own_init_is_used_whose_fault_a_missing_program_is_is_told_by_its_name(
    engine, tmp_path
) -> None:
    """R36."""
    site = Site(tmp_path, engine, "")
    with pytest.raises(CannotStart) as error:
        await started(site, "no-such-command").runs()
    message = 'exec: "no-such-command": executable file not found in $PATH'
    assert (error.value.message, error.value.exit_code) == (message, 127)
    for broken in (
        'exec: "docker-init": executable file not found in $PATH',
        "container-init binary not found on the host: stat /usr/libexec/podman/catatonit: no such file or directory",
    ):
        site.runtime.forget("x.1.0")
        engine.broken_start = broken
        with pytest.raises(CannotStart) as error:
            await started(site, "true").runs()
        assert (error.value.message, error.value.exit_code) == (broken, None)
    assert engine.containers == {}
    site.close()


async def test_an_image_that_is_not_here_is_pulled(engine, tmp_path, init) -> None:
    site = Site(tmp_path, engine, init, "other")
    assert await started(site, "true").ends() == 0
    site.close()


INTERFACES = """\
readlink /proc/self/ns/net
while read name rest; do case $name in *:) echo ${name%:*};; esac; done < /proc/net/dev
"""


async def test_a_container_has_the_network_that_it_was_given(site) -> None:
    """R44."""
    if site.engine.no_bridge:
        pytest.skip(f"containers have no network of their own here: {site.engine.no_bridge}")
    seen = {}
    for number, network in enumerate(NETWORKS):
        before = len(site.printed)
        asked = Container(site.image, (str(site.directory),), network=network)
        assert await started(site, "sh", "-c", INTERFACES, name=f"x.{number}.0", container=asked).ends() == 0
        namespace, *interfaces = site.printed[before:].splitlines()
        seen[network] = namespace == site.engine.namespace, tuple(interfaces)
    of_host = seen["host"][1]
    assert seen == {"private": (False, site.engine.interfaces), "host": (True, of_host), "none": (False, ("lo",))}


async def test_the_network_of_private_containers_is_made_once_and_again_where_it_was_removed(engine, tmp_path, init) -> None:
    site = Site(tmp_path, engine, init)
    bridge = {"Name": "headrace", "Driver": "bridge", "Options": {"com.docker.network.bridge.name": "headrace0"}}
    for number in range(2):
        assert await started(site, "true", name=f"x.{number}.0").ends() == 0
        assert engine.networks == {"headrace": bridge}
        assert engine.created[-1]["HostConfig"]["NetworkMode"] == "headrace"
        engine.networks.clear()
    host = Container(site.image, network="host")
    assert await started(site, "true", name="y.1.0", container=host).ends() == 0
    assert engine.networks == {}
    site.close()


CANNOT = "the container engine cannot make the network headrace of private containers: no address pool is left"
LOST = "the container engine does not have the network headrace that it has just made for private containers: Podman lacks netavark"
OTHER = "the container engine's network headrace is not the bridge headrace0 of private containers; remove it"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"no_network": "no address pool is left"}, CANNOT),
        ({"forgets_networks": True}, LOST),
        ({"networks": {"headrace": {"Driver": "macvlan", "Options": {}}}}, OTHER),
        ({"networks": {"headrace": {"Driver": "bridge", "Options": {"com.docker.network.bridge.name": "br0"}}}}, OTHER),
        ({"networks": {"headrace": {"Driver": "bridge"}}}, OTHER),
    ],
)
async def test_without_a_private_network_a_job_is_refused_by_the_node_with_the_way_out(
    engine, tmp_path, init, fields: dict[str, Any], message: str
) -> None:
    for name, value in fields.items():
        setattr(engine, name, value)
    site = Site(tmp_path, engine, init)
    with pytest.raises(CannotStart) as error:
        await started(site, "true").runs()
    assert error.value.exit_code is None
    assert error.value.message.startswith(f"the node cannot start a container: {message}")
    assert error.value.message.endswith(", or write network: host in the profile")
    assert (engine.created, engine.containers) == ([], {})
    site.close()


async def test_why_an_engine_could_not_connect_a_private_container_has_the_way_out(engine, tmp_path, init) -> None:
    site = Site(tmp_path, engine, init)
    engine.broken_start = "netavark: No such file or directory (os error 2)"
    with pytest.raises(CannotStart) as error:
        await started(site, "true").runs()
    assert (error.value.message, error.value.exit_code) == (engine.broken_start + NETWORK_FAILED, None)
    site.runtime.forget("x.1.0")
    with pytest.raises(CannotStart) as error:
        await started(site, "true", container=Container(site.image, network="host")).runs()
    assert error.value.message == engine.broken_start
    site.close()


async def test_an_engine_that_went_away_is_the_nodes_fault(engine, tmp_path, init) -> None:
    site = Site(tmp_path, engine, init)
    engine.stop()
    with pytest.raises(CannotStart, match="the container engine at .* does not answer") as error:
        await started(site, "true").runs()
    assert error.value.exit_code is None
    site.close()


def test_the_engine_of_a_former_executor_is_remembered(tmp_path) -> None:
    directory = str(tmp_path / "containers")
    assert remembered(directory, "") == ""
    assert [remembered(directory, socket) for socket in ("/run/a.sock", "")] == ["/run/a.sock", "/run/a.sock"]


async def test_without_an_engine_an_image_is_the_nodes_fault(engine, tmp_path) -> None:
    site = Site(tmp_path, engine, "")
    story = Story()
    Either(ProcessRuntime(site.spawner, str(tmp_path / "kept")), None).start(site.launch("true"), story.listener)
    with pytest.raises(CannotStart, match="this node has no container engine for the image trainer:1"):
        await story.runs()
    site.close()


def test_both_have_the_whole_face_of_a_runtime() -> None:
    names = {name for name in vars(Runtime) if not name.startswith("_")}
    assert {name for made in (ContainerRuntime, Either) for name in names if not hasattr(made, name)} == set()


def test_of_containers_a_node_says_what_their_leases_record_and_where_they_cannot_run() -> None:
    levels = {"whole": "hardware", "fraction": "kernel", "slice": "none"}
    inside = {"container-whole": "watchdog", "container-fraction": UNABLE, "container-slice": "none"}
    assert levels_inside(levels, engine=True, shared=False) == inside
    assert levels_inside(levels, engine=True, shared=True) == inside | {"container-fraction": "watchdog"}
    assert inside["container-whole"] == level_inside(levels["whole"])
    assert levels_inside(levels, engine=False, shared=True) == dict.fromkeys(CONTAINED, UNABLE)


def test_an_engine_is_found_where_it_listens(tmp_path, engine) -> None:
    assert find_engine(engine.socket) == engine.socket
    assert find_engine("off") == find_engine(str(tmp_path / "nothing")) == ""
    (tmp_path / "podman").mkdir()
    os.link(engine.socket, tmp_path / "podman" / "podman.sock")
    assert find_engine("auto", str(tmp_path)) in {*SOCKETS, f"{tmp_path}/podman/podman.sock"}
