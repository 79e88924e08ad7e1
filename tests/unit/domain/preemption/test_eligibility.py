"""R23-R25: who may be taken from, by which cause, and in which order."""

import pytest

from headrace.contracts import facts as f
from headrace.contracts.documents.model import PreemptionTerms, Share, Tenant
from headrace.contracts.facts.levels import FIRST, LEVEL
from headrace.contracts.values.amounts import GPU_UNITS
from headrace.contracts.values.durations import SECOND
from headrace.domain.preemption import eligibility as e
from tests.unit.domain.hall import Hall, gpus


def lending(**terms):
    """Four GPUs, all lent to `lender`, two of them reserved for `owner`."""
    hall = Hall(devices=4)
    hall.policy("lender", size=1, terms=PreemptionTerms(**terms))
    hall.policy("owner", reservation=2, size=1)
    victims = [hall.run("lender", f"v{number}", ("n1", number, 1)) for number in range(4)]
    return hall, victims, hall.admit("owner", "o")


def test_a_job_inside_its_reservation_may_reclaim_and_one_beyond_it_may_not():
    hall, _, owner = lending()
    assert e.causes(hall.state, owner, hall.pool) == (e.RECLAIM,)
    assert e.causes(hall.state, hall.admit("lender", "more"), hall.pool) == ()


def test_priority_is_a_cause_only_where_the_policy_says_so():
    hall = Hall()
    hall.policy("prod", terms=PreemptionTerms(preempt_lower_priority=True))
    assert e.causes(hall.state, hall.admit("prod", "p"), hall.pool) == (e.PRIORITY,)


@pytest.mark.parametrize(("borrow", "preemptible"), [(True, False), (False, True), (False, False)])
def test_what_may_run_inside_its_reservation_only_takes_nothing_by_any_cause_once_that_is_busy(borrow, preemptible):
    """R12, R13: it could not start. What could be taken back is passed over by who could not (R17)."""
    hall = Hall()
    hall.policy("prod", reservation=1, borrow=borrow, terms=PreemptionTerms(preempt_lower_priority=True))
    waiting = hall.admit("prod", "p", preemptible=preemptible)
    assert e.causes(hall.state, waiting, hall.pool) == (e.RECLAIM, e.PRIORITY)

    hall.run("prod", "first", ("n1", 0, 1), preemptible=preemptible)
    assert e.causes(hall.state, waiting, hall.pool) == ()
    firm = hall.admit("prod", "firm", preemptible=False)
    assert e.causes(hall.state, firm, hall.pool) == ((e.PRIORITY,) if preemptible else ())


def test_a_policy_lends_only_while_another_policy_is_above_its_reservation():
    hall, victims, owner = lending()
    assert e.anybody_above(hall.state, owner.policy, hall.pool)
    assert not e.anybody_above(hall.state, victims[0].policy, hall.pool)


@pytest.mark.parametrize(("level", "counted"), [(LEVEL, ["gpu"]), (FIRST, ["gpu", "cpu"])])
def test_where_sums_fit_only_keys_count_that_are_asked_for(level, counted):  # R24
    hall, _, owner = lending()
    hall.pool.governed = frozenset({"gpu", "cpu"})
    hall.state.terms.level = level
    held = {"gpu": 1, "cpu": 1, "memory": 1}
    assert e.keys_that_count(hall.state, owner, hall.pool, frozenset(), held) == counted
    assert e.keys_that_count(hall.state, owner, hall.pool, frozenset({"gpu"}), held) == ["gpu"]


def test_lost_work_counts_from_the_last_checkpoint_of_this_attempt_else_from_the_start():
    hall, (victim, other, *_), _ = lending()
    hall.later(100)
    assert e.lost_work(victim, hall.now) == 100 * GPU_UNITS
    hall.append_facts("node.n1", f.CheckpointRegisteredV1(job=victim.key, attempt=1, uri="u", at=hall.now))
    hall.later(7)
    assert (e.lost_work(victim, hall.now), e.lost_work(other, hall.now)) == (7 * GPU_UNITS, 107 * GPU_UNITS)


def test_a_policy_that_assumes_checkpoints_caps_the_loss():
    hall, (victim, *_), _ = lending(assume_checkpoint_every=30 * SECOND)
    hall.later(100)
    assert e.lost_work(victim, hall.now) == 30 * GPU_UNITS


@pytest.mark.parametrize(("seconds", "bucket"), [(0, 0), (1, 0), (2, 1), (3, 1), (4, 2), (1_023, 9), (1_024, 10)])
def test_losses_are_compared_in_powers_of_two_of_gpu_seconds(seconds, bucket):
    assert e.lost_bucket(seconds * GPU_UNITS) == bucket


def test_a_job_is_protected_until_its_minimum_run_time_is_served_since_its_real_start():
    hall, (victim, *_), _ = lending(min_runtime=60 * SECOND)
    assert e.protected_until(victim) == hall.now + 60 * SECOND
    waiting = hall.admit("lender", "w")
    hall.end(victim)
    assert e.protected_until(hall.grant(waiting, ("n1", 0, 1))) is None


def test_within_a_tenant_the_sides_are_policies_between_tenants_with_shares_the_shares():
    hall = Hall(devices=8)
    for name in ("acme", "rival"):
        share = Share(pool="hall", reservation=gpus(4))
        hall.append_facts("governance", f.TenantAppliedV1(author="a.b", tenant=Tenant(name=name, shares=(share,))))
    hall.policy("p")
    hall.policy("q")
    hall.policy("r", tenant="rival")
    mine, sibling, other = (hall.state.policies[key] for key in (("acme", "p"), ("acme", "q"), ("rival", "r")))
    assert e.side_below(hall.state, mine, sibling, hall.pool) == (mine.wide,)
    assert e.side_below(hall.state, mine, other, hall.pool) == (hall.state.shares["acme", "hall"],)
    assert e.side_below(hall.state, other, mine, hall.pool) == (hall.state.shares["rival", "hall"],)


def test_a_non_preemptible_job_can_never_yield_nor_one_that_is_leaving():
    hall, (victim, leaving, *_), _ = lending()
    hall.stop(leaving)
    firm = hall.admit("owner", "firm", preemptible=False)
    assert [e.can_yield(job, "hall") for job in (victim, leaving, firm)] == [True, False, False]


def test_no_job_is_told_to_stop_on_a_node_that_is_away():
    hall = Hall(nodes=2, devices=2)
    hall.policy("lender", size=1)
    hall.policy("owner", reservation=4, size=1)
    here, there = (hall.run("lender", name, (name, 0, 1)) for name in ("n1", "n2"))
    hall.append_facts("preemption", f.NodeLostV1(node="n2", silent_for=0))
    assert [e.can_leave(job, {"n2"}) for job in (here, there)] == [True, False]
