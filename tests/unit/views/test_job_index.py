"""Jobs by tenant and by queue."""

from __future__ import annotations

import pytest

from headrace.contracts import facts as f
from headrace.contracts.values.durations import HOUR, SECOND
from headrace.contracts.values.ids import element_name
from headrace.views import job_index
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


def test_jobs_are_listed_from_the_last_admitted_on_while_others_come_and_go(hall, index, monkeypatch):
    monkeypatch.setattr(job_index, "PIECE", 2)
    jobs = [hall.job(number) for number in range(1, 8)]
    for job in jobs[:6]:
        hall.admit(job)

    listing = index.newest("acme")
    first = [next(listing)[0] for _ in range(2)]
    hall.admit(jobs[6])

    assert first + [key for key, _ in listing] == jobs[5::-1]
    assert [key for key, _ in index.newest("acme", jobs[3])] == jobs[2::-1]
    assert list(index.newest("acme", jobs[0])) == list(index.newest("nobody")) == []


def test_a_listing_goes_on_with_older_ids_behind_a_job_that_has_been_forgotten(hall, index):
    jobs = [hall.job(number) for number in range(1, 5)]
    for job in (jobs[0], jobs[1], jobs[3]):
        hall.admit(job)

    assert [key for key, _ in index.newest("acme", jobs[2])] == [jobs[1], jobs[0]]


def test_the_first_of_many_jobs_are_listed_without_reading_the_others(hall, index, monkeypatch):
    read = []
    monkeypatch.setattr(
        job_index, "_behind", lambda jobs, _: (read.append(key) or (key, job) for key, job in reversed(jobs.items()))
    )
    for number in range(1, 10):
        hall.admit(hall.job(number))
    monkeypatch.setattr(job_index, "PIECE", 3)

    next(index.newest("acme"))

    assert read == [hall.job(number) for number in (9, 8, 7)]


def test_elements_of_an_array_are_listed_although_one_is_forgotten_meanwhile(hall, index):
    keys = [element_name(hall.job(1), number) for number in range(3)]
    for key in keys:
        hall.state.jobs[key] = key

    listing = iter(index.elements(hall.job(1)))
    first = next(listing)
    del hall.state.jobs[keys[0]]

    assert [first, *listing] == [(key, key) for key in reversed(keys)]
    assert index.elements(hall.job(1), keys[2]) == [(keys[1], keys[1])]


def test_a_job_is_found_by_its_id_for_one_user_or_for_each(hall, index):
    job = hall.job(1)
    hall.admit(job)
    tenant, user, job_id = job.split(".")

    found = [
        [key for key, _ in index.of_id(*asked)] for asked in ((tenant, job_id), (tenant, job_id, user), (tenant, job_id, "eve"))
    ]

    assert (found, index.of_id("nobody", job_id)) == ([[job], [job], []], [])


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
    assert [key for key, _ in index.newest("acme")] == [bobs, mine]
    assert list(index.newest("nobody")) == []
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
    assert [job for _, job in index.newest("acme")] == [Rejected(facts[2], hall.now), Rejected(facts[1], hall.now)]
    assert index.lines == {}


def test_a_job_that_is_there_is_not_hidden_by_a_later_rejection_of_its_id(hall, index):
    hall.admit(hall.job(1))
    hall.append_facts("admission", rejected(hall.job(1)))
    assert [job for _, job in index.newest("acme")] == [hall.state.jobs[hall.job(1)]]


def test_ended_jobs_leave_with_the_fold(hall, index):
    old, young = hall.job(1), hall.job(2)
    hall.admit(old)
    hall.finish(old, "cancelled", attempt=0)
    hall.pass_time(HOUR // SECOND)
    hall.admit(young)
    assert [job for _, job in index.newest("acme")] == [hall.state.jobs[young]]
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
    assert [key for key, _ in later.newest("acme")] == [key for key, _ in index.newest("acme")]
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
