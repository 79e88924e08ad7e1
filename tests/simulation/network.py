"""A NATS server over in-memory logs, and wires to it that stall, break, lose and repeat: what `headrace.bus` and the nodes really speak to.

Only the server and the wires are made up. The logs, their readers, asking and coming back are the product's own code, over clients that
have nats-py's face.
"""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import msgspec
from nats import errors

from headrace.bus.log import LogRefused, Message, WrongLast
from headrace.bus.memory import MemoryLog
from headrace.bus.nats import streams as bus_streams
from headrace.contracts.transport.subjects import FEED_STREAM, LEDGER_STREAM, SNAPSHOT_STREAM, SUBMIT_STREAM
from headrace.nats_client.connection import Address, Connection, Observer
from tests.simulation.clockwork import OUTSIDE, Clockwork, Process, current

START = 1_767_225_600_000_000
"""The true time begins at 2026-01-01T00:00:00Z."""

STREAMS = {"hr.submit.": SUBMIT_STREAM, "hr.cancel.": SUBMIT_STREAM, "hr.requeue.": SUBMIT_STREAM, "hr.ledger.": LEDGER_STREAM}

SUBMIT_PER_SUBJECT = 20_000
ALIVE_EVERY = 1.0
"""Seconds between the signs of life of a consumer: half as often as it asks for, which is still in time."""

NOTICED_AFTER = 3.0
"""Seconds of a stalled wire after which it counts as broken."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_AWAY = {"error": {"code": 503, "err_code": 10008, "description": "JetStream system temporarily unavailable"}}
_FULL = {"error": {"code": 503, "err_code": 10023, "description": "insufficient resources"}}
_NOT_FOUND = {"error": {"code": 404, "err_code": 10037, "description": "no message found"}}
_encode = msgspec.json.encode
_decode = msgspec.json.decode


class ClientMessage:
    """A message as nats-py hands it out."""

    __slots__ = ("_client", "data", "headers", "reply", "subject")

    def __init__(self, client: Client, subject: str, reply: str, data: bytes, headers: dict[str, str] | None) -> None:
        self._client, self.subject, self.reply, self.data, self.headers = client, subject, reply, data, headers or {}

    async def respond(self, data: bytes) -> None:
        """Answer it."""
        await self._client.publish(self.reply, data)


class Subscription:
    """One callback, for one message after the other, as nats-py has it. What never has to wait is delivered at once, without a task."""

    __slots__ = ("_at_once", "_callback", "_client", "_lines", "_task", "pattern")

    def __init__(self, client: Client, pattern: str, callback: Callable[[Any], Awaitable[None]]) -> None:
        self._client, self.pattern, self._callback = client, pattern, callback
        self._lines: deque[ClientMessage] = deque()
        self._task: asyncio.Task[None] | None = None
        self._at_once = pattern.startswith(("_INBOX", "hr.telemetry."))

    def receive(self, message: ClientMessage) -> None:
        """It has arrived."""
        if self._at_once:
            try:
                self._callback(message).send(None)  # type: ignore[attr-defined]
            except StopIteration:
                return
            raise AssertionError(f"{self.pattern}: what was to be delivered at once has to wait")
        self._lines.append(message)
        if self._task is None:
            self._task = self._client.network.loop.create_task(self._work())

    async def _work(self) -> None:
        try:
            while self._lines:
                await self._callback(self._lines.popleft())
        finally:
            self._task = None

    async def unsubscribe(self) -> None:
        """No more."""
        self._lines.clear()
        self._client.forget(self)


class Pipe:
    """One direction of a wire: in order, after a while. `lossy` and `double` are how often one message is lost or comes twice."""

    __slots__ = ("_arrive", "_context", "_due", "_on_the_way", "_wire", "held_until")

    def __init__(self, wire: Wire, context: Any, arrive: Callable[..., None]) -> None:
        self._wire, self._context, self._arrive = wire, context, arrive
        self._on_the_way: deque[tuple[float, tuple[Any, ...]]] = deque()
        self._due = 0.0
        self.held_until = 0.0

    def send(self, *message: Any) -> None:
        """It goes off now."""
        wire = self._wire
        loop = wire.network.loop
        times = 1
        if wire.lossy:
            drawn = wire.random.random()
            if drawn < wire.lossy:
                times = 0 if drawn < wire.lossy / 2 else 2
                wire.network.counts["message lost" if not times else "message repeated"] += 1
        for _ in range(times):
            latency = wire.latency * (0.5 + wire.random.random())
            self._due = max(self._due, self.held_until, loop.time() + latency)
            self._on_the_way.append((self._due, message))
            if len(self._on_the_way) == 1:
                loop.call_at(self._due, self._come, wire.epoch, context=self._context)

    def _come(self, epoch: int) -> None:
        if epoch != self._wire.epoch:
            return
        loop = self._wire.network.loop
        if self.held_until > loop.time():
            loop.call_at(self.held_until, self._come, epoch, context=self._context)
            return
        while self._on_the_way and self._on_the_way[0][0] <= loop.time():
            _, message = self._on_the_way.popleft()
            self._arrive(*message)
        if self._on_the_way and epoch == self._wire.epoch:
            loop.call_at(self._on_the_way[0][0], self._come, epoch, context=self._context)

    def cut(self) -> None:
        """All that is on the way is lost."""
        self._on_the_way.clear()


class Wire:
    """The two pipes of one client. `latency` in seconds."""

    __slots__ = ("down", "epoch", "latency", "lossy", "network", "random", "up")

    def __init__(self, network: Network, client: Client, process: Process, random: Random) -> None:
        self.network, self.random, self.epoch = network, random, 0
        self.latency, self.lossy = network.latency, 0.0
        self.up = Pipe(self, OUTSIDE.context, lambda *message: network.receive(client, *message))
        self.down = Pipe(self, process.context, client.arrives)

    def hold(self, until: float) -> None:
        """Nothing arrives before that; then everything does."""
        self.up.held_until = self.down.held_until = until

    def cut(self) -> None:
        """Whatever is on the way is lost."""
        self.epoch += 1
        self.up.cut()
        self.down.cut()
        self.up.held_until = self.down.held_until = 0.0


class Client:
    """The face of nats-py's client that the product uses."""

    def attach(self, network: Network, name: str) -> None:
        """Belongs to the process that goes on now."""
        self.network, self.wire_name, self.process = network, name, current()
        self.inbox_prefix = f"_INBOX_{name}_{network.number()}"
        self.wire = Wire(network, self, self.process, Random(f"{network.seed}/{self.inbox_prefix}"))
        self.connected = False
        self.gone = False
        self.options: dict[str, Any] = {}
        self._inboxes = 0
        self._waiting: list[tuple[Any, ...]] = []
        self._subscriptions: list[Subscription] = []
        self._routes: dict[str, list[Subscription]] = {}

    @property
    def is_connected(self) -> bool:
        """As far as it knows."""
        return self.connected

    @property
    def is_closed(self) -> bool:
        """For good."""
        return self.gone

    @property
    def connected_url(self) -> None:
        """There is no such method."""

    def new_inbox(self) -> str:
        """A subject of its own."""
        self._inboxes += 1
        return f"{self.inbox_prefix}.{self._inboxes}"

    async def publish(
        self, subject: str, payload: bytes = b"", reply: str = "", headers: Mapping[str, str] | None = None
    ) -> None:
        """While the server is away it waits, as with nats-py."""
        if self.gone:
            raise errors.ConnectionClosedError
        if self.network.over:
            return
        message = (subject, payload, reply, dict(headers) if headers else None)
        if self.connected:
            self.wire.up.send(*message)
        else:
            self._waiting.append(message)

    async def subscribe(self, subject: str, cb: Callable[[Any], Awaitable[None]], **_: Any) -> Subscription:
        """From now on, and again whenever the server is back."""
        subscription = Subscription(self, subject, cb)
        self._subscriptions.append(subscription)
        self._routes.clear()
        self.network.listens(self, subject)
        return subscription

    async def listen(self, subject: str, listener: Callable[[Any], None]) -> Subscription:
        """The same, without waiting."""

        async def receive(message: ClientMessage) -> None:
            listener(message)

        return await self.subscribe(subject, receive)

    def forget(self, subscription: Subscription) -> None:
        """It is heard no more."""
        if subscription in self._subscriptions:
            self._subscriptions.remove(subscription)
            self._routes.clear()
            self.network.listens_no_more(self, subscription.pattern)

    @property
    def patterns(self) -> list[str]:
        """What it has subscribed to."""
        return [subscription.pattern for subscription in self._subscriptions]

    def arrives(self, subject: str, payload: bytes, reply: str, headers: dict[str, str] | None, shown: str = "") -> None:
        """The server has sent something."""
        key = ".".join(subject.split(".", 2)[:2]) if subject.startswith("_INBOX") else subject
        routes = self._routes.get(key)
        if routes is None:
            routes = self._routes[key] = [one for one in self._subscriptions if matches(one.pattern, subject)]
        for subscription in routes:
            subscription.receive(ClientMessage(self, shown or subject, reply, payload, headers))

    async def came(self) -> None:
        """The server is there."""
        self.connected = True
        self.network.joined(self)
        waiting, self._waiting = self._waiting, []
        for message in waiting:
            self.wire.up.send(*message)

    async def connect(self, servers: object, **options: Any) -> None:
        """Raises `errors.NoServersError` where the server is away."""
        self.options = options
        if not self.network.reachable(self):
            raise errors.NoServersError
        await self.came()

    async def close(self) -> None:
        """For good."""
        self.gone, self.connected = True, False
        self.network.left(self)

    def broken(self) -> None:
        """The wire broke, and it knows."""
        if self.connected and self.process.alive:
            self.connected = False
            loop = asyncio.get_running_loop()
            loop.call_soon(lambda: loop.create_task(self._repair()), context=self.process.context)

    async def _repair(self) -> None:
        await self._notify("disconnected_cb")
        while not self.network.reachable(self):
            await asyncio.sleep(0.1)
        if not self.gone:
            await self.came()
            await self._notify("reconnected_cb")

    async def _notify(self, what: str) -> None:
        callback = self.options.get(what)
        if callback is not None:
            await callback()


class SimulatedConnection(Client, Connection):
    """The product's connection over this client."""

    def __init__(self, network: Network, name: str, observer: Observer | None = None) -> None:
        super().__init__(observer)
        self.attach(network, name)

    @classmethod
    async def dialled(cls, network: Network, name: str) -> SimulatedConnection:
        """One that stands, once the server is there."""
        made = cls(network, name)
        while not network.reachable(made):
            await asyncio.sleep(0.1)
        await made.open(Address("nats://simulated"), name)
        return made


def matches(pattern: str, subject: str) -> bool:
    """Whether a subscription hears a subject."""
    if pattern == subject:
        return True
    mine, its = pattern.split("."), subject.split(".")
    for place, token in enumerate(mine):
        if token == ">":
            return len(its) > place
        if place >= len(its) or token not in ("*", its[place]):
            return False
    return len(mine) == len(its)


class Consumer:
    """Pushes a stream from a sequence on to one client."""

    __slots__ = ("client", "following", "place", "subject")

    def __init__(self, client: Client, subject: str, following: int) -> None:
        self.client, self.subject, self.following, self.place = client, subject, following, 0


class Stream:
    """A log, and who follows it."""

    def __init__(self, name: str, log: MemoryLog) -> None:
        self.name, self.log = name, log
        self.consumers: dict[str, Consumer] = {}

    def push(self, consumer: Consumer) -> None:
        """Everything that it has not got."""
        for message in self.log.messages_after(consumer.following - 1):
            consumer.place += 1
            consumer.following = message.sequence + 1
            reply = f"$JS.ACK.{self.name}.c.1.{message.sequence}.{consumer.place}.{message.stamped * 1_000}.0"
            consumer.client.wire.down.send(consumer.subject, message.payload, reply, None, message.subject)


class Network:
    """The server and all wires. `stored` hears of every message of the ledger; `writers` checks who may write where."""

    def __init__(self, loop: Clockwork, seed: str, stored: Callable[[Message], None], latency: float = 0.001) -> None:
        self.loop = loop
        self.seed, self.latency, self._stored = seed, latency, stored
        self.counts: Counter[str] = Counter()
        self.up = True
        self.over = False
        self.streams_away_until = 0.0
        self.full_until = 0.0
        self._numbers = 0
        self._cut_until: dict[str, float] = {}
        self._clients: dict[str, Client] = {}
        self._listeners: dict[str, dict[str, int]] = {}
        self._routes: dict[str, list[Client]] = {}
        self.streams = {
            SUBMIT_STREAM: Stream(SUBMIT_STREAM, _submit_log(self.clock)),
            LEDGER_STREAM: Stream(LEDGER_STREAM, MemoryLog(self.clock)),
            FEED_STREAM: Stream(FEED_STREAM, MemoryLog(self.clock, begins_late=True)),
            SNAPSHOT_STREAM: Stream(SNAPSHOT_STREAM, MemoryLog(self.clock)),
        }

    def clock(self) -> int:
        """The true time, microseconds since 1970."""
        return START + round(self.loop.time() * 1_000_000)

    @property
    def ledger(self) -> MemoryLog:
        """The truth."""
        return self.streams[LEDGER_STREAM].log

    def number(self) -> int:
        """Another one each time."""
        self._numbers += 1
        return self._numbers

    # Who is there

    def reachable(self, client: Client) -> bool:
        """Whether a connection could be made now."""
        return self.up and self._cut_until.get(client.wire_name, 0.0) <= self.loop.time()

    def joined(self, client: Client) -> None:
        """A connection stands."""
        self._clients[client.inbox_prefix] = client
        for pattern in client.patterns:
            self.listens(client, pattern)

    def left(self, client: Client) -> None:
        """A connection is no more, and with it what followed by it."""
        self._clients.pop(client.inbox_prefix, None)
        for listeners in self._listeners.values():
            listeners.pop(client.inbox_prefix, None)
        self._routes.clear()
        for stream in self.streams.values():
            stream.consumers = {name: one for name, one in stream.consumers.items() if one.client is not client}
        client.wire.cut()

    def listens(self, client: Client, pattern: str) -> None:
        """Messages on these subjects go to it."""
        if not pattern.startswith("_INBOX") and client.inbox_prefix in self._clients:
            listeners = self._listeners.setdefault(pattern, {})
            listeners[client.inbox_prefix] = listeners.get(client.inbox_prefix, 0) + 1
            self._routes.clear()

    def listens_no_more(self, client: Client, pattern: str) -> None:
        """The inverse."""
        for stream in self.streams.values():
            stream.consumers = {
                name: one for name, one in stream.consumers.items() if one.client is not client or one.subject != pattern
            }
        if pattern in self._listeners:
            self._listeners[pattern].pop(client.inbox_prefix, None)
            self._routes.clear()

    # What goes wrong

    def cut(self, name: str, seconds: float) -> None:
        """The wires of this name break, and stay so."""
        now = self.loop.time()
        self._cut_until[name] = max(self._cut_until.get(name, 0.0), now + seconds)
        for client in self._of(name):
            self.left(client)
            client.broken()

    def stall(self, name: str, seconds: float) -> None:
        """Nothing goes over the wires of this name, and no side notices; then all of it arrives."""
        until = self.loop.time() + min(seconds, NOTICED_AFTER)
        for client in self._of(name):
            client.wire.hold(until)
        if seconds > NOTICED_AFTER:
            self.loop.call_later(NOTICED_AFTER, self.cut, name, seconds - NOTICED_AFTER, context=OUTSIDE.context)

    def slow(self, name: str, times: int) -> None:
        """The wires of this name take this number of times as long."""
        for client in self._of(name):
            client.wire.latency = self.latency * times

    def lossy(self, name: str, often: float) -> None:
        """This part of the messages on the wires of this name are lost or come twice."""
        for client in self._of(name):
            client.wire.lossy = often

    def died(self, process: Process) -> None:
        """Its connections are broken: the operating system says so."""
        for client in [client for client in self._clients.values() if client.process is process]:
            self.left(client)

    def mend(self) -> None:
        """Everything is as it should be."""
        self.up, self.streams_away_until, self.full_until = True, 0.0, 0.0
        self._cut_until.clear()
        for client in self._clients.values():
            client.wire.latency, client.wire.lossy = self.latency, 0.0

    def _of(self, name: str) -> list[Client]:
        return [client for client in self._clients.values() if client.wire_name == name]

    def go_down(self) -> None:
        """The server dies; what is on disk stays, FEED is in memory."""
        self.up = False
        for client in list(self._clients.values()):
            self.left(client)
            client.broken()
        self.streams[FEED_STREAM] = Stream(FEED_STREAM, MemoryLog(self.clock, begins_late=True))

    def come_up(self) -> None:
        """And is there again."""
        self.up = True

    # What the server does

    def receive(self, client: Client, subject: str, payload: bytes, reply: str, headers: dict[str, str] | None) -> None:
        """A client's message has arrived."""
        if self.over:
            return
        stream = (
            FEED_STREAM
            if subject.startswith("hr.feed.")
            else next((name for prefix, name in STREAMS.items() if subject.startswith(prefix)), "")
        )
        if stream:
            answer = self.append(self.streams[stream], subject, payload, headers or {})
            if reply:
                self._deliver(reply, _encode(answer), "", None)
        elif subject.startswith("$JS.API."):
            self._api(client, subject[8:], payload, reply)
        else:
            delivered = self._deliver(subject, payload, reply, headers)
            if not delivered and reply:
                self._deliver(reply, b"", "", {"Status": "503"})

    def write(self, subject: str, payload: bytes) -> None:
        """A record was written on the ledger, with no request."""
        self.append(self.streams[LEDGER_STREAM], subject, payload, {})

    def _deliver(self, subject: str, payload: bytes, reply: str, headers: dict[str, str] | None) -> bool:
        if subject.startswith("_INBOX"):
            client = self._clients.get(subject.split(".", 1)[0])
            clients = [] if client is None else [client]
        else:
            clients = self._routes.get(subject) or []
            if not clients:
                found = {name for pattern, names in self._listeners.items() if matches(pattern, subject) for name in names}
                clients = self._routes[subject] = [self._clients[name] for name in sorted(found)]
        for client in clients:
            client.wire.down.send(subject, payload, reply, headers)
        return bool(clients)

    def append(self, stream: Stream, subject: str, payload: bytes, headers: dict[str, str]) -> dict[str, Any]:
        now = self.loop.time()
        if self.streams_away_until > now:
            return _AWAY
        if self.full_until > now:
            self.counts["append refused, disk full"] += 1
            return _FULL
        expected = headers.get("Nats-Expected-Last-Subject-Sequence")
        before = stream.log.last_sequence
        try:
            sequence = stream.log.append_now(
                subject, payload, None if expected is None else int(expected), headers.get("Nats-Msg-Id", "")
            )
        except WrongLast:
            last = stream.log.last_of(subject)
            return {
                "error": {"code": 400, "err_code": 10071, "description": f"wrong last sequence: {last.sequence if last else 0}"}
            }
        except LogRefused:
            return {"error": {"code": 503, "err_code": 10077, "description": "maximum messages per subject exceeded"}}
        if sequence > before:
            if stream.name == LEDGER_STREAM:
                self._stored(stream.log.messages_after(before)[0])
            for consumer in stream.consumers.values():
                stream.push(consumer)
        return {"stream": stream.name, "seq": sequence} | ({} if sequence > before else {"duplicate": True})

    def _api(self, client: Client, what: str, payload: bytes, reply: str) -> None:
        if self.streams_away_until > self.loop.time():
            self._deliver(reply, _encode(_AWAY), "", None)
            return
        verb, _, rest = what.partition(".")
        if verb == "DIRECT":
            self._direct(self.streams[rest.removeprefix("GET.")], _decode(payload)["seq"], reply)
            return
        if verb == "CONSUMER":
            _, name, consumer = rest.split(".")
            config = _decode(payload)["config"]
            made = Consumer(client, config["deliver_subject"], config["opt_start_seq"])
            self.streams[name].consumers[consumer] = made
            self._deliver(reply, b"{}", "", None)
            self.streams[name].push(made)
            self._keep_alive(self.streams[name], consumer, made)
            return
        action, _, name = rest.rpartition(".")
        self._deliver(reply, _encode(self._stream_api(action, self.streams[name].log, payload)), "", None)

    def _stream_api(self, action: str, log: MemoryLog, payload: bytes) -> dict[str, Any]:
        if action == "INFO":
            return {"state": {"first_seq": log.first, "last_seq": log.last_sequence}, "ts": written(self.clock())}
        request = _decode(payload)
        if action == "PURGE":
            log.purge_now(request["seq"] - 1)
            return {"success": True}
        found = log.last_of(request["last_by_subj"]) if "last_by_subj" in request else log.get_now(request["seq"])
        if found is None:
            return _NOT_FOUND
        message = {"subject": found.subject, "seq": found.sequence, "time": written(found.stamped)}
        return {"message": message | {"data": b64encode(found.payload).decode()}}

    def _direct(self, stream: Stream, sequence: int, reply: str) -> None:
        found = stream.log.get_now(sequence)
        if found is None:
            self._deliver(reply, b"", "", {"Status": "404"})
            return
        headers = {
            "Nats-Sequence": str(found.sequence),
            "Nats-Subject": found.subject,
            "Nats-Time-Stamp": written(found.stamped),
        }
        self._deliver(reply, found.payload, "", headers)

    def _keep_alive(self, stream: Stream, name: str, consumer: Consumer) -> None:
        """A sign of life every second, for as long as the consumer is there."""
        if stream.consumers.get(name) is consumer:
            consumer.client.wire.down.send(consumer.subject, b"", "", {"Nats-Last-Consumer": str(consumer.place)})
            self.loop.call_later(ALIVE_EVERY, self._keep_alive, stream, name, consumer, context=OUTSIDE.context)


def _submit_log(clock: Callable[[], int]) -> MemoryLog:
    """With the window for repeated message ids that the product asks the server for."""
    window = bus_streams.STREAMS[SUBMIT_STREAM]["duplicate_window"] // 1_000
    return MemoryLog(clock, cap=SUBMIT_PER_SUBJECT, begins_late=True, duplicate_window=window)


def written(microseconds: int) -> str:
    """As the server writes moments."""
    return (_EPOCH + timedelta(microseconds=microseconds)).isoformat()
