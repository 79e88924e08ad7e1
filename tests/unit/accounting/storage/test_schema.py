from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from headrace.accounting.storage.schema import SchemaError, migrate
from headrace.accounting.storage.sql_statements import migrations

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class Connection:
    """A database with these migrations applied; None: without our schema. Notes what is executed."""

    def __init__(self, applied: dict[int, str] | None, *, ours: bool = True) -> None:
        self.applied = applied
        self.ours = ours
        self.executed: list[str] = []

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        yield

    async def execute(self, sql: str, *arguments: Any) -> None:
        self.executed.append(sql)

    async def fetchval(self, sql: str) -> Any:
        if "current_database" in sql:
            return "books"
        return self.applied is None if "to_regnamespace" in sql else not self.ours

    async def fetch(self, _sql: str) -> list[dict[str, Any]]:
        return [{"version": version, "digest": digest} for version, digest in (self.applied or {}).items()]


DIGESTS = {migration.version: migration.digest for migration in migrations()}


async def test_an_empty_database_gets_every_migration_in_order() -> None:
    connection = Connection(None)
    await migrate(connection)
    texts = [migration.text for migration in migrations()]
    assert [sql for sql in connection.executed if sql in texts] == texts
    assert connection.executed[1].startswith("\nCREATE SCHEMA headrace;")


async def test_what_is_there_is_not_applied_again() -> None:
    connection = Connection(DIGESTS)
    await migrate(connection)
    assert connection.executed == ["SELECT pg_advisory_xact_lock($1)"]


@pytest.mark.parametrize(
    ("connection", "complaint"),
    [
        (Connection({}, ours=False), "database books has a schema 'headrace' that is not the books'"),
        (Connection(DIGESTS | {99: "x"}), "written by a newer Headrace (schema 99, this one knows"),
        (Connection(DIGESTS | {1: "x"}), "migration 1 (books) of the books is not the one this Headrace has"),
    ],
    ids=["somebody else's", "newer", "changed"],
)
async def test_what_is_not_ours_is_left_alone(connection: Connection, complaint: str) -> None:
    with pytest.raises(SchemaError) as refusal:
        await migrate(connection)
    assert complaint in str(refusal.value)
    assert connection.executed == ["SELECT pg_advisory_xact_lock($1)"]
