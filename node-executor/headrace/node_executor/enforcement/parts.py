"""How much memory a part of a GPU is: what is given, what a fence lets through, and when the watchdog acts. Pure; everything in MiB."""

from __future__ import annotations

from headrace.contracts.values.amounts import GPU_UNITS

RESERVED = 1_024
"""Of every GPU that is shared, for the driver and the servers that share it."""

CONTEXT = 640
"""What a process takes of a GPU before its first allocation; a fence that does not see it lets that much less through."""

LEAST = 64

SLACK, SLACK_PARTS = 256, 50
"""By how much the watchdog lets a job overrun: so many MiB, or one part in so many, whichever is more."""


def part_of(memory: int, units: int) -> int:
    """What `units` of a GPU with `memory` are given. All parts of a GPU together are less than the whole."""
    if units >= GPU_UNITS:
        return memory
    return max(LEAST, (memory - RESERVED) * units // GPU_UNITS)


def from_within(part: int) -> int:
    """What a fence lets through that stands inside the job's processes."""
    return max(LEAST, part - CONTEXT)


def overrun_at(part: int) -> int:
    """What a job may hold before it is killed for it."""
    return part + max(SLACK, part // SLACK_PARTS)


def threads(units: int) -> int:
    """Percent of the multiprocessors that a part may keep busy, at least 1."""
    return max(1, min(100, units * 100 // GPU_UNITS))
