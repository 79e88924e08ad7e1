"""One connection to PostgreSQL that reconnects without end: work waits while the server is away, and is then repeated from its start."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeAlias, TypeVar

import asyncpg
import msgspec
import structlog

T = TypeVar("T")
Connection: TypeAlias = asyncpg.Connection

WAIT_FIRST, WAIT_MOST = 0.05, 2.0
CONNECT_TIMEOUT = 5.0
COMMAND_TIMEOUT = 60.0
"""Timeout in seconds; a batch takes well under one, so a server that does not answer for that long counts as away."""

_PASSING = ("08", "40", "53", "57", "58")
"""Classes of SQLSTATE that pass with time: connection lost, conflict, no space, server stopping or starting, disk trouble."""

_TROUBLE = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,
    TimeoutError,
    asyncio.CancelledError,
)
"""After these errors the state of the connection is unknown; after any other exception it is used again."""

_REFUSED = ("28", "3D")
"""Login refused, unknown database: waiting does not help."""

_2000 = 946_684_800_000_000
"""Microseconds between 1970 and the epoch of PostgreSQL."""

_log = structlog.get_logger("headrace.accounting")


class DatabaseUnavailable(Exception):
    """PostgreSQL cannot be reached now; the text says why."""


class DatabaseRefused(Exception):
    """PostgreSQL refuses the login, or does not know the database; the text says so, and the way out."""


class Database:
    """PostgreSQL at `dsn`. It does one piece of work at a time; for two at once use two of these."""

    def __init__(self, dsn: str) -> None:
        self.is_there = False
        """True if the last piece of work was done."""
        self.outages = 0
        """Number of times the server was away while there was work."""
        self._dsn = dsn
        self._connection: Connection | None = None
        self._lock = asyncio.Lock()

    async def run(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Do `work`, repeated after an outage of the server; so it has to find out itself what it has already done."""
        wait, away_since = WAIT_FIRST, 0.0
        while True:
            try:
                result = await self.once(work)
            except DatabaseUnavailable as error:
                if not away_since:
                    away_since = time.monotonic()
                    self.outages += 1
                    _log.warning(
                        "postgres_away", reason=str(error), help="the books wait for it; the ledger keeps everything meanwhile"
                    )
            else:
                if away_since:
                    _log.info("postgres_back", away_for=round(time.monotonic() - away_since, 3))
                return result
            await asyncio.sleep(wait)
            wait = min(2 * wait, WAIT_MOST)

    async def once(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Do `work` now. Raises `DatabaseUnavailable` if that is not possible, whether or not it was done."""
        async with self._lock:
            try:
                if self._connection is None:
                    self._connection = await self._connect()
                result = await work(self._connection)
            except _TROUBLE as error:
                closed = self._drop()
                passing = next(filter(_is_passing, _behind(error)), error if closed else None)
                if passing is None:
                    raise
                self.is_there = False
                raise DatabaseUnavailable(_one_line(passing)) from error
            self.is_there = True
            return result

    async def close(self) -> None:
        """Close the connection; may be called more than once."""
        async with self._lock:
            self._drop()

    async def _connect(self) -> Connection:
        try:
            connection = await asyncpg.connect(self._dsn, timeout=CONNECT_TIMEOUT, command_timeout=COMMAND_TIMEOUT)
        except asyncpg.PostgresError as error:
            if (error.sqlstate or "").startswith(_REFUSED):
                raise DatabaseRefused(f"PostgreSQL refuses: {_one_line(error)}; look at HEADRACE_POSTGRES_DSN") from error
            raise
        except (ValueError, asyncpg.ClientConfigurationError) as error:
            raise DatabaseRefused(f"HEADRACE_POSTGRES_DSN is not an address of a database: {_one_line(error)}") from error
        await connection.set_type_codec(
            "timestamptz", schema="pg_catalog", encoder=_to_postgres, decoder=_from_postgres, format="tuple"
        )
        await connection.set_type_codec("jsonb", schema="pg_catalog", encoder=_to_json, decoder=msgspec.json.decode)
        return connection

    def _drop(self) -> bool:
        """Terminate the connection, in whatever state; True if it had been closed already."""
        connection, self._connection = self._connection, None
        if connection is None:
            return False
        closed: bool = connection.is_closed()
        connection.terminate()
        return closed


def _to_postgres(microseconds: int) -> tuple[int]:
    return (microseconds - _2000,)


def _from_postgres(moment: tuple[int]) -> int:
    return moment[0] + _2000


def _to_json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _is_passing(error: BaseException) -> bool:
    if isinstance(
        error, asyncpg.InternalClientError
    ):  # asyncpg loses its state if the server goes away in the middle of a COPY
        return True
    if isinstance(error, asyncpg.PostgresError):
        return (error.sqlstate or "").startswith(_PASSING)
    return isinstance(error, (OSError, TimeoutError))


def _behind(error: BaseException) -> Iterator[BaseException]:
    """An error and its contexts, the first one first: the end of a transaction fails because of the error within."""
    if error.__context__ is not None:
        yield from _behind(error.__context__)
    yield error


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
