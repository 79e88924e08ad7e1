"""Answers of the API about nodes, as the client returns them."""

from __future__ import annotations

from headrace.client.answers import Json, moment, number, units
from headrace.contracts.messages.explanation import MaintenanceView
from headrace.contracts.messages.queries import NodeView
from headrace.contracts.values.amounts import CPU, GPU, MEMORY


def node(answer: Json) -> NodeView:
    return NodeView(
        name=answer["name"].removeprefix("nodes/"),
        pool=answer.get("pool", ""),
        state=answer.get("state", ""),
        labels=answer.get("labels", {}),
        model=answer.get("model", ""),
        gpus=number(answer, "gpus"),
        gpu_free=units(GPU, answer.get("gpu_free", "")),
        cpu=units(CPU, answer.get("cpu", "")),
        cpu_free=units(CPU, answer.get("cpu_free", "")),
        memory=units(MEMORY, answer.get("memory", "")),
        memory_free=units(MEMORY, answer.get("memory_free", "")),
        leases=number(answer, "leases"),
        last_heard=moment(answer.get("heard_time")),
        slices={one["device"]: tuple(one.get("slices", ())) for one in answer.get("slices", ())},
        dedicated_to=answer.get("dedicated_to", ""),
        isolation=answer.get("isolation", {}),
        unfit=answer.get("unfit", {}),
        unapproved=tuple(answer.get("unapproved", ())),
        reason=answer.get("cordoned", ""),
        maintenance=_maintenance(answer["maintenance"]) if "maintenance" in answer else None,
    )


def _maintenance(answer: Json) -> MaintenanceView:
    return MaintenanceView(
        kind=answer["kind"],
        begins=moment(answer.get("begin_time")),
        ends=moment(answer.get("end_time")),
        reason=answer.get("reason", ""),
        by=answer.get("scheduled_by", ""),
    )
