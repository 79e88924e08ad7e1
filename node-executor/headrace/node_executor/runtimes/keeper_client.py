"""Sends orders to keepers and reads their reports (`keeper.py` has the format).

Strategy: one spawner at a time, started with the first order. It dies only if killed; keepers and jobs live on. Then its reports end as
soon as the last of its keepers has reported its start, so orders without a report were never started, and fail.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable
from typing import NamedTuple

import structlog

from headrace.node_executor.runtimes import keeper

NAME_PADDING = " " * 200
"""Room for a keeper's name in `ps`."""

REPORT_MAX = 4096
_PIECE = 1 << 20

_log = structlog.get_logger("headrace.node_executor")


class Order(NamedTuple):
    """A keeper's order, beside the job's own fields. The `id` contains neither space nor NUL.

    `prefix`: the command that starts it, if any; `wait`: milliseconds in which it has to begin.
    """

    id: str
    state: str
    log: str
    limit: int
    directory: str
    command: tuple[str, ...]
    env: dict[str, str]
    prefix: tuple[str, ...] = ()
    wait: int = 60_000
    uid: int = -1
    gid: int = -1
    group: str = ""
    kill: str = ""
    enter: tuple[str, ...] = ()
    groups: tuple[int, ...] = ()

    def encoded(self) -> bytes:
        """Encode the order. Raises `ValueError` for texts with a NUL."""
        words = [
            self.id,
            self.state,
            self.log,
            str(self.limit),
            self.directory,
            str(self.wait),
            str(self.uid),
            str(self.gid),
            self.group,
            self.kill,
        ]
        words += [str(len(self.enter)), *self.enter, str(len(self.groups)), *map(str, self.groups)]
        words += [str(len(self.prefix)), *self.prefix, str(len(self.command)), *self.command]
        words += [str(len(self.env)), *(f"{name}={value}" for name, value in self.env.items())]
        text = "\0".join(words)
        if text.count("\0") != len(words) - 1:
            raise ValueError("embedded null byte")
        payload = os.fsencode(text) + b"\0"
        return len(payload).to_bytes(4, "little") + payload


class Report(NamedTuple):
    """Result of an order. Started: `pidfd` is of its keeper, `pid` the job's. Failed: at which `stage`, with which `errno`.

    `place`: the folder of the PATH, counted from 0, with a file of the command's name that is not executable; -1: none has.
    """

    pid: int = 0
    at: int = 0
    pidfd: int = -1
    stage: str = ""
    errno: int = 0
    place: int = -1


OnReport = Callable[[Report], None]


class Spawner:
    """Sends orders to the running spawner, or starts one. `program`: the one in C, or empty; `lock`: what keepers hold while they begin."""

    def __init__(self, program: str, lock: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._command = (program,) if program else (sys.executable, "-I", "-S", keeper.__file__)
        self._lock = lock
        self._line: _Line | None = None

    @property
    def pid(self) -> int:
        """Process id of the spawner; 0 before the first order and after it has ended."""
        return 0 if self._line is None or self._line.closed else self._line.pid

    def order(self, order: Order, on_report: OnReport) -> None:
        """Order a keeper; `on_report` is called once. Raises `ValueError` if the order cannot be encoded, `OSError` without a spawner."""
        payload = order.encoded()
        if self._line is None or self._line.closed:
            self._line = _Line(self._loop, self._command, self._lock)
        self._line.send(payload, order.id, on_report)

    def close(self) -> None:
        """Accept no more orders; keepers stay."""
        if self._line is not None:
            self._line.close()


class _Line:
    """One spawner: its process, and the orders it has not reported on."""

    def __init__(self, loop: asyncio.AbstractEventLoop, command: Iterable[str], lock: int) -> None:
        self._loop = loop
        self._orders, theirs = socket.socketpair()
        self._reports, answers = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        descriptors = (theirs.fileno(), answers.fileno(), lock)
        try:
            self._process = subprocess.Popen(  # noqa: S603 - our own program
                [*command, *(str(number) for number in descriptors), NAME_PADDING],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=descriptors,
                start_new_session=True,
                cwd="/",
                env={},
            )
        except OSError:
            self._orders.close()
            self._reports.close()
            raise
        finally:
            theirs.close()
            answers.close()
        self._orders.setblocking(False)
        self._reports.setblocking(False)
        self._unsent = bytearray()
        self._is_full = False
        self._waiting: dict[str, OnReport] = {}
        self.closed = False
        loop.add_reader(self._reports.fileno(), self._read)

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, payload: bytes, order: str, on_report: OnReport) -> None:
        self._waiting[order] = on_report
        if not self._unsent:
            self._loop.call_soon(self._write)  # orders of one turn of the loop are sent together
        self._unsent += payload

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        self._loop.remove_reader(self._reports.fileno())
        self._loop.remove_writer(self._orders.fileno())
        self._orders.close()
        self._reports.close()
        self._process.wait()

    def _write(self) -> None:
        if self.closed:
            return
        try:
            while self._unsent:
                sent = self._orders.send(memoryview(self._unsent)[:_PIECE])
                del self._unsent[:sent]
        except BlockingIOError:
            if not self._is_full:
                self._is_full = True
                self._loop.add_writer(self._orders.fileno(), self._write)
            return
        except OSError:  # it is gone: the end of its reports says the rest
            self._unsent.clear()
        if self._is_full:
            self._is_full = False
            self._loop.remove_writer(self._orders.fileno())

    def _read(self) -> None:
        while True:
            try:
                data, descriptors, _, _ = socket.recv_fds(self._reports, REPORT_MAX, 1)
            except BlockingIOError:
                return
            except OSError:
                data, descriptors = b"", []
            if not data:
                self._ended()
                return
            name, kind, first, second, *place = data.decode().split(" ")
            on_report = self._waiting.pop(name, None)
            pidfd = descriptors[0] if descriptors else -1
            if on_report is None:
                if pidfd >= 0:
                    os.close(pidfd)
            elif kind == "started":
                on_report(Report(pid=int(first), at=int(second), pidfd=pidfd))
            else:
                on_report(Report(stage=first, errno=int(second), place=int(place[0])))

    def _ended(self) -> None:
        _log.warning("spawner_died", unstarted=len(self._waiting))
        self.close()
        for on_report in list(self._waiting.values()):
            on_report(Report(stage="spawner"))
        self._waiting.clear()
