"""Jobs by tenant and by queue."""

from __future__ import annotations

import pytest

from headrace.contracts import facts as f
from headrace.contracts.values.durations import HOUR, SECOND
from headrace.views.job_index import IndexChanges, JobIndex, QueueCounts, Rejected, jobs_of, queue_counts

DEV_ONE = ("acme", "dev", "one")


@pytest.fixture
def index(hall):
    """The roster of the story; `changes` is what each record changed."""
    index = JobIndex(hall.state)
    hall.changes = []
    hall.note = lambda record, _: hall.changes.append(index.note(record, jobs_of(record)))
    return index


def rejected(key):
    return f.JobRejectedV1(job=key, policy="dev", profile="one", reason="TOO_FAST", message="slow down")


def test_a_record_is_about_the_jobs_its_facts_are_about(hall):
    hall.admit(hall.job(1))
    record = hall.append_facts("allocator", *hall.grants(hall.job(1), ("gpu01", "g0")))
    assert jobs_of(record) == {hall.job(1): None}


def test_a_job_is_counted_where_it_is(hall, index):
    job = hall.job(1)
    lines = []
    for happen in (
        lambda: hall.admit(job),
        lambda: hall.grant(job, ("gpu01", "g0")),
        lambda: hall.start(job),
        lambda: hall.stop(job, "preempted"),
        lambda: hall.end(job),
        lambda: hall.append_facts("allocator", f.JobRequeuedV1(job=job, attempt=1, cause="preempted")),
        lambda: hall.grant(job, ("gpu01", "g0"), attempt=2),
        lambda: hall.end(job, attempt=2),
        lambda: hall.finish(job, attempt=2),
    ):
        happen()
        lines.append((index.lines[DEV_ONE].pending, index.lines[DEV_ONE].holding))
    assert lines == [(1, 0), (0, 1), (0, 1), (0, 1), (0, 1), (1, 0), (0, 1), (0, 1), (0, 0)]


def test_a_job_has_started_when_its_last_replica_has(hall, index):
    job = hall.job(1)
    hall.admit(job, profile="pair", replicas=2)
    hall.grant(job, ("gpu01", "g0"), ("gpu01", "g1"))
    hall.start(job, rank=1)
    hall.start(job, rank=0)
    record = hall.state.jobs[job]
    queue = {("acme", "dev", "pair"): None}
    assert hall.changes == [IndexChanges(queue, [], [])] * 3 + [IndexChanges(queue, [record], [])]


def test_an_end_is_told_once(hall, index):
    job = hall.job(1)
    hall.admit(job)
    hall.finish(job, "cancelled", attempt=0)
    assert hall.changes[-1] == IndexChanges({DEV_ONE: None}, [], [job])
    hall.append_facts("admission", f.JobCancelRequestedV1(job=job, by="acme.alice"))
    assert hall.changes[-1] == IndexChanges({DEV_ONE: None}, [], [])


def test_a_tenant_has_its_own_jobs_the_newest_first(hall, index):
    mine, bobs, theirs = hall.job(1), hall.job(2, user="bob"), hall.job(3, tenant="rival")
    for job in (mine, bobs, theirs):
        hall.admit(job)
    assert [job.key for job in index.newest("acme")] == [bobs, mine]
    assert index.newest("nobody") == []
    assert index.tenants["acme"].users == {"alice": None, "bob": None}
    assert index.find(theirs) is hall.state.jobs[theirs]
    assert index.find(hall.job(4)) is None
    assert index.find(hall.job(4, tenant="nobody")) is None


def test_rejected_jobs_are_remembered_for_a_while(hall):
    index = JobIndex(hall.state, rejected_kept=2)
    facts = [rejected(hall.job(number)) for number in range(3)]
    for fact in facts:
        record = hall.append_facts("admission", fact)
        index.note(record, jobs_of(record))
    assert index.newest("acme") == [Rejected(facts[2], hall.now), Rejected(facts[1], hall.now)]
    assert index.lines == {}


def test_a_job_that_is_there_is_not_hidden_by_a_later_rejection_of_its_id(hall, index):
    hall.admit(hall.job(1))
    hall.append_facts("admission", rejected(hall.job(1)))
    assert index.newest("acme") == [hall.state.jobs[hall.job(1)]]


def test_ended_jobs_leave_with_the_fold(hall, index):
    old, young = hall.job(1), hall.job(2)
    hall.admit(old)
    hall.finish(old, "cancelled", attempt=0)
    hall.pass_time(HOUR // SECOND)
    hall.admit(young)
    assert index.newest("acme") == [hall.state.jobs[young]]
    assert (index.lines[DEV_ONE].pending, index.lines[DEV_ONE].holding) == (1, 0)


def test_an_index_of_a_state_that_is_there_already_is_the_one_that_was_there_all_along(hall, index):
    for number in (1, 2, 3):
        hall.admit(hall.job(number))
    hall.grant(hall.job(1), ("gpu01", "g0"))
    hall.grant(hall.job(2), ("gpu01", "g1"))
    hall.start(hall.job(2))
    hall.end(hall.job(2))
    hall.finish(hall.job(2))
    later = JobIndex(hall.state)
    assert [job.key for job in later.newest("acme")] == [job.key for job in index.newest("acme")]
    assert {queue: (line.pending, line.holding) for queue, line in later.lines.items()} == {DEV_ONE: (1, 1)}
    assert (later.ended, later.seen[hall.job(2)].state) == (index.ended, index.seen[hall.job(2)].state)


def test_the_lines_of_a_state_without_a_follower_are_those_of_one_who_does(hall, index):
    for number in range(1, 5):
        hall.admit(hall.job(number))
    hall.grant(hall.job(1), ("gpu01", "g0"))
    hall.grant(hall.job(2), ("gpu01", "g1"))
    hall.end(hall.job(2))
    hall.finish(hall.job(2))
    assert queue_counts(hall.state) == {DEV_ONE: QueueCounts(pending=2, holding=1)}
    assert (index.lines[DEV_ONE].pending, index.lines[DEV_ONE].holding) == (2, 1)
