"""Jobs in containers, by Docker or Podman, whichever socket exists; the same order as for a process, with an image.

Strategy: a container is kept like any process, by what runs it (`container_run`): so it outlives the executor and the engine, its output
is in the same log, and a later executor finds it. It has started when the engine says so. Its first process is `container_init.c`,
mounted into it. The job's own directories are mounted at the same paths as outside. GPUs are given by their CDI names; a slice without
one by a specification of our own. Containers carry a label with their lease and one with their executor, so that those of leases that are
over are found and removed, even if the engine was away when they should have ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import Callable, Container, Iterable
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import quote

from headrace.contracts.values.networks import PRIVATE
from headrace.node_executor.runtimes import CALLBACK, CannotStart, End, Launch, Running, RuntimeListener, container_run
from headrace.node_executor.runtimes.container_engine import Engine, EngineError
from headrace.node_executor.runtimes.container_network import make_network
from headrace.node_executor.runtimes.container_request import CDI, LEASE, OWNER, creation, describe_devices, execution
from headrace.node_executor.runtimes.process import ProcessRuntime
from headrace.node_executor.system.cgroups import group_of_process, out_of_memory
from headrace.node_executor.system.threads import Threads

LOOK_EVERY = 0.02
TRY_EVERY = 1.0
"""Seconds between two tries to kill or remove a container while its engine does not answer."""
ANSWERS_WITHIN = 10.0
KILLED_WITHIN = 5.0
"""Maximum wait in seconds for a killed callback to end."""


CALLS_AT_ONCE = 4
"""Maximum number of calls to the engine at once, beside those of `container_run`."""

FILES = (".told", ".json", ".printed")
"""Suffixes of a container's files in the directory, after the name of its lease."""


class Reconciled(NamedTuple):
    """Leases whose containers were removed, and the reasons for those that could not be removed."""

    removed: list[str]
    left: dict[str, str]


class ContainerRuntime:
    """Starts containers. `directory` has the files exchanged with `container_run`.

    `init`: the program that is the first process of each; empty: the engine's own, which passes SIGTERM on to one process only. `owner`:
    name of this executor, unique among those that use the same engine.
    """

    def __init__(self, processes: ProcessRuntime, socket: str, directory: str, init: str = "", owner: str = "") -> None:
        self._processes = processes
        self._socket = socket
        self._directory = directory
        self._init = init
        self._owner = owner or directory
        self._loop = asyncio.get_running_loop()
        self._calls = _Calls()
        self._podman: bool | None = None
        os.makedirs(directory, 0o700, exist_ok=True)

    def start(self, launch: Launch, listener: RuntimeListener) -> None:
        """Start the container; see `Runtime.start`."""
        self._calls.do(lambda: self._write(launch)).add_done_callback(lambda done: self._written(launch, listener, done))

    def adopt(self, launch: Launch, listener: RuntimeListener) -> bool:
        """Take over what was started under this name; see `Runtime.adopt`."""
        if launch.part != CALLBACK and (at := self._processes.orphaned(launch.name)):
            self._processes.forget(launch.name)
            self._write_spec(launch, {})
            first = listener._replace(started=lambda running, _: listener.started(running, at))
            self._processes.start(self._outside(launch), self._listener(launch, first))
            return True
        return self._processes.adopt(self._outside(launch), self._listener(launch, listener))

    async def reconcile(self, known: Callable[[], Container[str]]) -> Reconciled:
        """Remove the containers and files of this executor whose leases are not `known`. Raises `EngineError` if they cannot be listed."""
        files = os.listdir(self._directory)
        self._remove_files(files, known())  # called after the list was made, so a container just created is known
        wanted = quote(json.dumps({"label": [f"{OWNER}={self._owner}"]}))
        where = f"/containers/json?all=1&filters={wanted}"
        found = _leases_of(await self._calls.do(lambda: self._engine.call("GET", where, None, ANSWERS_WITHIN)))
        leases = known()
        unknown = [name for name in found if name not in leases]
        removals = [self._calls.do(partial(self._engine.remove, f"headrace-{name}", ANSWERS_WITHIN)) for name in unknown]
        failed = dict(zip(unknown, await asyncio.gather(*removals, return_exceptions=True), strict=True))
        return Reconciled(
            [name for name, error in failed.items() if error is None],
            {name: str(error) for name, error in failed.items() if error is not None},
        )

    def _remove_files(self, files: Iterable[str], leases: Container[str]) -> None:
        """Remove files of leases that are over: an executor that was killed before the container started may have left them."""
        for file in files:
            end = next(filter(file.endswith, (*FILES, f"{FILES[0]}.new")), "")
            if end and file.removesuffix(end).removesuffix(f".{CALLBACK}") not in leases:
                with contextlib.suppress(OSError):
                    os.unlink(f"{self._directory}/{file}")

    def forget(self, name: str) -> None:
        """Remove the record and files of a container."""
        self._processes.forget(name)
        for end in FILES:
            with contextlib.suppress(OSError):
                os.unlink(f"{self._directory}/{name}{end}")
        with contextlib.suppress(OSError):
            os.unlink(f"{CDI}/headrace-{name}.json")

    def _written(self, launch: Launch, listener: RuntimeListener, done: asyncio.Future[None]) -> None:
        error = done.exception()
        if error is not None:
            listener.failed(CannotStart(f"the node cannot start a container: {error}"))
        else:
            self._processes.start(self._outside(launch), self._listener(launch, listener))

    def _outside(self, launch: Launch) -> Launch:
        """Return the launch of `container_run`: as the executor's account, which may use the engine."""
        command = (sys.executable, "-I", "-S", container_run.__file__, f"{self._directory}/{launch.name}.json")
        return launch._replace(command=command, env={}, directory="/", account=None, group=None, within="", prefix=())

    def _listener(self, launch: Launch, listener: RuntimeListener) -> RuntimeListener:
        """Return callbacks by which a container has started when the engine says so, and failed if `container_run` ends before."""
        has_started = False

        def started(running: Running, at: int) -> None:
            nonlocal has_started
            if self._status(launch.name).startswith("started"):
                has_started = True
                listener.started(self._contained(launch, running), at)
            elif not ended:
                self._loop.call_later(LOOK_EVERY, started, running, at)

        ended: list[End] = []

        def over(end: End) -> None:
            ended.append(end)
            status = self._status(launch.name)
            word, code, message = (*status.split(" ", 2), "", "")[:3]
            if word == "failed":
                listener.failed(CannotStart(message, int(code) or None))
            elif not has_started and word not in {"started", "lost"}:
                self._remove(launch, lambda: listener.failed(CannotStart("what runs the container was killed")))
            else:
                if not has_started:  # it was over before the first look
                    listener.started(self._contained(launch, _Gone()), end.at)
                if word == "lost":
                    launch.output.note(f"{code} {message}".strip())
                    end = End(None, end.at)
                else:
                    end = end._replace(message=_message(launch, message))
                self._finish(launch, end, listener)

        return RuntimeListener(started, listener.failed, over)

    def _finish(self, launch: Launch, end: End, listener: RuntimeListener) -> None:
        if end.code is not None or launch.part == CALLBACK:
            listener.ended(end)
        else:
            self._remove(launch, lambda: listener.ended(end))

    def _remove(self, launch: Launch, then: Callable[[], None]) -> None:
        """Remove its container, then call `then`: until the engine answers, some of the job may still run."""
        if launch.part == CALLBACK:
            then()
        else:
            self._calls.insist(lambda: self._engine.remove(launch.name_of_container, ANSWERS_WITHIN), then)

    def _contained(self, launch: Launch, running: Running) -> Running:
        if launch.part == CALLBACK:
            return _Inside(self._loop, running)
        word, pid, number = (*self._status(launch.name).split(" "), "", "", "")[:3]
        process = (int(pid), number) if word == "started" else (0, "")
        return _Contained(self._calls, running, self._engine, launch.name_of_container, process)

    @property
    def _engine(self) -> Engine:
        return Engine(self._socket)

    def _status(self, name: str) -> str:
        try:
            with open(f"{self._directory}/{name}.told", encoding="utf-8") as file:
                return file.read()
        except OSError:
            return ""

    def _write(self, launch: Launch) -> None:
        """Write the spec for `container_run`. Raises `OSError`, `EngineError`."""
        if self._podman is None:
            version = self._engine.call("GET", "/version", timeout=ANSWERS_WITHIN)
            self._podman = "podman" in json.dumps(version).lower()
        if launch.part == CALLBACK:
            self._write_spec(launch, {"exec": execution(launch)})
        else:
            describe_devices(launch)
            network = launch.container.network if launch.container else ""
            if network == PRIVATE:
                make_network(self._engine, ANSWERS_WITHIN, podman=self._podman)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{self._directory}/{launch.name}.printed")
            where, body = creation(launch, podman=self._podman, init=self._init, owner=self._owner)
            image, login = (launch.container.image, launch.container.login) if launch.container else ("", "")
            self._write_spec(launch, {"image": image, "login": login, "network": network, "where": where, "create": body})

    def _write_spec(self, launch: Launch, what: dict[str, Any]) -> None:
        begin = f"{self._directory}/{launch.name}"
        spec = {
            "socket": self._socket,
            "name": launch.name_of_container,
            "told": f"{begin}.told",
            "printed": f"{begin}.printed",
            "program": launch.command[0] if launch.command else "",
            **what,
        }
        path = f"{begin}.json"
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "w", encoding="utf-8") as file:
            json.dump(spec, file)


class _Contained:
    """A container, controlled by the process that runs it. `first`: its first process (0: not seen from here), and its id."""

    def __init__(self, calls: _Calls, outside: Running, engine: Engine, name: str, first: tuple[int, str]) -> None:
        self._calls = calls
        self._outside = outside
        self._engine = engine
        self._name = name
        self.pid = first[0] or outside.pid
        self.group = group_of_process(*first) if first[0] else None

    def terminate(self) -> None:
        """Send SIGTERM to the container's first process, which passes it on to all."""
        self._outside.terminate()

    def suspend(self) -> None:
        """Freeze its control group; the engine and what runs it go on, so it can be killed and its output read."""
        if self.group is not None:
            self.group.freeze()

    def resume(self) -> None:
        if self.group is not None:
            self.group.thaw()

    def kill(self) -> None:
        """Send SIGKILL to every process in it, as soon as the engine accepts it."""
        self._calls.insist(lambda: self._engine.kill(self._name, timeout=ANSWERS_WITHIN), lambda: None)


class _Inside:
    """A callback in a container, controlled by the process that runs it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, outside: Running) -> None:
        self._loop = loop
        self._outside = outside
        self.pid = outside.pid
        self.group = None

    def terminate(self) -> None:
        """Kill it: the process that runs it has one signal only."""
        self.kill()

    def suspend(self) -> None:
        """Does nothing: callbacks are not suspended."""

    def resume(self) -> None: ...

    def kill(self) -> None:
        """Send SIGKILL to the callback and what it started, but not to its job; the process that runs it ends as well, or soon after."""
        self._outside.terminate()
        self._loop.call_later(KILLED_WITHIN, self._outside.kill)


class _Gone:
    """The process that ran a container that is over."""

    pid = 0
    group = None

    def terminate(self) -> None: ...

    def suspend(self) -> None: ...

    def resume(self) -> None: ...

    def kill(self) -> None: ...


def _message(launch: Launch, status: str) -> str:
    """Return why a container ended, from what was told after the number of its first process: its id, and perhaps the reason."""
    _, _, reason = status.partition(" ")
    if reason == container_run.OUT_OF_MEMORY:
        return out_of_memory(launch.container.memory if launch.container else 0)
    return reason


def _tried(call: Callable[[], None]) -> bool:
    try:
        call()
    except EngineError:
        return False
    return True


class _Calls(Threads):
    """Calls to the engine, in threads of their own: while it does not answer, only other calls to it wait."""

    def __init__(self) -> None:
        super().__init__("engine", CALLS_AT_ONCE)
        self._loop = asyncio.get_running_loop()

    def insist(self, call: Callable[[], None], then: Callable[[], None]) -> None:
        """Repeat the call until the engine answers, then call `then` in the loop."""

        def done(tried: asyncio.Future[bool]) -> None:
            if tried.cancelled():
                return
            if tried.result():
                then()
            else:
                self._loop.call_later(TRY_EVERY, self.insist, call, then)

        self.do(lambda: _tried(call)).add_done_callback(done)


def _leases_of(found: Any) -> list[str]:
    """Return the leases of the containers in an answer of the engine."""
    leases = []
    for one in found if isinstance(found, list) else ():
        with contextlib.suppress(KeyError, TypeError):
            leases.append(str(one["Labels"][LEASE]))
    return leases
