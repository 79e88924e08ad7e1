"""All meters: one for each policy and key, with the reservation that it measures against (R7, R17). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from headrace.accounting.books.meter import PastUse, UsageMeter, UseChanges
from headrace.accounting.books.rollups import RollupAccount, Rollups
from headrace.accounting.books.rows import LeaseRow, ReservationRow, place_of, plain
from headrace.contracts.values.amounts import Amounts


class MeterKey(NamedTuple):
    """Key of a meter: a policy and a key."""

    tenant: str
    policy: str
    key: str


class Gap(NamedTuple):
    """A meter that has to remember since `since` before the books can be settled."""

    meter: MeterKey
    since: int


class Meters:
    """The meters of all policies; settled once for many events."""

    def __init__(self) -> None:
        self._meters: dict[MeterKey, UsageMeter] = {}
        self._changed: dict[tuple[str, str, str], UsageMeter] = {}
        self._reserved: dict[tuple[str, str], dict[str, tuple[int, str]]] = {}

    def restore(self, reservations: Iterable[ReservationRow]) -> None:
        """Set the reservations so far, in order; what was used follows by `remember`."""
        for row in reservations:
            self._reserved.setdefault((row.tenant, row.policy), {})[row.key] = (row.amount, row.group_name)

    def remember(self, key: MeterKey, since: int, past: Iterable[PastUse], reservations: Iterable[ReservationRow]) -> None:
        """Give a meter what was stored since `since`; see `UsageMeter.restored`."""
        restored = self._meter(key).restored(since, past, [row.change for row in reservations])
        self._meters[key] = restored
        if key in self._changed:
            self._changed[key] = restored

    def begin(self, lease: LeaseRow, keys: Iterable[str], at: int, account: RollupAccount) -> None:
        """Begin a lease's use of the keys at `at`, for the account."""
        place = place_of(lease)
        for key in keys:
            self._running(lease, key).begin(at, place, lease.amounts[key], account)

    def end(self, lease: LeaseRow, keys: Iterable[str], at: int) -> None:
        """End a lease's use of the keys at `at`."""
        place = place_of(lease)
        for key in keys:
            self._running(lease, key).end(at, place)

    def reserve(
        self, tenant: str, policy: str, reservation: Amounts, group: str, now: int, number: int
    ) -> Iterator[ReservationRow]:
        """Set the policy-wide reservation, for a group; yields a row for each key that changes."""
        known = self._reserved.setdefault((tenant, policy), {})
        for name in sorted(known.keys() | reservation.keys()):
            amount = reservation.get(name, 0)
            was, of = known.get(name, (0, ""))
            if was == amount and (of == group or not amount):
                continue
            known[name] = (amount, group)
            row = ReservationRow(tenant, policy, name, number, now, amount, plain(group))
            key = MeterKey(tenant, policy, name)
            meter = self._changed[key] = self._meter(key)
            meter.reserve(row.change)
            yield row

    def gaps(self) -> list[Gap]:
        """Meters with a change before the time that they remember."""
        return [Gap(MeterKey(*key), since) for key, meter in self._changed.items() if (since := meter.unknown_past) is not None]

    def settle(self, usage: UseChanges, sums: Rollups, horizon: int) -> None:
        """Settle every meter with new events, and let it forget what was over before `horizon`."""
        for meter in self._changed.values():
            sums.held(meter.key, meter.settle(usage))
            meter.forget(horizon)
        self._changed.clear()

    def _running(self, lease: LeaseRow, key: str) -> UsageMeter:
        """The meter, to be settled at the next call."""
        which = (lease.tenant, lease.policy, key)
        meter = self._changed.get(which)
        if meter is None:
            meter = self._changed[which] = self._meter(MeterKey(*which))
        return meter

    def _meter(self, key: MeterKey) -> UsageMeter:
        meter = self._meters.get(key)
        if meter is None:
            meter = self._meters[key] = UsageMeter(key.key)
        return meter
