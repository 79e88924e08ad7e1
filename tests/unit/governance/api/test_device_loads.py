from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from headrace.contracts.api import overview_pb2 as pb
from headrace.contracts.messages.utilization import NodeLoad, UtilizationAnswer
from headrace.governance.api.device_loads import ASK_EVERY, FORGET_AFTER, LastLoads, loads_of
from headrace.service.answering import Refused

if TYPE_CHECKING:
    from headrace.governance.api.context import CallContext

LOAD = NodeLoad(
    node="n2", at=5, devices=("gpu1", "gpu0"), busy=(30, -1), average=(30, -1), memory=(0, 0), held=(0, 0), idle=(1, 0)
)


def call(tenant: str) -> CallContext:
    return SimpleNamespace(tenant=tenant)  # type: ignore[return-value]


def test_loads_are_in_the_order_of_the_devices_and_unknown_where_nothing_was_said() -> None:
    overview = pb.Overview(
        nodes=pb.NodeColumns(name=["n1", "n2"]), devices=pb.DeviceColumns(node=[0, 1, 1], name=["gpu0", "gpu0", "gpu1"])
    )
    loads = loads_of(UtilizationAnswer(now=5, nodes=(LOAD,)), overview)
    assert (list(loads.busy), list(loads.idle)) == ([-1, -1, 30], [0, 0, 1])


class Asked:
    """Answers with how often a tenant has asked; refuses while `away`."""

    def __init__(self) -> None:
        self.now, self.away = 0.0, False
        self.tenants: list[str] = []

    async def ask(self, call: Any) -> UtilizationAnswer:
        self.tenants.append(call.tenant)
        number = len(self.tenants)
        await asyncio.sleep(0)
        if self.away:
            raise Refused("UNAVAILABLE", "the books cannot be asked")
        return UtilizationAnswer(now=number)


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_all_watchers_of_a_tenant_share_one_question_at_a_time() -> None:
    asked = Asked()
    loads = LastLoads(asked.ask, lambda: asked.now)
    assert [loads.last(call("acme")), loads.last(call("acme")), loads.last(call("other"))] == [None] * 3
    await settled()
    assert loads.last(call("acme")) == UtilizationAnswer(now=1)
    assert asked.tenants == ["acme", "other"]
    asked.now = ASK_EVERY
    loads.last(call("acme"))
    await settled()
    assert (asked.tenants, loads.last(call("acme"))) == (["acme", "other", "acme"], UtilizationAnswer(now=3))


async def test_while_accounting_does_not_answer_the_last_loads_are_shown_for_a_minute() -> None:
    asked = Asked()
    loads = LastLoads(asked.ask, lambda: asked.now)
    loads.last(call("acme"))
    await settled()
    asked.away, asked.now = True, FORGET_AFTER - 1
    assert loads.last(call("acme")) == UtilizationAnswer(now=1)
    await settled()
    asked.now = FORGET_AFTER
    assert loads.last(call("acme")) is None
