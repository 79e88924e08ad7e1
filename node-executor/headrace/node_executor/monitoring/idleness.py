"""Detects devices that are held and idle: over a sliding window, so that neither a moment's rest nor a moment's work decides. Pure."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

WINDOW = 600 * 1_000_000
"""Length of the window in microseconds."""

IDLE_BELOW = 5
"""Percent: a device less busy than that on average, over the whole window, is idle."""


class HeldDevice(NamedTuple):
    """How long a device has been held (microseconds), how busy it was on average, and whether it was idle for the whole window."""

    held: int
    average: int | None
    idle: bool


@dataclass(slots=True)
class Idleness:
    """The window of one device: moments, each with how busy the device was up to then."""

    since: int = 0
    samples: deque[tuple[int, int]] = field(default_factory=deque)

    def note(self, at: int, busy: int | None, *, held: bool) -> HeldDevice:
        """Note a sample of the device. A new holder begins with an empty window; a device whose load is unknown is not idle."""
        if not held:
            self.since = 0
            self.samples.clear()
            return HeldDevice(0, None, idle=False)
        self.since = self.since or at
        if busy is not None:
            self.samples.append((at, busy))
        while self.samples and self.samples[0][0] <= at - WINDOW:
            self.samples.popleft()
        average = sum(percent for _, percent in self.samples) // len(self.samples) if self.samples else None
        spanned = at - self.since >= WINDOW
        return HeldDevice(at - self.since, average, idle=spanned and average is not None and average < IDLE_BELOW)
