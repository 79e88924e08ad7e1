"""Judges from a driver's reports whether a GPU is in order. Pure.

Strategy: what a program did wrong (an illegal address, a kernel that ran too long) is the program's fault, not the GPU's. A report that
the GPU is broken drains it at once. Everything else is decided by the driver's own advice, the recovery action that it names (driver 570
and later). An event that leaves no state to look at counts until nothing has been wrong for `QUIET`; if only a reset mends it, until a
reset was seen: the GPU was lost or its driver wanted it recovered, and is so no longer, or its count of errors began again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

QUIET = 30_000_000
"""Microseconds without trouble before a drained GPU is taken back."""

OF_PROGRAMS = frozenset({13, 31, 43, 45, 68, 94, 109})
"""XIDs that one program causes or suffers alone; 94 is an uncorrectable error that was contained to it."""

OF_THE_GPU = {
    48: "an uncorrectable error in its memory",
    62: "its internal controller has halted",
    63: "a row of its memory is to be remapped",
    64: "a row of its memory cannot be remapped",
    74: "an error of NVLink",
    79: "it has fallen off the bus",
    95: "an uncorrectable error that was not contained",
    119: "its system processor does not answer",
    120: "its system processor has failed",
}
"""XIDs after which nothing more is to be started on the GPU, and what they mean."""

BY_RESET = frozenset({62, 64, 79, 95, 119, 120})
"""XIDs after which a GPU is in order again only when it has been reset, whatever it says of itself until then."""

RECOVERY = {
    1: "the driver wants it reset",
    2: "the driver wants the node rebooted",
    3: "the driver wants its links drained",
    4: "the driver wants it drained and reset",
    5: "the driver wants its fabric recovered",
    6: "the driver wants its bus reset",
    7: "the driver wants the system rebooted",
}


class Trouble(NamedTuple):
    """Why nothing may be granted on a device; as in `device.drained`."""

    cause: str
    code: int
    message: str


class HealthReading(NamedTuple):
    """State of a GPU. `recovery`: None if the driver gives no advice; `uncorrected`: errors since the driver was loaded."""

    lost: bool = False
    recovery: int | None = None
    rows_pending: bool = False
    rows_failed: bool = False
    uncorrected: int = 0


def trouble_of_xid(number: int) -> Trouble | None:
    """Return what an XID says of the GPU by itself; None if it is a program's, or the driver's advice decides."""
    meaning = OF_THE_GPU.get(number)
    return None if meaning is None else Trouble("xid", number, f"XID {number}: {meaning}")


@dataclass(slots=True)
class Condition:
    """One GPU's health over time. `trouble`: why it is drained; None while it is in order. Moments in microseconds.

    `memory`: trouble of an event, which leaves no state; `quiet_since`: since when nothing else is wrong. `away`: since that event the GPU
    was lost, or to be recovered; `again`: it has been reset since.
    """

    trouble: Trouble | None = None
    memory: Trouble | None = None
    quiet_since: int = 0
    errors: int | None = None
    away: bool = False
    again: bool = False

    def happened(self, trouble: Trouble, at: int) -> bool:
        """Note an event; returns whether it drains the GPU now."""
        if self.memory is None or not self._waits_for_reset:
            self.memory = trouble
        self.quiet_since, self.away, self.again = at, False, False
        return self._be(self.trouble or trouble)

    @property
    def _waits_for_reset(self) -> bool:
        return self.memory is not None and self.memory.cause == "xid" and self.memory.code in BY_RESET and not self.again

    def seen(self, reading: HealthReading, at: int) -> bool:
        """Note a reading; returns whether it drained the GPU, or brought it back."""
        wrong = _wrong(reading)
        if self.errors is not None and reading.uncorrected > self.errors:
            count = reading.uncorrected - self.errors
            self.memory = Trouble("ecc", count, f"{count} uncorrectable errors in its memory")
            self.quiet_since = at
        if reading.lost or reading.recovery:
            self.away = True
        elif self.away or reading.uncorrected < (self.errors or 0):
            self.again = True
        if not reading.lost:
            self.errors = reading.uncorrected
        if wrong is not None:
            self.quiet_since = at
            return self._be(wrong)
        if self.trouble is None and self.memory is None:
            return False
        if self.memory is not None and (reading.recovery is None or self._waits_for_reset or at - self.quiet_since < QUIET):
            return self._be(self.trouble or self.memory)
        if at - self.quiet_since < QUIET:
            return False
        self.memory = None
        return self._be(None)

    def _be(self, trouble: Trouble | None) -> bool:
        """Set the trouble; returns whether the GPU was drained or returned by it."""
        news = (self.trouble is None) is not (trouble is None)
        self.trouble = trouble
        return news


def _wrong(reading: HealthReading) -> Trouble | None:
    """Return what is wrong at this moment."""
    if reading.lost:
        return Trouble("lost", 0, "the driver has lost it")
    if reading.recovery:
        return Trouble("recovery_action", reading.recovery, RECOVERY.get(reading.recovery, "the driver wants it recovered"))
    if reading.rows_failed:
        return Trouble("row_remap", 0, "rows of its memory could not be remapped: it has to be replaced")
    if reading.rows_pending:
        return Trouble("row_remap", 0, "rows of its memory are remapped when it is reset")
    return None
