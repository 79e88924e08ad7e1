"""`headrace` commands in processes that are forked from one that has imported all commands: a third of the processor time of a new Python.

Tests on installations run hundreds of commands. Those of the documentation (`tests/end_to_end`) are started as people start them.
"""

from __future__ import annotations

import atexit
import functools
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.patience import PATIENCE

REQUEST_MAX = 1 << 20
FILES = 3
"""With each request come the files of its output and its errors, and the socket that hears how it ended."""


def run(words: Sequence[str], env: dict[str, str] | None = None, within: float = PATIENCE) -> subprocess.CompletedProcess[str]:
    """As `subprocess.run` of `headrace` with these words in the directory of the caller; `env` None: the caller's environment."""
    ours, theirs = socket.socketpair()
    with ours, theirs, tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        request = {"words": list(words), "env": dict(os.environ) if env is None else env, "directory": os.getcwd()}
        files = [output.fileno(), errors.fileno(), theirs.fileno()]
        socket.send_fds(_server(os.getpid())[0], [json.dumps(request).encode()], files)
        theirs.close()
        ours.settimeout(within)
        pid = int(ours.recv(64))
        try:
            code = ours.recv(64)
        except TimeoutError:
            os.kill(pid, signal.SIGKILL)
            raise
        texts = []
        for file in (output, errors):
            file.seek(0)
            texts.append(file.read().decode())
    return subprocess.CompletedProcess(("headrace", *words), int(code), *texts)


@functools.cache
def _server(_caller: int) -> tuple[socket.socket, subprocess.Popen[bytes]]:
    """The link to the server of this process, which ends with it, and the server."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        command = [sys.executable, "-m", __name__, str(theirs.fileno())]
        above = Path(__file__).parents[1]
        server = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=(theirs.fileno(),), cwd=above)

    def end() -> None:
        ours.close()
        server.wait(PATIENCE)

    atexit.register(end)
    return ours, server


def main() -> None:
    commands = import_module("headrace.cli.main")
    for module in commands.COMMANDS:
        import_module(f"headrace.cli.{module}")
    gc.collect()
    gc.freeze()
    request = _serve(socket.socket(fileno=int(sys.argv[1])))
    if request is not None:
        os.chdir(request["directory"])
        os.environ.clear()
        os.environ.update(request["env"])
        sys.argv[1:] = request["words"]
        code = import_module("headrace.cli.start").start()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _serve(link: socket.socket) -> dict[str, Any] | None:
    """Fork a process for each request, until the link is closed. Returns None in the server, and the request in a forked process."""
    ended, theirs = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(theirs)
    callers: dict[int, socket.socket] = {}
    while True:
        ready, _, _ = select.select([link.fileno(), ended], [], [])
        if ended in ready:
            os.read(ended, 4096)
            _report(callers)
        if link.fileno() not in ready:
            continue
        message, files, _, _ = socket.recv_fds(link, REQUEST_MAX, FILES)
        if not message:
            return None
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.dup2(files[0], sys.stdout.fileno())
            os.dup2(files[1], sys.stderr.fileno())
            for number in (*files, ended, theirs, link.detach()):
                os.close(number)
            for caller in callers.values():
                caller.close()
            return json.loads(message)
        for number in files[:2]:
            os.close(number)
        callers[pid] = socket.socket(fileno=files[2])
        callers[pid].send(str(pid).encode())


def _report(callers: dict[int, socket.socket]) -> None:
    """Tell the callers of processes that have ended their exit codes, negative for a signal."""
    while callers:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        with callers.pop(pid) as caller:
            caller.send(str(os.waitstatus_to_exitcode(status)).encode())


if __name__ == "__main__":
    main()
