"""When leases are marked as idle, and when the mark ends (R39)."""

from __future__ import annotations

import pytest

from headrace.contracts import facts as f
from headrace.contracts.values.durations import MINUTE
from headrace.preemption.decide import PreemptionWatch
from headrace.preemption.idle_leases import Idle
from tests.unit.allocator.history import History, policy


class Measured:
    """Measurements by job; `listening`: samples have been received for long enough."""

    def __init__(self) -> None:
        self.idle: dict[str, Idle | None] = {}
        self.listening = True

    def of(self, lease):
        return self.idle.get(lease.job.key)

    def knows(self) -> bool:
        return self.listening

    def next_change(self, _now: int) -> None:
        return None


@pytest.fixture
def history() -> History:
    made = History(policy("dev", 4, idle_after=10 * MINUTE, idle="yield"), policy("other"))
    made.node("n1", 4)
    return made


@pytest.fixture
def use() -> Measured:
    return Measured()


@pytest.fixture
def stated(history, use):
    """What is stated now; it is folded."""
    watch = PreemptionWatch(history.state, use=use)

    def decide() -> tuple[object, ...]:
        facts = watch.decide(history.now)
        if facts:
            history.append_facts(*facts, by="preemption")
        return facts

    return decide


def idled(job, idle_for: int, average: int = 0) -> f.LeaseIdledV1:
    return f.LeaseIdledV1(job=job.key, attempt=1, node="n1", idle_for=idle_for, average=average)


def used(job, cause: str) -> f.LeaseUsedV1:
    return f.LeaseUsedV1(job=job.key, attempt=1, node="n1", cause=cause)


def test_a_lease_is_marked_once_it_has_been_idle_for_as_long_as_its_policy_says(history, use, stated):
    job = history.run("dev/one")
    history.wait(MINUTE)
    use.idle[job.key] = Idle(history.now, 3)
    history.wait(10 * MINUTE - 1)
    assert stated() == ()
    history.wait(1)
    assert stated() == (idled(job, 10 * MINUTE, 3),)
    assert stated() == ()
    assert (job.leases[0].idle_at, list(job.policy.idle)) == (history.now, [job.key])


def test_time_before_the_start_of_the_lease_does_not_count(history, use, stated):
    history.wait(20 * MINUTE)
    job = history.run("dev/one")
    use.idle[job.key] = Idle(history.now - 15 * MINUTE)
    history.wait(9 * MINUTE)
    assert stated() == ()
    history.wait(MINUTE)
    (mark,) = stated()
    assert mark.idle_for == history.now - job.leases[0].started_at


@pytest.mark.parametrize(("now", "cause"), [(Idle(0), "busy"), (None, "unmeasured")])
def test_a_mark_ends_when_it_is_used_again_or_no_longer_measured(history, use, stated, now, cause):
    job = history.run("dev/one")
    use.idle[job.key] = Idle(history.now)
    history.wait(10 * MINUTE)
    stated()
    use.idle[job.key] = now
    assert stated() == (used(job, cause),)
    assert (job.leases[0].idle_at, job.policy.idle) == (0, {})


def test_before_samples_have_been_received_for_a_while_nothing_is_taken_for_unmeasured(history, use, stated):
    job = history.run("dev/one")
    use.idle[job.key] = Idle(history.now)
    history.wait(10 * MINUTE)
    stated()
    use.idle[job.key], use.listening = None, False
    assert stated() == ()


def test_a_mark_ends_with_the_key_of_its_policy(history, use, stated):
    job = history.run("dev/one")
    use.idle[job.key] = Idle(history.now)
    history.wait(10 * MINUTE)
    stated()
    history.append_facts(f.PolicyAppliedV1(author="a.b", policy=policy("dev", 4)))
    assert stated() == (used(job, "policy"),)


@pytest.mark.parametrize("measured", [None, Idle(0)])
def test_what_is_unknown_or_in_use_is_never_marked(history, use, stated, measured):
    job = history.run("dev/one")
    use.idle[job.key] = measured
    history.wait(60 * MINUTE)
    assert stated() == ()


def test_jobs_that_are_not_preemptible_and_jobs_of_policies_without_the_key_are_not_marked(history, use, stated):
    for job in (history.run("dev/one", preemptible=False), history.run("other/one")):
        use.idle[job.key] = Idle(history.now)
    history.wait(60 * MINUTE)
    assert stated() == ()


def test_at_a_level_that_others_cannot_read_nothing_is_marked(history, use, stated):
    job = history.run("dev/one")
    use.idle[job.key] = Idle(history.now)
    history.wait(60 * MINUTE)
    history.state.terms.level = 2
    assert stated() == ()


def test_a_mark_ends_with_its_lease(history, use, stated):
    job = history.run("dev/one")
    use.idle[job.key] = Idle(history.now)
    history.wait(10 * MINUTE)
    stated()
    history.append_facts(
        f.LeaseEndedV1(job=job.key, attempt=1, outcome="exited", exit_code=0, exited_at=history.now, at=history.now),
        by="node.n1",
    )
    assert job.policy.idle == {}
