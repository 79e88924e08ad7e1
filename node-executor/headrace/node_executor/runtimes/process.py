"""Jobs as plain processes, each the leader of its own session, and kept by a small process that outlives the executor.

Strategy: the executor orders a keeper and is told when the job runs; from then on it has a pidfd of the keeper, whose end is the job's
end, and the file in which the keeper recorded how. A later executor finds the same file: whether its keeper lives is told by the lock on
it, so the number of a process is never trusted by itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import signal
import time
from collections.abc import Callable, Container
from typing import NamedTuple

from headrace.node_executor.runtimes import COMMAND_NOT_FOUND, COMMAND_UNUSABLE, CannotStart, End, Launch, RuntimeListener
from headrace.node_executor.runtimes.keeper_client import Order, Report, Spawner
from headrace.node_executor.system import orphans
from headrace.node_executor.system.cgroups import CgroupEntry

_FAULTS_OF_THE_NODE = frozenset({errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EIO})

BEGINS_WITHIN = 60.0
"""Seconds in which a job's process has to find its working directory and its program."""


class ProcessRuntime:
    """Starts processes in the running loop of the thread that uses it.

    `directory` has a file for each one that is kept; `within`: seconds in which a job's process has to begin.
    """

    def __init__(self, spawner: Spawner, directory: str, within: float = BEGINS_WITHIN) -> None:
        self._loop = asyncio.get_running_loop()
        self._spawner = spawner
        self._directory = directory
        self._within = within
        os.makedirs(directory, 0o700, exist_ok=True)

    def start(self, launch: Launch, listener: RuntimeListener) -> None:
        """Start the process; see `Runtime.start`."""
        try:
            check_command(launch.command)
            account, place = launch.account, CgroupEntry() if launch.group is None else launch.group.place(launch.part)
            order = Order(
                id=launch.name,
                state=self._state(launch.name),
                log=launch.output.path,
                limit=launch.output.limit,
                directory=launch.directory,
                command=launch.command,
                env=launch.env,
                prefix=launch.prefix,
                wait=int(self._within * 1000),
                uid=-1 if account is None else account.uid,
                gid=-1 if account is None else account.gid,
                group=place.group or launch.within,
                kill=place.kill,
                enter=place.enter,
                groups=() if account is None else account.groups,
            )
            self._spawner.order(order, lambda report: self._reported(launch, report, listener))
        except CannotStart as error:
            listener.failed(error)
        except ValueError as error:
            listener.failed(CannotStart(f"the command or its environment cannot be passed on: {error}", COMMAND_UNUSABLE))
        except OSError as error:
            listener.failed(CannotStart(f"the node cannot start a process: {error.strerror}"))

    def adopt(self, launch: Launch, listener: RuntimeListener) -> bool:
        """Take over what was started under this name; see `Runtime.adopt`."""
        path = self._state(launch.name)
        kept = read_state(path)
        if kept is None:
            return False
        process = Process(self._loop, path, kept.pid, kept.pidfd, launch, listener.ended)
        listener.started(process, kept.started)
        return True

    def orphaned(self, name: str) -> int:
        """Return when it was started (microseconds since 1970), if its keeper was killed and so did not record how it ended.

        0 otherwise.
        """
        kept = read_state(self._state(name))
        if kept is None:
            return 0
        if kept.pidfd >= 0:
            os.close(kept.pidfd)
        return kept.started if kept.pidfd < 0 and kept.end is None else 0

    def forget(self, name: str) -> None:
        """Remove its keeper's record."""
        with contextlib.suppress(OSError):
            os.unlink(self._state(name))

    def abandon(self, known: Container[str]) -> list[str]:
        """Kill and forget what was started and is not `known`; returns the names."""
        unknown = [name for name in os.listdir(self._directory) if name not in known]
        for name in unknown:
            kept = read_state(self._state(name))
            if kept is not None and kept.pidfd >= 0:
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(kept.pidfd, signal.SIGUSR1)
                os.close(kept.pidfd)
            self.forget(name)
        return unknown

    def _state(self, name: str) -> str:
        return f"{self._directory}/{name}"

    def _reported(self, launch: Launch, report: Report, listener: RuntimeListener) -> None:
        if report.stage:
            listener.failed(_cannot_start(launch, report))
        else:
            path = self._state(launch.name)
            listener.started(Process(self._loop, path, report.pid, report.pidfd, launch, listener.ended), report.at)


class KeeperRecord(NamedTuple):
    """A keeper's record. `pidfd` is its own, -1 if it is gone; `end` is set if the job has ended."""

    pid: int
    started: int
    pidfd: int
    end: End | None


def read_state(path: str) -> KeeperRecord | None:
    """Read the record at `path`; None if nothing was started, which is certain while holding the lock of the data directory."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        lines = [line.split() for line in os.read(descriptor, 1024).decode().splitlines()]
        if not lines or len(lines[0]) != 4:
            return None
        _, keeper, pid, started = lines[0]
        pidfd = _open_if_locked(descriptor, int(keeper))
        lines = [line.split() for line in os.pread(descriptor, 1024, 0).decode().splitlines()]  # it may have ended meanwhile
        return KeeperRecord(int(pid), int(started), pidfd, _end_in(lines[1:]))
    finally:
        os.close(descriptor)


def _end_in(lines: list[list[str]]) -> End | None:
    if not lines or len(lines[0]) != 3:
        return None
    _, code, at = lines[0]
    return End(int(code), int(at), terminated=["terminated"] in lines)


def _open_if_locked(descriptor: int, keeper: int) -> int:
    """Return a pidfd of the keeper; -1 if it is gone. It held the lock at the last look, so the number was still its own."""
    try:
        pidfd = os.pidfd_open(keeper)
    except OSError:
        return -1
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return pidfd
    os.close(pidfd)
    return -1


def check_command(command: tuple[str, ...]) -> None:
    """Raise `CannotStart` for a command that cannot be looked for."""
    if not command or not command[0] or any("\0" in part for part in command):
        raise CannotStart("the command is missing, or contains a NUL byte", COMMAND_NOT_FOUND)


def _cannot_start(launch: Launch, report: Report) -> CannotStart:
    """Return the reason for people, and whose fault it was (R36)."""
    name, stage, number = launch.command[0], report.stage, report.errno
    reason = os.strerror(number) if number else "its spawner died"
    if stage == "directory":
        return CannotStart(f"the working directory {launch.directory} cannot be used: {reason}", COMMAND_UNUSABLE)
    if stage == "late":
        return CannotStart(f"{name} did not begin in time: its working directory or a directory of its PATH does not answer")
    if stage == "search" and "/" not in name and report.place >= 0:
        folder = launch.env.get("PATH", os.defpath).split(":")[report.place]
        return CannotStart(f"{os.path.join(launch.directory, folder, name)} is not executable", COMMAND_UNUSABLE)
    if stage == "search" and ("/" not in name or number == errno.ENOENT):
        return CannotStart(f"command not found: {name}", COMMAND_NOT_FOUND)
    if stage == "interpreter":
        return CannotStart(f"{name} cannot be run: the interpreter it names is not there", COMMAND_NOT_FOUND)
    if stage not in {"search", "exec"} or number in _FAULTS_OF_THE_NODE:
        return CannotStart(f"the node cannot start a process ({stage}): {reason}")
    if number == errno.ENOENT:  # it existed a moment before
        return CannotStart(f"command not found: {name}", COMMAND_NOT_FOUND)
    return CannotStart(f"{name} cannot be run: {reason}", COMMAND_UNUSABLE)


class Process:
    """A job and its keeper, controlled by a pidfd of the keeper (-1: the keeper is gone)."""

    __slots__ = ("_control", "_ended", "_loop", "_pidfd", "_state", "group", "pid")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, state: str, pid: int, pidfd: int, launch: Launch, ended: Callable[[End], None]
    ) -> None:
        self._loop = loop
        self._state = state
        self.pid = pid
        self._pidfd = pidfd
        self._control = launch.control
        self.group = launch.group
        self._ended = ended
        if pidfd >= 0:
            loop.add_reader(pidfd, self._exited)
        else:
            loop.call_soon(self._report_end)

    def terminate(self) -> None:
        """Send SIGTERM to every process; their keeper continues them, because a stopped process cannot answer."""
        self._signal(signal.SIGTERM)

    def suspend(self) -> None:
        """Freeze all of it, or send SIGSTOP to every process if it is in no control group."""
        if self._pidfd >= 0 and (self.group is None or not self.group.freeze()):
            self._signal(signal.SIGTSTP)

    def resume(self) -> None:
        """Inverse of `suspend`, for both means."""
        if self.group is not None:
            self.group.thaw()
        self._signal(signal.SIGCONT)

    def kill(self) -> None:
        """Send SIGKILL to everything below the keeper."""
        self._signal(signal.SIGUSR1)

    def _signal(self, number: signal.Signals) -> None:
        if self._pidfd >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, number)

    def _exited(self) -> None:
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        self._pidfd = -1
        self._report_end()

    def _report_end(self) -> None:
        kept = read_state(self._state)
        if kept is not None and kept.end is not None:
            self._ended(kept.end)
            return
        at = time.time_ns() // 1_000  # the keeper was killed: the job's processes run on without one
        self._loop.run_in_executor(None, self._sweep).add_done_callback(lambda _: self._ended(End(None, at)))

    def _sweep(self) -> None:
        if self.group is not None:
            self.group.sweep()
        orphans.sweep(self._control)
