"""The books in PostgreSQL: what a stretch of the ledger changes is written with the position, all in one transaction, or not at all."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from headrace.accounting.books import Books, Gap, MeterKey
from headrace.accounting.database import Connection
from headrace.accounting.meter import PastUse, order_of
from headrace.accounting.rows import (
    ATTEMPT_COLUMNS,
    LEASE_COLUMNS,
    NOWHERE,
    Attempt,
    CapacityRow,
    Changes,
    Lease,
    Position,
    ReservationRow,
)
from headrace.accounting.statements import statements

_WRITE = statements("write")
_LOAD = statements("load")
_TABLES = (
    "records",
    "facts",
    "jobs",
    "rejected",
    "attempts",
    "leases",
    "preemptions",
    "victims",
    "settlements",
    "unused",
    "reservations",
    "capacity",
    "nodes",
)
"""Lists of `Changes` and the statements that write them, in the order in which one may need another."""


class PositionMoved(Exception):
    """Somebody else has written these books meanwhile: start again from what is there."""


async def write(connection: Connection, changes: Changes) -> None:
    """Write `changes`, or find that they have been written already. Raises `PositionMoved` where other ones have."""
    async with connection.transaction():
        after, before = changes.position, changes.before
        status = await connection.execute(_WRITE["advance"], *after, before.sequence, before.digest)
        if status != "UPDATE 1":
            there = await position(connection)
            if there == after:  # the answer to an earlier try was lost
                return
            raise PositionMoved(f"the books stand at {there.sequence}, not at {before.sequence}")
        for table in _TABLES:
            await _put(connection, table, getattr(changes, table))
        await _put(connection, "usage_gone", [key for key, use in changes.usage.items() if use is None])
        await _put(connection, "usage", [(*key, *use) for key, use in changes.usage.items() if use is not None])


async def _put(connection: Connection, statement: str, rows: Sequence[Sequence[object]]) -> None:
    if rows:
        await connection.execute(_WRITE[statement], *map(list, zip(*rows, strict=True)))


async def position(connection: Connection) -> Position:
    """How far the books reach."""
    row = await connection.fetchrow(_LOAD["position"])
    return Position(*row) if row is not None else NOWHERE


async def load(connection: Connection, books: Books, since: int) -> None:
    """Give `books`, made at the stored position, what they need to go on; the meters remember since the moment `since`."""
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        attempts = {
            (row["job"], row["attempt"]): Attempt(**dict(zip(ATTEMPT_COLUMNS, row, strict=True)))
            for row in await connection.fetch(_LOAD["unsettled_attempts"])
        }
        for row in await connection.fetch(_LOAD["leases_of_unsettled_attempts"]):
            lease = Lease(**{column: row[column] for column in LEASE_COLUMNS})
            attempts[lease.job, lease.attempt].leases[lease.rank] = lease
        reservations = [ReservationRow(*row) for row in await connection.fetch(_LOAD["reservations"])]
        supply = [CapacityRow(*row) for row in await connection.fetch(_LOAD["supply"])]
        past = await connection.fetch(_LOAD["past_use"], since)
    books.restore(attempts.values(), reservations, supply)
    reserved: dict[MeterKey, list[ReservationRow]] = defaultdict(list)
    for reservation in reservations:
        reserved[MeterKey(reservation.tenant, reservation.policy, reservation.key)].append(reservation)
    used: dict[MeterKey, list[PastUse]] = defaultdict(list)
    for tenant, policy, key, *use in past:
        used[MeterKey(tenant, policy, key)].append(_past_use(*use))
    for meter in reserved.keys() | used.keys():
        books.remember(meter, since, used[meter], reserved[meter])


async def close_gap(connection: Connection, books: Books, gap: Gap) -> None:
    """Give one meter of `books` the past it lacks; what was entered before has to be written."""
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        reservations = [ReservationRow(*row) for row in await connection.fetch(_LOAD["reservations_of_policy"], *gap.meter)]
        past = await connection.fetch(_LOAD["past_use_of_policy"], gap.since, *gap.meter)
    books.remember(gap.meter, gap.since, [_past_use(*use) for _, _, _, *use in past], reservations)


def _past_use(lease: int, preemptible: bool, since: int, until: int | None, reserved: int, borrowed: int) -> PastUse:
    return PastUse(order_of(lease, preemptible=preemptible), since, until, reserved, borrowed)
