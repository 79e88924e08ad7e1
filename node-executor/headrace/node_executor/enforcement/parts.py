"""Memory of a part of a GPU: what is given, what a mechanism lets through, and when the watchdog acts. Pure; everything in MiB."""

from __future__ import annotations

from headrace.contracts.values.amounts import GPU_UNITS
from headrace.contracts.values.gpu_memory import memory_of_share

CONTEXT = 640
"""Memory that a process takes before its first allocation; a mechanism that does not count it lets that much less through."""

LEAST = 64

SLACK, SLACK_PARTS = 256, 50
"""Tolerance of the watchdog: MiB, or one part in this number, whichever is more."""


def part_of(memory: int, units: int) -> int:
    """Return the memory of `units` of a GPU with `memory`. All parts of a GPU together are less than the whole."""
    return max(LEAST, memory_of_share(memory, units))


def from_within(part: int) -> int:
    """Return the limit of a mechanism inside the job's processes."""
    return max(LEAST, part - CONTEXT)


def overrun_at(part: int) -> int:
    """Return the use from which on a job is killed."""
    return part + max(SLACK, part // SLACK_PARTS)


def threads(units: int) -> int:
    """Return the percentage of multiprocessors that a part may keep busy, at least 1."""
    return max(1, min(100, units * 100 // GPU_UNITS))
