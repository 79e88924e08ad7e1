"""Looks at files of jobs, which may be anything: a FIFO, a million files, a path on a server that does not answer.

Strategy: each inspection runs in a thread of its own, and its result is awaited for at most `WITHIN` seconds. At most `AT_ONCE` awaited
inspections run at once. An inspection that hangs still counts for its lease, which has one thread, and for its user, who has a fourth of
`AT_ONCE`, so the inspections of other users go on. An inspection runs as the job's own account, so that it tells the job nothing that the
job could not find out itself: Linux keeps the account for file access per thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import errno
import os
import platform
import stat
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from headrace.node_executor.system.accounts import UserAccount
from headrace.node_executor.system.threads import begin, set_result

WITHIN = 10.0
AT_ONCE = 16

T = TypeVar("T")

_libc = ctypes.CDLL(None, use_errno=True)
_SETGROUPS = {"x86_64": 116, "ppc64le": 81, "s390x": 206}.get(platform.machine(), 159)
"""Number of the system call, used because the C library's function changes all threads."""

_UNCHANGED = ctypes.c_int(-1)
"""Asks which account is set: the number is invalid, so the call changes nothing."""


@contextlib.contextmanager
def acting_as(account: UserAccount | None) -> Iterator[None]:
    """Access files as `account` in this thread; None: as the executor. Raises `OSError` if that is not possible."""
    if account is None:
        yield
        return
    groups = os.getgroups()
    try:
        _become(account.uid, account.gid, account.groups)
        yield
    finally:
        _become(os.geteuid(), os.getegid(), groups)


def _become(uid: int, gid: int, groups: Sequence[int]) -> None:
    _libc.setfsuid(os.geteuid())  # with root's rights the rest can be changed
    if _libc.syscall(_SETGROUPS, len(groups), (ctypes.c_uint32 * len(groups))(*groups)) < 0:
        raise OSError(ctypes.get_errno(), "another account's groups cannot be taken")
    for change, number in ((_libc.setfsgid, gid), (_libc.setfsuid, uid)):
        change(ctypes.c_uint32(number))
        if ctypes.c_uint32(change(_UNCHANGED)).value != number:
            raise OSError(errno.EPERM, "files cannot be looked at as another account")


def open_regular(path: str, owner: int) -> int:
    """Open a job's file for reading: only a regular file of `owner`, never a link, a FIFO or a device. Raises `OSError`."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or found.st_uid != owner:
        os.close(descriptor)
        raise OSError(errno.EPERM, "it is not a regular file of the job's own")
    return descriptor


@dataclass(slots=True, eq=False)
class _Inspection:
    owner: str
    key: str
    what: Callable[[], Any]
    answer: asyncio.Future[Any]
    running: bool = False


class FileInspector:
    """Runs inspections in threads for the running loop. `within`: seconds for which each is awaited; `at_once`: most threads.

    An inspection belongs to a `key`, the lease, which has at most one thread, and to an `owner`, the user, who has a fourth of `at_once`,
    at least two. A thread counts until it really returns, even after the deadline. Inspections that cannot begin for that reason wait
    until their own deadline.
    """

    def __init__(self, within: float = WITHIN, at_once: int = AT_ONCE) -> None:
        self._loop = asyncio.get_running_loop()
        self._within = within
        self._free = at_once
        self._each = max(2, at_once // 4)
        self._threads = Counter[str]()
        self._ready: deque[_Inspection] = deque()
        self._later: dict[str, deque[_Inspection]] = {}

    def busy(self, key: str) -> bool:
        """True if an inspection of this key waits for its turn, or has not returned yet."""
        return key in self._later

    def inspect(self, owner: str, key: str, what: Callable[[], T]) -> asyncio.Future[T]:
        """Return what `what` returns or raises in a thread; raises `TimeoutError` if that takes too long."""
        answer: asyncio.Future[T] = self._loop.create_future()
        inspection = _Inspection(owner, key, what, answer)
        timer = self._loop.call_later(self._within, self._late, inspection)
        answer.add_done_callback(lambda _: timer.cancel())
        if key in self._later:
            self._later[key].append(inspection)
        else:
            self._later[key] = deque()
            self._ready.append(inspection)
            self._begin()
        return answer

    def _late(self, inspection: _Inspection) -> None:
        set_result(inspection.answer, None, TimeoutError(f"it could not be looked at within {self._within:g} s"))
        if inspection.running:
            inspection.running = False
            self._free += 1
            self._begin()

    def _begin(self) -> None:
        while self._free and (inspection := self._take()) is not None:
            if inspection.answer.done():  # its deadline passed before its turn came
                self._next(inspection.key)
                continue
            self._free -= 1
            self._threads[inspection.owner] += 1
            inspection.running = True
            begin("inspection", inspection.what, partial(self._ended, inspection))

    def _take(self) -> _Inspection | None:
        """Return the first waiting inspection whose owner may have another thread."""
        for place, inspection in enumerate(self._ready):
            if inspection.answer.done() or self._threads[inspection.owner] < self._each:
                del self._ready[place]
                return inspection
        return None

    def _ended(self, inspection: _Inspection, result: object, error: Exception | None) -> None:
        self._free += inspection.running
        inspection.running = False
        self._threads[inspection.owner] -= 1
        if not self._threads[inspection.owner]:
            del self._threads[inspection.owner]
        self._next(inspection.key)
        set_result(inspection.answer, result, error)
        self._begin()

    def _next(self, key: str) -> None:
        later = self._later[key]
        while later and later[0].answer.done():
            later.popleft()
        if later:
            self._ready.append(later.popleft())
        else:
            del self._later[key]
