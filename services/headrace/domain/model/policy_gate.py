"""What the windows and budgets of one policy say at the moment (R33)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class PolicyGate:
    """Whether a policy's windows and budgets let its jobs start, as the allocator stated it last (R33). Without a gate all jobs may start.

    `shut`: no window is open; `stops`: and the one that closed last stops what runs. `spent`: the names of budgets that are used up.
    """

    shut: bool
    stops: bool
    spent: tuple[str, ...]


@dataclass(slots=True, eq=False)
class BudgetMeter:
    """What a policy has used of a key in the current period, which ends at `ends` (R33). `held`: what its leases are charged now.

    Each lease that begins takes its amount times the time since `origin`, each that ends gives that back, and `held`, times the time
    until now, is added when it is read. The sum stands in two parts, unit-seconds and unit-microseconds, because it may be larger than
    snapshots' integers.
    """

    key: str
    origin: int
    ends: int
    seconds: int = 0
    microseconds: int = 0
    held: int = 0
