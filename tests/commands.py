"""`headrace` commands in processes that are forked from one that has imported all commands, which takes 26 ms instead of 200.

Tests on installations run hundreds of commands. Those of the documentation (`tests/end_to_end`) are started as people start them.
"""

from __future__ import annotations

import atexit
import functools
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

import msgspec

from headrace.cli.main import COMMANDS
from headrace.supervisor.processes.fork_server import MESSAGE_MAX, Ended, Start, Started
from headrace.supervisor.processes.process_specs import IMPORTED_ONCE
from tests.patience import PATIENCE

MODULES = (
    "headrace.cli.start",
    *(f"headrace.cli.{module}" for module in COMMANDS),
    "headrace.cli.operations.keep_up",
    *IMPORTED_ONCE,
)
"""What a command imports, and what an installation that it starts does."""

SERVER = (
    "import socket, sys; from headrace.supervisor.processes.fork_server import serve; "
    "serve(socket.socket(fileno=int(sys.argv[1])), sys.argv[2:])"
)
"""Program of a fork server: it serves the socket with the number of the first argument, and imports the others."""


def run(words: Sequence[str], env: dict[str, str] | None = None, within: float = PATIENCE) -> subprocess.CompletedProcess[str]:
    """As `subprocess.run` of `headrace` with these words in the directory of the caller; `env` None: the caller's environment."""
    argv = (sys.executable, "-m", "headrace.cli", *words)
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        process = fork(argv, output.fileno(), errors.fileno(), env)
        try:
            code = process.wait(within)
        except TimeoutError:
            process.kill()
            raise
        texts = []
        for file in (output, errors):
            file.seek(0)
            texts.append(file.read().decode())
    return subprocess.CompletedProcess(argv, code, *texts)


def fork(argv: tuple[str, ...], output: int, errors: int, env: dict[str, str] | None = None) -> Process:
    """Start `python -m MODULE ARGUMENT...` with these files; `env` None: the caller's environment."""
    start = Start(argv, dict(os.environ) if env is None else env, os.getcwd(), umask=-1, nice=0, dies_with=signal.SIGKILL)
    return _server(os.getpid(), os.stat("/proc/thread-self/ns/net").st_ino).fork(start, [output, errors])


class Process:
    """As far as `subprocess.Popen` is used."""

    def __init__(self, pid: int, descriptor: int, server: _Server) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._descriptor = descriptor
        self._server = server

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._descriptor, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def wait(self, within: float = PATIENCE) -> int:
        """The exit code. Raises `TimeoutError` if it takes longer."""
        if self.returncode is None:
            if not select.select([self._descriptor], [], [], within)[0]:
                raise TimeoutError(f"process {self.pid} takes longer than {within} s")
            self.returncode = self._server.code_of(self.pid)
            os.close(self._descriptor)
        return self.returncode


class _Server(NamedTuple):
    """A fork server as the supervisor has one, for callers in several threads. `codes`: exit codes that were not asked for yet."""

    link: socket.socket
    process: subprocess.Popen[bytes]
    lock: threading.Lock
    codes: dict[int, int]

    def fork(self, start: Start, files: list[int]) -> Process:
        with self.lock:
            socket.send_fds(self.link, [msgspec.json.encode(start)], files)
            while not (found := self._read()):
                pass
            return Process(*found, self)

    def code_of(self, pid: int) -> int:
        """Exit code of a process that has ended."""
        with self.lock:
            while pid not in self.codes:
                self._read()
            return self.codes.pop(pid)

    def _read(self) -> tuple[int, int] | None:
        """Read one message: the process that was started and its descriptor, or None once an exit code is noted."""
        message, files, _, _ = socket.recv_fds(self.link, MESSAGE_MAX, 1)
        answer = msgspec.json.decode(message, type=Started | Ended)
        if isinstance(answer, Started):
            return answer.pid, files[0]
        self.codes[answer.pid] = answer.code
        return None

    def end(self) -> None:
        self.link.close()
        self.process.wait(PATIENCE)


@functools.cache
def _server(_caller: int, _network: int) -> _Server:
    """The server of this process in its present network, which ends with it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        command = [sys.executable, "-c", SERVER, str(theirs.fileno()), *MODULES]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=(theirs.fileno(),))
    server = _Server(ours, process, threading.Lock(), {})
    atexit.register(server.end)
    return server
