"""Bytes from the wire become messages, in whichever pieces they come, for who listens directly and for who has a queue alike."""

from __future__ import annotations

from typing import Any

import pytest
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.protocol.parser import Parser

from headrace.nats_client.hardened_client import HardenedClient
from headrace.nats_client.raw_message import RawMessage

DIRECT, QUEUED = 1, 2


class Listening(HardenedClient):
    """A client without a wire: 1 is heard directly, 2 in the library's own way; what comes is kept, for either, in one list."""

    def __init__(self) -> None:
        super().__init__()
        self.arrived: list[Any] = []
        self.errors: list[Exception] = []
        self._error_cb = self.complained
        self._subs = {sid: Subscription(self, sid, "hr.>") for sid in (DIRECT, QUEUED)}
        self.listeners[DIRECT] = self.arrived.append

    def _build_message(self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: Any) -> Msg:
        message = super()._build_message(sid, subject, reply, data, headers)
        if sid == QUEUED:
            self.arrived.append((message.subject, message.reply, message.data, headers or {}))
        return message

    async def _process_ping(self) -> None:
        self.arrived.append(RawMessage("PING", "", b""))

    async def complained(self, error: Exception) -> None:
        self.errors.append(error)


def _seen(client: Listening) -> list[tuple[str, str, bytes, dict[str, str]]]:
    return [
        each if isinstance(each, tuple) and not isinstance(each, RawMessage) else (*each[:3], each.headers)
        for each in client.arrived
    ]


@pytest.mark.parametrize("sid", [DIRECT, QUEUED])
@pytest.mark.parametrize(
    ("line", "subject", "reply"),
    [
        (b"MSG hr.a %d 2\r\nhi\r\n", "hr.a", ""),
        (b"MSG hr.a %d _INBOX.x 2\r\nhi\r\n", "hr.a", "_INBOX.x"),
        (b"MSG hr.a\x0cb %d r\x0b 2\r\nhi\r\n", "hr.a\x0cb", "r\x0b"),
        (b"MSG hr.\xff\x85 %d 2\r\nhi\r\n", "hr.\ufffd\ufffd", ""),
        (b"MSG hr.\xc3\xa9 %d 2\r\nhi\r\n", "hr.é", ""),
    ],
)
async def test_every_subject_the_server_forwards_arrives(sid: int, line: bytes, subject: str, reply: str) -> None:
    client = Listening()
    await Parser(client).parse(line % sid)
    assert _seen(client) == [(subject, reply, b"hi", {})]


@pytest.mark.parametrize("sid", [DIRECT, QUEUED])
@pytest.mark.parametrize(
    ("block", "headers"),
    [
        (b"NATS/1.0\r\nA: b\r\n\r\n", {"A": "b"}),
        (b"NATS/1.0\r\nA:b\r\nB:\t\xff:c \r\nC D: e\r\n\xc3\xa9: f\r\nG\x0bH: h\r\nI\r\n\r\n", {"A": "b", "B": "\ufffd:c"}),
        (b"NATS/1.0\r\n\r\n", {}),
        (b"NATS/1.0 503\r\n\r\n", {"Status": "503"}),
        (b"NATS/1.0 \xff\xff\xff bad\r\n\r\n", {}),
        (b"NATS/1.0", {}),
        (b"garbage", {}),
    ],
)
async def test_headers_that_cannot_be_read_are_left_out(sid: int, block: bytes, headers: dict[str, str]) -> None:
    client = Listening()
    wire = b"HMSG hr.a\x0c %d %d %d\r\n%bhi\r\nMSG hr.b %d 2\r\nok\r\n" % (sid, len(block), len(block) + 2, block, sid)
    await Parser(client).parse(wire)
    assert _seen(client) == [("hr.a\x0c", "", b"hi", headers), ("hr.b", "", b"ok", {})]


async def test_what_comes_in_pieces_of_any_size_is_put_together() -> None:
    block = b"NATS/1.0\r\nA: b\r\n\r\n"
    wire = b"".join(
        (
            b"MSG hr.a 1 5\r\nMSG 1\r\n",
            b"PING\r\n",
            b"HMSG hr.b 2 _INBOX.x %d %d\r\n%b\r\n\r\n\r\n" % (len(block), len(block) + 4, block),
            b"+OK\r\n",
            b"MSG  hr.c  1  0\r\n\r\n",  # more blanks than one
            b"MSG hr.d 7 2\r\nno\r\n",  # without an owner
            b"HMSG hr.e 1 %d %d\r\n%b\r\n" % (len(block), len(block), block),
            b"MSG hr.f 2 1\r\nx\r\n",
        )
    )
    seen = []
    for size in (1, 2, 3, 7, 20, 1_000):
        client = Listening()
        parser = Parser(client)
        for begin in range(0, len(wire), size):
            await parser.parse(wire[begin : begin + size])
        assert not parser.buf
        seen.append(_seen(client))
    assert seen == [seen[0]] * 6
    assert [message[0] for message in seen[0]] == ["hr.a", "PING", "hr.b", "hr.c", "hr.e", "hr.f"]


async def test_a_listener_that_fails_goes_on_hearing() -> None:
    client, received = Listening(), []

    def listen(message: RawMessage) -> None:
        received.append(message.data)
        if len(received) == 1:
            raise ValueError("no")

    client.listeners[DIRECT] = listen
    await Parser(client).parse(b"MSG hr.a 1 1\r\na\r\nMSG hr.a 1 1\r\nb\r\n")
    assert (received, [str(error) for error in client.errors]) == ([b"a", b"b"], ["no"])


async def test_who_listens_no_more_is_not_called() -> None:
    client = Listening()
    client._remove_sub(DIRECT)
    await Parser(client).parse(b"MSG hr.a 1 1\r\na\r\n")
    assert client.arrived == []
