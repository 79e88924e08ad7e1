"""The service of utilization, which asks *accounting* for the last samples of nodes."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from headrace.contracts.api import usage_pb2 as pb
from headrace.contracts.messages.utilization import UtilizationAnswer, UtilizationRequest
from headrace.contracts.values.amounts import GPU_UNITS
from headrace.governance.api.messages import moment
from headrace.governance.api.usage import ask_books

if TYPE_CHECKING:
    from headrace.governance.api.context import CallContext


async def get_utilization(_request: Any, call: CallContext) -> pb.Utilization:
    """How much GPUs compute now, as the caller may see it."""
    return message_of(await ask_books("utilization", call.tenant, UtilizationRequest(), UtilizationAnswer, call))


def message_of(answer: UtilizationAnswer) -> pb.Utilization:
    """The answer of *accounting* as a message of the API."""
    message = pb.Utilization(time=moment(answer.now), unknown=answer.unknown)
    columns = message.devices
    for node in answer.nodes:
        columns.node.extend([node.node] * len(node.devices))
        columns.name.extend(node.devices)
        columns.busy.extend(node.busy)
        columns.average.extend(node.average)
        columns.memory.extend(node.memory)
        columns.held.extend(node.held)
        columns.idle.extend(node.idle)
    for holder in answer.holders:
        tenant, _, job_id = holder.job.split(".")
        message.holders.add(
            job=f"tenants/{tenant}/jobs/{job_id}",
            display_name=holder.name,
            user=holder.user,
            queue=f"{holder.policy}/{holder.profile}",
            pool=holder.pool,
            node=holder.node,
            devices=holder.devices,
            gpus=gpus(holder.units),
            held=holder.held,
            average=holder.average,
            idle_time=moment(holder.idle_at),
            idle_yields=holder.idle_yields,
        )
    for unused in answer.idle_nodes:
        message.idle_nodes.add(node=unused.node, pool=unused.pool, gpus=gpus(unused.units))
    return message


def gpus(units: int) -> str:
    """Units as GPUs, such as `2` or `1/2`."""
    return str(Fraction(units, GPU_UNITS))
