"""A client that comes back, from a server that says what it is told to say and dies when it is told to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from nats import errors
from nats.aio.transport import TcpTransport

from headrace.nats_client.reconnecting import ReturningClient

INFO = b'INFO {"server_id":"x","version":"2.12.0","headers":true,"max_payload":1048576}\r\n'
STOP = b"PUB stop  0\r\n"
WITHIN = 5.0


class Server:
    """Speaks as much of the protocol as a connection needs. `first_answer`: what it says before it answers the first ping."""

    def __init__(self) -> None:
        self.first_answer = b""
        self.stopped = asyncio.Event()
        self.heard: list[bytes] = []
        self._writers: list[asyncio.StreamWriter] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        writer.write(INFO)
        before = self.first_answer
        while line := await reader.readline():
            self.heard.append(line)
            if line == STOP:
                self.stopped.set()
                await asyncio.Event().wait()
            if line.startswith(b"PING"):
                writer.write(before + b"PONG\r\n")
                before = b""

    def say(self, what: bytes) -> None:
        self._writers[-1].write(what)

    def die(self) -> None:
        """Every connection ends."""
        for writer in self._writers:
            writer.close()
        self._writers.clear()


class Place:
    """A server, and a client on it that has told what became of it."""

    def __init__(self) -> None:
        self.server = Server()
        self.client = ReturningClient()
        self.complaints: list[Exception] = []
        self.back = asyncio.Event()
        self.on_lost: Callable[[], None] = lambda: None

    async def complained(self, error: Exception) -> None:
        self.complaints.append(error)

    async def lost(self) -> None:
        self.on_lost()

    async def came_back(self) -> None:
        self.back.set()

    async def until_back(self) -> None:
        async with asyncio.timeout(WITHIN):
            await self.back.wait()
            await self.client.flush(timeout=1)


@asynccontextmanager
async def place() -> AsyncIterator[Place]:
    here = Place()
    listening = await asyncio.start_server(here.server.serve, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    await here.client.connect(
        [f"nats://127.0.0.1:{port}"],
        error_cb=here.complained,
        disconnected_cb=here.lost,
        reconnected_cb=here.came_back,
        max_reconnect_attempts=-1,
        reconnect_time_wait=0.01,
        ping_interval=60,
    )
    try:
        yield here
    finally:
        await here.client.close()
        here.server.die()
        listening.close()


async def test_an_error_on_the_way_back_that_has_no_name_is_followed_by_another_try():
    async with place() as here:
        errors_to_come: list[Exception] = [RuntimeError("the handler is closed"), ValueError("a line without an end")]

        def fail() -> None:
            if errors_to_come:
                raise errors_to_come.pop(0)

        here.on_lost = fail
        here.server.die()
        await here.until_back()
        assert [str(error) for error in here.complaints if not isinstance(error, errors.Error)] == [
            "the handler is closed",
            "a line without an end",
        ]


async def test_a_socket_that_is_gone_while_it_is_spoken_to_is_followed_by_another_one(monkeypatch: pytest.MonkeyPatch):
    """As uvloop's, whose sockets raise what nats-py does not expect."""
    async with place() as here:
        usual, gone = TcpTransport.write, [RuntimeError("unable to perform operation; the handler is closed")]

        def write(self: TcpTransport, payload: bytes) -> Any:
            if gone and payload.startswith(b"CONNECT"):
                raise gone.pop()
            return usual(self, payload)

        monkeypatch.setattr(TcpTransport, "write", write)
        here.server.die()
        await here.until_back()
        assert gone == []


async def test_that_nobody_can_hear_a_complaint_ends_nothing():
    async with place() as here:
        trouble = [OSError(28, "No space left on device")]

        def fail() -> None:
            if trouble:
                raise trouble.pop()

        async def complained(error: Exception) -> None:
            if isinstance(error, OSError):
                raise error

        here.on_lost = fail
        here.client._error_cb = complained
        here.server.die()
        await here.until_back()


async def test_a_server_that_says_something_else_before_it_answers_is_one_to_speak_to():
    here = Server()
    here.first_answer = INFO
    listening = await asyncio.start_server(here.serve, "127.0.0.1", 0)
    client = ReturningClient()
    await client.connect([f"nats://127.0.0.1:{listening.sockets[0].getsockname()[1]}"], allow_reconnect=False)
    try:
        await client.publish("a", b"b")
        await client.flush(timeout=1)
        assert (client.is_connected, here.heard.count(b"PUB a  1\r\n") + here.heard.count(b"PUB a 1\r\n")) == (True, 1)
    finally:
        await client.close()
        here.die()
        listening.close()


async def test_a_reader_that_ends_by_an_error_of_its_own_is_an_end_of_the_connection():
    async with place() as here:

        async def cannot(*_: object) -> None:
            raise ValueError("what is that?")

        here.client._process_msg = cannot  # type: ignore[method-assign]
        here.server.say(b"MSG a 1 1\r\nx\r\n")
        await here.until_back()


async def test_an_answer_that_nobody_waits_for_any_more_ends_nothing():
    async with place() as here:
        given_up: asyncio.Future[bool] = asyncio.Future()
        given_up.cancel()
        here.client._pongs.append(given_up)
        here.server.say(b"PONG\r\n")
        await here.client.flush(timeout=1)
        assert (here.client.is_connected, here.back.is_set()) == (True, False)


async def test_what_was_said_before_a_flush_has_been_heard_when_it_is_over():
    async with place() as here:
        for subject in ("first", "second"):
            await here.client.subscribe(subject)
        await here.client.publish("third", b"")
        await here.client.flush()
        said = [line.split()[:2] for line in here.server.heard[here.server.heard.index(b"PING\r\n") + 1 :]]
        assert said == [[b"SUB", b"first"], [b"SUB", b"second"], [b"PUB", b"third"], [], [b"PING"]]


async def test_one_that_is_silent_is_left_without_waiting_until_it_has_heard_everything():
    """What is still to be said to a server that is stopped would otherwise hold up the way to another one."""
    async with place() as here:
        transport = here.client._transport
        assert isinstance(transport, TcpTransport)
        assert transport._io_writer is not None
        transport._io_writer.write(STOP)
        await here.server.stopped.wait()
        transport._io_writer.write(b"x" * 48 * 1024 * 1024)
        await here.client._process_op_err(errors.StaleConnectionError())
        await here.until_back()


async def test_a_cancellation_that_an_error_of_the_connection_hides_ends_the_reconnection(monkeypatch: pytest.MonkeyPatch):
    """As Python 3.11's `wait_for` hides it: the loop of a process that ends then waited forever for the client."""
    async with place() as here:
        trying = asyncio.Event()

        async def connect(*_: object, **__: object) -> None:
            trying.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                raise ConnectionRefusedError from None

        before = asyncio.all_tasks()
        monkeypatch.setattr(TcpTransport, "connect", connect)
        here.server.die()
        await asyncio.wait_for(trying.wait(), WITHIN)
        (reconnecting,) = asyncio.all_tasks() - before
        reconnecting.cancel()
        _, pending = await asyncio.wait([reconnecting], timeout=WITHIN)
        assert pending == set()
