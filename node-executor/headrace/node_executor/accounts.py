"""Whom a job runs as: an account of its user's own where the executor may choose, else the executor's.

Strategy: the number of a user's account is made from tenant and handle, so it is the same on every node and for every attempt: a checkpoint
on a shared path can be read by the attempt after, and by nobody else. No such account has to exist anywhere.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import stat
from collections.abc import Iterable
from hashlib import blake2b
from typing import NamedTuple

from headrace.contracts.ids import split_job_key

FIRST, COUNT = 0x70000000, 0x0FFFFFFF
"""The numbers of users' own accounts: above what systems and containers hand out, below what programs take for negative."""

AUTO, OWN, SELF = "auto", "own", "self"
_OF_GROUP, _OF_OTHERS = stat.S_IRGRP | stat.S_IWGRP, stat.S_IROTH | stat.S_IWOTH


class AccountUnknown(ValueError):
    """Nobody of that name; the message says what to write."""


class Account(NamedTuple):
    """By number, and as what programs call it; `groups`: what it is in beside its own, for the sake of its devices."""

    uid: int
    gid: int
    name: str
    groups: tuple[int, ...] = ()

    def with_devices(self, nodes: Iterable[str]) -> Account:
        """The same, in the groups without which these device nodes are closed to it: AMD's are the group `render`'s, as a rule.

        Never in root's; and a node that is not there needs none.
        """
        found = set()
        for path in nodes:
            with contextlib.suppress(OSError):
                node = os.stat(path)
                if stat.S_ISCHR(node.st_mode) and node.st_gid and node.st_mode & _OF_GROUP and not node.st_mode & _OF_OTHERS:
                    found.add(node.st_gid)
        return self._replace(groups=tuple(sorted(found)))


class Accounts:
    """How `choice` (`own`, `self`, or the name of an account) is carried out. Raises `AccountUnknown`."""

    def __init__(self, choice: str) -> None:
        self._own = choice == OWN
        self._fixed: Account | None = None
        if choice not in {OWN, SELF}:
            self._fixed = _named(choice)
        if (self._own or self._fixed) and os.geteuid() != 0:
            raise AccountUnknown("only root may run jobs as somebody else; write --run-as self")

    @property
    def others(self) -> bool:
        """Whether jobs run as somebody else than we."""
        return self._own or self._fixed is not None

    def of(self, job: str) -> Account | None:
        """Whom this job runs as; None: as we do."""
        if not self._own:
            return self._fixed
        tenant, user, _ = split_job_key(job)
        digest = blake2b(f"{tenant}.{user}".encode(), digest_size=8).digest()
        number = FIRST + int.from_bytes(digest) % COUNT
        return Account(number, number, user)


def chosen(choice: str, directory: str) -> tuple[str, str]:
    """What `auto` means with this data directory, and why, if it is less than could be wished: `own` where we are root."""
    if choice != AUTO:
        return choice, ""
    if os.geteuid() != 0:
        return SELF, ""
    if not _mapped():
        return SELF, "the numbers of users' own accounts are not mapped into this user namespace"
    closed = _closed_to_others(directory)
    return (SELF, f"others cannot pass through {closed}") if closed else (OWN, "")


def _mapped() -> bool:
    """Whether all of the accounts can be used, as they cannot in some containers."""
    try:
        with open("/proc/self/uid_map", encoding="ascii") as file:
            ranges = [tuple(map(int, line.split())) for line in file]
    except OSError:
        return True
    return any(inside <= FIRST and inside + count >= FIRST + COUNT for inside, _, count in ranges)


def _closed_to_others(directory: str) -> str:
    """The first directory above `directory` that others may not pass through; empty if there is none."""
    path = os.path.dirname(os.path.abspath(directory))
    while True:
        if not os.stat(path).st_mode & stat.S_IXOTH:
            return path
        if path == os.path.dirname(path):
            return ""
        path = os.path.dirname(path)


def _named(name: str) -> Account:
    try:
        found = pwd.getpwnam(name)
    except KeyError:
        raise AccountUnknown(f"there is no account {name!r} on this machine; write own, self, or the name of one") from None
    return Account(found.pw_uid, found.pw_gid, name)
