"""Whether this machine can run jobs as accounts of their users' own."""

from __future__ import annotations

import os
import stat

from headrace.contracts.values.account_numbers import COUNT, FIRST


def why_shared(directory: str) -> str:
    """Why jobs with files below this directory, present or not, cannot run as accounts of their own; empty if they can."""
    if os.geteuid() != 0:
        return "only root can run jobs under other accounts"
    if not mapped():
        return "the numbers of users' own accounts are not mapped into this user namespace"
    closed = closed_to_others(directory)
    return f"others cannot pass through {closed}" if closed else ""


def mapped() -> bool:
    """True if all of the account numbers can be used; in some containers they cannot."""
    try:
        with open("/proc/self/uid_map", encoding="ascii") as file:
            ranges = [tuple(map(int, line.split())) for line in file]
    except OSError:
        return True
    return any(inside <= FIRST and inside + count >= FIRST + COUNT for inside, _, count in ranges)


def closed_to_others(directory: str) -> str:
    """The first directory on the path to `directory` that others may not pass through; empty without one.

    Missing directories do not count.
    """
    path = os.path.dirname(os.path.abspath(directory))
    while True:
        try:
            if not os.stat(path).st_mode & stat.S_IXOTH:
                return path
        except FileNotFoundError:
            pass
        if path == os.path.dirname(path):
            return ""
        path = os.path.dirname(path)
