"""What `headrace top` draws, computed from the API's overview. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

COLOURS = ("#4c9aff", "#ffb454", "#3fb68b", "#d874c8", "#e8d44d", "#f0764f", "#7ad0e8", "#9d8cff")
FREE, OTHERS, KEPT, UNFIT = "#3a404c", "#8a8f98", "#5c6370", "#ff5f56"

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


class Picture(NamedTuple):
    """Everything that is drawn."""

    sequence: int
    time: str
    pools: tuple[PoolRow, ...]
    queues: tuple[QueueRow, ...]
    nodes: tuple[NodeCells, ...]
    running: int
    waiting: int


class EventRow(NamedTuple):
    """One event in words."""

    sequence: int
    time: str
    text: str
    about: str
    rule: str


def picture_of(overview: Answer) -> Picture:
    """The picture of an answer of `/v1/overview`."""
    queues = tuple(_queues(overview.get("queues", ())))
    return Picture(
        sequence=int(overview.get("sequence", 0)),
        time=str(overview.get("time", "")),
        pools=tuple(_pool(pool) for pool in overview.get("pools", ())),
        queues=queues,
        nodes=tuple(_nodes(overview, {(row.tenant, row.queue.partition("/")[0]): row.colour for row in queues})),
        running=sum(row.running for row in queues),
        waiting=sum(row.waiting for row in queues),
    )


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


def _nodes(overview: Answer, colours: Mapping[tuple[str, str], str]) -> list[NodeCells]:
    """Each GPU has the colour of the policy that holds most of it."""
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
    cells: list[list[str]] = [[] for _ in nodes.get("name", ())]
    for node, colour in zip(devices.get("node", ()), held, strict=True):
        cells[node].append(colour)
    return [
        NodeCells(name, state, tuple(own))
        for name, state, own in zip(nodes.get("name", ()), nodes.get("state", ()), cells, strict=True)
    ]
