"""A job goes to the kind of node that is furthest behind what the usual requests would use (R20)."""

from __future__ import annotations

import pytest

from headrace.contracts.values.amounts import CPU, GPU, GPU_UNITS
from headrace.domain.indexes import gpu_model_balance as module
from headrace.domain.indexes.expected_use import Amount, Site
from headrace.domain.indexes.gpu_model_balance import Steering, site_of
from headrace.domain.model.devices import DeviceState
from headrace.domain.model.nodes import NodeState
from headrace.domain.model.requests import Shape
from tests.unit.size import size

ANY, ONLY_T4 = Shape(1, 0, 0, 0, ()), Shape(1, 0, 0, 0, ("T4",))
T4, G2 = Site("T4", 3), Site("G2", 3)
SUPPLY = {T4: Amount(8 * GPU_UNITS, 96_000), G2: Amount(8 * GPU_UNITS, 96_000)}
SLICE = Shape(0, 0, 1_000, 0, ("T4", "G2"), "1g.10gb")
MIX = [(ANY, 1), (ONLY_T4, 1)]


def node(model: str, gpus: int = 8, cpu: int = 96_000) -> NodeState:
    devices = [DeviceState(f"gpu{number}", model, 80, GPU_UNITS) for number in range(gpus)]
    return NodeState(f"{model}-node", {}, devices, cpu, 0, cpu, 0, 0, model=model)


def weighed() -> Steering:
    steering = Steering()
    steering.weigh(MIX, amended=True)
    return steering


def test_before_anything_is_learnt_it_goes_anywhere():
    assert Steering().choose(ANY, [T4, G2], SUPPLY) == [T4, G2]


def test_where_no_job_asks_for_a_model_nothing_is_scarce():
    steering = Steering()
    steering.weigh([(ANY, 1)], amended=True)
    assert steering.choose(ANY, [T4, G2], SUPPLY) == [T4, G2]


def test_a_job_that_may_go_anywhere_leaves_the_scarce_model_alone():
    assert list(weighed().choose(ANY, [T4, G2], SUPPLY)) == [G2]


def test_if_the_model_it_should_go_to_is_full_it_goes_anywhere():
    assert list(weighed().choose(ANY, [T4], SUPPLY)) == [T4]


def test_when_it_holds_all_that_was_planned_it_goes_anywhere():
    steering = weighed()
    steering.hold(node("G2"), ANY, {GPU: 9 * GPU_UNITS}, 1)
    assert steering.choose(ANY, [T4, G2], SUPPLY) == [T4, G2]


def test_of_two_planned_the_one_furthest_behind_comes_next():
    steering, went = Steering(), []
    steering.weigh([(ANY, 99), (ONLY_T4, 1)], amended=True)
    for _ in range(8):
        (site,) = steering.choose(ANY, [T4, G2], SUPPLY)
        steering.hold(node(site.model), ANY, {GPU: GPU_UNITS}, 1)
        went.append(site.model)
    assert sorted(went[:2]) == ["G2", "T4"]
    assert went.count("G2") == went.count("T4") == 4


EITHER = Shape(1, 0, 0, 0, ("G2", "T4"))


@pytest.mark.parametrize(
    ("amended", "held", "sites"),
    [
        pytest.param(True, {}, ["T4", "G2"], id="to any that is behind"),
        pytest.param(True, {"T4": 9}, ["G2"], id="not to one that holds what was planned"),
        pytest.param(True, {"T4": 9, "G2": 9}, ["T4", "G2"], id="anywhere when none is behind"),
        pytest.param(False, {"G2": 2}, ["T4"], id="to the very furthest, before the rules were amended"),
    ],
)
def test_a_job_that_names_its_models_may_go_to_any_that_is_behind(amended, held, sites):
    steering = Steering()
    steering.weigh([(EITHER, 1)], amended=amended)
    for model, count in held.items():
        steering.hold(node(model), EITHER, {GPU: count * GPU_UNITS}, 1)
    assert [site.model for site in steering.choose(EITHER, [T4, G2], SUPPLY)] == sites


def test_a_slice_is_not_steered_and_no_part_of_the_plan():
    steering, plain = Steering(), weighed()
    steering.weigh([*MIX, (SLICE, 100)], amended=True)
    assert steering.choose(SLICE, [T4, G2], SUPPLY) == [T4, G2]
    assert list(steering.choose(ANY, [T4, G2], SUPPLY)) == list(plain.choose(ANY, [T4, G2], SUPPLY))


def test_what_was_held_and_is_given_back_leaves_no_trace():
    steering = weighed()
    for sign in (1, -1):
        steering.hold(node("G2"), ANY, {GPU: 9 * GPU_UNITS, CPU: 4}, sign)
    assert list(steering.choose(ANY, [T4, G2], SUPPLY)) == [G2]


def test_the_order_in_which_it_hears_of_sites_does_not_matter():
    assert list(weighed().choose(ANY, [G2, T4], dict(reversed(SUPPLY.items())))) == [G2]


def test_the_plan_is_made_once_for_a_mix_and_a_number_of_nodes(monkeypatch):
    made = []
    make = module.make_plan
    monkeypatch.setattr(module, "make_plan", lambda mix, supply: made.append(supply) or make(mix, supply))
    steering = weighed()
    for gpus in (640, 641, 648, 1_280):
        steering.choose(ANY, [T4, G2], {**SUPPLY, G2: Amount(gpus * GPU_UNITS, 96_000)})
    assert [supply[G2].gpu // GPU_UNITS for supply in made] == [632, 1_264]  # six binary digits of the units


def test_memos_have_an_end(monkeypatch):
    monkeypatch.setattr(module, "_REMEMBERED", 2)
    steering, sizes = Steering(), []
    for cpu in range(200):
        steering.hold(node("G2"), Shape(1, 0, cpu, 0, ()), {GPU: GPU_UNITS}, 1)
        sizes.append(size(steering))
    assert max(sizes[20:]) < max(sizes[:20]) + 20


@pytest.mark.parametrize(
    ("one", "site"),
    [
        pytest.param(node("T4", 4, 96_000), Site("T4", 5), id="24 cores a gpu"),
        pytest.param(node("", 0, 96_000), Site("", -1), id="no gpus"),
    ],
)
def test_to_which_kind_of_node_one_belongs(one, site):
    assert site_of(one) == site
