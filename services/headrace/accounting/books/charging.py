"""Since when each lease is charged, and of what: from its real start to its release, and no GPU while it is suspended (R29, R36, R37).

Strategy: meters are told of what begins and ends to be charged; what a lease held before its job ran was lost by the provider, and goes
into the sums as soon as it is over. Before the installation was raised to amended rules, a lease was charged from its grant, and a
resumption from its order: whoever calls this decides when, by the level of the fold.
"""

from __future__ import annotations

from collections.abc import Iterable

from headrace.accounting.books.meters import Meters
from headrace.accounting.books.rollups import Sums
from headrace.accounting.books.rows import LeaseRow, SuspensionRow
from headrace.contracts.values.amounts import GPU


class Charging:
    """The leases that begin, end, are suspended or resumed. Each moment given is that of the lease's fact (R37)."""

    def __init__(self, meters: Meters, sums: Sums) -> None:
        self._meters = meters
        self._sums = sums
        self._suspended: dict[int, int] = {}
        """Suspended leases, and since when."""
        self._rows: list[SuspensionRow] = []

    def restore(self, suspensions: Iterable[SuspensionRow]) -> None:
        """Go on from the suspensions that last, as stored."""
        self._suspended = {row.lease: row.since for row in suspensions}

    def take_rows(self) -> list[SuspensionRow]:
        """The suspensions that began or ended since the last time."""
        rows, self._rows = self._rows, []
        return rows

    def begin(self, lease: LeaseRow, at: int) -> None:
        """The lease is charged from then on; what it held before is lost by the provider."""
        lease.charged_at = lease.heard_at = max(lease.heard_at, at)
        self._sums.provider_lost(lease.account, lease.amounts, lease.granted_at, lease.charged_at)
        self._meters.begin(lease, (name for name, amount in lease.amounts.items() if amount), lease.charged_at, lease.account)

    def end(self, lease: LeaseRow, at: int) -> None:
        """The lease is released."""
        if lease.charged_at is None:
            self._sums.provider_lost(lease.account, lease.amounts, lease.granted_at, at)
            return
        suspended = lease.lease in self._suspended
        held = (name for name, amount in lease.amounts.items() if amount and not (suspended and name == GPU))
        self._meters.end(lease, held, at)
        self._end_suspension(lease, at)

    def is_charged_gpus(self, lease: LeaseRow) -> bool:
        """Whether a suspension would change what it is charged."""
        return lease.charged_at is not None and lease.lease not in self._suspended and bool(lease.amounts.get(GPU))

    def suspend(self, lease: LeaseRow, at: int) -> None:
        """Stop charging its devices (R29); only for a lease for which `is_charged_gpus` is true."""
        self._suspended[lease.lease] = at
        self._rows.append(SuspensionRow(lease.lease, at, None, lease.amounts[GPU]))
        self._meters.end(lease, (GPU,), at)

    def resume(self, lease: LeaseRow, at: int) -> bool:
        """Its devices are charged again, never in the very moment in which that ended, so that stints stay apart.

        False where it was not suspended. When they are, the lease has been heard of.
        """
        if lease.lease not in self._suspended:
            return False
        lease.heard_at = max(lease.heard_at + 1, at)
        self._end_suspension(lease, lease.heard_at)
        self._meters.begin(lease, (GPU,), lease.heard_at, lease.account)
        return True

    def _end_suspension(self, lease: LeaseRow, at: int) -> None:
        since = self._suspended.pop(lease.lease, None)
        if since is not None:
            units = lease.amounts[GPU]
            self._rows.append(SuspensionRow(lease.lease, since, at, units))
            self._sums.suspended(lease.account, GPU, units, since, at)
