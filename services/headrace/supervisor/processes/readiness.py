"""Whether a part is ready: asked in the way its users ask it."""

from __future__ import annotations

import asyncio
import errno
import ssl
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from headrace.bus.log import LogError
from headrace.bus.nats.connection import connect
from headrace.bus.nats.jetstream import JetStreamLog
from headrace.client.endpoint import Login
from headrace.contracts.facts.levels import PRESENCE_UNKNOWN
from headrace.contracts.facts.writers import GOVERNANCE
from headrace.contracts.messages.queries import Answer, ServiceView
from headrace.contracts.transport.codec import Malformed, decode
from headrace.contracts.transport.subjects import LEDGER_STREAM, ledger, node_writer, query
from headrace.contracts.values.ids import DEFAULT_TENANT
from headrace.nats_client.connection import Connection
from headrace.supervisor.installation import CALLOUT, OPERATOR
from headrace.supervisor.network.ports import LOOPBACK
from headrace.supervisor.processes.child_processes import Child, reason

LOOK_EVERY = 0.05
DEATHS_MAX = 3
DIES_FOR = 10.0
"""Seconds after which a process that may be forked is given up if it has ended that often. Forked, it ends three times within one second;
of several NATS servers, one that copies anew may take FEED with it for that long.
"""
PATIENCE = 60.0
"""Seconds without progress after which a part that runs and does not answer is given up."""
ANSWER_WITHIN = 1.0
LEVEL_WITHIN = 10.0
WHO = "x-envoy-upstream-healthchecked-cluster"
"""Header in which Envoy names itself in answers to health checks."""


ADDRESS_IN_USE = f"errno={errno.EADDRINUSE}"
"""What Envoy writes when another program listens on its port. If that one began to listen only after Envoy's bind, Envoy does not end."""


class NotReady(Exception):
    """A part does not come up; one line with its last message, and where to read more."""


class AddressInUse(NotReady):
    """Another program listens on the part's port."""


async def until_ready(child: Child, ask: Callable[[], Awaitable[object]], patience: float = PATIENCE) -> None:
    """Ask again until the answer is True. Any other answer that changes is progress.

    Raises `NotReady` if it hangs, or has died `DEATHS_MAX` times, one that may be forked for `DIES_FOR` seconds; `AddressInUse` if it says
    so and runs on.
    """
    restarts, before = child.restarts, child.log.last_line()
    last: object = None
    began, dies_for = time.monotonic(), DIES_FOR if child.program.is_forked else 0.0
    deadline = began + patience
    while True:
        answer = await ask()
        if answer is True:
            return
        dies = child.restarts - restarts >= DEATHS_MAX and time.monotonic() - began >= dies_for
        if child.state == "given-up" or dies:
            raise NotReady(f"{child.program.name} does not start: {_last_words(child)}")
        if ADDRESS_IN_USE in (line := child.log.last_line()) and line != before:
            raise AddressInUse(f"{child.program.name} does not start: {_last_words(child)}")
        if answer != last:
            last, deadline = answer, time.monotonic() + patience
        if time.monotonic() > deadline:
            raise NotReady(f"{child.program.name} runs, but has not answered for {patience:g} s: {_last_words(child)}")
        await asyncio.sleep(LOOK_EVERY)


def _last_words(child: Child) -> str:
    words = child.trouble or reason(child.log.last_line()) or f"it says nothing, and ends with exit code {child.exit_code}"
    return f"{words}; more in {child.log.path}"


async def listens(port: int) -> bool:
    """Return whether a server accepts connections there."""
    try:
        _, writer = await asyncio.open_connection(LOOPBACK, port)
    except OSError:
        return False
    writer.close()
    return True


async def is_well(place: int | Path, path: str, says: tuple[str, str] = ("", ""), *, tls: bool = False) -> bool:
    """Return whether an HTTP server answers 200 to a GET, and, if `says` is given, with that header, which tells servers apart.

    `place`: its port, or its socket. Over TLS its certificate is not verified.
    """
    try:
        if isinstance(place, Path):
            reader, writer = await asyncio.open_unix_connection(place)
        else:
            reader, writer = await asyncio.open_connection(LOOPBACK, place, ssl=_any_answer() if tls else None)
    except OSError:
        return False
    try:
        writer.write(f"GET {path} HTTP/1.1\r\nHost: {LOOPBACK}\r\nConnection: close\r\n\r\n".encode())
        async with asyncio.timeout(ANSWER_WITHIN):
            head = await reader.readuntil(b"\r\n\r\n")
    except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        return False
    finally:
        writer.close()
    status, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return status.split()[1:2] == ["200"] and headers.get(says[0], "") == says[1]


def _any_answer() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


class Inspector:
    """Asks parts that were started, as the operator."""

    def __init__(self, core: Connection) -> None:
        self.core = core
        self._ledger = JetStreamLog(core, LEDGER_STREAM)

    @classmethod
    async def open(cls, url: str, operator: Login) -> Inspector:
        """Connect with the operator's login."""
        return cls(await connect(url, operator.name, operator.password, name="supervisor"))

    async def close(self) -> None:
        await self.core.close()

    async def tip(self) -> int:
        """Return the sequence of the ledger's last record."""
        return await self._ledger.tip()

    async def described(self) -> bytes:
        """Return the servers' description of the ledger's stream. Raises `LogUnavailable` if they do not answer."""
        return (await self.core.ask(f"$JS.API.STREAM.INFO.{LEDGER_STREAM}", within=ANSWER_WITHIN)).data

    async def now(self) -> int:
        """Return the server's time in microseconds since 1970."""
        return await self._ledger.now()

    async def folded(self, service: str) -> int | None:
        """Return the ledger sequence that a service has reached; None if it does not answer."""
        try:
            return (await self._status(service)).sequence
        except (LogError, Malformed):
            return None

    async def trouble(self, service: str) -> str:
        """Return a running service's own trouble; empty if it reports none."""
        view = await self._view(service)
        return "" if view is None else view.trouble

    async def until_level_rose(self, within: float = LEVEL_WITHIN) -> None:
        """Wait while the level of facts is about to rise, as in a new installation: below it, keys of newer levels are refused.

        `within`: seconds after which it is not waited for any longer.
        """
        deadline = time.monotonic() + within
        while True:
            if not await self._level_is_rising() or time.monotonic() > deadline:
                return
            await asyncio.sleep(LOOK_EVERY)

    async def _level_is_rising(self) -> bool:
        """Return whether *governance* is about to raise the level of facts, with nothing else to wait for than the services' presence."""
        view = await self._view(GOVERNANCE)
        return view is not None and view.level < view.newest and {PRESENCE_UNKNOWN}.issuperset(view.held_back)

    async def _view(self, service: str) -> ServiceView | None:
        try:
            return decode(bytes((await self._status(service)).body), ServiceView)
        except (LogError, Malformed):
            return None

    async def _status(self, service: str) -> Answer:
        subject = query(service, "status", DEFAULT_TENANT, OPERATOR)
        return decode((await self.core.ask(subject, within=ANSWER_WITHIN)).data, Answer)

    async def answers(self, service: str) -> bool:
        """Return whether a service answers."""
        return await self.folded(service) is not None

    async def caught_up(self, service: str, tip: int) -> bool | int | None:
        """Return True once a service has folded the ledger up to `tip`; before that the sequence it has reached."""
        folded = await self.folded(service)
        return True if folded is not None and folded >= tip else folded

    async def callout_answers(self) -> bool:
        """Return whether the callout answers who may connect."""
        return await self.folded(CALLOUT) is not None

    async def has_written(self, node: str, since: int) -> bool:
        """Return whether a node has written to the ledger since that time, in microseconds since 1970."""
        try:
            last = await self._ledger.last(ledger(node_writer(node)))
        except LogError:
            return False
        return last is not None and last.stamped >= since
