"""The streams of an installation, whether or not the rest of it runs: for commands that check them.

If `headrace up` runs, or `headrace config` names the servers, those are asked; else a server is started on the data for as long as it is
needed, and nothing else, because services do not start on a damaged ledger.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from headrace.bus.nats.connection import connect
from headrace.client.endpoint import find
from headrace.contracts.transport.tls import CA
from headrace.supervisor.cluster.cluster_config import kept, trust_authority
from headrace.supervisor.directories import CLUSTER_FILE
from headrace.supervisor.errors import InstallationError
from headrace.supervisor.nats import servers
from headrace.supervisor.processes.child_processes import Children
from headrace.supervisor.processes.pidfile import Lock, read_running

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from headrace.nats_client.connection import Connection
    from headrace.supervisor.installation import Installation

ANSWER_WITHIN = 10.0
"""Seconds until a running server has accepted the login."""


@asynccontextmanager
async def open_store(installation: Installation) -> AsyncIterator[Connection]:
    """Yield a connection of the operator. Raises `InstallationError`, `AlreadyRunning`, `NotReady`, `LogError`."""
    if (installation.directory / CLUSTER_FILE).exists():
        config = kept(installation)
        trust_authority(installation, config)
        async with _operator(installation, ",".join(config.nats)) as connection:
            yield connection
        return
    if not any(any(place.store.glob("*")) for place in installation.servers()):
        raise InstallationError(f"{installation.directory} has no ledger; name the installation with --data")
    if read_running(installation) is not None:
        async with _operator(installation, find(data=installation.directory).url) as connection:
            yield connection
        return
    with Lock(installation):
        settings = installation.settings()
        ports = servers.choose(settings)
        children = Children(installation.logs, lambda: None)
        try:
            await servers.start(installation, children, ports)
            scheme = "nats" if installation.certificates() is None else "tls"
            async with _operator(installation, ports.url(scheme, settings.reached_as)) as connection:
                await servers.until_led(connection)
                yield connection
        finally:
            await children.stop()


@asynccontextmanager
async def _operator(installation: Installation, url: str) -> AsyncIterator[Connection]:
    tls = installation.certificates()
    if tls is not None and tls.ca:
        os.environ.setdefault(CA, tls.ca)
    operator = installation.operator()
    try:
        async with asyncio.timeout(ANSWER_WITHIN):
            connection = await connect(url, operator.name, operator.password, name="store")
    except TimeoutError:
        raise InstallationError(f"the NATS server at {url} does not answer; look into {installation.logs}") from None
    try:
        yield connection
    finally:
        await connection.close()
