"""The fork server: a process that has imported what services run, and forks one for each request.

Most of what a service does to start is to import what it runs. A process that is forked has that already, and shares its memory with the
others.

Requests and answers are messages of a sequential packet socket, JSON (`forked` has the other end). A request comes with the file that
becomes the output of the process, and with another one if its errors go elsewhere; `Started` comes with a descriptor of the process
(pidfd). The server ends when the socket is closed.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import os
import runpy
import select
import signal
import socket
import sys
import threading
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import NoReturn

import msgspec

import headrace.health.without_rich  # noqa: F401 - before structlog
from headrace.supervisor.processes.beginning import begin, begin_session

INPUT, OUTPUT, ERRORS = 0, 1, 2
MESSAGE_MAX = 1 << 20
_ARG_START, _ARG_END, _ENV_START, _ENV_END = 45, 46, 47, 48
"""Fields of /proc/PID/stat behind the name of the program."""


class Start(msgspec.Struct, frozen=True):
    """Request for a process: `argv` is `python [-P] -m MODULE ARGUMENT...`; `umask` -1: the server's."""

    argv: tuple[str, ...]
    env: dict[str, str]
    directory: str | None
    umask: int
    nice: int
    dies_with: int


class Started(msgspec.Struct, frozen=True, tag="started"):
    """Answer to a request, in the order of the requests."""

    pid: int


class Ended(msgspec.Struct, frozen=True, tag="ended"):
    """A process has ended; `code` is its exit code, negative for a signal."""

    pid: int
    code: int


def fork(modules: Iterable[str]) -> tuple[socket.socket, int]:
    """Fork the server from this process, which may have neither another thread nor an event loop; returns its socket and process id.

    It has what this process has imported, imports `modules` itself, and ends with this process.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    parent = os.getpid()
    pid = os.fork()
    if pid:
        theirs.close()
        return ours, pid
    try:
        ours.close()
        begin_session(
            INPUT, OUTPUT, ERRORS
        )  # what cannot be imported is reported by the process that then starts without the server
        begin(parent, signal.SIGKILL, 0)
        _show(("headrace", "fork-server"))
        link = theirs.fileno()
        os.closerange(ERRORS + 1, link)
        os.closerange(link + 1, os.sysconf("SC_OPEN_MAX"))
        if not sys.flags.safe_path:
            del sys.path[0]  # as `python -P`, which programs are executed by
        serve(theirs, modules)
    finally:
        os._exit(1)  # an error must not get into what the parent does


def serve(link: socket.socket, modules: Iterable[str]) -> NoReturn:
    """Be the server: import modules, and fork what is asked for through `link` until that is closed."""
    sys.stdout = os.fdopen(OUTPUT, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(ERRORS, "w", 1, encoding="utf-8", errors="backslashreplace", closefd=False)
    for module in modules:
        import_module(module)
    gc.collect()
    gc.freeze()  # else a search for garbage in a process would copy the memory that all share
    start = _serve(link)
    if start is not None:
        _run(start)
    os._exit(0)


def _serve(link: socket.socket) -> Start | None:
    """Fork as asked until the socket is closed. Returns None in the server, and in a new process what it is to be."""
    child_ended, theirs = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(theirs)
    while True:
        ready, _, _ = select.select([link.fileno(), child_ended], [], [])
        if child_ended in ready:
            os.read(child_ended, 4096)
            _report(link)
        if link.fileno() not in ready:
            continue
        message, files, _, _ = socket.recv_fds(link, MESSAGE_MAX, 2)
        if not message:
            return None
        start, server = msgspec.json.decode(message, type=Start), os.getpid()
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for number in (child_ended, theirs, link.detach()):
                os.close(number)
            os.setsid()
            begin(server, start.dies_with, start.nice)
            os.dup2(files[0], OUTPUT)
            os.dup2(files[-1], ERRORS)
            for number in files:
                os.close(number)
            return start
        for number in files:
            os.close(number)
        process = os.pidfd_open(pid)
        socket.send_fds(link, [msgspec.json.encode(Started(pid))], [process])
        os.close(process)


def _report(link: socket.socket) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not pid:
            return
        link.send(msgspec.json.encode(Ended(pid, os.waitstatus_to_exitcode(status))))


def _run(start: Start) -> None:
    """Become the process that was asked for."""
    if start.umask >= 0:
        os.umask(start.umask)
    if start.directory is not None:
        os.chdir(start.directory)
    os.environ.clear()
    os.environ.update(start.env)
    _show(start.argv, over_variables=True)
    module = start.argv.index("-m") + 1
    sys.argv[1:] = start.argv[module + 1 :]
    try:
        runpy.run_module(start.argv[module], run_name="__main__", alter_sys=True)
    except SystemExit as ending:
        code = ending.code
    except BaseException:  # noqa: BLE001 - as Python does at the end of a program
        sys.excepthook(*sys.exc_info())
        code = 1
    else:
        code = 0
    if code is not None and not isinstance(code, int):
        sys.stderr.write(f"{code}\n")
        code = 1
    _end(code or 0)


def _end(code: int) -> NoReturn:
    """End the process as Python does, but leave its modules and objects to the system.

    To take them apart would first copy the memory that is shared: 70 ms of a processor for each service of an installation that is stopped.
    """
    threading._shutdown()  # type: ignore[attr-defined]  # waits as Python does at the end; typeshed leaves it out
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):
            stream.flush()
    os._exit(code)


def _show(argv: tuple[str, ...], *, over_variables: bool = False) -> None:
    """Have `ps` show this command, as far as there is room.

    Behind the command that the process was executed with lie the variables that it began with. `over_variables`: they are not used any
    more, and give room; the system then shows what it finds up to a zero.
    """
    fields = Path("/proc/self/stat").read_text("ascii", "replace").rpartition(")")[2].split()
    start, end, variables, end_of_all = (int(fields[place]) for place in (_ARG_START, _ARG_END, _ENV_START, _ENV_END))
    words = [word.encode() for word in argv]
    if over_variables and variables == end:
        command, size = (b"\0" if sum(map(len, words)) + len(words) <= end - start else b" ").join(words), end_of_all - start
    else:
        command, size = b"\0".join(words), end - start
    ctypes.memmove(start, command[: size - 1].ljust(size, b"\0"), size)
