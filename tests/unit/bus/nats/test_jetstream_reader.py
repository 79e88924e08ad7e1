"""The reader against deliveries made by hand: what is not the next one is asked for again; only the stream can have a gap."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headrace.bus.log import LogBroken, LogDiverged, LogUnavailable, Message
from headrace.bus.nats import jetstream_reader
from headrace.bus.nats.jetstream_reader import JetStreamReader, as_message
from headrace.nats_client.connection import Connection
from headrace.nats_client.raw_message import RawMessage

Deliver = Callable[[RawMessage], None]


class Server:
    """Takes consumers, and delivers what the test says."""

    several = False

    def __init__(self, last: int, first: int = 1) -> None:
        self.first_seq = first
        self.last_seq = last
        self.starts: list[int] = []
        self.published: list[str] = []
        self.asked: list[int] = []
        self.refusals = 0
        self.deliver: Deliver = cast("Deliver", None)
        self.on_create: Callable[[], Awaitable[None]] | None = None
        self.came_back: Callable[[], None] = lambda: None
        self.led: dict[int, Message | None] = {}

    def watch(self, came_back: Callable[[], None]) -> Callable[[], None]:
        self.came_back = came_back
        return lambda: None

    def new_inbox(self) -> str:
        return f"_INBOX_x.{len(self.starts)}"

    async def listen(self, _inbox: str, listener: Deliver) -> Any:
        self.deliver = listener

        async def unsubscribe() -> None:
            return

        return SimpleNamespace(unsubscribe=unsubscribe)

    async def ask(self, _subject: str, payload: bytes) -> Any:
        if self.refusals:
            self.refusals -= 1
            raise LogUnavailable("no answer")
        self.starts.append(json.loads(payload)["config"]["opt_start_seq"])
        if self.on_create is not None:
            await self.on_create()
        return SimpleNamespace(data=b"{}")

    async def publish(self, reply: str) -> None:
        self.published.append(reply)

    async def state(self) -> Any:
        return self

    async def at(self, sequence: int) -> Message | None:
        """As the leader has it: as it was delivered, if the test says nothing else."""
        self.asked.append(sequence)
        return self.led.get(sequence, Message(sequence, "hr.ledger.x", sequence, b"%d" % sequence))

    def message(self, sequence: int, place: int, tokens: str = "$JS.ACK.LEDGER.c", raw: bytes = b"") -> None:
        reply = f"{tokens}.1.{sequence}.{place}.{sequence}000.0"
        self.deliver(RawMessage("hr.ledger.x", reply, b"%d" % sequence, raw))

    def control(self, reply: str = "", **headers: str) -> None:
        self.deliver(RawMessage("_INBOX", reply, b"", _raw("NATS/1.0 100", **headers)))


def _raw(first: str, **headers: str) -> bytes:
    named = (f"{name.replace('_', '-')}: {value}" for name, value in headers.items())
    return "\r\n".join((first, *named, "", "")).encode()


def _reader(server: Server, after: int = 0, *, begins_late: bool = False, buffer: int = 100) -> JetStreamReader:
    connection = cast("Connection", server)
    return JetStreamReader(
        connection, "LEDGER", after, server.state, server.at, as_message, begins_late=begins_late, buffer_messages=buffer
    )


async def _sequences(reader: JetStreamReader, limit: int = 100) -> list[int]:
    return [message.sequence for message in await reader.batch(limit, wait=0)]


async def test_deliveries_become_messages_with_their_stamp() -> None:
    server = Server(last=2)
    reader = _reader(server)
    assert await _sequences(reader) == []
    server.message(1, 1)
    server.message(2, 2, tokens="$JS.ACK.domain.hash.LEDGER.c")
    assert reader.buffered == 2
    assert await reader.batch(wait=0) == [(1, "hr.ledger.x", 1, b"1"), (2, "hr.ledger.x", 2, b"2")]
    assert server.starts == [1]


async def test_a_lost_delivery_is_asked_for_again_from_the_first_message_not_yet_here() -> None:
    server = Server(last=3)
    reader = _reader(server)
    await _sequences(reader)
    server.message(1, 1)
    server.message(3, 3)
    server.message(4, 4)  # behind the loss: not taken
    assert await _sequences(reader) == [1]
    assert await _sequences(reader) == []
    server.message(2, 1)
    assert (await _sequences(reader), server.starts) == ([2], [1, 2])


async def test_a_late_delivery_of_an_earlier_consumer_is_not_taken() -> None:
    server = Server(last=3)
    reader = _reader(server)
    await _sequences(reader)
    earlier = server.deliver
    server.came_back()
    await _sequences(reader)
    earlier(RawMessage("x", "$JS.ACK.LEDGER.c.1.1.1.0.0", b""))
    assert (reader.buffered, server.starts) == (0, [1, 1])


async def test_a_full_buffer_takes_no_more_and_loses_nothing() -> None:
    server = Server(last=9)
    reader = _reader(server, buffer=2)
    await _sequences(reader)
    for n in (1, 2, 3, 4):
        server.message(n, n)
    assert (reader.buffered, await _sequences(reader, 1), await _sequences(reader), await _sequences(reader)) == (
        2,
        [1],
        [2],
        [],
    )
    assert server.starts == [1, 3]


async def test_a_heartbeat_that_counts_more_deliveries_than_came_shows_a_loss() -> None:
    server = Server(last=9)
    reader = _reader(server)
    await _sequences(reader)
    server.message(1, 1)
    server.control(Nats_Last_Consumer="1")
    assert await _sequences(reader) == [1]
    server.control(Nats_Last_Consumer="2")
    assert (await _sequences(reader), server.starts) == ([], [1, 2])


async def test_a_message_that_looks_like_a_heartbeat_is_a_message() -> None:
    server = Server(last=9)
    reader = _reader(server)
    await _sequences(reader)
    server.message(1, 1, raw=_raw("NATS/1.0 100", Nats_Last_Consumer="999", Nats_Consumer_Stalled="hr.x"))
    assert (await _sequences(reader), server.published) == ([1], [])


async def test_the_server_may_send_more_when_what_it_sent_has_been_handed_out() -> None:
    server = Server(last=9)
    reader = _reader(server)
    await _sequences(reader)
    server.control(reply="$JS.FC.1")
    assert (await _sequences(reader), server.published) == ([], ["$JS.FC.1"])
    server.message(1, 1)
    server.message(2, 2)
    server.control(reply="$JS.FC.2")
    server.message(3, 3)
    assert (await _sequences(reader, 1), server.published) == ([1], ["$JS.FC.1"])
    assert (await _sequences(reader, 1), server.published) == ([2], ["$JS.FC.1", "$JS.FC.2"])
    server.message(4, 4)
    server.control(Nats_Last_Consumer="4", Nats_Consumer_Stalled="$JS.FC.3")
    assert (await _sequences(reader), server.published[2:]) == ([3, 4], ["$JS.FC.3"])


async def test_a_later_message_than_the_one_asked_for_is_a_gap_only_when_asked_for_again() -> None:
    server = Server(last=9)
    reader = _reader(server)
    await _sequences(reader)
    server.message(1, 1)
    server.message(3, 2)  # perhaps the consumer's fault
    assert (await _sequences(reader), await _sequences(reader), server.starts) == ([1], [], [1, 2])
    server.message(3, 1)  # asked for 2, the server has only 3
    with pytest.raises(LogBroken, match="after 1 comes 3"):
        await _sequences(reader)


@pytest.mark.parametrize(
    ("first", "last", "after", "text"),
    [
        (5, 9, 0, "begins at 5, but 1 has not been read"),
        (10, 9, 3, "begins at 10"),
        (1, 2, 3, "ends at 2, but 3 has been read"),
    ],
)
async def test_a_stream_that_lost_its_beginning_or_its_end_is_broken(first: int, last: int, after: int, text: str) -> None:
    with pytest.raises(LogBroken, match=text):
        await _sequences(_reader(Server(last, first), after))


async def test_one_of_several_servers_may_not_know_yet_what_has_been_read_and_is_believed_only_when_it_insists(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = Server(last=2)
    server.several = True
    reader = _reader(server, after=3)
    assert await _sequences(reader) == []
    server.last_seq = 4
    assert await _sequences(reader) == []
    server.message(4, 1)
    assert await _sequences(reader) == [4]
    server.last_seq = 3
    server.came_back()
    assert await _sequences(reader) == []
    monkeypatch.setattr(jetstream_reader, "BEHIND_MOST", 0.0)
    with pytest.raises(LogBroken, match="ends at 3, but 4 has been read: it lost its end"):
        await _sequences(reader)


async def test_a_stream_that_is_purged_on_purpose_is_read_from_its_front_also_in_the_middle() -> None:
    server = Server(last=9, first=5)
    reader = _reader(server, begins_late=True)
    await _sequences(reader)
    server.message(5, 1)
    assert await _sequences(reader) == [5]
    server.first_seq = 8
    server.message(8, 2)
    assert await _sequences(reader) == []
    server.message(8, 1)
    assert (await _sequences(reader), server.starts) == ([8], [5, 8])
    server.message(10, 2)
    await _sequences(reader)
    server.message(10, 1)
    with pytest.raises(LogBroken, match="after 8 comes 10"):
        await _sequences(reader)


async def test_a_server_that_does_not_answer_is_asked_again_and_only_once_complained_about() -> None:
    server = Server(last=9)
    server.refusals = 2
    reader = _reader(server)
    assert [await _sequences(reader) for _ in range(3)] == [[], [], []]
    assert server.starts == [1]


async def test_messages_that_come_while_the_consumer_is_made_are_taken() -> None:
    server = Server(last=9)

    async def at_once() -> None:
        server.message(1, 1)

    server.on_create = at_once
    reader = _reader(server)
    assert (await _sequences(reader), server.starts) == ([1], [1])


async def test_a_closed_reader_says_so() -> None:
    reader = _reader(Server(last=9))
    await reader.close()
    with pytest.raises(LogUnavailable, match="closed"):
        await reader.batch()


async def test_of_several_servers_one_that_told_something_else_than_the_leader_has_is_found_out_when_it_is_left() -> None:
    server = Server(last=9)
    server.several = True
    reader = _reader(server)
    await _sequences(reader)
    server.message(1, 1)
    server.message(2, 2)
    assert await _sequences(reader, limit=1) == [1]
    server.came_back()
    assert await _sequences(reader) == [2]
    assert await _sequences(reader) == []  # asked again: the second is the leader's
    server.message(3, 1)
    assert (await _sequences(reader), server.asked) == ([3], [2])
    server.led[3] = Message(3, "hr.ledger.x", 3, b"what it left out")
    server.came_back()
    with pytest.raises(
        LogDiverged, match="^LEDGER: one of the servers has another message at 3 than the others, and it has been"
    ):
        await _sequences(reader)


async def test_a_message_that_is_let_go_of_meanwhile_says_nothing_of_the_server_and_one_server_alone_is_not_asked() -> None:
    server = Server(last=9)
    server.several = True
    reader = _reader(server)
    await _sequences(reader)
    server.message(1, 1)
    server.led[1] = None
    server.came_back()
    assert (await _sequences(reader), await _sequences(reader), server.asked) == ([1], [], [1])
    server.several = False
    server.came_back()
    assert (await _sequences(reader), server.asked, server.starts) == ([], [1], [1, 2, 2])
