"""Taking, giving back and keeping change the same numbers, and undo each other."""

import pytest

from headrace.contracts.facts.fact import Place
from headrace.contracts.values.amounts import CPU, GPU, GPU_UNITS, JOB, MEMORY
from headrace.domain.state import capacity
from headrace.domain.state.quota import scopes_of
from tests.unit.domain.hall import Hall, gpus, shares


def numbers(hall, *policies):
    node = hall.state.nodes["n1"]
    accounts = [(scope.leased, scope.use, scope.firm) for policy in policies for scope in (policy.wide, policy.scopes["hall"])]
    devices = [(device.free, device.nominated) for device in node.devices]
    return repr((node.cpu_free, node.memory_free, devices, hall.pool.leased, hall.pool.use, hall.pool.nominated, accounts))


def test_taking_counts_in_the_node_the_pool_and_every_account_and_giving_back_undoes_it():
    hall = Hall(devices=2)
    policy = hall.policy("p")
    job = hall.admit("p", "j", preemptible=False)
    scopes_of(hall.state, policy, "hall")  # makes the accounts
    before = numbers(hall, policy)
    place = Place(node="n1", devices=shares(0, 1), amounts=gpus(1) | {CPU: 4_000, MEMORY: 1_024, JOB: 1})
    capacity.take(hall.state, job, hall.pool, place)
    node = hall.state.nodes["n1"]
    assert (node.cpu_free, node.memory_free) == (60_000, 261_120)
    assert [device.free for device in node.devices] == [0, GPU_UNITS]
    assert hall.pool.leased == policy.wide.leased == policy.wide.use == policy.wide.firm == place.amounts
    capacity.give_back(hall.state, job, hall.pool, place)
    assert numbers(hall, policy) == before


def test_a_device_can_never_hold_more_than_it_has():
    hall = Hall(devices=1)
    hall.policy("p")
    job = hall.admit("p", "j")
    place = Place(node="n1", devices=shares(0, 1), amounts=gpus(1))
    capacity.take(hall.state, job, hall.pool, place)
    with pytest.raises(AssertionError, match="units free"):
        capacity.take(hall.state, job, hall.pool, place)


def test_what_is_open_is_open_for_all_that_is_asked_for_together():
    hall = Hall(devices=2)
    node, half = hall.state.nodes["n1"], shares(0, 0.5)[0]
    assert capacity.is_open(node, [half, half, *shares(1, 1)])
    assert not capacity.is_open(node, [half, half, half])
    assert not capacity.is_open(node, [*shares(0, 1), half])
    assert not capacity.is_open(node, shares(2, 1))
    assert [device.free for device in node.devices] == [GPU_UNITS, GPU_UNITS]


def test_what_yields_is_held_but_counts_in_no_test_and_what_is_kept_counts_for_its_preemptor():
    hall = Hall(devices=4)
    lender, owner = hall.policy("lender", reservation=0, size=4), hall.policy("owner", reservation=4, size=4)
    victim = hall.run("lender", "v", ("n1", 0, 4))
    hall.order(hall.admit("owner", "o"), [victim], ("n1", 0, 4))
    assert (lender.wide.leased[GPU], lender.wide.use.get(GPU, 0)) == (4 * GPU_UNITS, 0)
    assert (owner.wide.leased.get(GPU, 0), owner.wide.use[GPU]) == (0, 4 * GPU_UNITS)
    assert (hall.pool.leased[GPU], hall.pool.use[GPU], hall.pool.nominated[GPU]) == (4 * GPU_UNITS,) * 3


def test_what_moves_from_one_account_to_another_is_what_adding_twice_would_have_made():
    one, other = {"gpu": 3, "job": 1}, {"gpu": -3}
    again = {"gpu": 3, "job": 1}, {"gpu": -3}
    amounts = {"gpu": 3, "job": 2, "cpu": 0}
    capacity.move([(one, other)], amounts, 1)
    capacity.add([again[0]], amounts, -1)
    capacity.add([again[1]], amounts, 1)
    assert (one, other) == again == ({"job": -1}, {"job": 2})
    capacity.move([(one, other)], amounts, -1)
    assert (one, other) == ({"gpu": 3, "job": 1}, {"gpu": -3})
