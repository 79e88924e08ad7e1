"""Processes that are forked from one that has imported what they run (`fork_server`)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
from collections import deque
from collections.abc import Iterable, Iterator

import msgspec

from headrace.supervisor.processes.fork_server import MESSAGE_MAX, Ended, Start, Started, fork

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
    """Forks processes by the server at the other end of `link`, from `connect` to `close`. `pid`: its process, if this is the parent."""

    def __init__(self, link: socket.socket, pid: int = 0) -> None:
        link.setblocking(False)
        self._link = link
        self._pid = pid
        self._loop: asyncio.AbstractEventLoop | None = None
        self._requests: deque[asyncio.Future[ForkedProcess]] = deque()
        self._running: dict[int, ForkedProcess] = {}

    def connect(self) -> None:
        """Read its answers in the running event loop."""
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._link, self._read)

    async def start(self, start: Start, output: int) -> ForkedProcess:
        """Fork a process with `output` as its standard output and error, once the server has imported its modules.

        Raises `OSError` if the server has ended.
        """
        socket.send_fds(self._link, [msgspec.json.encode(start)], [output])
        answer: asyncio.Future[ForkedProcess] = asyncio.get_running_loop().create_future()
        self._requests.append(answer)
        return await answer

    def _read(self) -> None:
        try:
            message, files, _, _ = socket.recv_fds(self._link, MESSAGE_MAX, 1)
        except BlockingIOError:
            return
        except OSError:
            message = b""
        if not message:
            self.close()
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

    def close(self) -> None:
        """End the server, and with it what still runs."""
        if self._link.fileno() < 0:
            return
        if self._loop is not None:
            self._loop.remove_reader(self._link)
        self._link.close()
        if self._pid:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
        for request in self._requests:
            if not request.cancelled():
                request.set_exception(ConnectionError("the fork server has ended"))
        self._requests.clear()
        for process in self._running.values():
            process.watch()
        self._running.clear()


@contextlib.contextmanager
def forking(modules: Iterable[str]) -> Iterator[ForkServer | None]:
    """A server that is forked from this process (`fork_server.fork`) and ends with the block; None on a system that has none."""
    if not IS_POSSIBLE:
        yield None
        return
    server = ForkServer(*fork(modules))
    try:
        yield server
    finally:
        server.close()
