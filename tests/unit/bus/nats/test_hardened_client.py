"""The client of nats-py, safe: who listens directly, and errors it does not know. What comes in: `test_delivered`."""

from __future__ import annotations

import pytest
from nats import errors
from nats.aio.client import Client

from headrace.bus.nats.hardened_client import HardenedClient
from headrace.bus.nats.raw_message import RawMessage


class Wired(HardenedClient):
    """A connected client whose wire is a list."""

    def __init__(self) -> None:
        super().__init__()
        self._status = Client.CONNECTED
        self._max_payload = 100
        self.sent: list[bytes] = []

    async def _send_command(self, cmd: bytes, priority: bool = False) -> None:
        self.sent.append(cmd)

    async def _flush_pending(self, force_flush: bool = False) -> None:
        return


async def test_who_listens_is_known_before_the_first_message_can_come_and_forgotten_where_that_fails() -> None:
    client, heard = Wired(), list[RawMessage]()
    subscription = await client.listen("hr.a", heard.append)
    assert client.listeners == {subscription._id: heard.append}
    await subscription.unsubscribe()
    client._status = Client.CLOSED
    with pytest.raises(errors.ConnectionClosedError):
        await client.listen("hr.a", heard.append)
    assert client.listeners == {}


async def test_who_listens_in_a_queue_group_says_so_to_the_server() -> None:
    client, heard = Wired(), list[RawMessage]()
    subscription = await client.listen("hr.a", heard.append, "group")
    assert b"".join(client.sent).split() == [b"SUB", b"hr.a", b"group", str(subscription._id).encode()]


async def test_a_socket_that_is_closed_while_somebody_publishes_is_an_error_of_the_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def closed(*_: object) -> None:
        raise RuntimeError("unable to perform operation on <TCPTransport closed=True>; the handler is closed")

    monkeypatch.setattr(Client, "publish", closed)
    with pytest.raises(errors.ConnectionClosedError):
        await Wired().publish("hr.x", b"")
