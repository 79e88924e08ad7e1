"""The search by place (R26): nodes, choices of nodes for gangs, and where it stops."""

from headrace.contracts.values.amounts import GPU
from headrace.domain.preemption import victim_search
from headrace.domain.preemption.victims import NoPlan, VictimPlan, search
from tests.unit.domain.hall import gpus
from tests.unit.domain.preemption.lenders import QUARTERS, context, lent


def names(found):
    return [candidate.job.key.rsplit(".")[-1] for candidate in found.victims]


def test_the_sweep_finds_the_node_whose_worst_victim_is_best():
    hall, job = lent(*QUARTERS)
    there, eligible = context(hall, job)
    assert names(victim_search.best_node(there, eligible)) == ["n2-3", "n2-2", "n2-1", "n2-0"]


def test_a_gang_takes_the_nodes_whose_worst_victims_are_best():
    hall, job = lent(("a", "n1", 0, 4), *QUARTERS[4:], ("b", "n3", 0, 4), nodes=3, replicas=2)
    there, eligible = context(hall, job)
    found = victim_search.best_choice(there, eligible)
    assert (names(found), [place.node for place in found.places]) == (["n2-3", "n2-2", "b", "n2-1", "n2-0"], ["n2", "n3"])


def test_where_one_leaves_several_nodes_a_gang_takes_the_fewest():
    hall, job = lent(*QUARTERS[:4], ("g", "n2", 0, 2), size=2, devices=4, nodes=3, replicas=2, lender=0)
    hall.policy("wide", size=2, replicas=2)
    hall.run("wide", "w", ("n2", 2, 2), ("n3", 0, 2))
    hall.run("wide", "firm", ("n3", 2, 1), ("n3", 3, 1), preemptible=False)
    there, eligible = context(hall, job)
    assert names(victim_search.best_choice(there, eligible)) == ["w"]


def test_a_gang_uses_what_is_free_before_a_job_yields():
    hall, job = lent(*QUARTERS[:4], nodes=2, replicas=2)
    there, eligible = context(hall, job)
    found = victim_search.best_choice(there, eligible)
    assert (len(found.victims), [place.node for place in found.places]) == (4, ["n1", "n2"])


def test_where_it_is_not_legal_to_take_the_first_ones_together_others_are_tried():
    hall, job = lent(("a", "n1", 0, 1), ("b", "n2", 0, 2), size=1, replicas=2, devices=2, lender=2)
    hall.policy("other", size=1)
    hall.run("other", "c", ("n1", 1, 1))
    there, eligible = context(hall, job)
    assert names(victim_search.best_choice(there, eligible)) == ["b"]


def test_a_ceiling_of_the_pool_belongs_to_no_node():
    hall, job = lent(*QUARTERS[:4], nodes=2, size=4, capacity=gpus(4))
    there, eligible = context(hall, job)
    assert not there.is_of_nodes()
    found = victim_search.find(there, eligible)
    assert (len(found.victims), [place.node for place in found.places]) == (4, ["n1"])


def test_what_all_sides_together_may_not_lose_is_refused_by_counting():
    hall, job = lent(*QUARTERS, replicas=2, lender=7)
    there, eligible = context(hall, job)
    assert victim_search.find(there, eligible) is None
    assert there.effort_left == victim_search.EFFORT_MAX


def test_a_set_is_found_one_by_one_where_no_beginning_gives_one():
    hall, job = lent(*QUARTERS[:2], size=2, nodes=1, devices=2, lender=0)
    there, eligible = context(hall, job)
    found = victim_search.any_set(there, eligible.all(), there.usable())
    assert names(found) == ["n1-1", "n1-0"]
    assert victim_search.any_set(there, eligible.all()[:1], there.usable()) is None


def test_a_search_that_was_given_up_says_so(monkeypatch):
    hall, job = lent(*QUARTERS[:4], lender=2)
    hall.policy("spare", size=1)
    for device in range(4):
        hall.run("spare", f"s{device}", ("n2", device, 1), preemptible=device < 2)
    none = "no set of borrowed units, taken together, makes room for it"
    assert search(hall.state, job, hall.pool, hall.now) == NoPlan(none)
    monkeypatch.setattr(victim_search, "EFFORT_MAX", 1)
    assert search(hall.state, job, hall.pool, hall.now) == NoPlan(f"{none}; not all sets were tried")


def test_nothing_is_changed_by_a_search():
    hall, job = lent(*QUARTERS)
    before = [(device.free, device.nominated) for node in hall.state.nodes.values() for device in node.devices]
    assert isinstance(search(hall.state, job, hall.pool, hall.now), VictimPlan)
    assert [(device.free, device.nominated) for node in hall.state.nodes.values() for device in node.devices] == before
    assert hall.pool.use == {GPU: 8 * 126_000, "job": 8}
