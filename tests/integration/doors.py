"""A real server that asks a real door whom to let in: governance's records, tokens, and connections by token."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from nats import errors
from nats.aio.client import Client

from headrace.bus.nats.connection import connect
from headrace.bus.nats.jetstream import JetStreamLog
from headrace.bus.nats.nkeys import AccountKey
from headrace.bus.nats.streams import ensure_streams
from headrace.bus.writer_chain import Chain
from headrace.callout.eviction import Eviction
from headrace.callout.service import ConnectionAuthority
from headrace.contracts import facts as f
from headrace.contracts.documents.model import Group, Tenant
from headrace.contracts.facts.levels import LEVEL, RELEASES
from headrace.contracts.messages.tokens import FEED_SUFFIX, Grant, TokenRole
from headrace.contracts.transport.subjects import LEDGER_STREAM
from headrace.contracts.values.ids import make_job_id
from headrace.identity.signing import SigningKeys
from headrace.identity.verifier import Verifier
from headrace.nats_client.connection import Connection
from headrace.service.intake import Intake
from tests.integration.conftest import CREDENTIALS, NatsServer
from tests.patience import PATIENCE


class Site:
    """Two tenants, their people, a service account and nodes; and callers from outside."""

    def __init__(self, server: NatsServer, directory: Path, stack: AsyncExitStack, level: int) -> None:
        self.server = server
        self._level = level
        self._tokens = directory / "tokens"
        self.keys = SigningKeys(self._tokens)
        self.account = AccountKey.at(directory / "callout.key")
        self.tokens = 0
        self._stack = stack
        self.doors: list[asyncio.Task[None]] = []

    async def begin(self) -> None:
        self.core = await self.login("operator")
        await ensure_streams(self.core)
        self.ledger = JetStreamLog(self.core, LEDGER_STREAM)
        self.governance = Chain(self.ledger, "governance", "test")
        people = [
            f.InstallationLevelV1(level=self._level, release=RELEASES[self._level - 1]),
            f.TenantAppliedV1(author="a.b", tenant=Tenant(name="acme", admins=("lea",))),
            f.TenantAppliedV1(author="a.b", tenant=Tenant(name="other")),
            f.GroupAppliedV1(
                author="a.b", group=Group(tenant="acme", name="rnd", members=("alice", "bob"), service_accounts=("ci",))
            ),
            f.GroupAppliedV1(author="a.b", group=Group(tenant="other", name="rnd", members=("alice",))),
        ]
        await self.append_facts(*people)

    async def append_facts(self, *facts: Any) -> None:
        """A record of governance."""
        await self.governance.append(time.time_ns() // 1_000, 0, facts)

    def stolen_key(self, name: str) -> Ed25519PrivateKey:
        """The private half of a signing key, as one who can read the directory has it."""
        key = load_pem_private_key((self._tokens / f"{name}.pem").read_bytes(), None)
        assert isinstance(key, Ed25519PrivateKey)
        return key

    async def open_door(self) -> asyncio.Task[None]:
        """One more of those who answer whom to let in."""
        core, system = await self.login("callout"), await self.login("callout-system")
        door = ConnectionAuthority(core, Verifier(self.keys), self.account, Eviction(system), JetStreamLog(core, LEDGER_STREAM))
        task = asyncio.create_task(door.run())
        self.doors.append(task)
        await self.until(door.ready.is_set)
        return task

    async def open_intake(self) -> asyncio.Task[None]:
        """One more of those who pass on what users submit."""
        connection = await self.login("governance")
        task = asyncio.create_task(Intake(connection).run())
        self.doors.append(task)
        await connection.flush()
        return task

    async def login(self, name: str) -> Connection:
        connection = await self.server.connect(name)
        self._stack.push_async_callback(connection.close)
        return connection

    async def token(self, handle: str, tenant: str = "acme", role: TokenRole = TokenRole.USER, lives: int = 600) -> str:
        """A token that governance has stated."""
        self.tokens += 1
        now = int(time.time())
        grant = Grant(make_job_id(self.tokens, bytes(10)), role, tenant, handle, now, now + lives)
        await self.append_facts(
            f.TokenCreatedV1(
                author="a.b", token=grant.id, role=role, tenant=tenant, handle=handle, expires_at=grant.expires_at * 1_000_000
            )
        )
        return self.keys.sign(grant)

    async def enter(self, name: str, token: str) -> Connection:
        """The connection of the bearer of a token; `LogRefused` if not let in."""
        connection = await connect(self.server.url, name, token)
        connection.options["allow_reconnect"] = False  # who is thrown out does not knock again for the rest of the test
        self._stack.push_async_callback(connection.close)
        return connection

    async def user(self, handle: str = "alice", tenant: str = "acme") -> Connection:
        return await self.enter(f"{tenant}_{handle}", await self.token(handle, tenant))

    async def listener(self, handle: str = "alice", tenant: str = "acme") -> Connection:
        """A user's connection that hears the feed."""
        return await self.enter(f"{tenant}_{handle}{FEED_SUFFIX}", await self.token(handle, tenant))

    async def node(self, name: str = "gpu01") -> Connection:
        return await self.enter(f"node_{name}", await self.token(name, "", TokenRole.NODE))

    async def until(self, condition: Any) -> None:
        async with asyncio.timeout(PATIENCE):
            while not condition():
                for task in self.doors:
                    if task.done():
                        task.result()
                await asyncio.sleep(0.005)

    async def close(self) -> None:
        for task in self.doors:
            task.cancel()
        await asyncio.gather(*self.doors, return_exceptions=True)


@asynccontextmanager
async def site(directory: Path, doors: int = 1, level: int = LEVEL) -> AsyncIterator[Site]:
    """A site with its server, a number of authorities and an intake, at a level of the facts."""
    home = directory / "nats"
    home.mkdir()
    server = NatsServer(home, CREDENTIALS, AccountKey.at(directory / "callout.key").public, debug=True)
    server.start()
    try:
        async with AsyncExitStack() as stack:
            whole = Site(server, directory, stack, level)
            await whole.begin()
            for _ in range(doors):
                await whole.open_door()
            await whole.open_intake()
            yield whole
            await whole.close()
    except BaseException:
        print(server.log())  # noqa: T201 - why it ended a connection stands only there
        raise
    finally:
        server.kill()


async def gone(client: Client) -> None:
    """Until the server has thrown a connection out."""
    async with asyncio.timeout(PATIENCE):
        while client.is_connected:
            await asyncio.sleep(0.005)


async def enters(here: Site, token: str, name: str = "acme_alice", **more: Any) -> bool:
    """Whether a caller is let in with this; one try."""
    client = Client()
    credentials = {"user": name, "password": token} | more

    async def quiet(_error: Exception) -> None:
        return None

    try:
        await client.connect(
            here.server.url, allow_reconnect=False, connect_timeout=int(PATIENCE), error_cb=quiet, **credentials
        )
    except (errors.Error, OSError, TimeoutError):
        return False
    finally:
        with suppress(errors.Error):
            await client.close()
    return True
