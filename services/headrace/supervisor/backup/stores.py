"""NATS and PostgreSQL alone: for commands that copy, restore or repair an installation that is not up."""

from __future__ import annotations

import contextlib
from typing import Self

from headrace.bus.nats.connection import connect
from headrace.nats_client.connection import Connection
from headrace.supervisor.installation import Installation
from headrace.supervisor.nats import servers
from headrace.supervisor.processes import process_specs
from headrace.supervisor.processes.child_processes import Children
from headrace.supervisor.processes.pidfile import Lock
from headrace.supervisor.processes.postgres import accepts, prepare
from headrace.supervisor.processes.readiness import until_ready


class Stores:
    """Runs both from `async with` on, on the loopback, with the data directory locked; `bus` is a connection as the operator.

    `nats`, `books`: only the one of them is started. Raises `AlreadyRunning`, `InstallationError`, `NotReady`.
    """

    bus: Connection
    dsn: str

    def __init__(self, installation: Installation, *, nats: bool = True, books: bool = True) -> None:
        self.installation = installation
        self._wants = (nats, books)
        self._children = Children(installation.logs, lambda: None)
        self._stack = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Self:
        self.installation.prepare()
        async with contextlib.AsyncExitStack() as stack:
            stack.enter_context(Lock(self.installation))
            stack.push_async_callback(self._children.stop)
            nats, books = self._wants
            if nats:
                await self._start_nats(stack)
            if books:
                await self._start_books()
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def _start_nats(self, stack: contextlib.AsyncExitStack) -> None:
        ports = servers.choose(self.installation.settings())
        await servers.start(self.installation, self._children, ports, private=True)
        operator = self.installation.operator()
        self.bus = await connect(ports.url(), operator.name, operator.password, name="supervisor")
        stack.push_async_callback(self.bus.close)
        await servers.until_led(self.bus)

    async def _start_books(self) -> None:
        database = prepare(self.installation.postgres, self.installation.postgres_password())
        (postgres,) = self._children.start(process_specs.postgres(database))
        await until_ready(postgres, lambda: accepts(database.dsn))
        self.dsn = database.dsn
