"""When those who hold something will be gone."""

from __future__ import annotations

from headrace.contracts import facts as f
from headrace.contracts.values.durations import SECOND
from headrace.domain.explain.expected_ends import ExpectedEnds
from tests.unit.domain.hall import Hall


def ended(hall, name, seconds, final="succeeded"):
    """A job that ran so long."""
    job = hall.run("p", name, ("n1", 0, 1))
    hall.later(seconds)
    hall.end(job)
    hall.append_facts("allocator", f.JobEndedV1(job=job.key, attempt=1, state=final, cause="exited", exit_code=0))


def test_a_time_limit_counts_from_the_start_and_a_ladder_from_its_order():
    hall = Hall()
    hall.policy("p")
    job = hall.run("p", "j", ("n1", 0, 1), time_limit=60 * SECOND)
    assert ExpectedEnds(hall.state, hall.now).of(job) == hall.now + 60 * SECOND
    hall.later(10)
    hall.stop(job)
    assert ExpectedEnds(hall.state, hall.now).of(job) == hall.now + 90 * SECOND


def test_without_a_limit_the_mean_of_the_runs_of_its_queue_that_lasted_longer_tells():
    hall = Hall()
    hall.policy("p")
    for name, seconds, final in (("a", 10, "succeeded"), ("b", 30, "failed"), ("c", 500, "cancelled")):
        ended(hall, name, seconds, final)
    job = hall.run("p", "j", ("n1", 0, 1))
    ends, began = ExpectedEnds(hall.state, hall.now), hall.now
    assert (ends.of(job), ends.by_history) == (began + 20 * SECOND, True)
    hall.later(15)
    assert ExpectedEnds(hall.state, hall.now).of(job) == began + 30 * SECOND
    hall.later(20)
    ends = ExpectedEnds(hall.state, hall.now)
    assert (ends.of(job), ends.by_history) == (None, False)


def test_runs_of_another_queue_tell_nothing():
    hall = Hall()
    hall.policy("p")
    hall.policy("q")
    ended(hall, "a", 10)
    assert ExpectedEnds(hall.state, hall.now).span(hall.admit("q", "j")) is None
