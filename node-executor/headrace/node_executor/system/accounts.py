"""The account that a job runs under: one per user if the executor may choose (`own`), otherwise the executor's or a fixed one.

Strategy: the ledger gives out the number of a user's account once, and the order to start carries it, so it is the same on every node and
for every attempt: the next attempt can read a checkpoint on a shared path, and no other user can. The account does not have to exist on
the node. Below level 2 the order has no number, and it is computed from tenant and handle as release 0.1.0 did. In both cases a number
that this node knows as another user's is refused (`account_numbers`).
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
from headrace.node_executor.system.account_numbers import AccountNumbers

AUTO, OWN, SELF = "auto", "own", "self"
TRIAL = FIRST + COUNT - 1
"""The account number of trials where every user has an account: the last one, which the ledger would give out after 268 million users."""

_OF_GROUP, _OF_OTHERS = stat.S_IRGRP | stat.S_IWGRP, stat.S_IROTH | stat.S_IWOTH


class AccountUnknown(ValueError):
    """The account does not exist or cannot be used; the message says what to write."""


class UserAccount(NamedTuple):
    """An account by its numbers; `name` as programs call it; `groups`: supplementary groups, which give access to its devices."""

    uid: int
    gid: int
    name: str
    groups: tuple[int, ...] = ()

    def with_devices(self, nodes: Iterable[str]) -> UserAccount:
        """Return the account with the groups that it needs to open these device nodes: for AMD's, usually `render`.

        Root's group is never added, and device nodes that do not exist are skipped.
        """
        found = set()
        for path in nodes:
            with contextlib.suppress(OSError):
                node = os.stat(path)
                if stat.S_ISCHR(node.st_mode) and node.st_gid and node.st_mode & _OF_GROUP and not node.st_mode & _OF_OTHERS:
                    found.add(node.st_gid)
        return self._replace(groups=tuple(sorted(found)))


class NumberTaken(ValueError):
    """The number is another user's on this node; the message says so."""


class Accounts:
    """The accounts of jobs by `choice` (`own`, `self`, or the name of an account). `numbers`: the node's table. Raises `AccountUnknown`."""

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
        """True if jobs run under another account than the executor's."""
        return self._own or self._fixed is not None

    @property
    def numbers(self) -> tuple[int, int] | None:
        """The first and the last number of accounts that jobs run under; None: they run as the executor."""
        if self._own:
            return FIRST, FIRST + COUNT - 1
        return None if self._fixed is None else (self._fixed.uid, self._fixed.uid)

    def of(self, job: str, number: int = 0) -> UserAccount | None:
        """Return the account of this job; None: the executor's. `number` is the one in the order, 0 if it has none."""
        if not self._own:
            return self._fixed
        tenant, user, _ = split_job_key(job)
        number = number or former_number(tenant, user)
        return UserAccount(number, number, user)

    def of_trials(self) -> UserAccount | None:
        """Return the account for programs that test something for jobs: like a user's, but no user has it; None: the executor's."""
        return UserAccount(TRIAL, TRIAL, "trial") if self._own else self._fixed

    def claim(self, job: str, account: UserAccount | None) -> None:
        """Assign the account's number to the job's user, before anything of the job exists. Raises `NumberTaken`, `OSError`."""
        if account is None or not self._own:
            return
        tenant, user, _ = split_job_key(job)
        if not FIRST <= account.uid < FIRST + COUNT:
            raise NumberTaken(f"{account.uid} is not an account number of a user; these begin at {FIRST}")
        if self._numbers is not None and not self._numbers.claim(account.uid, f"{tenant}.{user}"):
            raise NumberTaken(
                f"this node knows the number {account.uid} as another user's, so {tenant}.{user} cannot run under it"
            )


def chosen(choice: str, directory: str) -> tuple[str, str]:
    """Return what `auto` means with this data directory, and why it is not `own`, if the executor is root."""
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
        raise AccountUnknown(
            f"account {name!r} does not exist on this machine; write own, self, or the name of an account"
        ) from None
    return UserAccount(found.pw_uid, found.pw_gid, name)
