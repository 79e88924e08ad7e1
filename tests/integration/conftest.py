"""A real NATS server for each test that asks for one: its own data directory, a free port, every acknowledged message on disk."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from headrace.bus.nats.connection import connect
from headrace.bus.nats.permissions import SERVICES, Credential, server_config
from headrace.bus.nats.streams import ensure_streams
from headrace.contracts.facts import NodeRegisteredV1
from headrace.contracts.messages.tokens import FEED_SUFFIX
from headrace.nats_client.connection import Connection
from headrace.node_executor.system import orphans
from headrace.supervisor.processes.postgres import PostgresSettings, prepare
from tests.integration.books import Postgres
from tests.integration.machine import Machine, new_machine
from tests.integration.nodes import Executor, Feed, until
from tests.patience import PATIENCE

CREDENTIALS = (
    Credential("operator", "secret-operator", "operator"),
    *(Credential(service, f"secret-{service}", "service") for service in SERVICES),
    Credential("acme-alice", "secret-alice", "user", tenant="acme", user="alice"),
    Credential("acme-bob", "secret-bob", "user", tenant="acme", user="bob"),
    Credential("callout", "secret-callout", "callout"),
    Credential("callout-system", "secret-system", "system"),
    Credential("owner", "secret-owner", "admin"),
    Credential("node-gpu01", "secret-gpu01", "node", node="gpu01"),
    Credential("node-gpu02", "secret-gpu02", "node", node="gpu02"),
)


class NatsServer:
    """A nats-server process on one data directory and, once it has one, one port: it can be killed and started again.

    `debug`: its log tells of every connection.
    """

    def __init__(
        self, directory: Path, credentials: tuple[Credential, ...] = CREDENTIALS, issuer: str = "", *, debug: bool = False
    ) -> None:
        self.issuer = issuer
        self._options = ["-D"] if debug else []
        self.credentials = {credential.name: credential for credential in credentials}
        self._directory = directory
        self._port = -1
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self._port}"

    @property
    def store(self) -> Path:
        return self._directory / "store"

    def log(self) -> str:
        """All that it has logged."""
        return (self._directory / "nats.log").read_text()

    def start(self) -> None:
        ports = self._directory / "ports"
        shutil.rmtree(ports, ignore_errors=True)
        ports.mkdir()
        config = self._directory / "nats.conf"
        config.touch(mode=0o600)
        logins = self.credentials.values()
        config.write_text(server_config(logins, self.store, port=self._port, ports_file_dir=ports, issuer=self.issuer))
        with (self._directory / "nats.log").open("ab") as log:
            self._process = subprocess.Popen([binary(), *self._options, "-c", str(config)], stdout=log, stderr=log)
        self._port = self._learn_port(ports)

    def kill(self) -> None:
        """As a power cut of the process would: no goodbye."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    async def connect(self, name: str) -> Connection:
        """A connection of this login; with `_feed` behind its name, of the one that hears the feed."""
        return await connect(self.url, name, self.credentials[name.removesuffix(FEED_SUFFIX)].password)

    def _end(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(PATIENCE)
            self._process = None

    def _learn_port(self, ports: Path) -> int:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            assert self._process is not None
            assert self._process.poll() is None, self.log()
            for file in ports.glob("*.ports"):
                try:
                    return int(json.loads(file.read_text())["nats"][0].rpartition(":")[2])
                except (ValueError, KeyError):  # not written to its end yet
                    pass
            time.sleep(0.005)
        raise AssertionError(self.log())


def binary() -> str:
    beside = Path(sys.executable).parent / "nats-server"
    found = str(beside) if beside.exists() else shutil.which("nats-server")
    assert found, "there is no nats-server beside this Python or on the PATH"
    return found


@pytest.fixture
def nats_server(tmp_path: Path) -> Iterator[NatsServer]:
    """A running server with the accounts of `CREDENTIALS`; the test may kill and start it."""
    directory = tmp_path / "nats"
    directory.mkdir()
    server = NatsServer(directory)
    server.start()
    yield server
    server.kill()


class Logins:
    """Opens connections and closes them at the end of the test."""

    def __init__(self, server: NatsServer, stack: AsyncExitStack) -> None:
        self._server = server
        self._stack = stack

    async def __call__(self, name: str) -> Connection:
        connection = await self._server.connect(name)
        self._stack.push_async_callback(connection.close)
        return connection


@pytest.fixture
async def login(nats_server: NatsServer) -> AsyncIterator[Logins]:
    """`await login("allocator")` is a connection of that user, closed when the test ends."""
    async with AsyncExitStack() as stack:
        yield Logins(nats_server, stack)


@pytest.fixture
async def feed(login) -> AsyncIterator[Feed]:
    operator = await login("operator")
    await ensure_streams(operator)
    one = Feed(await login("feed"), operator)
    await one.begin()
    reading = asyncio.create_task(one.read())
    yield one
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)


@pytest.fixture
def words() -> tuple[str, ...]:
    """What the node is started with, besides the usual."""
    return ()


@pytest.fixture
async def node(feed, nats_server, tmp_path, words) -> AsyncIterator[Executor]:
    one = Executor(tmp_path, nats_server)
    one.start(*words)
    try:
        await until(lambda: feed.count(NodeRegisteredV1))
        yield one
    finally:
        if one.process is not None:
            one.process.kill()
            await asyncio.to_thread(one.process.wait, PATIENCE)
        await asyncio.to_thread(orphans.sweep, f"{one.data}/leases")


@pytest.fixture
def place() -> Iterator[Machine]:
    """A data directory for one test, which starts the installation itself."""
    with new_machine() as made:
        yield made


@pytest.fixture(scope="module")
def installed() -> Iterator[Machine]:
    """An installation that is up, with the documents of `Machine`."""
    with new_machine() as made:
        made.up()
        made.done("apply", "-f", made.documents)
        yield made


@pytest.fixture
def shared(installed: Machine) -> Machine:
    """The installation of all tests of a module that leave it running and without jobs."""
    installed.released.unlink(missing_ok=True)
    return installed


@pytest.fixture(scope="module")
def cluster() -> Iterator[PostgresSettings]:
    """Not below pytest's own directory: another pytest that starts now would close that to the account PostgreSQL runs as."""
    with tempfile.TemporaryDirectory(prefix="headrace-books-") as directory:
        yield prepare(Path(directory) / "postgres", "a'secret")


@pytest.fixture
async def postgres(cluster: PostgresSettings, tmp_path: Path) -> AsyncIterator[Postgres]:
    """A running server without books."""
    server = Postgres(cluster, tmp_path / "postgres.log")
    await server.up()
    await server.execute("DROP SCHEMA IF EXISTS headrace CASCADE")
    yield server
    server.end(signal.SIGINT)
