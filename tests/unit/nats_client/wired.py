"""A connection without a server: what is sent is a list, and the test says what the server does."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from nats import errors

from headrace.nats_client.connection import Address, Connection, Observer
from headrace.nats_client.raw_message import Listener, RawMessage

ADDRESS = Address("nats://127.0.0.1:1", "alice", "secret")


class Wired(Connection):
    """A connection whose wire is a list. `answers`: what comes back at once, by subject; nothing comes back on others.

    `troubles`: raised by the next tries to connect; `error`: raised by every publish.
    """

    max_payload = 100

    def __init__(self, observer: Observer | None = None, *, keeps_requests: bool = False) -> None:
        super().__init__(observer, keeps_requests=keeps_requests)
        self.connected = self.closed = False
        self.troubles: list[Exception] = []
        self.error: Exception | None = None
        self.answers: dict[str, RawMessage] = {}
        self.sent: list[tuple[str, bytes, str, dict[str, str] | None]] = []
        self.listening: dict[str, Any] = {}

    @property
    def is_connected(self) -> bool:
        return self.connected

    @property
    def is_closed(self) -> bool:
        return self.closed

    async def connect(self, servers: Any = (), **options: Any) -> None:
        self.options = {"servers": servers, **options}
        if self.troubles:
            raise self.troubles.pop(0)
        self.connected = True

    def new_inbox(self) -> str:
        return f"{self.options['inbox_prefix']}.1"

    async def close(self) -> None:
        self.connected, self.closed = False, True
        await self.options["closed_cb"]()

    async def publish(self, subject: str, payload: bytes = b"", reply: str = "", headers: dict[str, Any] | None = None) -> None:
        if self.error is not None:
            raise self.error
        self.sent.append((subject, payload, reply, headers))
        if subject in self.answers:
            self.answer(reply, *self.answers[subject][2:])

    async def listen(self, subject: str, listener: Listener, queue: str = "") -> Any:
        self.listening[subject] = listener

        async def unsubscribe() -> None:
            del self.listening[subject]

        return SimpleNamespace(unsubscribe=unsubscribe)

    async def subscribe(self, subject: str, queue: str = "", cb: Any = None, **_: Any) -> Any:
        return await self.listen(subject, cb)

    async def flush(self, timeout: int = 10) -> None:  # noqa: ASYNC109 - as nats-py has it
        return

    # What the server does

    def answer(self, reply: str, data: bytes = b"", raw: bytes = b"") -> None:
        inbox = reply.rpartition(".")[0] + ".*"
        self.listening[inbox](RawMessage(reply, "", data, raw))

    def publishes(self, subject: str, data: bytes) -> None:
        self.listening[subject](RawMessage(subject, "", data))

    async def loses(self) -> None:
        self.connected = False
        await self.options["disconnected_cb"]()

    async def comes_back(self) -> None:
        self.connected = True
        await self.options["reconnected_cb"]()

    async def complains(self, text: str) -> None:
        await self.options["error_cb"](errors.Error(text))


def answered(data: bytes, raw: bytes = b"") -> RawMessage:
    """An answer for `Wired.answers`."""
    return RawMessage("", "", data, raw)


async def wired(observer: Observer | None = None, *, keeps_requests: bool = False) -> Wired:
    """An open connection."""
    connection = Wired(observer, keeps_requests=keeps_requests)
    await connection.open(ADDRESS)
    return connection
