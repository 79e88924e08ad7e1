"""The NATS servers of an installation: started together, and ready once they have elected a leader."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial
from typing import NamedTuple

import msgspec

from headrace.bus.log import LogError, LogUnavailable
from headrace.bus.nats.streams import STREAMS, ensure_streams
from headrace.contracts.messages.installation import StreamStatus
from headrace.contracts.transport.subjects import LEDGER_STREAM
from headrace.nats_client.connection import Connection
from headrace.supervisor.installation import CLUSTER_OF, Installation, Settings
from headrace.supervisor.ledger_roles import part_of
from headrace.supervisor.nats.submissions import SubmissionsLost, check_none_lost
from headrace.supervisor.network.ports import LOOPBACK, choose_ports
from headrace.supervisor.processes import process_specs
from headrace.supervisor.processes.child_processes import Child, Children, ChildSupervision
from headrace.supervisor.processes.readiness import PATIENCE, listens, until_ready

AGAIN = 0.1
"""Seconds between tries while the servers agree."""

LOST_FOR = 5.0
"""Seconds for which several servers have to report a stream as missing before that is believed."""

_NO_SUCH_STREAM = 10059


class Ports(NamedTuple):
    """Ports of each server for clients, and for the other servers (empty with a single server)."""

    clients: tuple[int, ...]
    routes: tuple[int, ...] = ()

    def url(self, scheme: str = "nats", host: str = LOOPBACK) -> str:
        """The address of all servers."""
        return ",".join(f"{scheme}://{host}:{port}" for port in self.clients)


class _Fault(msgspec.Struct):
    err_code: int = 0


class _Config(msgspec.Struct):
    name: str = ""
    num_replicas: int = 1
    storage: str = "file"


class Described(msgspec.Struct):
    """The servers' description of a stream; empty if none has answered, without `cluster` for a single server."""

    error: _Fault | None = None
    config: _Config | None = None
    cluster: StreamStatus | None = None

    @property
    def is_answer(self) -> bool:
        """True if a server has answered."""
        return self.error is not None or self.config is not None

    @property
    def is_missing(self) -> bool:
        """True if the stream does not exist."""
        return self.error is not None and self.error.err_code == _NO_SUCH_STREAM

    @property
    def is_led(self) -> bool:
        """True if the stream has a leader."""
        return bool(self.cluster.leader) if self.cluster is not None else self.config is not None


class _Stream(msgspec.Struct):
    config: _Config
    cluster: StreamStatus | None = None


class _List(msgspec.Struct):
    error: _Fault | None = None
    total: int = 0
    streams: list[_Stream] | None = None
    missing: list[str] | None = None


async def described(bus: Connection, stream: str) -> Described:
    """Return the servers' description of the stream now. Raises `LogRefused`."""
    try:
        return _read((await bus.ask(f"$JS.API.STREAM.INFO.{stream}")).data)
    except LogUnavailable:
        return Described()


def standing(info: bytes) -> StreamStatus | None:
    """Return the status in a stream's description; None for a single server, or without an answer."""
    return _read(info).cluster


def _read(info: bytes) -> Described:
    try:
        return msgspec.json.decode(info, type=Described)
    except msgspec.DecodeError:
        return Described()


def choose(settings: Settings, first: int | None = None) -> Ports:
    """Choose ports for the servers, from `first` on if given, else the last ones if still free."""
    clients = choose_ports(settings.nats_servers, first, settings.client_ports)
    if settings.nats_servers == 1:
        return Ports(clients)
    while True:
        routes = choose_ports(CLUSTER_OF, None, settings.route_ports)
        if not set(routes) & set(clients):
            return Ports(clients, routes)


async def start(
    installation: Installation,
    children: Children,
    ports: Ports,
    *,
    private: bool = False,
    supervision: Callable[[Child], ChildSupervision] | None = None,
) -> list[Child]:
    """Start them, until each accepts connections; one of several may wait for its disk. Raises `NotReady`, `InstallationError`."""
    installation.write_nats_config(*ports, private=private)
    started = children.start(*process_specs.nats_servers(installation), supervision=supervision)

    async def there(child: Child, port: int) -> bool | str:
        """A full disk keeps one away from the others, but not most of them."""
        if await listens(port):
            return True
        if child.trouble and 2 * sum([await listens(each) for each in ports.clients]) > len(started):
            return True
        return child.trouble

    for child, port in zip(started, ports.clients, strict=True):
        await until_ready(child, partial(there, child, port))
    return started


async def have_all(bus: Connection, away: str, distrusted: Collection[str] = ()) -> bool:
    """Return whether the servers except the absent one have everything acknowledged, of each stream on disks.

    A distrusted leader is asked to step down.
    """
    try:
        found = msgspec.json.decode((await bus.ask("$JS.API.STREAM.LIST")).data, type=_List)
    except (LogError, msgspec.DecodeError):
        return False
    streams = found.streams or ()
    if found.error or found.missing or len(streams) < max(found.total, len(STREAMS)):
        return False
    complete = True
    for stream in streams:
        if stream.config.num_replicas > 1 and stream.config.storage == "file":
            led = stream.cluster or StreamStatus()
            if led.leader and part_of(led.leader) in {away, *distrusted}:
                with suppress(LogError):
                    await bus.ask(f"$JS.API.STREAM.LEADER.STEPDOWN.{stream.config.name}")
                complete = False
            complete = complete and bool(led.leader) and _complete(led, away) == stream.config.num_replicas - 2
    return complete


def _complete(led: StreamStatus, away: str) -> int:
    """Count the followers that have everything; an absent one has no name if not seen since the start."""
    complete = [replica for replica in led.replicas or () if replica.current and not replica.offline and not replica.lag]
    return sum(part_of(replica.name) != away for replica in complete)


async def until_led(bus: Connection, patience: float = PATIENCE) -> None:
    """Wait until the ledger has a leader, if it exists, and the servers have one. Raises `LogUnavailable`."""
    deadline = time.monotonic() + patience
    while not await _is_led(bus):
        if time.monotonic() > deadline:
            raise LogUnavailable(f"the NATS servers elected no leader within {patience:g} s: check that most of them run")
        await asyncio.sleep(AGAIN)


async def until_streams(bus: Connection, replicas: int, patience: float = PATIENCE) -> None:
    """Make the streams as soon as the servers can. Raises as `ensure_streams`, and `SubmissionsLost`: then nothing was made.

    Several servers learn of a stream one after the other: a loss has to last for a while.
    """
    deadline, lost_since = time.monotonic() + patience, 0.0
    while True:
        try:
            await check_none_lost(bus)
            await ensure_streams(bus, replicas)
        except LogUnavailable:
            if time.monotonic() > deadline:
                raise
        except SubmissionsLost:
            lost_since = lost_since or time.monotonic()
            if replicas == 1 or time.monotonic() - lost_since > LOST_FOR:
                raise
        else:
            return
        await asyncio.sleep(AGAIN)


async def _is_led(bus: Connection) -> bool:
    try:
        ledger = await described(bus, LEDGER_STREAM)
    except LogError:
        return False
    return ledger.is_led or ledger.is_missing
