"""Taking back, as the ledger tells it (R19, R26, R27)."""

from headrace.contracts import facts as f
from headrace.contracts.values.amounts import GPU, GPU_UNITS
from headrace.domain.model.job_states import JobState
from headrace.domain.state.search_backoff import is_worthwhile
from tests.unit.domain.hall import Hall


def lent():
    hall = Hall(devices=4)
    hall.policy("lender", size=2)
    hall.policy("owner", reservation=4, size=4)
    victims = [hall.run("lender", f"v{number}", ("n1", 2 * number, 2)) for number in range(2)]
    return hall, victims, hall.admit("owner", "o")


def opened(hall, job):
    hall.append_facts("allocator", f.ReclaimOpenedV1(job=job.key, pool="hall", cause="reclaim"))
    return f"{job.key}@{hall.sequence}"


def test_a_search_is_open_until_it_is_answered_and_one_without_victims_is_remembered():
    hall, _, job = lent()
    search = opened(hall, job)
    assert (hall.pool.search.id, hall.pool.search.job, hall.pool.search.opened_at) == (search, job, hall.now)
    hall.append_facts("preemption", f.PreemptionNoneV1(preemption=search, job=job.key, pool="hall", why="w"))
    assert (hall.pool.search, is_worthwhile(hall.pool, job, hall.now)) == (None, False)


def test_an_answer_to_another_search_changes_nothing():
    hall, _, job = lent()
    search = opened(hall, job)
    hall.append_facts("preemption", f.PreemptionNoneV1(preemption="other@1", job=job.key, pool="hall", why="w"))
    assert hall.pool.search.id == search


def test_a_dismissed_search_is_over():
    hall, _, job = lent()
    search = opened(hall, job)
    hall.append_facts("allocator", f.PreemptionDismissedV1(preemption=search, job=job.key, pool="hall", why="w"))
    assert hall.pool.search is None


def test_what_is_ordered_keeps_the_places_bars_the_victims_and_ends_the_search():
    hall, victims, job = lent()
    preemption = hall.state.preemptions[hall.order(job, victims, ("n1", 0, 4))]
    assert (hall.pool.search, job.nomination, preemption.leaving) == (None, preemption, {victim.key for victim in victims})
    assert [(victim.yields_to, victim.barred_from) for victim in victims] == [(preemption.id, "hall")] * 2
    assert [device.nominated for device in hall.state.nodes["n1"].devices] == [GPU_UNITS] * 4
    assert (hall.state.preemptions_ordered, hall.state.pending.group_of(job)) == (2, None)


def test_a_victim_may_come_back_only_when_the_preemptor_has_started():
    hall, victims, job = lent()
    hall.order(job, victims, ("n1", 0, 4))
    for victim in victims:
        hall.stop(victim, "preempted", "requeue")
        hall.end(victim, stopping=True)
        hall.append_facts("allocator", f.JobRequeuedV1(job=victim.key, attempt=1, cause="preempted"))
    assert [hall.state.pending.group_of(victim).barred_from for victim in victims] == ["hall", "hall"]
    hall.start(hall.grant(job, ("n1", 0, 4)))
    assert [hall.state.pending.group_of(victim).barred_from for victim in victims] == ["", ""]
    assert (job.state, job.nomination, hall.pool.nominated.get(GPU, 0)) == (JobState.RUNNING, None, 0)


def test_a_nomination_that_ends_gives_the_places_free_and_the_preemptor_stands_in_line_again():
    hall, victims, job = lent()
    preemption = hall.order(job, victims, ("n1", 0, 4))
    hall.append_facts("allocator", f.NominationEndedV1(preemption=preemption, job=job.key, why="w"))
    assert (job.nomination, hall.state.pending.group_of(job) is not None) == (None, True)
    assert [device.nominated for device in hall.state.nodes["n1"].devices] == [0] * 4
    assert victims[0].barred_from == "hall", "it has not left yet"


def test_a_settled_preemption_is_forgotten_once_nothing_is_kept_for_it():
    hall, victims, job = lent()
    preemption = hall.order(job, victims, ("n1", 0, 4))
    settled = f.PreemptionSettledV1(preemption=preemption, job=job.key, victims=2, lost=0, to_signal=1, grace=1, to_release=1)
    hall.append_facts("preemption", settled)
    assert preemption in hall.state.preemptions
    hall.append_facts("allocator", f.NominationEndedV1(preemption=preemption, job=job.key, why="w"))
    assert hall.state.preemptions == {}


def test_an_overdue_lease_and_a_lost_node_are_noted():
    hall, (victim, _), _ = lent()
    hall.append_facts(
        "preemption", f.LeaseOverdueV1(job=victim.key, attempt=1, node="n1"), f.NodeLostV1(node="n1", silent_for=60)
    )
    assert (victim.leases[0].overdue, hall.state.nodes["n1"].status) == (True, "lost")
