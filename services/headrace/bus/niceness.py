"""Scheduling priority on a busy machine: services that decide and answer come before the books and before audit.

Strategy: niceness, which is a share. The kernel's idle class, which yields at once, would save a quarter of the time an order waits for on
a busy machine; but beside jobs that use all CPUs a process in it hardly ever runs, and does not answer.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

BOOKS_NICE, AUDIT_NICE = 5, 10
"""Niceness of the books and of audit relative to the services that decide and answer.

On a busy machine they get about a third, and a tenth, of their time. Audit catches up when there is less to do, and the books do not wait
for that (`AdaptiveNiceness`).
"""

AUTOGROUP = Path("/proc/self/autogroup")
"""File in which Linux keeps the niceness of the own session, if it has autogroups."""


class AdaptiveNiceness:
    """Lowers the priority by `nice` as long as that does not leave the process far behind, so that its work gets done."""

    def __init__(self, nice: int) -> None:
        self._nice = nice
        self._level = os.getpriority(os.PRIO_PROCESS, 0)
        self.is_hurried = False
        lower_priority(nice)

    def update(self, *, is_far_behind: bool) -> None:
        """Set whether the process is far behind."""
        if self.is_hurried is not is_far_behind:
            self.is_hurried = is_far_behind
            nice = 0 if is_far_behind else self._nice
            _set_niceness(self._level + nice, nice)


def lower_priority(nice: int) -> None:
    """Lower the priority from now on."""
    _set_niceness(os.getpriority(os.PRIO_PROCESS, 0) + nice, nice)


def _set_niceness(own: int, of_session: int) -> None:
    """Set the niceness, as far as the kernel allows: raising it again needs a privilege for a process, but not for a session.

    Where the kernel shares time between sessions (autogroup), niceness counts within one session only, and every part leads its own: then
    the session's niceness is set as well, unless another process leads it.
    """
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, own)
    if os.getsid(0) == os.getpid():
        with contextlib.suppress(OSError):
            AUTOGROUP.write_text(str(of_session), "ascii")
