from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from headrace.contracts import facts as f
from headrace.contracts.documents import model as d
from headrace.contracts.facts import NodeLostV1
from headrace.contracts.facts.fact import DeviceShare
from headrace.contracts.facts.levels import LEVEL, RELEASES
from headrace.contracts.messages.orders import DeviceSample, Heartbeat, Samples
from headrace.contracts.transport.codec import encode
from headrace.contracts.values.amounts import GPU_UNITS
from headrace.contracts.values.durations import SECOND
from headrace.preemption import service
from headrace.preemption.decide import NODE_TIMEOUT
from headrace.preemption.service import LAPSE, Heartbeats
from headrace.service import hosting
from headrace.service.hosting import alone
from tests.unit.service.bus import JOB, START, Bus, running, until

BEATS = "hr.telemetry.*.heartbeat"


def beat(node, at=0):
    return encode(Heartbeat(node=node, at=at, running=0, last_record=0))


@pytest.fixture
def bus(monkeypatch):
    bus = Bus()
    monkeypatch.setattr(service, "steady_clock", lambda: bus.now - START)
    monkeypatch.setattr(service, "LAPSE", 100 * NODE_TIMEOUT)  # the clock goes on in leaps, without a sleep
    monkeypatch.setattr(hosting, "wall_clock", bus.clock)
    monkeypatch.setattr(hosting, "JetStreamLog", bus.log)
    monkeypatch.setattr(hosting.Snapshots, "over", bus.over)
    monkeypatch.setattr(hosting, "freeze_present_objects", lambda: None)
    return bus


class TestHeartbeats:
    @pytest.fixture
    def beats(self, bus):
        return Heartbeats()

    async def receive(self, beats, subject, payload):
        await beats.receive(SimpleNamespace(subject=subject, data=payload))

    async def test_silence_counts_from_the_heartbeat_by_our_clock_and_not_by_the_nodes(self, bus, beats):
        await self.receive(beats, "hr.telemetry.n1.heartbeat", beat("n1", at=START + 900 * SECOND))
        bus.now += 3 * SECOND
        assert beats.silence("n1") == 3 * SECOND

    async def test_the_last_heartbeat_counts(self, bus, beats):
        await self.receive(beats, "hr.telemetry.n1.heartbeat", beat("n1"))
        bus.now += 5 * SECOND
        await self.receive(beats, "hr.telemetry.n1.heartbeat", beat("n1"))
        bus.now += SECOND
        assert beats.silence("n1") == SECOND

    def test_who_was_never_heard_of_is_silent_since_the_first_question(self, bus, beats):
        assert beats.silence("n1") == 0
        bus.now += 7 * SECOND
        assert beats.silence("n1") == 7 * SECOND

    async def test_while_we_sleep_no_node_is_silent(self, bus, beats, monkeypatch):
        """A process that was stopped for a minute finds heartbeats that it has not read yet."""
        monkeypatch.setattr(service, "LAPSE", LAPSE)
        await self.receive(beats, "hr.telemetry.n1.heartbeat", beat("n1"))
        bus.now += LAPSE
        assert beats.silence("n1") == LAPSE
        bus.now += 2 * NODE_TIMEOUT
        assert beats.silence("n1") == LAPSE
        bus.now += SECOND
        assert beats.silence("n1") == LAPSE + SECOND

    async def test_while_we_are_not_connected_no_node_is_silent(self, bus):
        connected = [True]
        beats = Heartbeats(lambda: connected[0])
        await self.receive(beats, "hr.telemetry.n1.heartbeat", beat("n1"))
        bus.now += SECOND
        beats.update()
        connected[0] = False
        bus.now += 2 * NODE_TIMEOUT
        beats.update()
        connected[0] = True
        bus.now += 3 * SECOND
        assert beats.silence("n1") == 4 * SECOND

    async def test_looking_now_and_then_is_being_awake(self, bus, beats, monkeypatch):
        monkeypatch.setattr(service, "LAPSE", LAPSE)
        monkeypatch.setattr(service, "UPDATE_EVERY", 0)
        await self.receive(beats, "hr.telemetry.n1.heartbeat", beat("n1"))
        async with running(beats.keep_updating()):
            for _ in range(6):
                bus.now += LAPSE
                seen = beats.looked_at
                await until(lambda seen=seen: beats.looked_at > seen)
        assert beats.silence("n1") == 6 * LAPSE

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
    async def test_what_is_not_a_heartbeat_of_its_sender_is_not_heard(self, beats, subject, payload):
        await self.receive(beats, subject, payload)
        assert beats.last_seen == {}


async def test_a_node_that_falls_silent_is_lost_and_one_that_beats_is_not(bus):
    bus.hall("beating", "silent")
    async with running(alone(service.PART)(bus.service("preemption"))):
        await until(lambda: "hr.query.preemption.>" in bus.subscriptions)
        await bus.send(BEATS, "hr.telemetry.silent.heartbeat", beat("silent"))
        bus.now += NODE_TIMEOUT
        await bus.send(BEATS, "hr.telemetry.beating.heartbeat", beat("beating"))
        bus.register("new")
        await until(lambda: bus.stated("preemption"))
    assert bus.stated("preemption") == [NodeLostV1(node="silent", silent_for=NODE_TIMEOUT)]


async def test_one_that_was_stopped_for_long_loses_no_node_when_it_goes_on(bus, monkeypatch):
    """R32: its own sleep is not the nodes' silence."""
    monkeypatch.setattr(service, "LAPSE", LAPSE)
    bus.hall("n1")
    async with running(alone(service.PART)(bus.service("preemption"))):
        await until(lambda: "hr.query.preemption.>" in bus.subscriptions)
        await bus.send(BEATS, "hr.telemetry.n1.heartbeat", beat("n1"))
        bus.now += 2 * NODE_TIMEOUT
        bus.register("n2")
        await asyncio.sleep(0.05)
        assert bus.stated("preemption") == []


async def test_a_jump_of_the_wall_clock_loses_no_node_by_itself(bus, monkeypatch):
    """R34."""
    steady = [0]
    monkeypatch.setattr(service, "steady_clock", lambda: steady[0])
    bus.hall("n1")
    async with running(alone(service.PART)(bus.service("preemption"))):
        await until(lambda: "hr.query.preemption.>" in bus.subscriptions)
        bus.now += 10 * NODE_TIMEOUT
        bus.register("n2")
        await asyncio.sleep(0.05)
        assert bus.stated("preemption") == []
        steady[0] += NODE_TIMEOUT
        bus.now += NODE_TIMEOUT
        bus.register("n3")
        await until(lambda: bus.stated("preemption"))
    assert NodeLostV1(node="n1", silent_for=NODE_TIMEOUT) in bus.stated("preemption")


async def test_a_restart_loses_no_node_that_was_not_heard_of_meanwhile(bus):
    bus.hall("n1")
    bus.now += 2 * NODE_TIMEOUT
    async with running(alone(service.PART)(bus.service("preemption"))):
        await until(lambda: "hr.query.preemption.>" in bus.subscriptions)
        await asyncio.sleep(0.05)
        assert bus.stated("preemption") == []
        bus.now += NODE_TIMEOUT
        bus.register("n2")
        await until(lambda: bus.stated("preemption"))
    assert bus.stated("preemption") == [NodeLostV1(node="n1", silent_for=NODE_TIMEOUT)]


def granted(bus) -> None:
    """A policy with `idle_after`, and a job of it that runs on n1."""
    policy = d.Policy(name="dev", profiles=(d.PolicyProfile(name="one"),), idle_after=600 * SECOND, idle="yield")
    bus.state(
        "governance", f.InstallationLevelV1(level=LEVEL, release=RELEASES[-1]), f.PolicyAppliedV1(author="a.b", policy=policy)
    )
    bus.state("admission", f.JobAdmittedV1(job=JOB, policy="dev", profile="one", request={"gpu": GPU_UNITS}))
    share = DeviceShare(device="gpu0", units=GPU_UNITS)
    amounts = {"gpu": GPU_UNITS, "job": 1}
    lease = f.LeaseGrantedV1(job=JOB, attempt=1, node="n1", pool="hall", devices=(share,), amounts=amounts)
    bus.state("allocator", lease)
    bus.state("node.n1", f.LeaseStartedV1(job=JOB, attempt=1, at=bus.now, isolation="simulated"))


@pytest.fixture
def measuring(bus, monkeypatch):
    """Samples are looked at without waiting; those who ended their subscription are noted."""
    ended: list[str] = []

    async def subscribe(subject, cb):
        async def unsubscribe():
            ended.append(subject)
            del bus.subscriptions[subject]

        bus.subscriptions[subject] = cb
        return SimpleNamespace(unsubscribe=unsubscribe)

    monkeypatch.setattr(bus, "subscribe", subscribe)
    monkeypatch.setattr(service, "MEASURE_EVERY", 0.01)
    monkeypatch.setattr(service, "wall_clock", bus.clock)
    return ended


def sample(*, idle: bool) -> bytes:
    device = DeviceSample(device="gpu0", busy=0 if idle else 90, average=1 if idle else 90, idle=idle)
    return encode(Samples(node="n1", at=0, window=600 * SECOND, devices=(device,)))


SAMPLES = "hr.telemetry.*.samples"


async def test_a_lease_that_samples_show_to_be_idle_is_marked_until_they_show_it_in_use(bus, measuring):
    bus.hall("n1")
    granted(bus)
    async with running(alone(service.PART)(bus.service("preemption"))):
        await until(lambda: SAMPLES in bus.subscriptions)
        await bus.send(BEATS, "hr.telemetry.n1.heartbeat", beat("n1"))
        bus.now += 599 * SECOND
        await bus.send(SAMPLES, "hr.telemetry.n1.samples", sample(idle=True))
        await bus.send(BEATS, "hr.telemetry.n1.heartbeat", beat("n1"))
        bus.now += SECOND
        await until(lambda: bus.stated("preemption"))
        await bus.send(SAMPLES, "hr.telemetry.n1.samples", sample(idle=False))
        await until(lambda: len(bus.stated("preemption")) > 1)
    assert bus.stated("preemption") == [
        f.LeaseIdledV1(job=JOB, attempt=1, node="n1", idle_for=600 * SECOND, average=1),
        f.LeaseUsedV1(job=JOB, attempt=1, node="n1", cause="busy"),
    ]


async def test_samples_are_received_only_while_a_policy_wants_to_know(bus, measuring):
    bus.hall("n1")
    async with running(alone(service.PART)(bus.service("preemption"))):
        await until(lambda: "hr.query.preemption.>" in bus.subscriptions)
        assert SAMPLES not in bus.subscriptions
        granted(bus)
        await until(lambda: SAMPLES in bus.subscriptions)
        bus.state(
            "governance", f.PolicyAppliedV1(author="a.b", policy=d.Policy(name="dev", profiles=(d.PolicyProfile(name="one"),)))
        )
        await until(lambda: measuring == [SAMPLES])
