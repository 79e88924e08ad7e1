"""What came of a run, told from its facts: waits, starts, what was used and what was lost."""

from __future__ import annotations

from headrace.contracts import facts as f
from headrace.contracts.facts.preemption import Victim
from headrace.contracts.values.amounts import GPU, GPU_UNITS
from headrace.contracts.values.durations import SECOND
from headrace.domain.state.state import State
from headrace.simulate.outcome import Outcome
from tests.unit.domain.site import START, Site, place, policy

JOB = "default.ann.01k00000000000000000000000"
ADMITTED = f.JobAdmittedV1(job=JOB, policy="dev", profile="one", request={GPU: GPU_UNITS})
GPU_SECOND = GPU_UNITS * SECOND


def granted(attempt=1, rank=0, gpus=1):
    return f.LeaseGrantedV1(job=JOB, attempt=attempt, rank=rank, node="n", pool="hall", amounts={GPU: gpus * GPU_UNITS})


def started(attempt=1, rank=0):
    return f.LeaseStartedV1(job=JOB, attempt=attempt, rank=rank, at=0)


def ended(attempt=1, rank=0):
    return f.LeaseEndedV1(job=JOB, attempt=attempt, rank=rank, outcome="exited", exited_at=0, at=0)


def outcome_after(*news, end=100, state=None):
    """The job_outcome of the one job after facts at seconds."""
    outcome = Outcome(state or State())
    outcome.begin(0)
    for second, fact in news:
        outcome.note(fact, second * SECOND)
    outcome.end(end * SECOND)
    return outcome.job_outcomes[JOB]


def test_a_job_that_waits_starts_and_ends():
    job_outcome = outcome_after(
        (5, ADMITTED),
        (20, granted()),
        (21, started()),
        (50, ended()),
        (50, f.JobEndedV1(job=JOB, attempt=1, state="succeeded", cause="")),
    )
    assert (job_outcome.admitted_at, job_outcome.started_at, job_outcome.starts, job_outcome.over) == (
        5 * SECOND,
        21 * SECOND,
        1,
        True,
    )
    assert (job_outcome.used, job_outcome.lost, job_outcome.preemptions) == (30 * GPU_SECOND, 0, 0)


def test_what_is_still_held_at_the_end_was_used_until_then():
    assert outcome_after((0, ADMITTED), (10, granted(gpus=2)), (10, started()), end=40).used == 60 * GPU_SECOND


def test_a_gang_has_started_when_all_have():  # R35
    early = ((0, ADMITTED), (1, granted()), (1, granted(rank=1)), (2, started()))
    assert outcome_after(*early).started_at is None
    assert outcome_after(*early, (9, started(rank=1))).started_at == 9 * SECOND


def test_work_that_was_not_saved_is_lost_when_the_job_is_to_start_again():  # R25
    order = f.PreemptionOrderedV1(
        preemption="p",
        job="p",
        pool="hall",
        cause="reclaim",
        victims=(Victim(job=JOB, attempt=1, policy="dev", lost=0),),
        places=(),
        rule="R25",
    )
    job_outcome = outcome_after(
        (0, ADMITTED),
        (0, granted()),
        (0, started()),
        (30, f.CheckpointRegisteredV1(job=JOB, attempt=1, uri="x", at=0)),
        (50, order),
        (60, ended()),
        (60, f.JobRequeuedV1(job=JOB, attempt=1, cause="preempted")),
        (70, granted(attempt=2)),
        (70, started(attempt=2)),
    )
    assert (job_outcome.preemptions, job_outcome.lost, job_outcome.starts, job_outcome.started_at) == (1, 30 * GPU_SECOND, 2, 0)
    assert job_outcome.used == 90 * GPU_SECOND


def test_a_victim_that_is_cancelled_loses_what_it_had_not_saved():  # R29
    end = f.JobEndedV1(job=JOB, attempt=1, state="cancelled", cause="preempted")
    assert outcome_after((0, ADMITTED), (0, granted()), (0, started()), (10, ended()), (10, end)).lost == 10 * GPU_SECOND


def test_refusals_are_kept_with_their_reason():
    rejected = f.JobRejectedV1(job=JOB, policy="dev", profile="one", reason="EXCEEDS_POLICY_LIMIT", message="", digest="")
    assert outcome_after((3, rejected)).refused == "EXCEEDS_POLICY_LIMIT"
    assert (
        outcome_after((0, ADMITTED), (3, f.JobDismissedV1(job=JOB, reason="QUEUE_DELETED", message=""))).refused
        == "QUEUE_DELETED"
    )


def test_what_is_there_at_the_beginning_counts_from_then_on_and_loses_what_it_did_before():
    site = Site(policy())
    site.node()
    running = site.run("a", place("n1", 0))
    waiting = site.admit("b", "dev/one")
    outcome = Outcome(site.state)
    outcome.begin(START + 10 * SECOND)
    outcome.note(f.LeaseEndedV1(job=running.key, attempt=1, outcome="exited", exited_at=0, at=0), START + 30 * SECOND)
    outcome.note(f.JobRequeuedV1(job=running.key, attempt=1, cause="preempted"), START + 30 * SECOND)
    outcome.end(START + 60 * SECOND)
    job_outcome = outcome.job_outcomes[running.key]
    assert (job_outcome.had_started, job_outcome.used, job_outcome.lost) == (True, 20 * GPU_SECOND, 30 * GPU_SECOND)
    assert (outcome.job_outcomes[waiting.key].admitted_at, outcome.job_outcomes[waiting.key].used) == (START, 0)


def test_a_job_that_comes_is_told_of_its_group():
    site = Site(policy(group="all"))
    outcome = Outcome(site.state)
    outcome.note(ADMITTED, START)
    outcome.note(f.JobRejectedV1(job=f"{JOB}x", policy="gone", profile="one", reason="UNKNOWN_QUEUE", message=""), START)
    assert [job_outcome.group for job_outcome in outcome.job_outcomes.values()] == ["all", ""]


def test_facts_about_unknown_jobs_change_nothing():
    outcome = Outcome(State())
    for fact in (granted(), started(), ended(), f.JobRequeuedV1(job=JOB, attempt=1, cause="failed")):
        outcome.note(fact, 0)
    outcome.end(10)
    assert outcome.job_outcomes == {}


def test_what_is_suspended_is_not_charged_and_loses_its_work_only_if_it_never_goes_on():  # R29
    stopped = f.LeaseSuspendedV1(job=JOB, attempt=1, at=0)
    begun = ((0, ADMITTED), (0, granted()), (0, started()), (10, stopped))
    assert (outcome_after(*begun).used, outcome_after(*begun).lost) == (10 * GPU_SECOND, 0)
    went_on = outcome_after(*begun, (40, f.ResumeOrderedV1(job=JOB, attempt=1)), (60, ended()))
    assert (went_on.used, went_on.lost, went_on.starts) == (30 * GPU_SECOND, 0, 1)
    lost = outcome_after(*begun, (50, ended()), (50, f.JobRequeuedV1(job=JOB, attempt=1, cause="suspend_max")))
    assert (lost.used, lost.lost) == (10 * GPU_SECOND, 10 * GPU_SECOND)
