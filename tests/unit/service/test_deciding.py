from __future__ import annotations

import asyncio

import msgspec
import pytest

from headrace.bus import leader_election
from headrace.bus.follower import Follower
from headrace.bus.loop import Fenced
from headrace.contracts.facts import JobAdmittedV1, JobCancelRequestedV1, NodeCordonedV1
from headrace.contracts.messages.queries import ServiceView, StatusRequest
from headrace.contracts.transport.codec import decode_record, encode
from headrace.domain.state.state import State
from headrace.service import deciding as deciding_module
from headrace.service import hosting as module
from headrace.service.deciding import Deciding, trace_of
from headrace.service.engine_version import ENGINE
from headrace.service.fold import LedgerFold
from headrace.service.task_group import run_until_first_ends
from tests.patience import PATIENCE
from tests.unit.service.bus import JOB, START, Bus, running, until

TRACE = "00-11111111111111111111111111111111-2222222222222222-01"
OTHER = JOB.replace("ann", "bob")


class Cordoning:
    """A decider that cordons every node that is not cordoned yet."""

    def __init__(self, state):
        self.state = state
        self.asked = []

    def decide(self, now):
        self.asked.append((self.state.sequence, now))
        nodes = [node.name for node in self.state.nodes.values() if not node.cordoned]
        return tuple(NodeCordonedV1(node=node, author="a.b") for node in nodes)

    def next_wakeup(self):
        return None


@pytest.fixture
def bus(monkeypatch):
    bus = Bus()
    bus.hall("n1", "n2")
    monkeypatch.setattr(module, "JetStreamLog", bus.log)
    return bus


class Process:
    """A process with this one service."""

    def __init__(self, bus, environment=None):
        service = bus.service("governance")
        if environment is not None:
            service = service._replace(environment=environment)
        self.follower = Follower(bus.ledger, LedgerFold(), bus.clock)
        self.deciding = Deciding(service, self.follower, "governance", Cordoning)

    async def run(self, handlers=None):
        await run_until_first_ends(self.follower.run(), self.deciding.run(handlers))


@pytest.fixture
def process(bus):
    return Process(bus)


@pytest.fixture
def deciding(process):
    return process.deciding


class TestRunning:
    async def test_what_is_decided_is_a_record_of_its_writer_behind_what_was_folded(self, bus, process, deciding):
        async with running(process.run()):
            await until(lambda: len(deciding.decider.asked) == 2)
        record = decode_record(bus.ledger.messages_after(3)[0].payload)
        assert (record.by, record.now, record.as_of, record.engine) == ("governance", START, 3, ENGINE)
        assert record.facts == (NodeCordonedV1(node="n1", author="a.b"), NodeCordonedV1(node="n2", author="a.b"))
        assert deciding.decider.asked == [(3, START), (4, START)]

    async def test_it_has_caught_up_before_it_decides(self, process, deciding):
        assert not deciding.caught_up.is_set()
        decided = deciding.decider.decide
        caught_up = []
        deciding.decider.decide = lambda now: caught_up.append(deciding.caught_up.is_set()) or decided(now)
        async with running(process.run()):
            await until(lambda: deciding.fold.sequence == 4)
        assert set(caught_up) == {True}

    async def test_its_state_is_told_the_time_before_each_decision(self, process, deciding, monkeypatch):
        passed = []
        monkeypatch.setattr(State, "pass_time", lambda _, now: passed.append((len(deciding.decider.asked), now)))
        async with running(process.run()):
            await until(lambda: len(deciding.decider.asked) == 2)
        assert passed == [(0, START), (1, START)]

    async def test_wake_makes_it_look_again(self, process, deciding):
        async with running(process.run()):
            await until(lambda: len(deciding.decider.asked) == 2)
            deciding.wake()
            await until(lambda: len(deciding.decider.asked) == 3)
        assert deciding.decider.asked[-1] == (4, START)

    async def test_it_answers_how_it_is_and_what_it_was_given_handlers_for(self, bus, process, deciding):
        async with running(process.run({"ping": lambda tenant, user, payload: f"{tenant} {user} {payload.decode()}"})):
            await until(lambda: deciding.fold.sequence == 4)
            null = await bus.ask("hr.query.governance.>", "hr.query.governance.status.acme.ann", b"null")
            status = await bus.ask("hr.query.governance.>", "hr.query.governance.status.acme.ann")
            pong = await bus.ask("hr.query.governance.>", "hr.query.governance.ping.acme.ann", b"hello")
        assert [msgspec.json.decode(answer.body, type=ServiceView).folded for answer in (null, status)] == [4, 4]
        assert msgspec.json.decode(pong.body) == "acme ann hello"

    async def test_status_may_be_asked_for_once_a_record_is_folded(self, bus, process, deciding):
        asked = encode(StatusRequest(folded=5))
        async with running(process.run()):
            await until(lambda: deciding.fold.sequence == 4)
            answer = asyncio.ensure_future(bus.ask("hr.query.governance.>", "hr.query.governance.status.acme.ann", asked))
            for _ in range(20):
                await asyncio.sleep(0)
            assert not answer.done()
            bus.register("n3")
            assert (await asyncio.wait_for(answer, PATIENCE)).sequence >= 5

    async def test_status_does_not_wait_for_ever(self, bus, process, deciding, monkeypatch):
        monkeypatch.setattr(deciding_module, "STATUS_WITHIN", 0.01)
        async with running(process.run()):
            await until(lambda: deciding.fold.sequence == 4)
            asked = encode(StatusRequest(folded=9))
            assert (await bus.ask("hr.query.governance.>", "hr.query.governance.status.acme.ann", asked)).sequence == 4

    async def test_it_stops_where_another_process_writes_in_its_name(self, bus, process, deciding):
        decided = deciding.decider.decide

        def decide(now):
            bus.state("governance", NodeCordonedV1(node="n1", author="c.d"))
            return decided(now)

        deciding.decider.decide = decide
        with pytest.raises(Fenced, match="another instance (writes|has written) as governance"):
            await asyncio.wait_for(process.run(), PATIENCE)


class TestTurns:
    async def test_where_the_environment_names_no_place_it_decides_at_once(self, bus):
        process = Process(bus, {})
        async with running(process.run()):
            await until(lambda: bus.stated("governance")[4:])
            answer = await bus.ask("hr.query.governance.>", "hr.query.governance.status.acme.ann")
        assert "decides" not in msgspec.json.decode(answer.body, type=ServiceView).detail

    async def test_one_that_waits_decides_when_it_hears_of_no_leader(self, bus, monkeypatch):
        monkeypatch.setattr(Bus, "is_connected", True, raising=False)
        monkeypatch.setattr(leader_election, "SILENCE", 0.05)
        process = Process(bus, {"HEADRACE_TURN": "first"})
        async with running(process.run()):
            await until(lambda: "hr.query.governance.>" in bus.subscriptions)
            answer = await bus.ask("hr.query.governance.>", "hr.query.governance.status.acme.ann")
            assert msgspec.json.decode(answer.body, type=ServiceView).detail["decides"] == 0
            await until(lambda: bus.stated("governance")[4:])
            answer = await bus.ask("hr.query.governance.>", "hr.query.governance.status.acme.ann")
            assert msgspec.json.decode(answer.body, type=ServiceView).detail["decides"] == 1


class TestTraceOf:
    @pytest.fixture
    def state(self, bus):
        """Two jobs are known, one of them with a trace."""
        wanted = {"policy": "q", "profile": "one", "request": {}}
        bus.state("admission", JobAdmittedV1(job=JOB, trace=TRACE, **wanted), JobAdmittedV1(job=OTHER, **wanted))
        fold = LedgerFold()
        for message in bus.ledger.messages_after(0):
            fold.read(message)
        return fold.state

    @pytest.mark.parametrize(
        ("facts", "trace"),
        [
            pytest.param((), "", id="nothing"),
            pytest.param((NodeCordonedV1(node="n", author="a.b"),), "", id="no job"),
            pytest.param((JobCancelRequestedV1(job=OTHER, by="a.b"),), "", id="a job without one"),
            pytest.param((JobCancelRequestedV1(job="gone", by="a.b"),), "", id="a job that is not known"),
            pytest.param(
                (JobCancelRequestedV1(job=OTHER, by="a.b"), JobCancelRequestedV1(job=JOB, by="a.b")),
                TRACE,
                id="the first with one",
            ),
            pytest.param(
                (JobAdmittedV1(job="new", policy="q", profile="one", request={}, trace=TRACE),), TRACE, id="a job that begins"
            ),
        ],
    )
    def test_it_is_that_of_the_first_job_that_has_one(self, state, facts, trace):
        assert trace_of(state, facts) == trace
