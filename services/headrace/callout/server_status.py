"""State of the NATS servers, asked over the system login; their monitoring port stays closed, because it does not authenticate."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import msgspec
from nats import errors

from headrace.contracts.messages.tokens import StorageReport

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from nats.aio.msg import Msg

    from headrace.health.health import Health
    from headrace.health.metrics import Labels
    from headrace.nats_client.connection import Connection

ANSWER_WITHIN = 0.3
"""Seconds of silence after which all servers are taken to have answered."""

SERVER, STREAMS = "$SYS.REQ.SERVER.PING.VARZ", "$SYS.REQ.SERVER.PING.JSZ"


async def ask_all(system: Connection, subject: str, question: Mapping[str, object]) -> list[bytes]:
    """Answers of all servers that arrive before the first silence of `ANSWER_WITHIN`."""
    answers: asyncio.Queue[bytes] = asyncio.Queue()

    async def on_answer(message: Msg) -> None:
        answers.put_nowait(message.data)

    inbox = system.new_inbox()
    subscription = await system.subscribe(inbox, cb=on_answer)
    replies: list[bytes] = []
    try:
        await system.publish(subject, msgspec.json.encode(question), reply=inbox)
        while True:
            async with asyncio.timeout(ANSWER_WITHIN):
                replies.append(await answers.get())
    except TimeoutError:
        return replies
    finally:
        with contextlib.suppress(errors.Error):
            await subscription.unsubscribe()


class _Named(msgspec.Struct):
    name: str = ""


class _Server(msgspec.Struct):
    connections: int = 0
    slow_consumers: int = 0
    mem: int = 0
    cpu: float = 0.0


class _Peer(msgspec.Struct):
    name: str = ""
    current: bool = False
    offline: bool = False
    lag: int = 0


class _Cluster(msgspec.Struct):
    leader: str = ""
    replicas: list[_Peer] = []


class _State(msgspec.Struct):
    messages: int = 0
    bytes: int = 0


class _Stream(msgspec.Struct):
    name: str = ""
    state: _State = msgspec.field(default_factory=_State)
    cluster: _Cluster | None = None


class _Account(msgspec.Struct):
    stream_detail: list[_Stream] = []


class _Config(msgspec.Struct):
    max_storage: int = 0


class _Store(msgspec.Struct):
    storage: int = 0
    config: _Config = msgspec.field(default_factory=_Config)
    account_details: list[_Account] = []


class _OfServer(msgspec.Struct):
    server: _Named
    data: _Server | None = None


class _OfStore(msgspec.Struct):
    server: _Named
    data: _Store | None = None


class Servers:
    """Latest answers of the NATS servers."""

    def __init__(self, system: Connection) -> None:
        self._system = system
        self._servers: dict[str, _Server] = {}
        self._stores: dict[str, _Store] = {}

    async def refresh(self) -> None:
        """Ask all servers again. Servers that do not answer are dropped. Raises the errors of the connection."""
        replies, stored = await asyncio.gather(
            ask_all(self._system, SERVER, {}), ask_all(self._system, STREAMS, {"accounts": True, "streams": True})
        )
        self._servers = {name: data for name, data in map(_server, replies) if data is not None}
        self._stores = {name: data for name, data in map(_store, stored) if data is not None}

    async def fullest(self) -> StorageReport | None:
        """Storage use of the server with the least free storage; None if no server answers."""
        stored = map(_store, await ask_all(self._system, STREAMS, {}))
        stores = [data for _, data in stored if data is not None and data.config.max_storage > 0]
        if not stores:
            return None
        full = max(stores, key=lambda one: one.storage / one.config.max_storage)
        return StorageReport(used=full.storage, limit=full.config.max_storage)

    def show(self, health: Health) -> None:
        """Register the metrics of the servers."""
        health.before_metrics(self.refresh)
        gauge, servers, stores = health.metrics.gauge, self._of_servers, self._of_stores
        gauge("headrace_nats_servers", "NATS servers that answer", lambda: len(self._servers))
        gauge("headrace_nats_connections", "connections of a NATS server", servers(lambda one: one.connections), "server")
        gauge(
            "headrace_nats_slow_consumers", "clients that a NATS server disconnected for reading too slowly",
            servers(lambda one: one.slow_consumers), "server",
        )  # fmt: skip
        gauge("headrace_nats_memory_bytes", "memory of a NATS server", servers(lambda one: one.mem), "server")
        gauge("headrace_nats_cpu_percent", "processor time of a NATS server", servers(lambda one: one.cpu), "server")
        gauge("headrace_nats_storage_bytes", "bytes of streams on a server's disk", stores(lambda one: one.storage), "server")
        gauge(
            "headrace_nats_storage_limit_bytes", "maximum bytes of streams on a server's disk",
            stores(lambda one: one.config.max_storage), "server",
        )  # fmt: skip
        gauge("headrace_stream_messages", "messages of a stream", self._messages, "server", "stream")
        gauge("headrace_stream_bytes", "bytes of a stream", self._bytes, "server", "stream")
        gauge(
            "headrace_stream_replica_lag_messages",
            "messages that a replica has not received yet",
            self._lag,
            "server",
            "stream",
            "replica",
        )
        gauge("headrace_stream_replicas_away", "replicas of a stream that are away or behind", self._away, "server", "stream")

    def _of_servers(self, read: Callable[[_Server], float]) -> Callable[[], Mapping[Labels, float]]:
        return lambda: {(name,): read(one) for name, one in self._servers.items()}

    def _of_stores(self, read: Callable[[_Store], float]) -> Callable[[], Mapping[Labels, float]]:
        return lambda: {(name,): read(one) for name, one in self._stores.items()}

    def _streams(self) -> list[tuple[str, _Stream]]:
        """Streams as reported by their leaders; a server that is alone leads all."""
        return [
            (server, stream)
            for server, store in self._stores.items()
            for account in store.account_details
            for stream in account.stream_detail
            if stream.cluster is None or stream.cluster.leader in ("", server)
        ]

    def _messages(self) -> Mapping[Labels, float]:
        return {(server, stream.name): stream.state.messages for server, stream in self._streams()}

    def _bytes(self) -> Mapping[Labels, float]:
        return {(server, stream.name): stream.state.bytes for server, stream in self._streams()}

    def _peers(self) -> list[tuple[str, str, _Peer]]:
        return [
            (server, stream.name, peer)
            for server, stream in self._streams()
            for peer in (stream.cluster.replicas if stream.cluster is not None else ())
        ]

    def _lag(self) -> Mapping[Labels, float]:
        return {(server, stream, peer.name): peer.lag for server, stream, peer in self._peers()}

    def _away(self) -> Mapping[Labels, float]:
        found: dict[Labels, float] = {(server, stream.name): 0 for server, stream in self._streams()}
        for server, stream, peer in self._peers():
            found[server, stream] += peer.offline or not peer.current
        return found


def _server(payload: bytes) -> tuple[str, _Server | None]:
    try:
        reply = msgspec.json.decode(payload, type=_OfServer)
    except msgspec.DecodeError:
        return "", None
    return reply.server.name, reply.data


def _store(payload: bytes) -> tuple[str, _Store | None]:
    try:
        reply = msgspec.json.decode(payload, type=_OfStore)
    except msgspec.DecodeError:
        return "", None
    return reply.server.name, reply.data
