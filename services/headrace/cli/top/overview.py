"""What `headrace top` draws, computed from the API's overview. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import compress
from operator import ne
from typing import NamedTuple

from headrace.cli.top import answers
from headrace.cli.top.answers import Part

COLOURS = ("#4c9aff", "#ffb454", "#3fb68b", "#d874c8", "#e8d44d", "#f0764f", "#7ad0e8", "#9d8cff")
FREE, OTHERS, KEPT, UNFIT = "#3a404c", "#8a8f98", "#5c6370", "#ff5f56"
FAINT = 0.35
"""Part of its colour that an idle GPU keeps; the rest is that of free ones."""
GPU_UNITS = 126_000
_NO_GPUS = answers.GpuKey()


class PoolRow(NamedTuple):
    """GPUs of a pool, as text."""

    name: str
    used: str
    free: str
    kept: str
    unusable: str
    capacity: str


class QueueRow(NamedTuple):
    """A queue: its jobs, and the GPUs of its policy."""

    tenant: str
    queue: str
    running: int
    waiting: int
    used: str
    reserved: str
    borrowed: str
    limit: str
    colour: str


class NodeCells(NamedTuple):
    """A node and the colour of each of its GPUs."""

    name: str
    state: str
    colours: tuple[str, ...]


class IdleRow(NamedTuple):
    """A job that holds GPUs which were nearly unused for ten minutes (R39)."""

    job: str
    user: str
    queue: str
    gpus: str
    nodes: str


class Picture(NamedTuple):
    """Everything that is drawn."""

    sequence: int
    time: str
    pools: tuple[PoolRow, ...]
    queues: tuple[QueueRow, ...]
    nodes: tuple[NodeCells, ...]
    running: int
    waiting: int
    idle: tuple[IdleRow, ...] = ()
    idle_gpus: int = 0
    idle_nodes: int = 0
    """Nodes that are ready and on which nothing is held."""


class EventRow(NamedTuple):
    """One event in words."""

    sequence: int
    time: str
    text: str
    about: str
    rule: str


class _Colours(dict[tuple[str, str], str]):
    """The colour of each queue (tenant, policy/profile). `of_policy`: that of each (tenant, policy)."""

    def __init__(self, of_policy: Mapping[tuple[str, str], str]) -> None:
        super().__init__()
        self.of_policy = of_policy

    def __missing__(self, queue: tuple[str, str]) -> str:
        tenant, name = queue
        found = self[queue] = self.of_policy.get((tenant, name.partition("/")[0]), OTHERS)
        return found


class Pictures:
    """Makes pictures of one answer after the other; what did not change since the last one is not decoded again."""

    def __init__(self) -> None:
        self._pools = Part[tuple[answers.Pool, ...]](tuple[answers.Pool, ...])
        self._queues = Part[tuple[answers.Queue, ...]](tuple[answers.Queue, ...])
        self._names, self._states = Part[list[str]](list[str]), Part[list[str]](list[str])
        self._nodes, self._used, self._kept = (Part[list[int]](list[int]) for _ in range(3))
        self._unfit = Part[list[str]](list[str])
        self._shares = Part[answers.Shares](answers.Shares)
        self._tenants, self._policies, self._users = (Part[list[str]](list[str]) for _ in range(3))
        self._ids, self._display_names = Part[list[str]](list[str]), Part[list[str]](list[str])
        self._idle = Part[list[int]](list[int])
        self._of_queue = _Colours({})
        self._cells_of: tuple[list[str], list[str], list[int]] = ([], [], [])
        """The columns of nodes for which the next three are: the devices of each node, the colours of devices, and the nodes."""
        self._devices: list[list[int]] = []
        self._coloured: list[str] = []
        self._cells_now: list[NodeCells] = []

    def of(self, overview: answers.Overview, loads: answers.Loads | None = None) -> Picture:
        """The picture of an overview; `loads`: the last known, which are left out if they are of other devices."""
        devices = overview.devices
        node, used = self._nodes.of(devices.node), self._used.of(devices.used)
        flags = self._idle.of(loads.idle) if loads is not None else []
        idle = list(_marked(flags)) if len(flags) == len(node) else []
        queues = tuple(_queues(self._queues.of(overview.queues)))
        colours = self._colours(overview, {(row.tenant, row.queue.partition("/")[0]): row.colour for row in queues}, idle)
        nodes = self._cells(overview, node, colours)
        held = set(compress(node, used))
        return Picture(
            sequence=int(overview.sequence),
            time=overview.time,
            pools=tuple(map(_pool, self._pools.of(overview.pools))),
            queues=queues,
            nodes=nodes,
            running=sum(row.running for row in queues),
            waiting=sum(row.waiting for row in queues),
            idle=tuple(self._idle_rows(overview, set(idle))) if idle else (),
            idle_gpus=len(idle),
            idle_nodes=sum(one.state == "ready" and number not in held for number, one in enumerate(nodes)),
        )

    def _colours(self, overview: answers.Overview, of_policy: Mapping[tuple[str, str], str], idle: Sequence[int]) -> list[str]:
        """The colour of each device: that of the policy that holds most of it, a faint one if it is idle."""
        devices, holders, shares = overview.devices, overview.holders, self._shares.of(overview.devices.shares)
        found = [OTHERS if used else FREE for used in self._used.of(devices.used)]
        for place in _marked(self._kept.of(devices.kept)):
            if found[place] == FREE:
                found[place] = KEPT
        if self._of_queue.of_policy != of_policy:
            self._of_queue = _Colours(of_policy)
        queues = zip(self._tenants.of(holders.tenant), self._policies.of(holders.queue), strict=True)
        own = [self._of_queue[queue] for queue in queues]
        for device, holder in zip(shares.device, shares.holder, strict=True):
            found[device] = own[holder]
        most: dict[int, int] = {}
        for place in [place for place, units in enumerate(shares.units) if units < GPU_UNITS]:  # several may hold the device
            device, units = shares.device[place], shares.units[place]
            if units > most.get(device, 0):
                most[device], found[device] = units, own[shares.holder[place]]
        for place in idle:
            if found[place] not in (FREE, KEPT):
                found[place] = faint(found[place])
        for place in _marked(self._unfit.of(devices.unfit)):
            found[place] = UNFIT
        return found

    def _cells(self, overview: answers.Overview, node: list[int], colours: list[str]) -> tuple[NodeCells, ...]:
        """Each node with the colours of its devices; a node that did not change is the same object as before. `node`: of each device."""
        names, states = self._names.of(overview.nodes.name), self._states.of(overview.nodes.state)
        given = (names, states, node)
        if any(new is not old for new, old in zip(given, self._cells_of, strict=True)):
            self._cells_of, self._coloured = given, [""] * len(node)
            self._devices = [[] for _ in names]
            for device, number in enumerate(node):
                self._devices[number].append(device)
            self._cells_now = [NodeCells(name, state, ()) for name, state in zip(names, states, strict=True)]
        changed = {node[device] for device in _marked(list(map(ne, colours, self._coloured)))}
        self._coloured = colours
        for number in changed:
            own = tuple(colours[device] for device in self._devices[number])
            self._cells_now[number] = NodeCells(names[number], states[number], own)
        return tuple(self._cells_now)

    def _idle_rows(self, overview: answers.Overview, idle: set[int]) -> list[IdleRow]:
        """Jobs on idle devices, those with most of them first."""
        shares, holders = self._shares.of(overview.devices.shares), overview.holders
        places, names = self._nodes.of(overview.devices.node), self._names.of(overview.nodes.name)
        units: dict[int, int] = {}
        nodes: dict[int, dict[str, None]] = {}
        for device, holder, amount in zip(shares.device, shares.holder, shares.units, strict=True):
            if device in idle:
                units[holder] = units.get(holder, 0) + amount
                nodes.setdefault(holder, {})[names[places[device]]] = None
        users, queues = self._users.of(holders.user), self._policies.of(holders.queue)
        ids, display_names = self._ids.of(holders.id), self._display_names.of(holders.display_name)
        rows = []
        for holder in sorted(units, key=lambda one: -units[one]):
            name = (display_names[holder] if display_names else "") or f"…{ids[holder][-6:]}"
            first, *others = nodes[holder]
            more = f" +{len(others)}" if others else ""
            rows.append(IdleRow(name, users[holder], queues[holder], f"{units[holder] / GPU_UNITS:.4g}", first + more))
        return rows


def _marked(column: Sequence[object]) -> Iterable[int]:
    """The places of what is neither 0 nor empty."""
    return compress(range(len(column)), column)


def picture_of(overview: answers.Overview, loads: answers.Loads | None = None) -> Picture:
    """The picture of one overview; `loads`: of its devices, if they are known."""
    return Pictures().of(overview, loads)


def events_of(change: answers.Change) -> list[EventRow]:
    """The events of an answer of `/v1/overview:watch`."""
    return [
        EventRow(int(event.sequence), event.time[11:19], event.text, _short(event.about), event.rule) for event in change.events
    ]


def _short(about: str) -> str:
    """The user and the end of the id of a job's key; other names as they are."""
    parts = about.split(".")
    return f"{parts[1]} …{parts[2][-6:]}" if len(parts) == 3 else about


def _gpu(keys: Sequence[answers.GpuKey]) -> answers.GpuKey:
    return next((key for key in keys if key.key == "gpu"), _NO_GPUS)


def _pool(pool: answers.Pool) -> PoolRow:
    gpu = _gpu(pool.keys)
    return PoolRow(pool.name.removeprefix("pools/"), gpu.used, gpu.free, gpu.kept, gpu.unusable, gpu.capacity)


def _queues(queues: Sequence[answers.Queue]) -> list[QueueRow]:
    rows = []
    colours: dict[tuple[str, str], str] = {}
    for queue in queues:
        tenant = queue.name.split("/")[1]
        scope = _gpu(queue.scopes)
        rows.append(
            QueueRow(
                tenant=tenant,
                queue=f"{queue.policy}/{queue.profile}",
                running=int(queue.running),
                waiting=int(queue.pending),
                used=scope.used,
                reserved=scope.reservation,
                borrowed=scope.borrowed,
                limit=scope.limit or "-",
                colour=colours.setdefault((tenant, queue.policy), COLOURS[len(colours) % len(COLOURS)]),
            )
        )
    return rows


@cache
def faint(colour: str) -> str:
    """The colour of a GPU that is held and idle."""
    parts = zip(*((int(text[at : at + 2], 16) for at in (1, 3, 5)) for text in (colour, FREE)), strict=True)
    return "#" + "".join(f"{round(FAINT * own + (1 - FAINT) * free):02x}" for own, free in parts)
