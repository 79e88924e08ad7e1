"""When a job's phase is over by time alone."""

from headrace.contracts import facts as f
from headrace.contracts.values.durations import MINUTE, SECOND
from headrace.domain.state.job_deadlines import OVERRUN_MAX, START_TIMEOUT, limit_of, walking
from tests.unit.domain.hall import Hall


def watched(hall, job):
    """When the allocator, and when preemption, has to look at the job."""
    return hall.state.deadlines.moments.get(job.key), hall.state.ladders.moments.get(job.key)


def test_a_start_has_ten_minutes_and_a_run_its_time_limit():
    hall = Hall()
    hall.policy("p")
    job = hall.admit("p", "j", time_limit=5 * MINUTE)
    assert watched(hall, job) == (None, None)
    hall.grant(job, ("n1", 0, 1))
    assert watched(hall, job) == (hall.now + START_TIMEOUT, None)
    hall.later(10)
    hall.start(job)
    assert watched(hall, job) == (hall.now + 5 * MINUTE, None)
    assert limit_of(job) == hall.now + 5 * MINUTE


def test_without_a_time_limit_a_job_runs_on():
    hall = Hall()
    hall.policy("p")
    job = hall.run("p", "j", ("n1", 0, 1))
    assert (watched(hall, job), limit_of(job)) == ((None, None), None)


def test_a_ladder_is_watched_until_its_last_lease_has_left_or_is_overdue():
    hall = Hall()
    hall.policy("p", replicas=2)
    job = hall.run("p", "j", ("n1", 0, 1), ("n1", 1, 1), time_limit=MINUTE)
    hall.stop(job)
    end = hall.now + 90 * SECOND + OVERRUN_MAX
    assert watched(hall, job) == (None, end)
    hall.end(job, 1)
    assert watched(hall, job) == (None, end)
    hall.append_facts("preemption", f.LeaseOverdueV1(job=job.key, attempt=1, rank=0, node="n1"))
    assert (watched(hall, job), walking(job)) == ((None, None), [])


def test_nothing_is_watched_of_a_job_that_has_ended_or_waits_again():
    hall = Hall()
    hall.policy("p")
    for fact in (
        lambda job: f.JobEndedV1(job=job.key, attempt=1, state="cancelled", cause="cancelled"),
        lambda job: f.JobRequeuedV1(job=job.key, attempt=1, cause="preempted"),
    ):
        job = hall.run("p", f"j{hall.sequence}", ("n1", 0, 1))
        hall.stop(job)
        hall.end(job)
        hall.append_facts("allocator", fact(job))
        assert watched(hall, job) == (None, None)
