"""Bytes that nats-py cannot read become something it can, one message at a time."""

from __future__ import annotations

from typing import Any

import pytest
from nats import errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.protocol.parser import Parser

from headrace.bus.guard import GuardedClient


class Listening(GuardedClient):
    """A client without a wire: what the parser hands on is kept."""

    def __init__(self) -> None:
        super().__init__()
        self.arrived: list[Msg] = []

    def _build_message(self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: Any) -> None:
        self.arrived.append(super()._build_message(sid, subject, reply, data, headers))


@pytest.fixture
def client() -> Listening:
    listening = Listening()
    listening._subs[1] = listening_subscription(listening)
    return listening


def listening_subscription(client: Listening) -> Any:
    from nats.aio.subscription import Subscription

    return Subscription(client, 1, "hr.>")


@pytest.mark.parametrize(
    ("line", "subject", "reply"),
    [
        (b"MSG hr.a 1 2\r\nhi\r\n", "hr.a", ""),
        (b"MSG hr.a 1 _INBOX.x 2\r\nhi\r\n", "hr.a", "_INBOX.x"),
        (b"MSG hr.a\x0cb 1 r\x0b 2\r\nhi\r\n", "hr.a\x0cb", "r\x0b"),
        (b"MSG hr.\xff\x85 1 2\r\nhi\r\n", "hr.\ufffd\ufffd", ""),
        (b"MSG hr.\xc3\xa9 1 2\r\nhi\r\n", "hr.é", ""),
    ],
)
async def test_every_subject_the_server_forwards_arrives(client: Listening, line: bytes, subject: str, reply: str) -> None:
    await Parser(client).parse(line)
    assert [(m.subject, m.reply, m.data, m.headers) for m in client.arrived] == [(subject, reply, b"hi", None)]


@pytest.mark.parametrize(
    ("block", "headers"),
    [
        (b"NATS/1.0\r\nA: b\r\n\r\n", {"A": "b"}),
        (b"NATS/1.0\r\nA:b\r\nB:\t\xff:c \r\nC D: e\r\n\xc3\xa9: f\r\nG\x0bH: h\r\nI\r\n\r\n", {"A": "b", "B": "\ufffd:c"}),
        (b"NATS/1.0\r\n\r\n", {}),
        (b"NATS/1.0 503\r\n\r\n", {"Status": "503"}),
        (b"NATS/1.0 \xff\xff\xff bad\r\n\r\n", {}),
        (b"NATS/1.0 100 \xff\r\nA: b\r\n\r\n", {}),
        (b"NATS/1.0", {}),
        (b"garbage", {}),
    ],
)
async def test_headers_that_cannot_be_read_are_none(client: Listening, block: bytes, headers: dict[str, str] | None) -> None:
    wire = b"HMSG hr.a\x0c 1 %d %d\r\n%bhi\r\nMSG hr.b 1 2\r\nok\r\n" % (len(block), len(block) + 2, block)
    await Parser(client).parse(wire)
    assert [(m.subject, m.data, m.headers) for m in client.arrived] == [("hr.a\x0c", b"hi", headers), ("hr.b", b"ok", None)]


async def test_a_line_that_arrives_in_pieces_is_put_together(client: Listening) -> None:
    parser = Parser(client)
    for piece in (b"MSG hr.a 1", b" 2\r", b"\nh", b"i\r\n"):
        await parser.parse(piece)
    assert [m.data for m in client.arrived] == [b"hi"]


async def test_a_socket_that_is_closed_while_somebody_publishes_is_an_error_of_the_connection(
    client: Listening, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def closed(*_: object) -> None:
        raise RuntimeError("unable to perform operation on <TCPTransport closed=True>; the handler is closed")

    monkeypatch.setattr(Client, "publish", closed)
    with pytest.raises(errors.ConnectionClosedError):
        await client.publish("hr.x", b"")
