"""Reads how much held GPUs computed, for the periods and groupings of a query for usage.

Whole hours come from the sums by hour, the rests at the ends of periods from the minutes, which are kept for two days. Of an older rest
nothing is known.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from headrace.accounting.reports.usage_reader import COLUMNS, LABEL
from headrace.accounting.storage.sql_statements import statements
from headrace.contracts.values.durations import HOUR, MINUTE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.accounting.storage.database import Connection

_SQL = statements("utilization")
_OF_LEASES = frozenset({"node", "job"})
"""Fields that the sums by account do not have."""

_Pieces = list[tuple[int, int, int]]


class Load(NamedTuple):
    """Unit-microseconds in which the load was known, in which the GPU computed, and in which it was held and idle."""

    measured: int = 0
    busy: int = 0
    idle_held: int = 0


async def loads(
    connection: Connection, tenant: str, fields: Sequence[str], bounds: Sequence[int], only: Sequence[str] | None
) -> dict[tuple[int, tuple[str, ...]], Load]:
    """Loads by period and names. `tenant` empty: all; `bounds`: of contiguous periods; `only`: the jobs of the query, None: all."""
    labels = [field.removeprefix(LABEL) for field in fields if field.startswith(LABEL)]
    hours, minutes = _split(bounds)
    by_account = not labels and only is None and _OF_LEASES.isdisjoint(fields)
    more = [*([labels] if labels else []), *([] if only is None else [list(only)])]
    found: dict[tuple[int, tuple[str, ...]], Load] = {}
    for name, table, pieces in (
        ("by_account" if by_account else "by_lease", "loads" if by_account else "leases", hours),
        ("by_minute", "leases", minutes),
    ):
        if not pieces:
            continue
        sql = _filled(_SQL[name], table, fields, labels, only)
        arguments = [] if name == "by_account" else more
        for number, names, *sums in await connection.fetch(sql, tenant, *map(list, zip(*pieces, strict=True)), *arguments):
            place = (number, tuple(names))
            found[place] = Load(*map(sum, zip(found.get(place, Load()), map(int, sums), strict=True)))
    return found


def _split(bounds: Sequence[int]) -> tuple[_Pieces, _Pieces]:
    """Whole hours, and the minutes that end in the rests, as (period, first, the one after the last)."""
    hours, minutes = [], []
    for number, (since, until) in enumerate(pairwise(bounds)):
        first, following = -(-since // HOUR), until // HOUR
        if first < following:
            hours.append((number, first, following))
            rests = [(since, first * HOUR), (following * HOUR, until)]
        else:
            rests = [(since, until)]
        minutes += [(number, begun // MINUTE, ended // MINUTE) for begun, ended in rests]
    return hours, [piece for piece in minutes if piece[1] < piece[2]]


def _filled(sql: str, table: str, fields: Sequence[str], labels: Sequence[str], only: Sequence[str] | None) -> str:
    columns = [
        f"coalesce(jobs.labels ->> ($5::text[])[{labels.index(field.removeprefix(LABEL)) + 1}], '')"
        if field.startswith(LABEL)
        else COLUMNS[field].format(table)
        for field in fields
    ]
    return (
        sql.replace("{names}", f"ARRAY[{', '.join(columns)}]::text[]")
        .replace("{jobs}", "JOIN headrace.jobs ON jobs.job = leases.job" if labels else "")
        .replace("{only}", "" if only is None else f"AND leases.job = ANY (${6 if labels else 5}::text[])")
    )
