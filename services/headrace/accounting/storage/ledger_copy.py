"""Reads the independent copy of the ledger's records, for a repair of the stream."""

from __future__ import annotations

from typing import NamedTuple

from headrace.accounting.storage.database import Connection


class CopiedRecord(NamedTuple):
    """A record of `headrace.records`; `stamped` in microseconds since 1970."""

    sequence: int
    subject: str
    stamped: int
    digest: str
    payload: bytes


async def last(connection: Connection) -> int:
    """The last record in the copy; 0 if the copy is empty or its table does not exist yet."""
    if await connection.fetchval("SELECT to_regclass('headrace.records') IS NULL"):
        return 0
    return int(await connection.fetchval("SELECT max(sequence) FROM headrace.records") or 0)


async def between(connection: Connection, first: int, through: int) -> list[CopiedRecord]:
    """The copies from one record to another, in order."""
    rows = await connection.fetch(
        "SELECT sequence, subject, stamped, digest, payload FROM headrace.records WHERE sequence BETWEEN $1 AND $2 ORDER BY sequence",
        first,
        through,
    )
    return [CopiedRecord(*row) for row in rows]


async def last_by_subject(connection: Connection, through: int) -> list[CopiedRecord]:
    """The last copy of each subject, up to a record."""
    rows = await connection.fetch(
        "SELECT DISTINCT ON (subject) sequence, subject, stamped, digest, payload FROM headrace.records WHERE sequence <= $1 "
        "ORDER BY subject, sequence DESC",
        through,
    )
    return [CopiedRecord(*row) for row in rows]
