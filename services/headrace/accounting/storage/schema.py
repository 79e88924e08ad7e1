"""Migrates a database to the schema of this version, each step once and as a whole; refuses a schema that it has not made."""

from __future__ import annotations

import asyncpg

from headrace.accounting.storage.database import Connection
from headrace.accounting.storage.sql_statements import Migration, migrations

_LOCK = 0x68656164  # one instance migrates at a time; any number that others do not use

_OWN = """
CREATE SCHEMA headrace;
COMMENT ON SCHEMA headrace IS 'The books of Headrace: who used how much, when, and on whose reservation. Begin with headrace.use.';
CREATE TABLE headrace.migrations (
    version integer PRIMARY KEY,
    name text NOT NULL,
    digest text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE headrace.migrations IS 'The steps that made this schema.';
"""


class SchemaError(Exception):
    """The database has another schema; the text says which, and the way out."""


async def migrate(connection: Connection) -> None:
    """Apply missing migrations. Raises `SchemaError` if the schema has another owner, was changed, or is newer than this program."""
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock($1)", _LOCK)
        applied = await _applied(connection)
        for migration in migrations():
            if migration.version not in applied:
                await connection.execute(migration.text)
                await connection.execute(
                    "INSERT INTO headrace.migrations (version, name, digest) VALUES ($1, $2, $3)",
                    migration.version,
                    migration.name,
                    migration.digest,
                )


async def _applied(connection: Connection) -> dict[int, str]:
    """Versions that were applied, with their digests, all of them ours."""
    database = await connection.fetchval("SELECT current_database()")
    if await connection.fetchval("SELECT to_regnamespace('headrace') IS NULL"):
        await connection.execute(_OWN)
    elif await connection.fetchval("SELECT to_regclass('headrace.migrations') IS NULL"):
        raise SchemaError(
            f"database {database} has a schema 'headrace' that is not the books' (it has no table migrations): "
            "give HEADRACE_POSTGRES_DSN another database, or rename that schema"
        )
    try:
        rows = await connection.fetch("SELECT version, digest FROM headrace.migrations")
    except (asyncpg.UndefinedColumnError, asyncpg.InsufficientPrivilegeError) as error:
        raise SchemaError(f"the schema 'headrace' in database {database} is not the books': {error}") from error
    applied = {row["version"]: row["digest"] for row in rows}
    _compare(applied, {migration.version: migration for migration in migrations()})
    return applied


def _compare(applied: dict[int, str], known: dict[int, Migration]) -> None:
    for version, digest in sorted(applied.items()):
        if version not in known:
            newest = max(known)
            raise SchemaError(
                f"the books were written by a newer Headrace (schema {version}, this one knows {newest}): use that one"
            )
        if digest != known[version].digest:
            name = known[version].name
            raise SchemaError(f"migration {version} ({name}) of the books is not the one this Headrace has: nothing is changed")
