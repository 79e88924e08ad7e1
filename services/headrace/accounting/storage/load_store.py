"""The sums of samples in PostgreSQL: a complete minute is added to its hour in one transaction, and what is old is deleted."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from headrace.accounting.storage.sql_statements import statements
from headrace.contracts.values.durations import DAY, HOUR, MINUTE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.accounting.books.utilization import LoadRow
    from headrace.accounting.storage.database import Connection

MINUTES_KEPT = 2 * DAY
HOURS_KEPT = 396 * DAY
"""Thirteen months, in microseconds."""

MINUTES_PER_HOUR = HOUR // MINUTE

_SQL = statements("utilization")


async def add(connection: Connection, minute: int, rows: Sequence[LoadRow]) -> None:
    """Add a complete minute to the tables of minutes and of hours, unless it has been added already; minutes are added in order."""
    devices: defaultdict[tuple[object, ...], list[int]] = defaultdict(lambda: [0] * 5)
    accounts: defaultdict[tuple[object, ...], list[int]] = defaultdict(lambda: [0] * 4)
    hour = minute // MINUTES_PER_HOUR
    for row in rows:
        amounts = row[4:9]
        _sum(devices[hour, *row[1:4]], amounts)
        _sum(accounts[hour, *row[9:]], amounts[:4])
    async with connection.transaction():
        if await connection.execute(_SQL["advance"], minute) != "UPDATE 1":
            return
        await _put(connection, "minutes", [row[:9] for row in rows])
        await _put(connection, "device_hours", [(*key, *sums) for key, sums in sorted(devices.items())])
        await _put(connection, "hours", [(*key, *sums) for key, sums in sorted(accounts.items())])


async def forget(connection: Connection, now: int) -> None:
    """Delete what is older than is kept; `now`: microseconds since 1970."""
    await connection.execute(_SQL["forget_minutes"], (now - MINUTES_KEPT) // MINUTE)
    await connection.execute(_SQL["forget_device_hours"], (now - HOURS_KEPT) // HOUR)
    await connection.execute(_SQL["forget_hours"], (now - HOURS_KEPT) // HOUR)


def _sum(sums: list[int], amounts: Sequence[int]) -> None:
    for place, amount in enumerate(amounts):
        sums[place] += amount


async def _put(connection: Connection, statement: str, rows: Sequence[Sequence[object]]) -> None:
    if rows:
        await connection.execute(_SQL[statement], *map(list, zip(*rows, strict=True)))
