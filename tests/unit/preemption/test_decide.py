from __future__ import annotations

import pytest

from headrace.contracts import facts as f
from headrace.contracts.documents import model as d
from headrace.contracts.facts.preemption import Victim
from headrace.contracts.values.durations import MINUTE, SECOND
from headrace.domain.fold.nominations import lift_bar
from headrace.domain.fold.record_size import RecordCapacity
from headrace.domain.model.jobs import JobRecord
from headrace.domain.state.job_deadlines import OVERRUN_MAX
from headrace.preemption.decide import NODE_TIMEOUT, PreemptionWatch
from tests.unit.allocator.history import History, place, policy, terms
from tests.unit.domain.snapshot import differences, snapshot

LADDER = 90 * SECOND
"""The graces of a policy that says nothing: 60 s callback and 30 s SIGTERM."""


class Listener:
    """Who has heard of nodes at certain moments, by a clock that goes as the history's."""

    def __init__(self, history: History, at: dict[str, int]) -> None:
        self.history = history
        self.at = at

    def silence(self, node: str) -> int:
        return self.history.now - self.at.get(node, 0)


def watching(history: History, last_reports: dict[str, int] | None) -> PreemptionWatch:
    return PreemptionWatch(history.state, None if last_reports is None else Listener(history, last_reports))


def stated(history: History, last_reports: dict[str, int] | None = None) -> tuple[object, ...]:
    """What preemption has to say, twice the same, on a state that it leaves alone."""
    before = snapshot(history.state)
    watch = watching(history, last_reports)
    facts = watch.decide(history.now)
    assert watch.decide(history.now) == facts
    assert differences(snapshot(history.state), before) == []
    return facts


def wakeup(history: History, last_reports: dict[str, int] | None = None) -> int | None:
    watch = watching(history, last_reports)
    watch.decide(history.now)
    return watch.next_wakeup()


def searching(*, runs: int = 10 * SECOND, **more: object) -> tuple[History, JobRecord, JobRecord]:
    """`other` has borrowed the only GPU for a while, and `ml`, which has it reserved, searches; history, victim, preemptor."""
    history = History(policy("ml", 1), policy("other", **more))
    history.node("n1", 1)
    victim = history.run("other/one")
    history.wait(runs)
    preemptor = history.admit("ml/one")
    history.allocate()
    return history, victim, preemptor


def ordered(**more: object) -> tuple[History, JobRecord, JobRecord]:
    """The same, after proposal and order."""
    history, victim, preemptor = searching(**more)
    history.append_facts(*stated(history), by="preemption")
    history.allocate()
    assert victim.state == "stopping"
    return history, victim, preemptor


def search_id(history: History) -> str:
    return history.state.pools["hall"].search.id


def test_nothing_is_stated_without_a_search():
    history = History(policy("ml"))
    history.node()
    history.run("ml/one")

    assert (stated(history), wakeup(history)) == ((), None)


def test_a_search_is_answered_with_the_victims_and_the_places():
    history, victim, preemptor = searching()

    assert stated(history) == (
        f.PreemptionProposedV1(
            preemption=search_id(history),
            job=preemptor.key,
            pool="hall",
            cause="reclaim",
            victims=(Victim(job=victim.key, attempt=1, policy="default/other", lost=10),),
            places=(place("n1", 0),),
            rule="R26",
        ),
    )


def test_the_index_of_jobs_that_may_yield_is_there_before_the_first_decision_so_that_none_builds_it():
    history, *_ = searching()
    watch = watching(history, None)
    index = history.state.running
    assert [type(fact) for fact in watch.decide(history.now)] == [f.PreemptionProposedV1]
    assert index is not None
    assert history.state.running is index


def test_a_search_without_victims_says_who_is_protected_and_until_when():
    history, victim, preemptor = searching(preemption=terms(min_runtime=5 * MINUTE))

    assert stated(history) == (
        f.PreemptionNoneV1(
            preemption=search_id(history),
            job=preemptor.key,
            pool="hall",
            why="nobody here holds borrowed units that would help",
            protected=1,
            retry_at=victim.started_at + 5 * MINUTE,
        ),
    )


def test_an_answered_search_is_not_answered_again():
    history, _, _ = searching()

    history.append_facts(*stated(history), by="preemption")

    assert stated(history) == ()


def test_a_search_for_a_job_that_waits_no_longer_is_left_to_the_allocator():
    history, _, preemptor = searching()

    history.append_facts(f.JobEndedV1(job=preemptor.key, attempt=0, state="cancelled", cause="cancelled"), by="allocator")

    assert stated(history) == ()


def test_searches_are_answered_pool_by_pool():
    pools = tuple(d.Pool(name=name, selector={"site": name}) for name in ("west", "east"))
    profiles = tuple(
        d.Profile(name=name, request={"gpu": 126_000}, pools=(pool,)) for name, pool in (("one", "west"), ("two", "east"))
    )
    history = History(policy("ml", 2), policy("other"), pools=pools, profiles=profiles)
    history.node("w1", 1, site="west")
    history.node("e1", 1, site="east")
    for name in ("one", "two"):
        history.run(f"other/{name}")
    waiting = {pool: history.admit(f"ml/{name}").key for name, pool in (("one", "west"), ("two", "east"))}
    history.allocate()

    assert [(fact.pool, fact.job) for fact in stated(history)] == [("east", waiting["east"]), ("west", waiting["west"])]


def rung(job: JobRecord, at: int) -> f.LeaseRungV1:
    return f.LeaseRungV1(job=job.key, attempt=1, rung="told", at=at, took=0, result="ok")


def settled_fact(preemptor: JobRecord, preemption: str, **numbers: int) -> f.PreemptionSettledV1:
    return f.PreemptionSettledV1(preemption=preemption, job=preemptor.key, victims=1, **numbers)


def test_a_preemption_is_settled_once_when_all_victims_have_left_with_its_time_in_three_parts():
    history, victim, preemptor = ordered()
    preemption = preemptor.nomination.id
    assert stated(history) == ()

    history.wait(2 * SECOND)
    history.append_facts(rung(victim, history.now), by="node.n1")
    history.wait(30 * SECOND)
    history.end(victim, 143, exited_at=history.now - 5 * SECOND, at=history.now)

    answer = settled_fact(preemptor, preemption, lost=10, to_signal=2 * SECOND, grace=25 * SECOND, to_release=5 * SECOND)
    assert stated(history) == (answer,)
    history.append_facts(answer, by="preemption")
    assert stated(history) == ()


def test_where_a_victim_left_late_it_is_settled_when_the_preemptor_has_had_its_time_or_has_started():  # R27
    history, victim, preemptor = ordered()
    nomination = preemptor.nomination.id
    history.append_facts(f.LeaseOverdueV1(job=victim.key, attempt=1, node="n1"), by="preemption")
    history.append_facts(f.NominationEndedV1(preemption=nomination, job=preemptor.key, why="w"), by="allocator")
    history.wait(SECOND)
    history.end(victim, 143)
    until = history.now + history.state.pools["hall"].document.nomination_timeout
    assert (stated(history), wakeup(history)) == ((), until)

    history.wait(until - history.now)
    answer = settled_fact(preemptor, nomination, lost=10, to_signal=0, grace=SECOND, to_release=0)
    assert stated(history) == (answer,)
    lift_bar(history.state, preemptor.key)
    history.wait(-SECOND)
    assert stated(history) == (answer,)


def test_a_checkpoint_registered_in_the_grace_means_that_nothing_was_lost():
    history, victim, preemptor = ordered()
    history.wait(SECOND)
    history.append_facts(f.CheckpointRegisteredV1(job=victim.key, attempt=1, uri="file:///c/1", at=history.now), by="node.n1")
    history.end(victim, 143)

    answer = settled_fact(preemptor, preemptor.nomination.id, lost=0, to_signal=0, grace=SECOND, to_release=0)
    assert stated(history) == (answer,)


def test_a_checkpoint_made_before_the_order_saves_only_what_came_before_it():
    history, victim, preemptor = searching()
    history.append_facts(f.CheckpointRegisteredV1(job=victim.key, attempt=1, uri="file:///c/1", at=history.now), by="node.n1")
    history.wait(4 * SECOND)
    history.append_facts(*stated(history), by="preemption")
    history.allocate()
    assert preemptor.nomination.victims[0].lost == 4
    history.end(victim, 143)

    assert stated(history) == (settled_fact(preemptor, preemptor.nomination.id, lost=4, to_signal=0, grace=0, to_release=0),)


def test_a_lease_is_overdue_thirty_seconds_after_the_end_of_its_ladder_and_only_once():
    history, victim, _ = ordered()
    end = history.now + LADDER + OVERRUN_MAX
    assert wakeup(history) == end

    history.now = end - 1
    assert stated(history) == ()
    history.now = end
    overdue = f.LeaseOverdueV1(job=victim.key, attempt=1, rank=0, node="n1")
    assert stated(history) == (overdue,)
    history.append_facts(overdue, by="preemption")

    assert (stated(history), wakeup(history)) == ((), None)


def test_every_replica_that_is_still_there_is_overdue_by_itself():
    history = History(policy("ml"))
    history.node("n1", 2)
    job = history.run("ml/gang")
    history.stop(job, "cancelled", then="cancel")
    history.end(job, 143, rank=0)
    history.wait(LADDER + OVERRUN_MAX)

    assert stated(history) == (f.LeaseOverdueV1(job=job.key, attempt=1, rank=1, node="n1"),)


def test_a_ladder_whose_policy_was_deleted_is_watched_like_any_other():
    history, victim, _ = ordered()
    history.append_facts(f.PolicyDeletedV1(author="default.admin", tenant="default", name="other"))
    history.wait(LADDER + OVERRUN_MAX)

    assert stated(history) == (f.LeaseOverdueV1(job=victim.key, attempt=1, rank=0, node="n1"),)


def test_a_job_that_runs_on_is_never_overdue():
    history = History(policy("ml"))
    history.node()
    history.run("ml/one")
    history.wait(60 * MINUTE)

    assert (stated(history), wakeup(history)) == ((), None)


@pytest.mark.parametrize(("last_reports", "silent_for"), [({}, 70), ({"n1": 5}, 65), ({"n1": 10}, 60)])
def test_a_node_that_was_silent_for_a_minute_is_lost(last_reports, silent_for):
    history = History()
    history.node()
    registered = history.now
    history.wait(70 * SECOND)

    at = {node: registered + seconds * SECOND for node, seconds in last_reports.items()}

    assert stated(history, at) == (f.NodeLostV1(node="n1", silent_for=silent_for * SECOND),)


def test_a_node_that_was_heard_of_is_not_lost_and_the_next_look_is_when_it_would_be():
    history = History()
    history.node("n1")
    history.node("n2")
    history.wait(59 * SECOND)

    last_reports = {"n1": history.now, "n2": history.now - 9 * SECOND}

    assert (stated(history, last_reports), wakeup(history, last_reports)) == ((), history.now - 9 * SECOND + NODE_TIMEOUT)


@pytest.mark.parametrize("gone", [f.NodeLostV1(node="n1", silent_for=NODE_TIMEOUT), f.NodeStoppedV1(node="n1", at=0)])
def test_a_node_that_is_gone_already_is_not_lost_again(gone):
    history = History()
    history.node()
    history.append_facts(gone, by="preemption")
    history.wait(NODE_TIMEOUT)

    assert (stated(history, {}), wakeup(history, {})) == ((), None)


def test_without_a_listener_no_node_is_ever_lost():
    history = History()
    history.node()
    history.wait(60 * MINUTE)

    assert (stated(history), wakeup(history)) == ((), None)


def test_a_plan_that_fits_no_record_is_dropped_and_one_that_does_not_fit_this_one_waits(monkeypatch):
    history, _, preemptor = searching()
    monkeypatch.setattr("headrace.preemption.decide.RecordCapacity", lambda: RecordCapacity(size=300))
    none = f.PreemptionNoneV1(
        preemption=search_id(history), job=preemptor.key, pool="hall", why="the plan is too large for one record"
    )
    assert stated(history) == (none,)

    begun = RecordCapacity(size=300)
    begun.takes((none,))
    monkeypatch.setattr("headrace.preemption.decide.RecordCapacity", lambda: begun)
    assert watching(history, None).decide(history.now) == ()


def test_a_node_that_stopped_and_does_not_come_for_what_it_was_granted_since_is_lost():
    """R36: what it said when it stopped is not about that."""
    history = History(policy("ml", 1))
    history.node("n1", 1)
    read = history.state.sequence
    history.admit("ml/one")
    history.allocate()
    history.append_facts(f.NodeStoppedV1(node="n1", through=read, at=history.now), by="node.n1")
    history.wait(NODE_TIMEOUT)

    assert stated(history, {}) == (f.NodeLostV1(node="n1", silent_for=NODE_TIMEOUT),)
