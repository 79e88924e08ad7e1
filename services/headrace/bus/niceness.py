"""Who goes first on a machine that has more to do than it can: whoever decides, tells and answers, before the books and before audit.

Strategy: niceness, which is a share. The kernel's idle class, which is left at once for anybody else, would take a quarter off what an
order waits for on a full machine; but beside jobs that use all there is, who is in it hardly ever has a turn, nor answers who asks.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

BOOKS_NICE, AUDIT_NICE = 5, 10
"""By how much the books, and what audit does, stand behind whoever decides and answers where a machine has too much to do: about a third,
and a tenth, of what those get. Audit catches up when there is less to do, and the books do not wait for that (`Yielding`)."""

AUTOGROUP = Path("/proc/self/autogroup")
"""Where Linux is told how nice the own session is, if it has such a thing."""


class Yielding:
    """Lets others go first, by `nice`, for as long as that does not leave it far behind: work that only ever waits is never done."""

    def __init__(self, nice: int) -> None:
        self._nice = nice
        self._level = os.getpriority(os.PRIO_PROCESS, 0)
        self.is_hurried = False
        stand_behind(nice)

    def look(self, *, is_far_behind: bool) -> None:
        """It is far behind, or no longer."""
        if self.is_hurried is not is_far_behind:
            self.is_hurried = is_far_behind
            nice = 0 if is_far_behind else self._nice
            _stand(self._level + nice, nice)


def stand_behind(nice: int) -> None:
    """Let others go first, from now on."""
    _stand(os.getpriority(os.PRIO_PROCESS, 0) + nice, nice)


def _stand(own: int, of_session: int) -> None:
    """Be so nice, as far as the kernel lets us: a process gets back what it gave away with a privilege only, a session without one.

    Where the kernel shares time out between sessions (autogroup), niceness counts within one only, and every part leads its own: then the
    session has to be nice as well. One that somebody else leads is that one's.
    """
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, own)
    if os.getsid(0) == os.getpid():
        with contextlib.suppress(OSError):
            AUTOGROUP.write_text(str(of_session), "ascii")
