"""Child processes that are kept alive: started, watched, restarted with a back-off whatever ends them, and stopped in reverse order.

Strategy: each child leads a session of its own, so that Ctrl-C in a terminal reaches the supervisor only, and asks the system to be
killed when the supervisor dies (Linux), so that no child outlives it. Output of children comes through a pipe into their log: a full disk
loses lines, and never blocks a service.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec

from headrace.bus.variables import BROKEN, DOUBTED
from headrace.supervisor.processes.beginning import NOT_STARTED, begin
from headrace.supervisor.processes.fork_server import Start
from headrace.supervisor.processes.forked import ForkedProcess, ForkServer
from headrace.supervisor.processes.log_file import LogFile
from headrace.supervisor.processes.pidfile import ChildView

WAIT_FIRST, WAIT_MOST = 0.1, 5.0
LIVED_LONG = 10.0
"""Seconds after which a child that dies is restarted as if it were the first time."""
FORGIVEN_AFTER = 3_600.0
"""Seconds after which an exit with `DOUBTED` does not count as the second in a row."""
LAST_WORDS = 0.5
REASON_MAX = 500
PIECE = 64 * 1024


class ProcessAccount(NamedTuple):
    """Account that a program runs as, by number; without further groups."""

    user: int
    group: int | None


class Program(NamedTuple):
    """A program, and how it is stopped.

    `stop_signal` asks it to end, `hurry_signal` to do so at once; `stop_within` seconds later it is killed. `dies_with` is the signal it
    gets when the supervisor dies. An exit code in `final` means that a restart would not help, and so does `DOUBTED` twice in a row.
    `account` None: the supervisor's. `nice`: increment of niceness. `umask`: of the files that it makes; -1: the supervisor's. `parts`: the
    services that share the process, by the names of their instances; empty: one, called as the program. `is_forked`: `argv` is `python -m`,
    and a fork server may run the module.
    """

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    stop_signal: int = signal.SIGTERM
    stop_within: float = 10.0
    dies_with: int = signal.SIGKILL
    hurry_signal: int = signal.SIGKILL
    final: frozenset[int] = frozenset({BROKEN})
    account: ProcessAccount | None = None
    nice: int = 0
    directory: Path | None = None
    umask: int = 0o077
    parts: tuple[str, ...] = ()
    is_forked: bool = False


class ChildSupervision(Protocol):
    """Supervises a child beyond restarts."""

    async def before_start(self) -> None:
        """Called before each start; the child starts when this returns."""

    def on_output(self, output: bytes) -> None:
        """Called with the child's output, piece by piece, as it comes."""

    async def watch(self) -> None:
        """Supervise the child until cancelled."""


class Child:
    """One program, kept alive from `start` to `stop`. `changed` is called whenever its view has changed.

    `supervision`: supervises the child further, if given. `fork_server`: forks what may be forked; without it, and if it has ended, each
    program is executed.
    """

    def __init__(
        self, program: Program, log: LogFile, changed: Callable[[], None], fork_server: ForkServer | None = None
    ) -> None:
        self.program = program
        self.log = log
        self.restarts = 0
        self.exit_code: int | None = None
        self.state = "stopped"
        self.trouble = ""
        self.supervision: ChildSupervision | None = None
        self._changed = changed
        self._fork_server = fork_server
        self._since = 0
        self._process: asyncio.subprocess.Process | ForkedProcess | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()

    @property
    def pid(self) -> int:
        """Process id; 0 while it does not run."""
        return self._process.pid if self._process is not None else 0

    def view(self) -> ChildView:
        """The child's present state."""
        return ChildView(
            name=self.program.name,
            state=self.state,
            pid=self.pid,
            restarts=self.restarts,
            since=self._since,
            exit_code=self.exit_code,
            trouble=self.trouble,
        )

    def views(self) -> tuple[ChildView, ...]:
        """The present state of each part of the child."""
        view = self.view()
        return tuple(msgspec.structs.replace(view, name=part, process=view.name) for part in self.program.parts) or (view,)

    def start(self) -> None:
        """Start the program and keep it alive."""
        self._stopping.clear()
        self._keeper = asyncio.create_task(self._keep(), name=f"keep {self.program.name}")

    def restart(self, *, at_once: bool = False) -> None:
        """Have the program started again."""
        self._signal(signal.SIGKILL if at_once else self.program.stop_signal)

    async def stop(self, *, at_once: bool = False) -> None:
        """Stop it, gracefully first; returns when it is gone. A second call with `at_once` hurries the first."""
        self._stopping.set()
        if self._process is not None:
            self._signal(self.program.hurry_signal if at_once else self.program.stop_signal)
        if self._keeper is not None:
            try:
                async with asyncio.timeout(self.program.stop_within):
                    await asyncio.shield(self._keeper)
            except TimeoutError:
                self._signal(signal.SIGKILL)
                await self._keeper
        self.log.close()

    async def _keep(self) -> None:
        wait = WAIT_FIRST
        while not self._stopping.is_set():
            await self._until_it_may()
            if self._stopping.is_set():
                break
            began, before = time.monotonic(), self.exit_code
            self.exit_code = await self._run()
            if self._stopping.is_set() or self.exit_code in self.program.final:
                break
            if self.exit_code == before == DOUBTED and time.monotonic() - began < FORGIVEN_AFTER:
                break
            wait = WAIT_FIRST if time.monotonic() - began > LIVED_LONG else wait
            self.restarts += 1
            self._become("restarting")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._stopping.wait()
            wait = min(2 * wait, WAIT_MOST)
        if not self._stopping.is_set():
            self.trouble = reason(self.log.last_line())
        self._become("stopped" if self._stopping.is_set() else "given-up")

    async def _until_it_may(self) -> None:
        if self.supervision is None:
            return
        ready, stopping = asyncio.ensure_future(self.supervision.before_start()), asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait({ready, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if ready.done():
                ready.result()
        finally:
            ready.cancel()
            stopping.cancel()

    async def _run(self) -> int:
        """Run the program once; returns its exit code, negative for a signal."""
        output, theirs = os.pipe()
        listener = asyncio.create_task(self._listen(output))
        try:
            self._process = await self._spawn(theirs)
        except OSError as error:
            self.log.write(f"{self.program.argv[0]} does not start: {error.strerror or error}\n".encode())
            return NOT_STARTED
        finally:
            os.close(theirs)
        try:
            self._become("running")
            if self._stopping.is_set():  # stopped while it was being started
                self._signal(self.program.stop_signal)
            return await self._process.wait()
        finally:
            self._process = None
            await asyncio.wait({listener}, timeout=LAST_WORDS)  # no longer: a grandchild may hold the pipe open
            listener.cancel()

    async def _spawn(self, theirs: int) -> asyncio.subprocess.Process | ForkedProcess:
        if self._fork_server is not None and self.program.is_forked:
            with contextlib.suppress(OSError):
                return await self._fork_server.start(_request(self.program), theirs)
        # a pipe of asyncio's own would keep `wait` from returning while a grandchild holds it open
        supervisor, program, account = os.getpid(), self.program, self.program.account
        return await asyncio.create_subprocess_exec(
            *program.argv,
            env=dict(program.env),
            cwd=program.directory,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            user=account.user if account else None,
            group=account.group if account else None,
            extra_groups=[] if account else None,
            umask=program.umask,
            preexec_fn=lambda: begin(supervisor, program.dies_with, program.nice),
        )

    async def _listen(self, output: int) -> None:
        """Write all output of the child into its log."""
        reader = asyncio.StreamReader()
        pipe = os.fdopen(output, "rb", buffering=0)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
        try:
            while piece := await reader.read(PIECE):
                self.log.write(piece)
                if self.supervision is not None:
                    self.supervision.on_output(piece)
        finally:
            transport.close()

    def _signal(self, number: int) -> None:
        """Signal the program alone: it is responsible for its own children, even when it is killed."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(number)

    def _become(self, state: str) -> None:
        self.state = state
        self._since = time.time_ns() // 1_000
        self._changed()


class Children:
    """All children, in the order in which they were started."""

    def __init__(self, logs: Path, changed: Callable[[], None]) -> None:
        self._logs = logs
        self._changed = changed
        self._layers: list[list[Child]] = []
        self._fork_server: ForkServer | None = None

    def __iter__(self) -> Iterator[Child]:
        return (child for layer in self._layers for child in layer)

    def fork_from(self, server: ForkServer) -> None:
        """Fork the programs that may be forked from this server, which ends with the children."""
        server.connect()
        self._fork_server = server

    def start(self, *programs: Program, supervision: Callable[[Child], ChildSupervision] | None = None) -> list[Child]:
        """Start programs that need the former ones, but not each other. `supervision`: returns the supervision of each."""
        layer = [
            Child(program, LogFile(self._logs / f"{program.name}.log"), self._changed, self._fork_server)
            for program in programs
        ]
        self._layers.append(layer)
        for child in layer:
            child.supervision = None if supervision is None else supervision(child)
            child.start()
        return layer

    async def stop_last(self) -> None:
        """Stop the child started last, and forget it."""
        await asyncio.gather(*(child.stop(at_once=True) for child in self._layers.pop()))

    async def stop(self, progress: Callable[[str], None] = lambda _: None, *, at_once: bool = False) -> None:
        """Stop all, in reverse order of their start."""
        for layer in reversed(self._layers):
            progress(", ".join(child.program.name for child in layer))
            await asyncio.gather(*(child.stop(at_once=at_once) for child in layer))
        if self._fork_server is not None:
            self._fork_server.close()


def reason(line: str) -> str:
    """Return the message of a line of a log without its frame; Headrace's own lines are JSON."""
    try:
        entry = msgspec.json.decode(line, type=dict[str, object])
    except msgspec.DecodeError:
        return line[:REASON_MAX]
    output = str(entry.get("reason") or entry.get("event") or line)
    return f"{output}. {entry['help']}"[:REASON_MAX] if entry.get("help") else output[:REASON_MAX]


def _request(program: Program) -> Start:
    directory = None if program.directory is None else str(program.directory)
    return Start(program.argv, dict(program.env), directory, program.umask, program.nice, program.dies_with)
