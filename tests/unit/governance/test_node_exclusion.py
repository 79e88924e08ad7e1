"""Nodes that write too much are disconnected and excluded."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest
from structlog.testing import capture_logs

from headrace.bus.log import LogUnavailable, Message
from headrace.contracts import facts as f
from headrace.contracts.messages.tokens import PauseRequest
from headrace.contracts.transport.codec import decode
from headrace.contracts.values.durations import MINUTE, SECOND
from headrace.governance import node_exclusion as module
from headrace.governance.node_exclusion import NodeExclusion
from tests.patience import PATIENCE

NOW = 1_800_000_000 * SECOND
VOIDS = "more than 10 records within 10 minutes that are void or larger than 128 KiB"
REASON = f"it wrote {VOIDS}; once its executor is in order, `headrace node uncordon gpu01` lets it in"


@pytest.fixture
def hall(site):
    """An installation at level 2 with a node that has a token, and one, `w1`, that has none; both are approved."""
    site.append_facts(f.InstallationLevelV1(level=2, release="0.2.0"))
    site.append_facts(f.TokenCreatedV1(author="a.b", token="t1", role="node", tenant="", handle="gpu01", expires_at=2 * NOW))
    for node in ("gpu01", "w1"):
        site.append_facts(f.NodeApprovedV1(author="a.b", node=node, labels={"site": "west"}, gpus=8, isolation="none"))
    site.node("gpu01", site="west")
    return site


class FakeDeciding:
    """A fold, and a connection on which callout is asked."""

    def __init__(self, state, answer=None):
        self.fold = SimpleNamespace(state=state, watchers=[])
        self.caught_up = asyncio.Event()
        self.caught_up.set()
        self.service = SimpleNamespace(connection=self)
        self.asked = []
        self._answer = answer

    async def ask(self, subject, payload, within):
        self.asked.append((subject, decode(payload, PauseRequest), within))
        if self._answer is not None:
            raise self._answer


async def play(hall, monkeypatch, node, answer=None):
    """Eleven void records of a node; what callout was asked, and the status."""
    monkeypatch.setattr(module, "wall_clock", lambda: NOW)
    deciding, stated = FakeDeciding(hall.state, answer), asyncio.Event()

    async def decided(operation):
        decision = operation(hall.state, 0)
        if decision.facts:
            hall.append_facts(*decision.facts)
        stated.set()
        return decision.answer

    watcher = NodeExclusion(deciding, decided)
    (watch,) = deciding.fold.watchers
    for subject in (f"hr.ledger.node.{node}", "hr.ledger.allocator"):
        for number in range(11):
            watch(Message(number, subject, NOW - 2 * MINUTE, b"old"), True)
            watch(Message(number, subject, NOW, b"x"), True)
    task = asyncio.create_task(watcher.run())
    try:
        async with asyncio.timeout(PATIENCE):
            while not (stated.is_set() or watcher.trouble()):
                await asyncio.sleep(0)
    finally:
        task.cancel()
    return deciding.asked, watcher.trouble()


@pytest.mark.parametrize("answer", [None, LogUnavailable("nobody there")])
async def test_a_node_beyond_it_is_disconnected_at_once_and_then_excluded_by_a_fact(hall, monkeypatch, answer):
    asked, trouble = await play(hall, monkeypatch, "gpu01", answer)
    assert asked == [("hr.query.callout.pause.default.governance", PauseRequest(node="gpu01"), 1.0)]
    assert (hall.state.excluded, trouble) == ({"gpu01": REASON}, "")


async def test_a_node_without_a_token_is_named_and_left_connected(hall, monkeypatch):
    with capture_logs() as logs:
        asked, trouble = await play(hall, monkeypatch, "w1")
    assert (asked, hall.state.excluded) == ([], {})
    assert trouble == "node w1 writes too much, and logs in by the installation's own configuration: stop it"
    assert [line["event"] for line in logs] == ["node_writes_too_much"]
