"""Jobs from admission to their end."""

import pytest

from headrace.contracts import facts as f
from headrace.contracts.facts.admission import Dependency
from headrace.domain.model.job_states import JobState
from tests.unit.domain.hall import Hall


def ended(job, state="succeeded", **more):
    return f.JobEndedV1(job=job.key, attempt=job.attempt, state=state, cause="exited", **more)


def test_an_admitted_job_waits_in_line_once_however_often_it_is_stated():
    hall = Hall()
    policy = hall.policy("p")
    job = hall.admit("p", "j")
    assert hall.admit("p", "j") is job
    assert (job.state, policy.pending, [group.head() for group in hall.state.pending.groups.values()]) == (
        JobState.PENDING,
        1,
        [job],
    )


def test_a_gang_starts_when_all_of_it_has_and_holds_until_the_last_has_ended():
    hall = Hall(nodes=2)
    policy = hall.policy("g", replicas=2)
    job = hall.grant(hall.admit("g", "j"), ("n1", 0, 1), ("n2", 0, 1))
    assert (job.state, job.attempt, sorted(job.leases), policy.jobs) == (JobState.STARTING, 1, [0, 1], {job.key: job})
    hall.start(job)
    assert (job.state, job.started_at) == (JobState.RUNNING, hall.now)
    hall.end(job, rank=0)
    assert (sorted(job.leases), policy.jobs) == ([1], {job.key: job})
    hall.end(job, rank=1)
    assert (job.leases, policy.jobs, hall.state.unsettled) == ({}, {}, {job.key: job})


def test_a_requeued_job_keeps_its_admission_time_and_counts_why():
    hall = Hall()
    hall.policy("p")
    job = hall.run("p", "j", ("n1", 0, 1))
    admitted = job.admitted_at
    hall.later(10)
    hall.end(job, exit_code=1)
    hall.append_facts("allocator", f.JobRequeuedV1(job=job.key, attempt=1, cause="failed"))
    assert (job.state, job.admitted_at, job.pending_since, job.retries_used, job.preemptions) == (
        JobState.PENDING,
        admitted,
        hall.now,
        1,
        0,
    )
    attempt = job.attempts[0]
    assert (attempt.number, attempt.cause, attempt.exit_code, attempt.nodes, attempt.devices) == (
        1,
        "failed",
        1,
        ("n1",),
        ("g0",),
    )


@pytest.mark.parametrize(("last", "order"), [(False, ["j", "k", "l"]), (True, ["k", "j", "l"])])
def test_a_preempted_job_keeps_its_place_or_goes_behind_those_that_wait_and_before_those_that_come(last, order):
    hall = Hall()
    hall.policy("p")
    job = hall.run("p", "j", ("n1", 0, 1))
    hall.later(10)
    hall.admit("p", "k")
    hall.later(10)
    hall.end(job, exit_code=143)
    hall.append_facts("allocator", f.JobRequeuedV1(job=job.key, attempt=1, cause="preempted", last=last))
    requeued_at = hall.now
    hall.later(10)
    hall.admit("p", "l")

    (group,) = hall.state.pending.groups.values()

    assert [key.rpartition(".")[2] for *_, key in group.places()] == order
    assert (job.admitted_at < requeued_at, job.last_since) == (True, requeued_at if last else 0)


def test_a_job_that_is_held_back_joins_the_line_when_its_time_has_come():
    hall = Hall()
    hall.policy("p")
    job = hall.run("p", "j", ("n1", 0, 1))
    hall.end(job)
    until = hall.now + 5_000_000
    hall.append_facts("allocator", f.JobRequeuedV1(job=job.key, attempt=1, cause="node_lost", not_before=until))
    assert (hall.state.pending.group_of(job), hall.state.pending.next_due()) == (None, until)
    hall.later(5)
    hall.append_facts("governance")
    assert hall.state.pending.group_of(job) is not None


def test_a_dependant_waits_for_success_and_is_doomed_by_failure():
    hall = Hall()
    hall.policy("p")
    first = hall.run("p", "first", ("n1", 0, 1))
    good = hall.admit("p", "good", after=(Dependency(job=first.key, when="ok"),))
    whatever = hall.admit("p", "whatever", after=(Dependency(job=first.key, when="any"),))
    assert [hall.state.pending.group_of(job) for job in (good, whatever)] == [None, None]
    hall.end(first, exit_code=1)
    hall.append_facts("allocator", ended(first, "failed", exit_code=1))
    assert (good.doomed_by, hall.state.doomed) == (first.key, {good.key: good})
    assert hall.state.pending.group_of(whatever) is not None


def test_a_dependency_that_has_ended_already_is_looked_up():
    hall = Hall()
    hall.policy("p")
    first = hall.run("p", "first", ("n1", 0, 1))
    hall.end(first)
    hall.append_facts("allocator", ended(first, exit_code=0))
    after = hall.admit("p", "after", after=(Dependency(job=first.key, when="ok"),))
    assert hall.state.pending.group_of(after) is not None


def test_an_end_is_final_and_frees_the_line():
    hall = Hall()
    policy = hall.policy("p")
    job = hall.admit("p", "j")
    hall.append_facts("admission", f.JobCancelRequestedV1(job=job.key, by="acme.u"))
    assert hall.state.cancels == {job.key: job}
    hall.append_facts("allocator", f.JobEndedV1(job=job.key, attempt=0, state="cancelled", cause="cancelled"))
    hall.append_facts("allocator", f.JobEndedV1(job=job.key, attempt=0, state="failed", cause="late"))
    assert (job.state, policy.pending, hall.state.cancels, hall.state.pending.groups) == (JobState.CANCELLED, 0, {}, {})


def test_a_request_to_requeue_is_of_one_attempt_that_holds_leases():
    hall = Hall()
    hall.policy("p")
    hall.node("n")
    job = hall.admit("p", "j")
    hall.append_facts("admission", f.JobRequeueRequestedV1(job=job.key, attempt=0, by="acme.u"))
    assert hall.state.requeues == {}
    hall.grant(job, ("n", 0, 1))
    for attempt, asked in ((2, {}), (1, {job.key: job})):
        hall.append_facts("admission", f.JobRequeueRequestedV1(job=job.key, attempt=attempt, by="acme.u"))
        assert hall.state.requeues == asked
    hall.stop(job, "requeued", "requeue")
    assert hall.state.requeues == {}


def test_a_dismissed_job_is_rejected_with_its_reason():
    hall = Hall()
    hall.policy("p")
    job = hall.admit("p", "j")
    hall.append_facts("allocator", f.JobDismissedV1(job=job.key, reason="QUEUE_DELETED", message="gone"))
    assert (job.state, job.reason, job.message) == (JobState.REJECTED, "QUEUE_DELETED", "gone")


def test_a_rejected_id_is_remembered_with_the_digest_of_what_it_named():
    hall = Hall()
    rejected = f.JobRejectedV1(job="acme.u.j", policy="p", profile="p", reason="UNKNOWN_QUEUE", message="m", digest="d")
    hall.append_facts("admission", rejected)
    answered = hall.state.answered["acme.u.j"]
    assert (answered.digest, answered.state, answered.at) == ("d", JobState.REJECTED, hall.now)
