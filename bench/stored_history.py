"""A ledger on a real NATS server for a measurement, with the snapshots that *audit* takes of it."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

from bench.memory import Stored, Tape
from headrace.audit.ledger_writer import LedgerWriter
from headrace.audit.snapshotter import Snapshotter
from headrace.bus.nats.jetstream import JetStreamLog
from headrace.bus.nats.streams import ensure_streams
from headrace.contracts.transport.subjects import LEDGER_STREAM
from headrace.nats_client.connection import Connection
from headrace.service.fold import LedgerFold
from headrace.service.snapshots import Snapshots
from tests.integration.conftest import NatsServer

AT_ONCE, BATCH = 100, 50
"""Messages that are published before it is waited for them, and records that are read together."""


@asynccontextmanager
async def ledger_server() -> AsyncIterator[tuple[NatsServer, Connection]]:
    """A server with the streams of an installation, and its operator's connection."""
    with tempfile.TemporaryDirectory() as folder:
        server = NatsServer(Path(folder))
        server.start()
        try:
            connection = await server.connect("operator")
            await ensure_streams(connection)
            yield server, connection
            await connection.close()
        finally:
            server.kill()


@asynccontextmanager
async def stored_history(tape: Tape, messages: Iterable[Stored]) -> AsyncIterator[tuple[Connection, JetStreamLog, int]]:
    """The connection, the ledger that has the messages of the tape, and its last sequence."""
    async with ledger_server() as (_, connection):
        log = JetStreamLog(connection, LEDGER_STREAM)
        for number, message in enumerate(messages, 1):
            await connection.publish(message.subject, message.payload)
            while not number % AT_ONCE and await log.tip() < number:
                await asyncio.sleep(0.01)
        while (tip := await log.tip()) < tape.sequence:
            await asyncio.sleep(0.01)
        yield connection, log, tip


async def snapshots_of(connection: Connection, log: JetStreamLog, tip: int) -> tuple[Snapshots, int]:
    """The snapshots of a ledger up to its last record, taken now at the usual pace, and their number."""
    snapshots = Snapshots.over(connection, log)
    keeper = Snapshotter(log, LedgerFold(), snapshots, LedgerWriter(log))
    reader = await log.read(0)
    while keeper.fold.sequence < tip:
        await keeper.take_in(await reader.batch(BATCH))
    await reader.close()
    return snapshots, keeper.taken
