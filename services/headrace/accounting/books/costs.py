"""Money, exactly: integers of millionths of the installation's currency. The only place where amounts are rounded. Pure.

A cost is units times microseconds times a rate, divided by an hour of the key. That is a fraction; **it is rounded once, half to even, to
a millionth**, and every larger sum is a sum of such lines, so that all sums agree.
"""

from __future__ import annotations

from collections.abc import Iterable

from headrace.accounting.books.tariffs import NO_TARIFF, PriceRow, TariffRow, Tariffs
from headrace.contracts.values.amounts import CPU, CPU_UNITS, GPU, GPU_UNITS, MEMORY, is_gpu
from headrace.contracts.values.durations import HOUR
from headrace.contracts.values.money import MILLION
from headrace.domain.state.state import State

ONE = {GPU: GPU_UNITS, CPU: CPU_UNITS, MEMORY: 1024}
"""Units that a price is for: an hour of a GPU, a core, a GiB; of other keys one."""


def hour_of(key: str) -> int:
    """An hour of the key, in unit-microseconds."""
    return ONE.get(GPU if is_gpu(key) else key, 1) * HOUR


def rounded(numerator: int, denominator: int) -> int:
    """The quotient rounded to the nearest integer, half to even."""
    whole, rest = divmod(numerator, denominator)
    if 2 * rest > denominator or (2 * rest == denominator and whole % 2):
        return whole + 1
    return whole


def decimal(millionths: int) -> str:
    """`-12.345678` for an integer of millionths."""
    whole, rest = divmod(abs(millionths), MILLION)
    return f"{'-' if millionths < 0 else ''}{whole}.{rest:06}"


class PriceList:
    """All tariffs so far, with their rates."""

    def __init__(self, tariffs: Iterable[TariffRow], prices: Iterable[PriceRow]) -> None:
        self._tariffs = Tariffs(State())
        self._rates = {(row.tariff, row.pool, row.tenant, row.key): (row.on_demand, row.reserved) for row in prices}
        self._spot: dict[tuple[int, str], bool] = {}
        moments = set()
        self._since: dict[int, int] = {}
        rows = list(tariffs)
        for row in rows:
            self._spot[row.tariff, row.pool] = row.spot
            self._since[row.tariff] = row.since
            moments.add(row.since)
        self._tariffs.restore(rows, ())
        self.moments = sorted(moments)
        """Times at which any price changed."""

    def at(self, pool: str, tenant: str, moment: int) -> int:
        """The number of the tariff in force."""
        return self._tariffs.at(pool, tenant, moment) if pool else NO_TARIFF

    def rates(self, tariff: int, pool: str, tenant: str, key: str) -> tuple[int, int]:
        """Rates of an hour of the key, on demand and inside a reservation, in millionths."""
        own = self._rates.get((tariff, pool, tenant, key))
        return own if own is not None else self._rates.get((tariff, pool, "", key), (0, 0))

    def since(self, tariff: int) -> int:
        """The time from which a tariff was in force; 0 for `NO_TARIFF`."""
        return self._since.get(tariff, 0)

    def is_spot(self, tariff: int, pool: str) -> bool:
        """True if the tariff's price is a spot price."""
        return self._spot.get((tariff, pool), False)
