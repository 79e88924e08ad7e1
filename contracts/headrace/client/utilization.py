"""Answers of the API about how much GPUs compute. Pure."""

from __future__ import annotations

from msgspec import convert

from headrace.client.answers import Json, number
from headrace.contracts.values.value import Value


class IdleJob(Value, frozen=True, kw_only=True):
    """A job that holds `gpus` (such as `2` or `1/2`) on a node that computed nearly nothing for ten minutes.

    `held`: seconds for which it has held them; `average`: how busy they were, in percent.
    """

    job: str
    display_name: str = ""
    user: str = ""
    queue: str = ""
    pool: str = ""
    node: str = ""
    devices: tuple[str, ...] = ()
    gpus: str = ""
    held: int = 0
    average: int = 0
    idle_time: str = ""
    idle_yields: bool = False


class UnusedNode(Value, frozen=True, kw_only=True):
    """A ready node on which no job runs."""

    node: str
    pool: str = ""
    gpus: str = ""


class DeviceLoad(Value, frozen=True, kw_only=True):
    """How much one device computes: percent, None if unknown; `memory` in MiB; `held`: seconds since it is held without a break."""

    node: str
    device: str
    busy: int | None
    average: int | None
    memory: int
    held: int
    idle: bool


class Utilization(Value, frozen=True, kw_only=True):
    """The last samples. `unknown`: number of held devices that cannot tell how much they compute."""

    devices: tuple[DeviceLoad, ...] = ()
    holders: tuple[IdleJob, ...] = ()
    idle_nodes: tuple[UnusedNode, ...] = ()
    unknown: int = 0

    def idle(self) -> dict[str, object]:
        """What is idle, without the devices that are used."""
        return {"holders": self.holders, "idle_nodes": self.idle_nodes, "unknown": self.unknown}


def utilization(answer: Json) -> Utilization:
    columns = answer.get("devices", {})
    names = ("node", "name", "busy", "average", "memory", "held", "idle")
    devices = zip(*(columns.get(name, ()) for name in names), strict=True)
    return Utilization(
        devices=tuple(
            DeviceLoad(
                node=node,
                device=device,
                busy=None if busy < 0 else busy,
                average=None if average < 0 else average,
                memory=memory,
                held=held,
                idle=bool(idle),
            )
            for node, device, busy, average, memory, held, idle in devices
        ),
        holders=tuple(
            convert({**one, "held": number(one, "held"), "average": number(one, "average")}, IdleJob)
            for one in answer.get("holders", ())
        ),
        idle_nodes=tuple(convert(one, UnusedNode) for one in answer.get("idle_nodes", ())),
        unknown=number(answer, "unknown"),
    )
