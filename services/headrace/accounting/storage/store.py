"""The books in PostgreSQL: the changes by a part of the ledger are written with the position, all in one transaction, or not at all."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from headrace.accounting.books.books import Books
from headrace.accounting.books.meter import PastUse, order_of
from headrace.accounting.books.meters import Gap, MeterKey
from headrace.accounting.books.rollups import RollupAccount
from headrace.accounting.books.rows import (
    ATTEMPT_COLUMNS,
    LEASE_COLUMNS,
    NOWHERE,
    AttemptRow,
    CapacityRow,
    KeptRow,
    LeaseRow,
    Position,
    RecordRow,
    ReservationRow,
    RowChanges,
    StoredBooks,
    SuspensionRow,
)
from headrace.accounting.books.tariffs import PriceRow, TariffRow
from headrace.accounting.storage.database import Connection
from headrace.accounting.storage.sql_statements import statements

_WRITE = statements("write")
_LOAD = statements("load")
_ASKED = ("jobs", "attempts", "leases", "usage", "suspensions", "unserved", "kept", "hours", "node_hours", "days")
_TABLES = (
    "jobs",
    "rejected",
    "unserved",
    "array_parts",
    "attempts",
    "leases",
    "suspensions",
    "kept",
    "days",
    "hours",
    "node_hours",
    "tariffs",
    "prices",
    "preemptions",
    "victims",
    "settlements",
    "unused",
    "reservations",
    "capacity",
    "nodes",
)
"""Lists of `RowChanges` and the statements that write them, in the order in which one may need another."""


class CopyDiffers(Exception):
    """The books have a copy of a record that differs from the one in the ledger."""


class PositionMoved(Exception):
    """Another process has written these books meanwhile: start again from their position."""


async def write(connection: Connection, changes: RowChanges) -> None:
    """Write `changes` unless they have been written already. Raises `PositionMoved` after writes of another process, and `CopyDiffers`."""
    async with connection.transaction():
        after, before = changes.position, changes.before
        status = await connection.execute(_WRITE["advance"], *after, before.sequence, before.digest)
        if status != "UPDATE 1":
            there = await position(connection)
            if there == after:  # the answer to an earlier attempt was lost
                return
            raise PositionMoved(_moved(there, before))
        await _copy(connection, changes.records)
        if changes.facts:
            await connection.copy_records_to_table("facts", schema_name="headrace", records=changes.facts)
        for table in _TABLES:
            await _put(connection, table, getattr(changes, table))
        await _put(connection, "instances", list(changes.instances.values()))
        await _put(connection, "usage_gone", [key for key, use in changes.usage.items() if use is None])
        await _put(connection, "usage", [(*key, *use) for key, use in changes.usage.items() if use is not None])


async def survey(connection: Connection) -> None:
    """Let PostgreSQL analyse the tables that are queried together.

    It does so by itself once a minute. Until then it assumes the former size of a table, and a query for the use of some thousand jobs
    scans one table for each row of the other.
    """
    await connection.execute(f"ANALYZE {', '.join(f'headrace.{table}' for table in _ASKED)}")


async def _copy(connection: Connection, records: Sequence[RecordRow]) -> None:
    """Write the independent copy. Books that are rebuilt find the records there, and check that they are the same."""
    if records and await _put(connection, "records", records) != f"INSERT 0 {len(records)}":
        other = await connection.fetchval(
            _WRITE["other_record"], [row.sequence for row in records], [row.digest for row in records]
        )
        if other is not None:
            raise CopyDiffers(
                f"record {other} of the ledger is not the one that headrace.records has a copy of: one was changed"
            )


async def _put(connection: Connection, statement: str, rows: Sequence[Sequence[object]]) -> str:
    """The command tag of PostgreSQL; "" without rows."""
    if not rows:
        return ""
    status: str = await connection.execute(_WRITE[statement], *map(list, zip(*rows, strict=True)))
    return status


async def position(connection: Connection) -> Position:
    """The position of the books."""
    row = await connection.fetchrow(_LOAD["position"])
    return Position(*row) if row is not None else NOWHERE


async def _see_unmoved(connection: Connection, at: Position) -> None:
    """Raise `PositionMoved` unless the books are at `at`: a process that ended a moment ago may still have had a commit under way."""
    there = await position(connection)
    if there != at:
        raise PositionMoved(_moved(there, at))


def _moved(there: Position, at: Position) -> str:
    return f"the books stand at {there.sequence}, not at {at.sequence}"


async def load(connection: Connection, books: Books, at: Position, since: int) -> None:
    """Give `books`, made at the position `at`, what they need to continue; the meters remember since the time `since`.

    Raises `PositionMoved`.
    """
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        await _see_unmoved(connection, at)
        attempts = {
            (row["job"], row["attempt"]): AttemptRow(**dict(zip(ATTEMPT_COLUMNS, row, strict=True)))
            for row in await connection.fetch(_LOAD["unsettled_attempts"])
        }
        for row in await connection.fetch(_LOAD["leases_of_unsettled_attempts"]):
            lease = LeaseRow(**{column: row[column] for column in LEASE_COLUMNS})
            attempts[lease.job, lease.attempt].leases[lease.rank] = lease
        reservations = [ReservationRow(*row) for row in await connection.fetch(_LOAD["reservations"])]
        rest = StoredBooks(
            unsettled=tuple(attempts.values()),
            accounts=[(job, RollupAccount(*account)) for job, *account in await connection.fetch(_LOAD["accounts"])],
            suspensions=[SuspensionRow(*row) for row in await connection.fetch(_LOAD["suspensions"])],
            kept=[KeptRow(*row) for row in await connection.fetch(_LOAD["kept"])],
            reservations=reservations,
            supply=[CapacityRow(*row) for row in await connection.fetch(_LOAD["supply"])],
            tariffs=[TariffRow(*row) for row in await connection.fetch(_LOAD["tariffs"])],
            prices=[PriceRow(*row) for row in await connection.fetch(_LOAD["prices"])],
        )
        past = await connection.fetch(_LOAD["past_use"], since)
    books.restore(rest)
    reserved: dict[MeterKey, list[ReservationRow]] = defaultdict(list)
    for reservation in reservations:
        reserved[MeterKey(reservation.tenant, reservation.policy, reservation.key)].append(reservation)
    used: dict[MeterKey, list[PastUse]] = defaultdict(list)
    for key, *use in past:
        found = _past_use(*use)
        used[MeterKey(found.tag.tenant, found.tag.policy, key)].append(found)
    for meter in reserved.keys() | used.keys():
        books.remember(meter, since, used[meter], reserved[meter])


async def close_gap(connection: Connection, books: Books, at: Position, gap: Gap) -> None:
    """Give one meter of `books` the past it lacks; everything entered before is written, up to `at`. Raises `PositionMoved`."""
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        await _see_unmoved(connection, at)
        reservations = [ReservationRow(*row) for row in await connection.fetch(_LOAD["reservations_of_policy"], *gap.meter)]
        past = await connection.fetch(_LOAD["past_use_of_policy"], gap.since, *gap.meter)
    books.remember(gap.meter, gap.since, [_past_use(*use) for _, *use in past], reservations)


def _past_use(
    lease: int, preemptible: bool, over_budget: bool, since: int, until: int | None, reserved: int, borrowed: int, *account: Any
) -> PastUse:
    order = order_of(lease, preemptible=preemptible, over_budget=over_budget)
    return PastUse(order, since, until, reserved, borrowed, RollupAccount(*account))
