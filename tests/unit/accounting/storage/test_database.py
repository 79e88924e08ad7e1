from __future__ import annotations

import asyncio
from typing import Any

import asyncpg
import pytest

from headrace.accounting.storage import database
from headrace.accounting.storage.database import Database, DatabaseRefused, DatabaseUnavailable


class Server:
    """Stands for asyncpg: connections that are lost when it goes away. `codecs` are those of the last connection."""

    def __init__(self) -> None:
        self.troubles: list[Exception] = []
        self.connections = 0
        self.codecs: dict[str, dict[str, Any]] = {}
        self.closed = False
        self.terminated = 0

    async def connect(self, _dsn: str, **_: Any) -> Server:
        if self.troubles:
            raise self.troubles.pop(0)
        self.connections += 1
        self.closed = False
        return self

    async def set_type_codec(self, name: str, **codec: Any) -> None:
        self.codecs[name] = codec

    def is_closed(self) -> bool:
        return self.closed

    def terminate(self) -> None:
        self.terminated += 1


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    server = Server()
    monkeypatch.setattr(asyncpg, "connect", server.connect)
    monkeypatch.setattr(database, "WAIT_FIRST", 0.0)
    return server


async def one(_connection: Any) -> int:
    return 1


async def test_a_server_that_is_not_there_yet_is_waited_for(server: Server) -> None:
    server.troubles = [ConnectionRefusedError("no"), asyncpg.CannotConnectNowError("starting up"), TimeoutError()]
    kept = Database("dsn")
    assert await kept.run(one) == 1
    assert (server.connections, kept.outages) == (1, 1)


async def test_one_connection_serves_for_all_work(server: Server) -> None:
    kept = Database("dsn")
    assert [await kept.run(one) for _ in range(3)] == [1, 1, 1]
    assert server.connections == 1
    await kept.close()
    assert server.terminated == 1


@pytest.mark.parametrize(
    "trouble",
    [
        asyncpg.AdminShutdownError("going down"),
        asyncpg.DiskFullError("full"),
        asyncpg.DeadlockDetectedError("x"),
        OSError("gone"),
        asyncpg.InternalClientError("cannot switch to state 21; another operation (2) is in progress"),
    ],
    ids=lambda trouble: type(trouble).__name__,
)
async def test_work_that_was_interrupted_is_done_again_from_its_start_on_a_new_connection(
    server: Server, trouble: Exception
) -> None:
    tries = [trouble]

    async def work(_connection: Any) -> str:
        if tries:
            raise tries.pop()
        return "done"

    assert await Database("dsn").run(work) == "done"
    assert server.connections == 2


async def test_the_trouble_that_began_it_is_told_and_not_what_the_end_of_the_transaction_says(server: Server) -> None:
    async def work(_connection: Any) -> None:
        try:
            raise asyncpg.AdminShutdownError("terminating connection")
        finally:
            raise asyncpg.InterfaceError("another operation is in progress")

    with pytest.raises(DatabaseUnavailable, match="terminating connection"):
        await Database("dsn").once(work)


async def test_a_mistake_of_ours_is_not_a_reason_to_wait(server: Server) -> None:
    async def work(_connection: Any) -> None:
        raise asyncpg.UniqueViolationError("twice")

    with pytest.raises(asyncpg.UniqueViolationError):
        await Database("dsn").run(work)


async def test_a_refusal_of_the_work_itself_costs_no_connection(server: Server) -> None:
    async def work(_connection: Any) -> None:
        raise KeyError("no such thing")

    kept = Database("dsn")
    for _ in range(2):
        with pytest.raises(KeyError):
            await kept.run(work)
    assert (server.connections, server.terminated) == (1, 0)


@pytest.mark.parametrize(
    ("trouble", "text"),
    [
        (asyncpg.InvalidPasswordError("password authentication failed"), "PostgreSQL refuses: password authentication failed"),
        (asyncpg.InvalidCatalogNameError("no database"), "PostgreSQL refuses: no database"),
        (ValueError("invalid DSN"), "HEADRACE_POSTGRES_DSN is not an address of a database: invalid DSN"),
    ],
)
async def test_what_waiting_does_not_help_is_an_error_at_once(server: Server, trouble: Exception, text: str) -> None:
    server.troubles = [trouble]
    with pytest.raises(DatabaseRefused, match=text):
        await Database("dsn").run(one)


async def test_moments_are_microseconds_and_documents_are_json_on_both_sides(server: Server) -> None:
    await Database("dsn").run(one)
    moments, documents = server.codecs["timestamptz"], server.codecs["jsonb"]
    assert moments["encoder"](946_684_800_000_001) == (1,)
    assert moments["decoder"]((1,)) == 946_684_800_000_001
    assert documents["decoder"](documents["encoder"]({"gpu": 1})) == {"gpu": 1}


async def test_work_that_is_cancelled_leaves_no_connection_in_an_unknown_state(server: Server) -> None:
    async def work(_connection: Any) -> None:
        await asyncio.Event().wait()

    task = asyncio.create_task(Database("dsn").run(work))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert server.terminated == 1
