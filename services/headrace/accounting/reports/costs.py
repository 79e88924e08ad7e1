"""Money, exactly: integers of millionths of the installation's currency. The one place where anything is rounded. Pure.

What something costs is units times microseconds times a rate, divided by what an hour of the key is. That is a fraction; **it is rounded
once, half to even, to a millionth**, and every larger sum is a sum of such lines, so that whatever is added up adds up.
"""

from __future__ import annotations

from collections.abc import Iterable

from headrace.accounting.books.tariffs import MILLION, NO_TARIFF, PriceRow, TariffRow, Tariffs
from headrace.contracts.values.amounts import CPU, CPU_UNITS, GPU, GPU_UNITS, MEMORY
from headrace.contracts.values.durations import HOUR
from headrace.domain.model.state import State

ONE = {GPU: GPU_UNITS, CPU: CPU_UNITS, MEMORY: 1024}
"""What a price is for: an hour of a GPU, a core, a GiB; of other keys one."""


def hour_of(key: str) -> int:
    """An hour of the key, in unit-microseconds."""
    return ONE.get(key, 1) * HOUR


def rounded(numerator: int, denominator: int) -> int:
    """The nearest integer; of two the even one."""
    whole, rest = divmod(numerator, denominator)
    if 2 * rest > denominator or (2 * rest == denominator and whole % 2):
        return whole + 1
    return whole


def decimal(millionths: int) -> str:
    """`-12.345678` for an integer of millionths."""
    whole, rest = divmod(abs(millionths), MILLION)
    return f"{'-' if millionths < 0 else ''}{whole}.{rest:06}"


class PriceList:
    """Every tariff there was, with its rates."""

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
        """When any price changed."""

    def at(self, pool: str, tenant: str, moment: int) -> int:
        """The tariff in force."""
        return self._tariffs.at(pool, tenant, moment) if pool else NO_TARIFF

    def rates(self, tariff: int, pool: str, tenant: str, key: str) -> tuple[int, int]:
        """What an hour of the key costs, on demand and inside a reservation, in millionths."""
        own = self._rates.get((tariff, pool, tenant, key))
        return own if own is not None else self._rates.get((tariff, pool, "", key), (0, 0))

    def since(self, tariff: int) -> int:
        """When it began to be in force; 0 for none."""
        return self._since.get(tariff, 0)

    def is_spot(self, tariff: int, pool: str) -> bool:
        """Whether what it says is a spot price."""
        return self._spot.get((tariff, pool), False)
