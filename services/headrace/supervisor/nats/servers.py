"""The NATS servers of an installation: started together, and there when they have agreed who leads."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from functools import partial
from typing import NamedTuple

import msgspec

from headrace.bus.log import LogError, LogUnavailable
from headrace.bus.nats.cluster_routes import CLUSTER
from headrace.bus.nats.connection import Connection
from headrace.bus.nats.streams import STREAMS, ensure_streams
from headrace.contracts.transport.subjects import LEDGER_STREAM
from headrace.supervisor.installation import CLUSTER_OF, NATS, Installation, Settings
from headrace.supervisor.launcher import process_specs
from headrace.supervisor.launcher.child_processes import Child, Children, Vigil
from headrace.supervisor.launcher.ports import LOOPBACK, choose_ports
from headrace.supervisor.launcher.readiness import PATIENCE, listens, until_ready
from headrace.supervisor.repair.submissions import WishesLost, see_none_lost

AGAIN = 0.1
"""Seconds between tries while the servers agree."""

LOST_FOR = 5.0
"""Seconds for which several servers have to say that a stream is gone before that is believed."""

_NO_SUCH_STREAM = 10059


class Ports(NamedTuple):
    """Where clients reach each server, and where each listens to the others (none where it is alone)."""

    clients: tuple[int, ...]
    routes: tuple[int, ...] = ()

    def url(self, scheme: str = "nats", host: str = LOOPBACK) -> str:
        """The address of all of them."""
        return ",".join(f"{scheme}://{host}:{port}" for port in self.clients)


class FollowerStatus(msgspec.Struct, frozen=True):
    """What a server that follows has of a stream. `lag`: messages it is behind; `offline`: nothing is heard of it."""

    name: str
    current: bool = False
    offline: bool = False
    lag: int = 0


class StreamStatus(msgspec.Struct, frozen=True):
    """Who leads a stream (empty: nobody), and how far those are that follow; a server alone has neither."""

    leader: str = ""
    replicas: tuple[FollowerStatus, ...] | None = ()


class _Fault(msgspec.Struct):
    err_code: int = 0


class _Config(msgspec.Struct):
    name: str = ""
    num_replicas: int = 1
    storage: str = "file"


class Described(msgspec.Struct):
    """What the servers say of a stream; nothing of it where none has answered, no `cluster` where one server is alone."""

    error: _Fault | None = None
    config: _Config | None = None
    cluster: StreamStatus | None = None

    @property
    def is_answer(self) -> bool:
        """Whether one has answered at all."""
        return self.error is not None or self.config is not None

    @property
    def is_missing(self) -> bool:
        """Whether there is no such stream."""
        return self.error is not None and self.error.err_code == _NO_SUCH_STREAM

    @property
    def is_led(self) -> bool:
        """Whether somebody leads it."""
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
    """What they say of it now. Raises `LogRefused`."""
    try:
        return _read((await bus.ask(f"$JS.API.STREAM.INFO.{stream}")).data)
    except LogUnavailable:
        return Described()


def standing(info: bytes) -> StreamStatus | None:
    """What a stream's description says of that; None where one server is alone, or none has answered so."""
    return _read(info).cluster


def _read(info: bytes) -> Described:
    try:
        return msgspec.json.decode(info, type=Described)
    except msgspec.DecodeError:
        return Described()


def roles(led: StreamStatus | None) -> dict[str, dict[str, object]]:
    """What each of several servers is to the ledger (`leads`, `follows`, `away`) and how far behind, by its part's name."""
    if led is None or not (led.leader or led.replicas):
        return {}
    found = {replica.name: ("away" if replica.offline else "follows", replica.lag) for replica in led.replicas or ()}
    if led.leader:
        found[led.leader] = ("leads", 0)
    return {_part(name): {"ledger": role, "lag": lag} for name, (role, lag) in sorted(found.items())}


def told(roles: Mapping[str, Mapping[str, object]]) -> str:
    """The same for people, in a line."""
    said = {"leads": "leads", "follows": "follows", "away": "is away"}
    each = (
        f"{name} {said[str(row['ledger'])]}" + ("" if row["ledger"] == "leads" else f" ({row['lag']} behind)")
        for name, row in roles.items()
    )
    return f"The ledger: {', '.join(each)}."


def choose(settings: Settings, first: int | None = None) -> Ports:
    """Ports for the servers of these settings, from `first` on where one is named: those of the last time if they are free."""
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
    vigil: Callable[[Child], Vigil] | None = None,
) -> list[Child]:
    """Start them, until each accepts connections; one of several may wait for its disk. Raises `NotReady`, `InstallationError`."""
    installation.write_nats_config(*ports, private=private)
    started = children.start(*process_specs.nats_servers(installation), vigil=vigil)

    async def there(child: Child, port: int) -> bool | str:
        """A disk that is full keeps one away from the others, but not most of them."""
        if await listens(port):
            return True
        if child.trouble and 2 * sum([await listens(each) for each in ports.clients]) > len(started):
            return True
        return child.trouble

    for child, port in zip(started, ports.clients, strict=True):
        await until_ready(child, partial(there, child, port))
    return started


async def have_all(bus: Connection, away: str, distrusted: Collection[str] = ()) -> bool:
    """Whether the servers but the one that is away have everything that has been acknowledged, of each stream that is on disks.

    Who leads one and is distrusted is asked to let another lead.
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
            if led.leader and _part(led.leader) in {away, *distrusted}:
                with suppress(LogError):
                    await bus.ask(f"$JS.API.STREAM.LEADER.STEPDOWN.{stream.config.name}")
                complete = False
            complete = complete and bool(led.leader) and _complete(led, away) == stream.config.num_replicas - 2
    return complete


def _complete(led: StreamStatus, away: str) -> int:
    """How many of those that follow have everything; which one is away has no name where it has not been seen since they were started."""
    complete = [replica for replica in led.replicas or () if replica.current and not replica.offline and not replica.lag]
    return sum(_part(replica.name) != away for replica in complete)


def _part(name: str) -> str:
    """What the process is called whose server has this name."""
    return f"{NATS}{name.removeprefix(CLUSTER)}"


async def until_led(bus: Connection, patience: float = PATIENCE) -> None:
    """Wait until the ledger has a leader, if there is a ledger, and the servers one among them. Raises `LogUnavailable`."""
    deadline = time.monotonic() + patience
    while not await _is_led(bus):
        if time.monotonic() > deadline:
            raise LogUnavailable(f"the NATS servers have not agreed within {patience:g} s who leads: are most of them there?")
        await asyncio.sleep(AGAIN)


async def until_streams(bus: Connection, replicas: int, patience: float = PATIENCE) -> None:
    """Make the streams as soon as the servers can. Raises as `ensure_streams`, and `WishesLost`: then nothing was made.

    Several servers know of a stream one after the other: what is lost has to be so for a while.
    """
    deadline, lost_since = time.monotonic() + patience, 0.0
    while True:
        try:
            await see_none_lost(bus)
            await ensure_streams(bus, replicas)
        except LogUnavailable:
            if time.monotonic() > deadline:
                raise
        except WishesLost:
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
