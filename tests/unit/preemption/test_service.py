from __future__ import annotations

from types import SimpleNamespace

import pytest

from headrace.contracts.codec import encode
from headrace.contracts.durations import SECOND
from headrace.contracts.facts import NodeLostV1
from headrace.contracts.orders import Heartbeat
from headrace.preemption import service
from headrace.preemption.decide import NODE_TIMEOUT
from headrace.preemption.service import Heartbeats
from headrace.service import deciding
from tests.unit.service.bus import START, Bus, running, until

BEATS = "hr.telemetry.*.heartbeat"


def beat(node, at=0):
    return encode(Heartbeat(node=node, at=at, running=0, last_record=0))


@pytest.fixture
def bus(monkeypatch):
    bus = Bus()
    monkeypatch.setattr(service, "wall_clock", bus.clock)
    monkeypatch.setattr(deciding, "wall_clock", bus.clock)
    monkeypatch.setattr(deciding, "JetStreamLog", bus.log)
    monkeypatch.setattr(deciding, "settle", lambda: None)
    return bus


class TestHeartbeats:
    @pytest.fixture
    def beats(self, bus):
        """They listen since `START`; a second has passed."""
        beats = Heartbeats()
        bus.now += 1 * SECOND
        return beats

    async def hear(self, beats, subject, payload):
        await beats.hear(SimpleNamespace(subject=subject, data=payload))

    async def test_a_node_is_heard_of_when_its_heartbeat_comes_by_our_clock_and_not_by_its_own(self, beats):
        await self.hear(beats, "hr.telemetry.n1.heartbeat", beat("n1", at=START + 900 * SECOND))
        assert beats.get("n1") == START + 1 * SECOND

    async def test_the_last_heartbeat_counts(self, bus, beats):
        await self.hear(beats, "hr.telemetry.n1.heartbeat", beat("n1"))
        bus.now += 5 * SECOND
        await self.hear(beats, "hr.telemetry.n1.heartbeat", beat("n1"))
        assert beats.get("n1") == START + 6 * SECOND

    @pytest.mark.parametrize("default", [0, START - 1])
    def test_who_was_never_heard_of_counts_from_when_the_listening_began(self, beats, default):
        assert beats.get("n1", default) == START

    def test_nor_earlier_than_the_asker_knows_better(self, beats):
        assert beats.get("n1", START + 3) == START + 3

    @pytest.mark.parametrize(
        ("subject", "payload"),
        [
            pytest.param("hr.telemetry.n2.heartbeat", beat("n1"), id="from another node"),
            pytest.param("hr.telemetry.n1.sample", beat("n1"), id="no heartbeat"),
            pytest.param("hr.telemetry.n1.heartbeat", b"{", id="no JSON"),
            pytest.param("hr.telemetry.n1.heartbeat", b'{"node": 1}', id="another struct"),
            pytest.param("hr.telemetry.n1.heartbeat", b"\xff", id="no text"),
        ],
    )
    async def test_what_is_no_heartbeat_of_its_sender_is_not_heard(self, beats, subject, payload):
        await self.hear(beats, subject, payload)
        assert (beats.heard, beats.get("n1")) == ({}, START)


async def test_a_node_that_falls_silent_is_lost_and_one_that_beats_is_not(bus):
    bus.hall("beating", "silent")
    async with running(service.main(bus.service("preemption"))):
        await until(lambda: "hr.query.preemption.>" in bus.subscriptions)
        bus.now += NODE_TIMEOUT
        await bus.send(BEATS, "hr.telemetry.beating.heartbeat", beat("beating"))
        bus.register("new")
        await until(lambda: bus.stated("preemption"))
    assert bus.stated("preemption") == [NodeLostV1(node="silent", silent_for=NODE_TIMEOUT)]


async def test_a_restart_loses_no_node_that_was_not_heard_of_meanwhile(bus):
    bus.hall("n1")
    bus.now += 2 * NODE_TIMEOUT
    async with running(service.main(bus.service("preemption"))):
        await until(lambda: "hr.query.preemption.>" in bus.subscriptions)
        bus.now += NODE_TIMEOUT
        bus.register("n2")
        await until(lambda: bus.stated("preemption"))
    assert bus.stated("preemption") == [NodeLostV1(node="n1", silent_for=NODE_TIMEOUT)]
