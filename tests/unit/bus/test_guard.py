"""The client of nats-py, safe and quick: what goes out in one piece, and errors it does not know. What comes in: `test_parsing`."""

from __future__ import annotations

import pytest
from nats import errors
from nats.aio.client import Client

from headrace.bus.guard import GuardedClient, Publication
from headrace.bus.parsing import Delivered


class Wired(GuardedClient):
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


async def test_many_messages_go_out_in_one_piece() -> None:
    client = Wired()
    await client.publish_all([Publication("hr.a", b"one", {"Nats-Msg-Id": "1.1"}), Publication("hr.b", b"", {})])
    await client.publish_all([])
    head = b"NATS/1.0\r\nNats-Msg-Id: 1.1\r\n\r\n"
    assert client.sent == [
        b"HPUB hr.a %d %d\r\n%bone\r\n" % (len(head), len(head) + 3, head) + b"HPUB hr.b 12 12\r\nNATS/1.0\r\n\r\n\r\n"
    ]


@pytest.mark.parametrize(
    ("message", "error"),
    [
        (Publication("hr.a", b"x" * 101, {}), errors.MaxPayloadError),
        (Publication("hr a", b"", {}), errors.BadSubjectError),
        (Publication("hr.a\r\nPUB hr.b", b"", {}), errors.BadSubjectError),
        (Publication("", b"", {}), errors.BadSubjectError),
        (Publication("hr.a", b"", {"A": "b\r\nC: d"}), errors.BadHeaderError),
    ],
)
async def test_where_one_cannot_be_sent_none_is(message: Publication, error: type[Exception]) -> None:
    client = Wired()
    with pytest.raises(error):
        await client.publish_all([Publication("hr.a", b"", {}), message])
    assert client.sent == []


async def test_nothing_is_published_while_the_server_is_away() -> None:
    client = Wired()
    client._status = Client.RECONNECTING
    with pytest.raises(errors.ConnectionClosedError):
        await client.publish_all([Publication("hr.a", b"", {})])
    assert client.sent == []


async def test_who_listens_is_known_before_the_first_message_can_come_and_forgotten_where_that_fails() -> None:
    client, heard = Wired(), list[Delivered]()
    subscription = await client.listen("hr.a", heard.append)
    assert client.listeners == {subscription._id: heard.append}
    await subscription.unsubscribe()
    client._status = Client.CLOSED
    with pytest.raises(errors.ConnectionClosedError):
        await client.listen("hr.a", heard.append)
    assert client.listeners == {}


async def test_a_socket_that_is_closed_while_somebody_publishes_is_an_error_of_the_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def closed(*_: object) -> None:
        raise RuntimeError("unable to perform operation on <TCPTransport closed=True>; the handler is closed")

    monkeypatch.setattr(Client, "publish", closed)
    with pytest.raises(errors.ConnectionClosedError):
        await Wired().publish("hr.x", b"")
