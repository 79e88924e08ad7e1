"""What `headrace top` draws, computed from the API's overview. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

COLOURS = ("#4c9aff", "#ffb454", "#3fb68b", "#d874c8", "#e8d44d", "#f0764f", "#7ad0e8", "#9d8cff")
FREE, OTHERS, KEPT, UNFIT = "#3a404c", "#8a8f98", "#5c6370", "#ff5f56"
FAINT = 0.35
"""Part of its colour that an idle GPU keeps; the rest is that of free ones."""
GPU_UNITS = 126_000

Answer = Mapping[str, Any]


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


def picture_of(overview: Answer, loads: Answer | None = None) -> Picture:
    """The picture of an answer of `/v1/overview`; `loads`: of the same devices, if they are known."""
    queues = tuple(_queues(overview.get("queues", ())))
    idle = [place for place, flag in enumerate(loads.get("idle", ())) if flag] if loads is not None else []
    nodes = tuple(_nodes(overview, {(row.tenant, row.queue.partition("/")[0]): row.colour for row in queues}, idle))
    held = {node for node, used in zip(*_columns(overview, "devices", "node", "used"), strict=True) if used}
    return Picture(
        sequence=int(overview.get("sequence", 0)),
        time=str(overview.get("time", "")),
        pools=tuple(_pool(pool) for pool in overview.get("pools", ())),
        queues=queues,
        nodes=nodes,
        running=sum(row.running for row in queues),
        waiting=sum(row.waiting for row in queues),
        idle=tuple(_idle(overview, set(idle))),
        idle_gpus=len(idle),
        idle_nodes=sum(node.state == "ready" and number not in held for number, node in enumerate(nodes)),
    )


def _columns(overview: Answer, part: str, *names: str) -> list[Sequence[Any]]:
    columns = overview.get(part, {})
    return [columns.get(name, ()) for name in names]


def _idle(overview: Answer, idle: set[int]) -> list[IdleRow]:
    """Jobs on idle devices, those with most of them first."""
    if not idle:
        return []
    shares, holders = overview.get("devices", {}).get("shares", {}), overview.get("holders", {})
    (places,), (names,) = _columns(overview, "devices", "node"), _columns(overview, "nodes", "name")
    units: dict[int, int] = {}
    nodes: dict[int, list[str]] = {}
    for device, holder, amount in zip(*(shares.get(name, ()) for name in ("device", "holder", "units")), strict=True):
        if device in idle:
            units[holder] = units.get(holder, 0) + amount
            on = nodes.setdefault(holder, [])
            if names[places[device]] not in on:
                on.append(names[places[device]])
    rows = []
    for holder in sorted(units, key=lambda one: -units[one]):
        name = holders.get("display_name", [""] * (holder + 1))[holder] or f"…{holders['id'][holder][-6:]}"
        more = f" +{len(nodes[holder]) - 1}" if len(nodes[holder]) > 1 else ""
        gpus = f"{units[holder] / GPU_UNITS:.4g}"
        rows.append(IdleRow(name, holders["user"][holder], holders["queue"][holder], gpus, nodes[holder][0] + more))
    return rows


def events_of(change: Answer) -> list[EventRow]:
    """The events of an answer of `/v1/overview:watch`."""
    return [
        EventRow(
            sequence=int(event.get("sequence", 0)),
            time=str(event.get("time", ""))[11:19],
            text=str(event.get("text", "")),
            about=_short(str(event.get("about", ""))),
            rule=str(event.get("rule", "")),
        )
        for event in change.get("events", ())
    ]


def _short(about: str) -> str:
    """The user and the end of the id of a job's key; other names as they are."""
    parts = about.split(".")
    return f"{parts[1]} …{parts[2][-6:]}" if len(parts) == 3 else about


def _gpu(keys: Sequence[Answer]) -> Answer:
    return next((key for key in keys if key.get("key") == "gpu"), {})


def _pool(pool: Answer) -> PoolRow:
    gpu = _gpu(pool.get("keys", ()))
    amounts = (str(gpu.get(name, "0")) for name in ("used", "free", "kept", "unusable", "capacity"))
    return PoolRow(str(pool.get("name", "")).removeprefix("pools/"), *amounts)


def _queues(queues: Sequence[Answer]) -> list[QueueRow]:
    rows = []
    colours: dict[tuple[str, str], str] = {}
    for queue in queues:
        tenant, policy = str(queue["name"]).split("/")[1], str(queue["policy"])
        scope = _gpu(queue.get("scopes", ()))
        colour = colours.setdefault((tenant, policy), COLOURS[len(colours) % len(COLOURS)])
        rows.append(
            QueueRow(
                tenant=tenant,
                queue=f"{policy}/{queue['profile']}",
                running=int(queue.get("running", 0)),
                waiting=int(queue.get("pending", 0)),
                used=str(scope.get("used", "0")),
                reserved=str(scope.get("reservation", "0")),
                borrowed=str(scope.get("borrowed", "0")),
                limit=str(scope.get("limit", "") or "-"),
                colour=colour,
            )
        )
    return rows


def faint(colour: str) -> str:
    """The colour of a GPU that is held and idle."""
    parts = zip(*((int(text[at : at + 2], 16) for at in (1, 3, 5)) for text in (colour, FREE)), strict=True)
    return "#" + "".join(f"{round(FAINT * own + (1 - FAINT) * free):02x}" for own, free in parts)


def _nodes(overview: Answer, colours: Mapping[tuple[str, str], str], idle: Sequence[int]) -> list[NodeCells]:
    """Each GPU has the colour of the policy that holds most of it, a faint one if it is idle."""
    devices, holders, nodes = overview.get("devices", {}), overview.get("holders", {}), overview.get("nodes", {})
    held = [FREE] * len(devices.get("node", ()))
    for place, (used, kept, unfit) in enumerate(
        zip(devices.get("used", ()), devices.get("kept", ()), devices.get("unfit", ()), strict=True)
    ):
        held[place] = UNFIT if unfit else OTHERS if used else KEPT if kept else FREE
    shares = devices.get("shares", {})
    most = [0] * len(held)
    for device, holder, units in zip(shares.get("device", ()), shares.get("holder", ()), shares.get("units", ()), strict=True):
        if units > most[device] and held[device] != UNFIT:
            most[device] = units
            policy = (holders["tenant"][holder], holders["queue"][holder].partition("/")[0])
            held[device] = colours.get(policy, OTHERS)
    for place in idle:
        if place < len(held) and held[place] not in (UNFIT, FREE, KEPT):
            held[place] = faint(held[place])
    cells: list[list[str]] = [[] for _ in nodes.get("name", ())]
    for node, colour in zip(devices.get("node", ()), held, strict=True):
        cells[node].append(colour)
    return [
        NodeCells(name, state, tuple(own))
        for name, state, own in zip(nodes.get("name", ()), nodes.get("state", ()), cells, strict=True)
    ]
