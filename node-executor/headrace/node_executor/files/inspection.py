"""Looks at what jobs have made, which may be anything: a FIFO, a million files, a path on a server that is away.

Strategy: every look is made in a thread of its own, and the result is waited for `WITHIN` seconds at most. `AT_ONCE` looks that are waited
for are made at once. A look that hangs goes on counting for its lease, which has one thread, and for its user, who has a fourth of
`AT_ONCE`, so the looks of other users go on. It is made as the job's own account, so that nothing is found out for a job that it could not
find out itself: Linux keeps the account by which files are looked at for each thread.
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

from headrace.node_executor.launch.accounts import UserAccount
from headrace.node_executor.threads import begin, settle

WITHIN = 10.0
AT_ONCE = 16

T = TypeVar("T")

_libc = ctypes.CDLL(None, use_errno=True)
_SETGROUPS = {"x86_64": 116, "ppc64le": 81, "s390x": 206}.get(platform.machine(), 159)
"""The number of the system call, because the C library's function changes all threads."""

_UNCHANGED = ctypes.c_int(-1)
"""Asks which account is set: no account has this number, so the call changes nothing."""


@contextlib.contextmanager
def acting_as(account: UserAccount | None) -> Iterator[None]:
    """In this thread files are looked at as `account`; None: as we are. Raises `OSError` where that cannot be done."""
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
    _libc.setfsuid(os.geteuid())  # with its rights the rest can be changed
    if _libc.syscall(_SETGROUPS, len(groups), (ctypes.c_uint32 * len(groups))(*groups)) < 0:
        raise OSError(ctypes.get_errno(), "another account's groups cannot be taken")
    for change, number in ((_libc.setfsgid, gid), (_libc.setfsuid, uid)):
        change(ctypes.c_uint32(number))
        if ctypes.c_uint32(change(_UNCHANGED)).value != number:
            raise OSError(errno.EPERM, "files cannot be looked at as another account")


def open_regular(path: str, owner: int) -> int:
    """A descriptor to read a job's file by: never a link, a FIFO or a device, nor another owner's than `owner`. Raises `OSError`."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or found.st_uid != owner:
        os.close(descriptor)
        raise OSError(errno.EPERM, "it is not a regular file of the job's own")
    return descriptor


@dataclass(slots=True, eq=False)
class _Look:
    owner: str
    key: str
    what: Callable[[], Any]
    answer: asyncio.Future[Any]
    running: bool = False


class Lookout:
    """Looks, in the running loop of the thread that makes it. `within`: seconds that a look is waited for; `at_once`: how many are made.

    A look belongs to a `key`, the lease, which has at most one thread, and to an `owner`, the user, who has a fourth of `at_once`, or two:
    also after the deadline, until the thread has really returned. Looks that cannot begin for that reason wait, until their own deadline.
    """

    def __init__(self, within: float = WITHIN, at_once: int = AT_ONCE) -> None:
        self._loop = asyncio.get_running_loop()
        self._within = within
        self._free = at_once
        self._each = max(2, at_once // 4)
        self._threads = Counter[str]()
        self._ready: deque[_Look] = deque()
        self._later: dict[str, deque[_Look]] = {}

    def busy(self, key: str) -> bool:
        """Whether a look of this key waits for its turn, or has not returned yet."""
        return key in self._later

    def look(self, owner: str, key: str, what: Callable[[], T]) -> asyncio.Future[T]:
        """What `what` returns or raises in a thread; `TimeoutError` where that takes too long."""
        answer: asyncio.Future[T] = self._loop.create_future()
        look = _Look(owner, key, what, answer)
        timer = self._loop.call_later(self._within, self._late, look)
        answer.add_done_callback(lambda _: timer.cancel())
        if key in self._later:
            self._later[key].append(look)
        else:
            self._later[key] = deque()
            self._ready.append(look)
            self._begin()
        return answer

    def _late(self, look: _Look) -> None:
        settle(look.answer, None, TimeoutError(f"it could not be looked at within {self._within:g} s"))
        if look.running:
            look.running = False
            self._free += 1
            self._begin()

    def _begin(self) -> None:
        while self._free and (look := self._take()) is not None:
            if look.answer.done():  # its time was over before its turn came
                self._next(look.key)
                continue
            self._free -= 1
            self._threads[look.owner] += 1
            look.running = True
            begin("look", look.what, partial(self._ended, look))

    def _take(self) -> _Look | None:
        """The first that waits and whose owner may have another thread."""
        for place, look in enumerate(self._ready):
            if look.answer.done() or self._threads[look.owner] < self._each:
                del self._ready[place]
                return look
        return None

    def _ended(self, look: _Look, result: object, error: Exception | None) -> None:
        self._free += look.running
        look.running = False
        self._threads[look.owner] -= 1
        if not self._threads[look.owner]:
            del self._threads[look.owner]
        self._next(look.key)
        settle(look.answer, result, error)
        self._begin()

    def _next(self, key: str) -> None:
        later = self._later[key]
        while later and later[0].answer.done():
            later.popleft()
        if later:
            self._ready.append(later.popleft())
        else:
            del self._later[key]
