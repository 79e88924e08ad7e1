"""Which records are void, and why (R34; the writers' table)."""

from pathlib import Path

import pytest

from headrace.contracts import facts as f
from headrace.contracts.facts.levels import LEVEL
from headrace.contracts.facts.records import Record
from headrace.contracts.facts.writers import WRITER_RULES
from headrace.contracts.transport.codec import decode_record
from headrace.contracts.values.durations import SECOND
from headrace.domain.fold.entitlement import objection
from tests.unit.domain.hall import START, Hall


def record(by, *facts, now=START, prev=""):
    return Record(by=by, now=now, engine="test", as_of=0, prev=prev, facts=facts)


def judged(hall, rec, writer=None, stamped=START):
    return objection(hall.state, rec, writer or rec.by, stamped)


def test_a_record_says_who_wrote_it_and_its_subject_says_the_same():
    assert judged(Hall(), record("allocator"), "preemption") == "it says it is by allocator, its subject says preemption"


@pytest.mark.parametrize(("ahead", "void"), [(0, False), (2 * SECOND, False), (2 * SECOND + 1, True), (-3600 * SECOND, False)])
def test_a_clock_more_than_two_seconds_ahead_of_the_servers_makes_a_record_void(ahead, void):
    assert bool(judged(Hall(), record("allocator", now=START + ahead))) is void


def test_a_service_names_its_last_record_and_a_node_need_not():
    hall = Hall()
    hall.state.writers["allocator"] = (7, "abc")
    assert judged(hall, record("allocator", prev="abc")) == ""
    assert judged(hall, record("allocator", prev="xyz")) == "it does not name its writer's last record"
    assert judged(hall, record("node.n1")) == ""


def test_a_node_that_is_back_may_still_tell_of_an_attempt_that_was_taken_from_it():
    """R32: it changes nothing, and the node is not worse for it; of an attempt that it never had it may not speak."""
    hall = Hall(nodes=3)
    hall.policy("p", replicas=2)
    job = hall.run("p", "j", ("n1", 0, 1), ("n2", 0, 1))
    hall.append_facts("node.n1", f.CheckpointRegisteredV1(job=job.key, attempt=1, uri="before", at=START))
    hall.append_facts("preemption", f.NodeLostV1(node="n2", silent_for=0))
    hall.append_facts("allocator", f.LeaseRevokedV1(job=job.key, attempt=1, rank=1, cause="node_lost"))
    late = f.CheckpointRegisteredV1(job=job.key, attempt=1, uri="after", at=START)
    assert judged(hall, record("node.n2", late)) == ""
    assert judged(hall, record("node.n3", late)) == f"it speaks of attempt 1 of job {job.key}, which has no lease here"
    hall.append_facts("node.n2", late)
    assert job.checkpoint == "before"


GOLDEN = Path(__file__).parents[3] / "golden/facts"


@pytest.mark.parametrize("law", WRITER_RULES, ids=lambda law: f.fact_type(law.fact))
def test_each_fact_has_one_writer_and_no_other_may_state_it(law):
    tag = f.fact_type(law.fact)
    (fact,) = decode_record((GOLDEN / f"{tag}.json").read_bytes()).facts
    writers = {"node": "node.n1"} | {name: name for name in ("admission", "allocator", "preemption", "governance")}
    for kind, writer in writers.items():
        if kind != law.writer:
            assert judged(Hall(), record(writer, fact)) == f"{writer} may not state {tag}"


@pytest.mark.parametrize("writer", ["feed", "accounting", "somebody"])
def test_those_who_only_read_write_nothing(writer):
    assert judged(Hall(), record(writer)) == f"{writer} writes nothing here"


def test_a_node_speaks_of_itself_and_of_leases_on_itself_only():
    hall = Hall(nodes=2)
    hall.policy("p")
    job = hall.run("p", "j", ("n1", 0, 1))
    started = f.LeaseStartedV1(job=job.key, attempt=1, at=START)
    saved = f.CheckpointRegisteredV1(job=job.key, attempt=1, uri="u", at=START)
    registered = f.NodeRegisteredV1(node="n1", cpu=1, memory=1, reads=LEVEL, at=START)
    drained = f.DeviceDrainedV1(node="n1", device="gpu0", cause="lost", at=START)
    overran = f.LeaseOverranV1(job=job.key, attempt=1, device="gpu0", limit=1, used=2, at=START)
    for fact in (started, saved, registered, drained, overran):
        assert judged(hall, record("node.n1", fact)) == ""
        assert judged(hall, record("node.n2", fact)).startswith("it speaks of ")


def test_news_of_a_superseded_attempt_is_not_an_offence():
    hall = Hall(nodes=2)
    hall.policy("p")
    job = hall.run("p", "j", ("n1", 0, 1))
    late = f.LeaseEndedV1(job=job.key, attempt=0, outcome="exited", exited_at=START, at=START)
    assert judged(hall, record("node.n2", late)) == ""
