"""nats-py, made to come back and to bear hostile messages: against a server that says and does what the test wants; and its pin."""

from __future__ import annotations

import asyncio
import tomllib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from nats import errors
from nats.aio.client import Client
from nats.aio.transport import TcpTransport
from nats.protocol import parser

from headrace.nats_client.connection import Connection
from headrace.nats_client.hardened_client import HardenedClient
from headrace.nats_client.raw_message import RawMessage

RAISED = """nats-py is not the version whose insides were read. Before the pin in pyproject.toml is changed, compare in both
- nats/aio/client.py: every method in OVERRIDDEN, what `_attempt_reconnect`, `_process_op_err` and `_close` do, and the attributes that
  hardened_client.py reads (`_transport`, `_pending`, `_pongs`, `_status`, `_sid` and the tasks);
- nats/protocol/parser.py: how MSG_RE and HMSG_RE are used, and what follows a match;
- nats/aio/transport.py: `TcpTransport._io_writer`;
then run tests/unit/nats_client, the integration tests, and the campaigns of power cuts and lost leaders
(docs/decisions/0021-one-nats-client.md)."""

OVERRIDDEN = {
    "_attempt_reconnect",
    "_connect_to_server",
    "_process_connect_init",
    "_process_err",
    "_process_headers",
    "_process_msg",
    "_process_pong",
    "_read_loop",
    "_remove_sub",
    "_send_ping",
}

INFO = b'INFO {"server_id":"x","version":"2.12.0","headers":true,"max_payload":1048576}\r\n'
STOP = b"PUB stop  0\r\n"
WITHIN = 5.0


class Server:
    """Speaks as much of the protocol as a connection needs. `first_answer`: what it says before it answers the first ping."""

    def __init__(self) -> None:
        self.first_answer = b""
        self.stopped = asyncio.Event()
        self.received: list[bytes] = []
        self._writers: list[asyncio.StreamWriter] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        writer.write(INFO)
        before = self.first_answer
        while line := await reader.readline():
            self.received.append(line)
            if line == STOP:
                self.stopped.set()
                await asyncio.Event().wait()
            if line.startswith(b"PING"):
                writer.write(before + b"PONG\r\n")
                before = b""

    def send_bytes(self, what: bytes) -> None:
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
        self.client = HardenedClient()
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


async def test_a_complaint_without_a_listener_ends_nothing():
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
    client = HardenedClient()
    await client.connect([f"nats://127.0.0.1:{listening.sockets[0].getsockname()[1]}"], allow_reconnect=False)
    try:
        await client.publish("a", b"b")
        await client.flush(timeout=1)
        assert (client.is_connected, here.received.count(b"PUB a  1\r\n") + here.received.count(b"PUB a 1\r\n")) == (True, 1)
    finally:
        await client.close()
        here.die()
        listening.close()


async def test_a_reader_that_ends_by_an_error_of_its_own_is_an_end_of_the_connection():
    async with place() as here:

        async def cannot(*_: object) -> None:
            raise ValueError("what is that?")

        here.client._process_msg = cannot  # type: ignore[method-assign]
        here.server.send_bytes(b"MSG a 1 1\r\nx\r\n")
        await here.until_back()


async def test_an_answer_without_a_waiter_ends_nothing():
    async with place() as here:
        given_up: asyncio.Future[bool] = asyncio.Future()
        given_up.cancel()
        here.client._pongs.append(given_up)
        here.server.send_bytes(b"PONG\r\n")
        await here.client.flush(timeout=1)
        assert (here.client.is_connected, here.back.is_set()) == (True, False)


async def test_what_was_said_before_a_flush_has_been_heard_when_it_is_over():
    async with place() as here:
        for subject in ("first", "second"):
            await here.client.subscribe(subject)
        await here.client.publish("third", b"")
        await here.client.flush()
        commands = [line.split()[:2] for line in here.server.received[here.server.received.index(b"PING\r\n") + 1 :]]
        assert commands == [[b"SUB", b"first"], [b"SUB", b"second"], [b"PUB", b"third"], [], [b"PING"]]


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


@pytest.mark.parametrize(
    ("failure", "comes_back"),
    [
        ("'User Authentication Expired'", True),
        ("'Account Authentication Expired'", True),
        ("'Authorization Violation'", False),
        ("'Permissions Violation for Publish to \"x\"'", False),
    ],
)
async def test_only_what_has_run_out_is_a_reason_to_come_back(monkeypatch, failure, comes_back):
    seen = []

    async def come_back(_self, error):
        seen.append(type(error))

    async def usual(_self, message):
        seen.append(message)

    monkeypatch.setattr(Client, "_process_op_err", come_back)
    monkeypatch.setattr(Client, "_process_err", usual)
    await HardenedClient()._process_err(failure)
    assert seen == [errors.StaleConnectionError if comes_back else failure]


class Listless(HardenedClient):
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
    client, received = Listless(), list[RawMessage]()
    subscription = await client.listen("hr.a", received.append)
    assert client.listeners == {subscription._id: received.append}
    await subscription.unsubscribe()
    client._status = Client.CLOSED
    with pytest.raises(errors.ConnectionClosedError):
        await client.listen("hr.a", received.append)
    assert client.listeners == {}


async def test_who_listens_in_a_queue_group_says_so_to_the_server() -> None:
    client, received = Listless(), list[RawMessage]()
    subscription = await client.listen("hr.a", received.append, "group")
    assert b"".join(client.sent).split() == [b"SUB", b"hr.a", b"group", str(subscription._id).encode()]


async def test_a_socket_that_is_closed_during_a_publish_is_an_error_of_the_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def closed(*_: object) -> None:
        raise RuntimeError("unable to perform operation on <TCPTransport closed=True>; the handler is closed")

    monkeypatch.setattr(Client, "publish", closed)
    with pytest.raises(errors.ConnectionClosedError):
        await Listless().publish("hr.x", b"")


def test_the_installed_library_is_the_one_whose_insides_were_read():
    metadata = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text("utf-8"))
    (pin,) = [requirement for requirement in metadata["project"]["dependencies"] if requirement.startswith("nats-py")]
    assert pin == f"nats-py=={version('nats-py')}", RAISED


def test_what_is_overridden_is_in_the_library_and_what_is_added_is_not():
    private = {name for name in vars(HardenedClient) if name.startswith("_") and not name.startswith("__")}
    assert {name for name in private if hasattr(Client, name)} == OVERRIDDEN, RAISED
    assert (hasattr(parser, "MSG_RE"), hasattr(parser, "HMSG_RE")) == (True, True), RAISED


def test_a_connection_hides_no_private_part_of_the_library():
    theirs = {*vars(Client), *vars(Client())}
    own = {*vars(Connection), *(set(vars(Connection())) - set(vars(HardenedClient())))}
    assert {name for name in own & theirs if not name.startswith("__")} == set()
