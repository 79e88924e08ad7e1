"""Durable table of account numbers and their users on this node. An order with a number that belongs to another user is refused.

Strategy: the ledger gives each number out once, so nothing has to be refused unless the ledger is not the one that this node has worked
for, or was tampered with. Then another user could read files on this disk; so the node keeps a table of its own. The table begins with
the owners of the directories that exist, whose names contain tenant and user.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable

import msgspec
import structlog

from headrace.contracts.values.account_numbers import COUNT, FIRST
from headrace.contracts.values.ids import IdError, split_job_key

_log = structlog.get_logger("headrace.numbers")


class AccountNumbers:
    """The table in the file `path`. If the file does not exist, the table is made from the jobs' `directories`.

    A number has one owner, `<tenant>.<user>`. Raises `OSError`.
    """

    def __init__(self, path: str, directories: Iterable[str] = ()) -> None:
        self._path = path
        known = _read(path)
        self._owners = _owners_of(directories) if known is None else known
        if known is None:
            _write(path, self._owners)

    def owner(self, number: int) -> str:
        """Return the user of the number; empty if it is not in the table."""
        return self._owners.get(number, "")

    def claim(self, number: int, owner: str) -> bool:
        """Assign the number to this user; False if it is another user's. The entry is on the disk on return. Raises `OSError`."""
        known = self._owners.get(number)
        if known is None:
            owners = {**self._owners, number: owner}
            _write(self._path, owners)
            self._owners = owners
        return known in (None, owner)


def _read(path: str) -> dict[int, str] | None:
    """Read the table; None if it does not exist or is damaged. A damaged file is renamed."""
    try:
        with open(path, "rb") as file:
            return msgspec.json.decode(file.read(), type=dict[int, str])
    except FileNotFoundError:
        return None
    except msgspec.DecodeError as error:
        in_daemon_thread = f"{path}.damaged"
        os.replace(path, in_daemon_thread)
        _log.error(
            "numbers_damaged",
            reason=str(error),
            file=in_daemon_thread,
            help="whose numbers they are is read from the jobs' directories",
        )
        return None


def _write(path: str, owners: dict[int, str]) -> None:
    fresh = f"{path}.new"
    with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as file:
        file.write(msgspec.json.encode(owners))
        file.flush()
        os.fsync(file.fileno())
    os.replace(fresh, path)
    folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _owners_of(directories: Iterable[str]) -> dict[int, str]:
    """Return the owners of the directories of jobs, `<tenant>.<user>.<job id>.…`, by number; of two with one number, the first by name."""
    owners: dict[int, str] = {}
    for directory in directories:
        with contextlib.suppress(FileNotFoundError), os.scandir(directory) as entries:
            for name, number in sorted((entry.name, entry.stat(follow_symlinks=False).st_uid) for entry in entries):
                with contextlib.suppress(IdError):
                    tenant, user, _ = split_job_key(".".join(name.split(".")[:3]))
                    if FIRST <= number < FIRST + COUNT:
                        owners.setdefault(number, f"{tenant}.{user}")
    return owners
