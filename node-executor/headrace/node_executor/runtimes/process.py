"""Jobs as plain processes: started in a fraction of a millisecond, each the leader of its own session and process group.

Strategy: `posix_spawn` shares memory with the child until exec, so the size of the executor does not matter; it knows neither a
working directory nor a parent-death signal, so the executor changes its own directory (it uses absolute paths everywhere), and
`guard` answers for what outlives the executor. The end is seen through a pidfd in the loop. At that moment the leader is a
zombie and its number still taken, so the rest of its group can be killed without hitting a stranger.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
from collections.abc import Callable

from headrace.node_executor.runtimes import COMMAND_NOT_FOUND, COMMAND_UNUSABLE, CannotStart, Launch
from headrace.node_executor.runtimes.output import Output

_CHUNK = 64 * 1024
_DEFAULT_SIGNALS = (
    signal.SIGPIPE,
    signal.SIGXFSZ,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGCHLD,
)
_FAULTS_OF_THE_NODE = frozenset({errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EIO})


class ProcessRuntime:
    """Starts processes in the running loop of the thread that uses it."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()

    def start(self, launch: Launch, ended: Callable[[int], None]) -> Process:
        """Start it; see `Runtime.start`. Returns after exec has succeeded."""
        program = find_program(launch.command, launch.env, launch.directory)
        readable = writable = pid = -1
        try:
            os.chdir(launch.directory)
            readable, writable = os.pipe2(os.O_CLOEXEC)
            os.set_blocking(readable, False)
            pid = _spawn(program, launch, writable)
            process = Process(self._loop, pid, readable, launch.output, ended)
        except (OSError, CannotStart) as error:
            if pid >= 0:  # it runs, but cannot be watched
                os.killpg(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            if readable >= 0:
                os.close(readable)
            raise (_cannot_start(launch, program, error) if isinstance(error, OSError) else error) from None
        finally:
            if writable >= 0:
                os.close(writable)
            os.chdir("/")
        return process


def find_program(command: tuple[str, ...], env: dict[str, str], directory: str) -> str:
    """The file that `command` names, as a shell would find it. Raises `CannotStart` where there is none to run."""
    name = command[0] if command else ""
    if not name or any("\0" in part for part in command):
        raise CannotStart("there is no command, or it has a NUL byte in it", COMMAND_NOT_FOUND)
    if "/" in name:
        return os.path.join(directory, name)
    found = ""
    for folder in env.get("PATH", os.defpath).split(":"):
        path = os.path.join(directory, folder, name)
        if os.access(path, os.X_OK) and not os.path.isdir(path):
            return path
        if os.path.isfile(path):
            found = path
    if found:
        raise CannotStart(f"{found} is not executable", COMMAND_UNUSABLE)
    raise CannotStart(f"command not found: {name}", COMMAND_NOT_FOUND)


def _spawn(program: str, launch: Launch, writable: int) -> int:
    try:
        return os.posix_spawn(
            program,
            launch.command,
            launch.env,
            file_actions=(
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, writable, 1),
                (os.POSIX_SPAWN_DUP2, writable, 2),
            ),
            setsid=True,
            setsigmask=(),
            setsigdef=_DEFAULT_SIGNALS,
        )
    except ValueError as error:  # a NUL byte or a '=' where it cannot be
        raise CannotStart(f"the environment cannot be passed on: {error}", COMMAND_UNUSABLE) from None


def _cannot_start(launch: Launch, program: str, error: OSError) -> CannotStart:
    if error.errno in _FAULTS_OF_THE_NODE:
        return CannotStart(f"the node cannot start a process: {error.strerror}")
    if error.filename == launch.directory:
        return CannotStart(f"the working directory {launch.directory} cannot be used: {error.strerror}", COMMAND_UNUSABLE)
    if error.errno == errno.ENOENT and os.path.exists(program):
        return CannotStart(f"{launch.command[0]} cannot be run: the interpreter it names is not there", COMMAND_NOT_FOUND)
    if error.errno == errno.ENOENT:
        return CannotStart(f"command not found: {launch.command[0]}", COMMAND_NOT_FOUND)
    return CannotStart(f"{launch.command[0]} cannot be run: {error.strerror}", COMMAND_UNUSABLE)


class Process:
    """A running process group and the pipe that it prints into."""

    __slots__ = ("_ended", "_loop", "_output", "_pidfd", "_readable", "pid")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, pid: int, readable: int, output: Output, ended: Callable[[int], None]
    ) -> None:
        self._loop = loop
        self.pid = pid
        self._readable = readable
        self._output = output
        self._ended = ended
        self._pidfd = os.pidfd_open(pid)
        loop.add_reader(readable, self._read)
        loop.add_reader(self._pidfd, self._exited)

    def terminate(self) -> None:
        """SIGTERM to the process; SIGCONT after it, because a stopped process cannot answer."""
        self._signal(signal.SIGTERM)
        self._signal(signal.SIGCONT)

    def suspend(self) -> None:
        """SIGSTOP to the whole group."""
        self._signal_group(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT to the whole group."""
        self._signal_group(signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL to the whole group."""
        if self._pidfd >= 0:
            self._kill_group()

    def _signal(self, number: signal.Signals) -> None:
        if self._pidfd >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, number)

    def _signal_group(self, number: signal.Signals) -> None:
        if self._pidfd >= 0:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)

    def _kill_group(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    def _read(self) -> bool:
        """Take what is there, at most one chunk; whether there may be more."""
        try:
            data = os.read(self._readable, _CHUNK)
        except BlockingIOError:
            return False
        if data:
            self._output.write(data)
            return True
        self._close_pipe()
        return False

    def _exited(self) -> None:
        self._kill_group()
        _, status = os.waitpid(self.pid, 0)
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        self._pidfd = -1
        left = _LAST_CHUNKS  # somebody who escaped the group may print on; he is not waited for
        while self._readable >= 0 and left and self._read():
            left -= 1
        self._close_pipe()
        code = os.waitstatus_to_exitcode(status)
        self._ended(code if code >= 0 else 128 - code)

    def _close_pipe(self) -> None:
        if self._readable >= 0:
            self._loop.remove_reader(self._readable)
            os.close(self._readable)
            self._readable = -1


_LAST_CHUNKS = 32
"""More than a pipe can hold."""
