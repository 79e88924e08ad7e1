"""Processes that are forked from one that has imported what they run (`fork_server`)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections import deque
from collections.abc import Iterable
from typing import Self

import msgspec

from headrace.supervisor.processes import fork_server
from headrace.supervisor.processes.beginning import begin
from headrace.supervisor.processes.fork_server import COMMAND_MAX, MESSAGE_MAX, Ended, Start, Started

IS_POSSIBLE = hasattr(os, "pidfd_open")
"""Whether the system has what the server takes: Linux."""


class ForkedProcess:
    """A process of a fork server; as far as `asyncio.subprocess.Process` is used."""

    def __init__(self, pid: int, descriptor: int) -> None:
        self.pid = pid
        self._descriptor = descriptor
        self._ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def wait(self) -> int:
        """Wait until it has ended; returns its exit code, negative for a signal."""
        return await asyncio.shield(self._ended)

    def send_signal(self, number: int) -> None:
        """Raises `ProcessLookupError` if it has ended."""
        if self._ended.done():
            raise ProcessLookupError
        signal.pidfd_send_signal(self._descriptor, number)

    def ended(self, code: int) -> None:
        """It has ended with this exit code."""
        os.close(self._descriptor)
        self._ended.set_result(code)

    def watch(self) -> None:
        """Wait for its end without the server, which has ended. Its exit code is lost, and it is about to be killed."""
        loop = asyncio.get_running_loop()

        def end() -> None:
            loop.remove_reader(self._descriptor)
            self.ended(-signal.SIGKILL)

        loop.add_reader(self._descriptor, end)


class ForkServer:
    """Forks processes that have imported `modules` already, from `open` to `close`."""

    def __init__(self, link: socket.socket, process: asyncio.subprocess.Process) -> None:
        self._link = link
        self._process = process
        self._requests: deque[asyncio.Future[ForkedProcess]] = deque()
        self._running: dict[int, ForkedProcess] = {}
        asyncio.get_running_loop().add_reader(link, self._read)

    @classmethod
    async def open(cls, modules: Iterable[str]) -> Self:
        """Start the server; returns before it has imported them. Requests wait for that."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        supervisor = os.getpid()
        with theirs:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", fork_server.__name__, str(theirs.fileno()), " ".join(modules).ljust(COMMAND_MAX)),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,  # what cannot be imported is reported by the process that then starts without it
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
                preexec_fn=lambda: begin(supervisor, signal.SIGKILL, 0),
            )
        return cls(ours, process)

    async def start(self, start: Start, output: int) -> ForkedProcess:
        """Fork a process with `output` as its standard output and error. Raises `OSError` if the server has ended."""
        socket.send_fds(self._link, [msgspec.json.encode(start)], [output])
        answer: asyncio.Future[ForkedProcess] = asyncio.get_running_loop().create_future()
        self._requests.append(answer)
        return await answer

    async def close(self) -> None:
        """End the server, and with it what still runs."""
        self._leave()
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()

    def _read(self) -> None:
        try:
            message, files, _, _ = socket.recv_fds(self._link, MESSAGE_MAX, 1)
        except BlockingIOError:
            return
        except OSError:
            message = b""
        if not message:
            self._leave()
            return
        answer = msgspec.json.decode(message, type=Started | Ended)
        if isinstance(answer, Started):
            process = self._running[answer.pid] = ForkedProcess(answer.pid, files[0])
            request = self._requests.popleft()
            if request.cancelled():
                process.send_signal(signal.SIGKILL)
            else:
                request.set_result(process)
        else:
            self._running.pop(answer.pid).ended(answer.code)

    def _leave(self) -> None:
        if self._link.fileno() < 0:
            return
        asyncio.get_running_loop().remove_reader(self._link)
        self._link.close()
        for request in self._requests:
            if not request.cancelled():
                request.set_exception(ConnectionError("the fork server has ended"))
        self._requests.clear()
        for process in self._running.values():
            process.watch()
        self._running.clear()
