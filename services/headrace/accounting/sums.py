"""What came to an end, summed up by day: the table that makes a month's statement a matter of days and not of jobs. Pure.

Strategy: sums are kept of what is over (an interval of use, a suspension, a wait), as differences, so that an interval that turns out to
have been another one is taken out again and the new one put in; what still lasts is added by whoever asks. Days are those of UTC: any
other period is whole days, and a rest that is read from the intervals themselves.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from headrace.accounting.meter import Closed
from headrace.accounting.tariffs import NO_TARIFF, Tariffs
from headrace.contracts.amounts import Amounts
from headrace.contracts.durations import DAY


class Account(NamedTuple):
    """On whose name something goes; `pool` is empty for what has not come so far."""

    tenant: str
    group: str
    policy: str
    profile: str
    user: str
    service_account: bool
    pool: str


class DayRow(NamedTuple):
    """A difference to what one account had of one key on one day (counted since 1970), at one tariff; in unit-microseconds."""

    day: int
    tenant: str
    group_name: str
    policy: str
    profile: str
    user_name: str
    service_account: bool
    pool: str
    key: str
    tariff: int
    reserved: int
    borrowed: int
    suspended: int
    waiting: int


_RESERVED, _BORROWED, _SUSPENDED, _WAITING = range(4)


class Sums:
    """Collects differences until they are taken."""

    def __init__(self, tariffs: Tariffs) -> None:
        self._tariffs = tariffs
        self._table: dict[tuple[int, Account, str, int], list[int]] = {}

    def held(self, key: str, closed: Iterable[Closed]) -> None:
        """Use of a key, reserved and borrowed, priced at the tariff of its time; tags are accounts."""
        table, only = self._table, self._tariffs.only
        for account, since, until, reserved, borrowed in closed:
            tariff, day = only(account.pool, account.tenant, since), since // DAY
            if tariff is not None and until <= (day + 1) * DAY:  # nearly all of them
                place = (day, account, key, tariff)
                cell = table.get(place)
                if cell is None:
                    cell = table[place] = [0, 0, 0, 0]
                cell[_RESERVED] += reserved * (until - since)
                cell[_BORROWED] += borrowed * (until - since)
                continue
            for begun, ended, tariff in self._tariffs.pieces(account.pool, account.tenant, since, until):
                self._add(account, key, tariff, begun, ended, ((_RESERVED, reserved), (_BORROWED, borrowed)))

    def suspended(self, account: Account, key: str, units: int, since: int, until: int) -> None:
        """Units that a suspended job would have held; charged to nobody (R29)."""
        self._add(account, key, NO_TARIFF, since, until, ((_SUSPENDED, units),))

    def waited(self, account: Account, amounts: Amounts, since: int, until: int) -> None:
        """What a job asked for while it was pending."""
        for key, units in amounts.items():
            self._add(account, key, NO_TARIFF, since, until, ((_WAITING, units),))

    def take(self) -> list[DayRow]:
        """Everything since the last time that is some difference."""
        rows = [
            DayRow(day, *account[:6], account.pool, key, tariff, *cell)
            for (day, account, key, tariff), cell in self._table.items()
            if any(cell)
        ]
        self._table = {}
        return sorted(rows)

    def _add(
        self, account: Account, key: str, tariff: int, since: int, until: int, measures: tuple[tuple[int, int], ...]
    ) -> None:
        table = self._table
        day = since // DAY
        while since < until:
            ends = min(until, (day + 1) * DAY)
            place = (day, account, key, tariff)
            cell = table.get(place)
            if cell is None:
                cell = table[place] = [0, 0, 0, 0]
            for measure, units in measures:
                cell[measure] += units * (ends - since)
            since, day = ends, day + 1
