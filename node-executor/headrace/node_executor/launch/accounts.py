"""Whom a job runs as: an account of its user's own where the executor may choose, else the executor's.

Strategy: the ledger hands the number of a user's account out, once, and the order to start carries it, so it is the same on every node and
for every attempt: a checkpoint on a shared path can be read by the attempt after, and by nobody else. No such account has to exist
anywhere. Below level 2 there is no number in the order, and it is made from tenant and handle as release 0.1.0 did. Either way a number
that this node knows as somebody else's is refused (`numbers`).
"""

from __future__ import annotations

import contextlib
import os
import pwd
import stat
from collections.abc import Iterable
from typing import NamedTuple

from headrace.contracts.own_accounts import why_shared
from headrace.contracts.values.account_numbers import COUNT, FIRST, former_number
from headrace.contracts.values.ids import split_job_key
from headrace.node_executor.launch.account_numbers import AccountNumbers

AUTO, OWN, SELF = "auto", "own", "self"
TRIAL = FIRST + COUNT - 1
"""The number of trials where every user has an account: the last, which the ledger would hand out after 268 million users."""

_OF_GROUP, _OF_OTHERS = stat.S_IRGRP | stat.S_IWGRP, stat.S_IROTH | stat.S_IWOTH


class AccountUnknown(ValueError):
    """Nobody of that name; the message says what to write."""


class UserAccount(NamedTuple):
    """By number, and as what programs call it; `groups`: what it is in beside its own, for the sake of its devices."""

    uid: int
    gid: int
    name: str
    groups: tuple[int, ...] = ()

    def with_devices(self, nodes: Iterable[str]) -> UserAccount:
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


class NotTheirs(ValueError):
    """The number is another person's here; the message says so."""


class Accounts:
    """How `choice` (`own`, `self`, or the name of an account) is carried out. `numbers`: whose this node knows. Raises `AccountUnknown`."""

    def __init__(self, choice: str, numbers: AccountNumbers | None = None) -> None:
        self._own = choice == OWN
        self._numbers = numbers
        self._fixed: UserAccount | None = None
        if choice not in {OWN, SELF}:
            self._fixed = _named(choice)
        if (self._own or self._fixed) and os.geteuid() != 0:
            raise AccountUnknown("only root can run jobs under other accounts; write --run-as self")

    @property
    def others(self) -> bool:
        """Whether jobs run as somebody else than we."""
        return self._own or self._fixed is not None

    def of(self, job: str, number: int = 0) -> UserAccount | None:
        """Whom this job runs as; None: as we do. `number`: what the order says, 0 where it says nothing."""
        if not self._own:
            return self._fixed
        tenant, user, _ = split_job_key(job)
        number = number or former_number(tenant, user)
        return UserAccount(number, number, user)

    def of_trials(self) -> UserAccount | None:
        """Whom a program runs as that tries something for jobs: an account like theirs, which is no user's; None: as we do."""
        return UserAccount(TRIAL, TRIAL, "trial") if self._own else self._fixed

    def claim(self, job: str, account: UserAccount | None) -> None:
        """Note whose this number is, before anything of the job is there. Raises `NotTheirs`, `OSError`."""
        if account is None or not self._own:
            return
        tenant, user, _ = split_job_key(job)
        if not FIRST <= account.uid < FIRST + COUNT:
            raise NotTheirs(f"{account.uid} is not an account number of a user; these begin at {FIRST}")
        if self._numbers is not None and not self._numbers.claim(account.uid, f"{tenant}.{user}"):
            raise NotTheirs(
                f"this node knows the number {account.uid} as another user's, so {tenant}.{user} cannot run under it"
            )


def chosen(choice: str, directory: str) -> tuple[str, str]:
    """What `auto` means with this data directory, and why, if it is less than could be wished: `own` where we are root."""
    if choice != AUTO:
        return choice, ""
    if os.geteuid() != 0:
        return SELF, ""
    why = why_shared(directory)
    return (SELF, why) if why else (OWN, "")


def _named(name: str) -> UserAccount:
    try:
        found = pwd.getpwnam(name)
    except KeyError:
        raise AccountUnknown(f"there is no account {name!r} on this machine; write own, self, or the name of one") from None
    return UserAccount(found.pw_uid, found.pw_gid, name)
