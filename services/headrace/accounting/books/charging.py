"""From when to when each lease is charged, and for what: from its start to its release, without GPUs while suspended (R29, R36, R37).

Strategy: meters are called when charging begins and ends; what a lease held before its job ran was lost by the provider, and goes into the
sums as soon as it is over. Before the installation was raised to amended rules, a lease was charged from its grant, and a resumption from
its order: the caller decides when, by the level of the fold.
"""

from __future__ import annotations

from collections.abc import Iterable

from headrace.accounting.books.meters import Meters
from headrace.accounting.books.rollups import Rollups
from headrace.accounting.books.rows import LeaseRow, SuspensionRow
from headrace.contracts.values.amounts import GPU, is_gpu


class Charging:
    """Begins, ends, suspends and resumes the charging of leases. Each time is that of the lease's fact (R37)."""

    def __init__(self, meters: Meters, sums: Rollups) -> None:
        self._meters = meters
        self._sums = sums
        self._suspended: dict[int, int] = {}
        """Suspended leases, and since when."""
        self._rows: list[SuspensionRow] = []

    def restore(self, suspensions: Iterable[SuspensionRow]) -> None:
        """Continue from the stored suspensions that have not ended."""
        self._suspended = {row.lease: row.since for row in suspensions}

    def take_rows(self) -> list[SuspensionRow]:
        """The suspensions that began or ended since the last call."""
        rows, self._rows = self._rows, []
        return rows

    def begin(self, lease: LeaseRow, at: int) -> None:
        """Begin charging a lease; what it held before is lost by the provider."""
        lease.charged_at = lease.heard_at = max(lease.heard_at, at)
        self._sums.provider_lost(lease.account, lease.amounts, lease.granted_at, lease.charged_at)
        self._meters.begin(lease, (name for name, amount in lease.amounts.items() if amount), lease.charged_at, lease.account)

    def end(self, lease: LeaseRow, at: int) -> None:
        """End charging a released lease."""
        if lease.charged_at is None:
            self._sums.provider_lost(lease.account, lease.amounts, lease.granted_at, at)
            return
        suspended = lease.lease in self._suspended
        held = (name for name, amount in lease.amounts.items() if amount and not (suspended and is_gpu(name)))
        self._meters.end(lease, held, at)
        self._end_suspension(lease, at)

    def is_charged_gpus(self, lease: LeaseRow) -> bool:
        """True if a suspension would change what the lease is charged."""
        return lease.charged_at is not None and lease.lease not in self._suspended and bool(lease.amounts.get(GPU))

    def suspend(self, lease: LeaseRow, at: int) -> None:
        """Stop charging its devices (R29); only for a lease for which `is_charged_gpus` is true."""
        self._suspended[lease.lease] = at
        self._rows.append(SuspensionRow(lease.lease, at, None, lease.amounts[GPU]))
        self._meters.end(lease, _gpus_of(lease), at)

    def resume(self, lease: LeaseRow, at: int) -> bool:
        """Charge its devices again, at least a microsecond after charging ended, so that intervals stay apart.

        False if it was not suspended. Otherwise that time is the node's last contact.
        """
        if lease.lease not in self._suspended:
            return False
        lease.heard_at = max(lease.heard_at + 1, at)
        self._end_suspension(lease, lease.heard_at)
        self._meters.begin(lease, _gpus_of(lease), lease.heard_at, lease.account)
        return True

    def _end_suspension(self, lease: LeaseRow, at: int) -> None:
        since = self._suspended.pop(lease.lease, None)
        if since is not None:
            units = lease.amounts[GPU]
            self._rows.append(SuspensionRow(lease.lease, since, at, units))
            for key in _gpus_of(lease):
                self._sums.suspended(lease.account, key, units, since, at)


def _gpus_of(lease: LeaseRow) -> list[str]:
    """The keys under which its devices are charged: all GPUs, and, where it is charged by model, those of its model (R43)."""
    return [key for key, amount in lease.amounts.items() if amount and is_gpu(key)]
