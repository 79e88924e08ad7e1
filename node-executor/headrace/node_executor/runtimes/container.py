"""Jobs in containers, by Docker or Podman, whichever socket is there; the same order as for a process, with an image in it.

Strategy: a container is kept like any process, by what runs it (`container_run`): so it outlives the executor, its output is in the same
log, and a later executor finds it. It has started when the engine says so. What the job finds at a path it finds there inside as well: its
own directories are mounted where they are. GPUs are given by their CDI names; where a slice has none, by a specification of our own.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import stat
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from headrace.contracts.facts.fact import DeviceShare
from headrace.contracts.isolation import CONTAINED, CONTAINER, FRACTION, UNABLE, weakest
from headrace.node_executor.devices import Devices
from headrace.node_executor.runtimes import CALLBACK, CannotStart, End, Hears, Launch, Running, container_run
from headrace.node_executor.runtimes.container_run import Engine, EngineError
from headrace.node_executor.runtimes.process import ProcessRuntime

SOCKETS = ("/var/run/docker.sock", "/run/podman/podman.sock")
CDI = "/var/run/cdi"
PROVED = "watchdog"
"""What of a container is proved: that who takes too much is seen. Whatever the engine does besides, we have not tried it."""

LOOK_EVERY = 0.02
ANSWERS_WITHIN = 10.0
MIB = 1024 * 1024


def find_engine(choice: str, runtime_directory: str = "") -> str:
    """The socket for `auto`, `off` or a path; empty where there is none."""
    if choice == "off":
        return ""
    places = (*SOCKETS, f"{runtime_directory}/podman/podman.sock") if choice == "auto" else (choice,)
    for path in places:
        with contextlib.suppress(OSError):
            if stat.S_ISSOCK(os.stat(path).st_mode) and os.access(path, os.W_OK):
                return path
    return ""


def level_inside(level: str) -> str:
    """The level that a job has in a container, where a process would have this one."""
    return weakest(level, PROVED)


def levels_inside(levels: Mapping[str, str], *, engine: bool, parts: bool) -> dict[str, str]:
    """What the node says of containers, where it says these levels of processes. `parts`: they are given parts of a GPU as well."""
    if not engine:
        return dict.fromkeys(CONTAINED, UNABLE)
    inside = {f"{CONTAINER}-{kind}": level_inside(level) for kind, level in levels.items()}
    return inside if parts else inside | {f"{CONTAINER}-{FRACTION}": UNABLE}


class ContainerRuntime:
    """Starts containers. `directory` takes what is told between us and what runs them."""

    def __init__(self, processes: ProcessRuntime, socket: str, directory: str) -> None:
        self._processes = processes
        self._socket = socket
        self._directory = directory
        self._loop = asyncio.get_running_loop()
        self._podman: bool | None = None
        os.makedirs(directory, 0o700, exist_ok=True)

    def start(self, launch: Launch, hears: Hears) -> None:
        """Start it; see `Runtime.start`."""
        self._loop.run_in_executor(None, self._write, launch).add_done_callback(lambda done: self._written(launch, hears, done))

    def adopt(self, launch: Launch, hears: Hears) -> bool:
        """Take over what was started under this name; see `Runtime.adopt`."""
        return self._processes.adopt(self._outside(launch), self._heard(launch, hears))

    def forget(self, name: str) -> None:
        """Remove what was kept of it."""
        self._processes.forget(name)
        for end in ("told", "json"):
            with contextlib.suppress(OSError):
                os.unlink(f"{self._directory}/{name}.{end}")
        with contextlib.suppress(OSError):
            os.unlink(f"{CDI}/headrace-{name}.json")

    def _written(self, launch: Launch, hears: Hears, done: asyncio.Future[None]) -> None:
        error = done.exception()
        if error is not None:
            hears.failed(CannotStart(f"the node cannot start a container: {error}"))
        else:
            self._processes.start(self._outside(launch), self._heard(launch, hears))

    def _outside(self, launch: Launch) -> Launch:
        """What runs it: as we ourselves, who may speak to the engine."""
        command = (sys.executable, "-I", "-S", container_run.__file__, f"{self._directory}/{launch.name}.json")
        return launch._replace(command=command, env={}, directory="/", account=None, group=None, within="", prefix=())

    def _heard(self, launch: Launch, hears: Hears) -> Hears:
        """It has started when the engine says so, and it failed where what runs it ends without that."""
        said = False

        def started(running: Running, at: int) -> None:
            nonlocal said
            told = self._told(launch.name)
            if told == "started":
                said = True
                hears.started(_Contained(self._loop, running, self._engine, _name(launch)), at)
            elif not ended:
                self._loop.call_later(LOOK_EVERY, started, running, at)

        ended: list[End] = []

        def over(end: End) -> None:
            ended.append(end)
            word, code, message = (*self._told(launch.name).split(" ", 2), "", "")[:3]
            if word == "failed":
                hears.failed(CannotStart(message, int(code) or None))
            elif not said and word != "started":
                hears.failed(CannotStart("what runs the container was killed"))
            else:
                if not said:  # it was over before we looked
                    hears.started(_Contained(self._loop, _Gone(), self._engine, _name(launch)), end.at)
                self._finish(launch, end, hears)

        return Hears(started, hears.failed, over)

    def _finish(self, launch: Launch, end: End, hears: Hears) -> None:
        if end.code is not None or launch.part == CALLBACK:
            hears.ended(end)
            return
        removing = self._loop.run_in_executor(None, _quietly, lambda: self._engine.remove(_name(launch), ANSWERS_WITHIN))
        removing.add_done_callback(lambda _: hears.ended(end))

    @property
    def _engine(self) -> Engine:
        return Engine(self._socket)

    def _told(self, name: str) -> str:
        try:
            with open(f"{self._directory}/{name}.told", encoding="utf-8") as file:
                return file.read()
        except OSError:
            return ""

    def _write(self, launch: Launch) -> None:
        """What is to be run, for `container_run`. Raises `OSError`, `EngineError`."""
        if self._podman is None:
            version = self._engine.call("GET", "/version", timeout=ANSWERS_WITHIN)
            self._podman = "podman" in json.dumps(version).lower()
        spec: dict[str, Any] = {
            "socket": self._socket,
            "name": _name(launch),
            "told": f"{self._directory}/{launch.name}.told",
        }
        if launch.part == CALLBACK:
            spec["exec"] = _inside(launch)
        else:
            spec["create"] = creation(launch, podman=self._podman)
            _describe_devices(launch)
        path = f"{self._directory}/{launch.name}.json"
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "w", encoding="utf-8") as file:
            json.dump(spec, file)


class _Contained:
    """A container, seen through what runs it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, outside: Running, engine: Engine, name: str) -> None:
        self._loop = loop
        self._outside = outside
        self._engine = engine
        self._name = name
        self.pid = outside.pid

    def terminate(self) -> None:
        """SIGTERM, passed on to the container's first process."""
        self._outside.terminate()

    def suspend(self) -> None:
        """Not by itself: who suspends asks first (`suspending`)."""
        self._outside.suspend()

    def resume(self) -> None:
        """The inverse."""
        self._outside.resume()

    def kill(self) -> None:
        """SIGKILL to everything in it; to what runs it, too, where the engine does not answer."""
        killing = self._loop.run_in_executor(None, _tried, lambda: self._engine.kill(self._name, timeout=ANSWERS_WITHIN))
        killing.add_done_callback(lambda done: None if done.result() else self._outside.kill())


class _Gone:
    """What ran a container that is over."""

    pid = 0

    def terminate(self) -> None: ...

    def suspend(self) -> None: ...

    def resume(self) -> None: ...

    def kill(self) -> None: ...


def creation(launch: Launch, *, podman: bool) -> dict[str, Any]:
    """The body of a request for a container (Docker's API, 1.41 and newer)."""
    asked = launch.container
    if asked is None:
        raise AssertionError("there is no container without an image")
    host: dict[str, Any] = {
        "Binds": [f"{path}:{path}" for path in asked.binds]
        + [f"{mount.source}:{mount.target}{':ro' if mount.read_only else ''}" for mount in asked.mounts],
        "NetworkMode": "host",
        "Init": True,
        "CapDrop": ["ALL"],
        "SecurityOpt": ["no-new-privileges"],
        "LogConfig": {"Type": "json-file", "Config": {"max-size": "1m", "max-file": "2"}},
        "GroupAdd": [] if launch.account is None else [str(number) for number in launch.account.groups],
        "PidsLimit": asked.pids or None,
        "NanoCpus": asked.cpu * 1_000_000,
        "Memory": asked.memory * MIB,
        "MemorySwap": asked.memory * MIB,
    }
    if podman:
        host["LogConfig"] = {"Type": "k8s-file"}
        host["Devices"] = [{"PathOnHost": name, "PathInContainer": name, "CgroupPermissions": "rwm"} for name in asked.devices]
    elif asked.devices:
        host["DeviceRequests"] = [{"Driver": "cdi", "DeviceIDs": list(asked.devices)}]
    return {
        "Image": asked.image,
        "Entrypoint": list(launch.command),
        "Cmd": [],
        "Env": [f"{name}={value}" for name, value in launch.env.items()],
        "WorkingDir": launch.directory,
        "User": f"{os.geteuid()}:{os.getegid()}" if launch.account is None else f"{launch.account.uid}:{launch.account.gid}",
        "Labels": {"headrace.lease": launch.name},
        "StopSignal": "SIGTERM",
        "HostConfig": host,
    }


def _inside(launch: Launch) -> dict[str, Any]:
    return {
        "Cmd": list(launch.command),
        "Env": [f"{name}={value}" for name, value in launch.env.items()],
        "WorkingDir": launch.directory,
        "AttachStdout": True,
        "AttachStderr": True,
    }


def device_names(devices: Devices, shares: Sequence[DeviceShare], name: str) -> tuple[str, ...]:
    """The CDI names of what a job was granted: of NVIDIA's GPUs their own, of slices one that we describe ourselves."""
    if not shares or devices.labels.get("gpu.vendor") not in {"nvidia", "amd"}:
        return ()
    if any(share.mig for share in shares) or devices.labels["gpu.vendor"] == "amd":
        return (f"headrace.local/gpu={name}",)
    seen = devices.environment(shares).get("CUDA_VISIBLE_DEVICES", "")
    return tuple(f"nvidia.com/gpu={uuid}" for uuid in seen.split(",") if uuid)


def description(name: str, nodes: Sequence[str], edits: dict[str, Any]) -> dict[str, Any]:
    """A CDI specification of one device of our own: these device nodes, and what else every container with a GPU needs (`edits`)."""
    own = {"name": name, "containerEdits": {"deviceNodes": [{"path": path} for path in nodes]}}
    return {"cdiVersion": "0.6.0", "kind": "headrace.local/gpu", "devices": [own], "containerEdits": edits}


def _describe_devices(launch: Launch) -> None:
    asked = launch.container
    if asked is None or not any(name.startswith("headrace.local/") for name in asked.devices):
        return
    edits: dict[str, Any] = {}
    for path in (f"{CDI}/nvidia.json", "/etc/cdi/nvidia.json"):
        with contextlib.suppress(OSError, ValueError), open(path, encoding="utf-8") as file:
            edits = edits or json.load(file).get("containerEdits", {})
    os.makedirs(CDI, 0o755, exist_ok=True)
    with open(f"{CDI}/headrace-{launch.name}.json", "w", encoding="utf-8") as file:
        json.dump(description(launch.name, asked.nodes, edits), file)


def _name(launch: Launch) -> str:
    """The container's: a callback runs in that of its job."""
    return f"headrace-{launch.name.removesuffix(f'.{CALLBACK}')}"


def _tried(call: Callable[[], None]) -> bool:
    try:
        call()
    except EngineError:
        return False
    return True


def _quietly(call: Callable[[], None]) -> None:
    _tried(call)


class Either:
    """Runs what has an image in a container, and everything else as a process."""

    def __init__(self, processes: ProcessRuntime, containers: ContainerRuntime | None) -> None:
        self._processes = processes
        self._containers = containers

    def start(self, launch: Launch, hears: Hears) -> None:
        """See `Runtime.start`."""
        if launch.container is None:
            self._processes.start(launch, hears)
        elif self._containers is None:
            hears.failed(CannotStart(f"this node has no container engine for the image {launch.container.image}"))
        else:
            self._containers.start(launch, hears)

    def adopt(self, launch: Launch, hears: Hears) -> bool:
        """See `Runtime.adopt`."""
        runtime = self._processes if launch.container is None or self._containers is None else self._containers
        return runtime.adopt(launch, hears)

    def forget(self, name: str) -> None:
        """See `Runtime.forget`."""
        (self._processes if self._containers is None else self._containers).forget(name)
