"""What the watch makes of what it is shown: times as they are in the ledger, and submissions that are counted and not named."""

from __future__ import annotations

import pytest

from headrace.admission.decide import REFUSALS_STATED, Admission
from headrace.bus.log import Message
from headrace.contracts import facts as f
from headrace.contracts.facts.fact import DeviceShare
from headrace.contracts.facts.nodes import Device
from headrace.contracts.facts.records import Record
from headrace.contracts.transport.codec import encode
from headrace.contracts.transport.subjects import ledger
from headrace.contracts.values.amounts import CPU_UNITS, GPU, GPU_UNITS
from headrace.contracts.values.durations import MINUTE, SECOND
from headrace.contracts.values.ids import make_job_id
from headrace.domain.fold.ledger import digest
from headrace.simulate.scenario import Submit
from headrace.simulate.virtual_system import as_law
from tests.simulation.halls import HALL
from tests.simulation.machines import Behaviour
from tests.simulation.network import START
from tests.simulation.plan import Job, Plan
from tests.simulation.watch import Watch
from tests.simulation.world import play


class Watched:
    """A ledger of one node and two jobs, as the watch is shown it; times are seconds since the beginning."""

    def __init__(self) -> None:
        self.watch = Watch()
        self._last: dict[str, str] = {}
        self.jobs = [f"default.ann.{make_job_id(START // 1_000, bytes([0] * 9 + [number]))}" for number in (1, 2)]
        self.append_facts("governance", 0, 0, *as_law(HALL))
        devices = tuple(Device(device=f"gpu{number}", model="H100", memory=81_920) for number in range(2))
        resources = {"cpu": 64 * CPU_UNITS, "memory": 1_048_576, "at": START}
        self.append_facts("node.n1", 1, 1, f.NodeRegisteredV1(node="n1", labels={"site": "hall"}, devices=devices, **resources))
        admitted = [f.JobAdmittedV1(job=job, policy="ml", profile="one", request={GPU: GPU_UNITS}) for job in self.jobs]
        self.append_facts("admission", 2, 2, *admitted, f.WishesJudgedV1(through=2))

    def append_facts(self, by: str, now: float, as_of: int, *facts: object) -> None:
        """One record."""
        moment, sequence = START + round(now * SECOND), self.watch.records + 1
        record = Record(by=by, now=moment, engine="test", as_of=as_of, prev=self._last.get(by, ""), facts=facts)
        payload = encode(record)
        if not by.startswith("node."):
            self._last[by] = digest(payload)
        self.watch.stored(Message(sequence, ledger(by), moment, payload))

    def grant(self, number: int, now: float, as_of: int) -> None:
        """The job has a device of its own."""
        share = DeviceShare(device=f"gpu{number}", units=GPU_UNITS)
        place = {"node": "n1", "pool": "hall", "devices": (share,), "amounts": {GPU: GPU_UNITS, "job": 1}}
        self.append_facts("allocator", now, as_of, f.LeaseGrantedV1(job=self.jobs[number], attempt=1, **place))


@pytest.mark.parametrize(
    ("stated", "next_grant", "counts"),
    [(4, 6, 4), (1.5, None, 3)],
    ids=["heard behind an allocator that had not read it", "by a clock that is behind the log"],
)
def test_a_start_is_as_old_as_it_is_in_the_ledger(stated, next_grant, counts):
    watched = Watched()
    watched.grant(0, now=3, as_of=3)
    watched.append_facts("node.n1", stated, 4, f.LeaseStartedV1(job=watched.jobs[0], attempt=1, at=START))
    if next_grant is not None:
        watched.grant(1, now=next_grant, as_of=4)

    watched.watch.finish()

    assert watched.watch.violations == []
    assert watched.watch.auditor.jobs[watched.jobs[0]].started == {0: START + counts * SECOND}


def test_what_is_let_go_of_before_an_allocator_hears_of_it_is_used_until_then():
    watched = Watched()
    watched.grant(0, now=3, as_of=3)
    watched.append_facts(
        "node.n1", 5, 4, f.LeaseEndedV1(job=watched.jobs[0], attempt=1, outcome="exited", exited_at=START, at=START)
    )
    watched.grant(1, now=9, as_of=4)

    watched.watch.finish()

    assert watched.watch.violations == []
    assert watched.watch.auditor.used == {("default", "ml"): 2 * SECOND * GPU_UNITS}


FLOOD = REFUSALS_STATED + 2


@pytest.fixture
def flood():
    submission = {"queue": "none/one", "tenant": "default", "user": "ann"}
    jobs = tuple(
        Job(2 * SECOND, Submit(name=f"j{number}", **submission), Behaviour(duration=MINUTE)) for number in range(FLOOD)
    )
    return Plan(seed="flood", until=5 * SECOND, documents=HALL, nodes=(), jobs=jobs)


def test_a_submission_that_is_counted_in_a_flood_of_refusals_is_judged(flood):
    assert play(flood).violations == []


def test_a_submission_that_is_passed_over_in_a_flood_of_refusals_is_missed(flood, monkeypatch):
    honest = Admission.judge_message
    monkeypatch.setattr(
        Admission, "judge_message", lambda self, message, now: message.sequence == FLOOD or honest(self, message, now)
    )

    (violation,) = play(flood).violations

    assert violation.endswith("was acknowledged and was never judged")
