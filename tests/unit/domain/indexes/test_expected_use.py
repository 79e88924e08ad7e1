"""What the usual requests would use of each kind of node (R20): scarce models go to those who need them, and cpus to who uses them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.contracts.values.amounts import GPU_UNITS
from headrace.domain.indexes.expected_use import (
    ASKED,
    Amount,
    Plan,
    RequestFamily,
    Site,
    cores_step,
    kind_of,
    make_plan,
    planned,
)
from headrace.domain.model.requests import Shape

T4, G2 = Site("T4", 3), Site("G2", 3)
EQUAL = {T4: Amount(100 * GPU_UNITS, 1_200_000), G2: Amount(100 * GPU_UNITS, 1_200_000)}
ANY, ONLY_T4 = Shape(1, 0, 8_000, 0, ()), Shape(1, 0, 8_000, 0, ("T4",))


def gpus(plan: Plan, shape: Shape) -> dict[str, int]:
    """Whole GPUs planned for a shape's kind, by model."""
    return {site.model: held // GPU_UNITS for site, held in sorted(planned(plan, kind_of(shape)).items()) if held >= GPU_UNITS}


def test_what_can_go_anywhere_leaves_the_scarce_model_to_those_who_cannot():
    plan = make_plan([(ANY, 1), (ONLY_T4, 1)], EQUAL)
    assert (gpus(plan, ONLY_T4), gpus(plan, ANY)) == ({"T4": 110}, {"G2": 110})


def test_what_is_left_of_it_they_share_until_all_are_equally_full():
    plan = make_plan([(ANY, 3), (ONLY_T4, 1)], EQUAL)
    shared = gpus(plan, ANY)
    assert gpus(plan, ONLY_T4) == {"T4": 55}
    assert shared["T4"] + shared["G2"] in (164, 165)
    assert 50 <= shared["T4"] <= 60


def test_what_needs_many_cpus_goes_where_cpus_are():
    lean, rich = Site("G2", 1), Site("T4", 6)
    plan = make_plan(
        [(Shape(1, 0, 2_000, 0, ()), 1), (Shape(1, 0, 20_000, 0, ()), 1)],
        {lean: Amount(100 * GPU_UNITS, 500_000), rich: Amount(100 * GPU_UNITS, 2_400_000)},
    )
    light, heavy = gpus(plan, Shape(1, 0, 2_000, 0, ())), gpus(plan, Shape(1, 0, 20_000, 0, ()))
    assert light["G2"] >= 90
    assert heavy["T4"] >= 90


def test_a_model_that_is_not_there_is_in_no_plan():
    assert make_plan([(Shape(1, 0, 0, 0, ("A10",)), 1)], EQUAL) == {}


def test_requests_without_gpu_are_measured_in_cpus_and_may_go_where_no_gpu_is():
    bare = Site("", -1)
    plan = make_plan([(ANY, 1), (Shape(0, 0, 4_000, 0, ()), 1)], {**EQUAL, bare: Amount(0, 10_000_000)})
    kind = kind_of(Shape(0, 0, 4_000, 0, ()))
    assert bare not in plan[kind_of(ANY)]
    assert plan[kind][bare] > sum(held for site, held in plan[kind].items() if site != bare)


def test_a_mix_without_gpus_has_no_plan():
    assert make_plan([(Shape(0, 0, 4_000, 0, ()), 1)], EQUAL) == {}


@pytest.mark.parametrize(
    ("shape", "kind"),
    [
        pytest.param(Shape(0, 0, 9, 9, ("T4",)), RequestFamily((), -1), id="without gpu no model matters"),
        pytest.param(Shape(2, 0, 8_000, 0, ("T4",)), RequestFamily(("T4",), 0), id="cpus are counted for each gpu"),
        pytest.param(Shape(0, GPU_UNITS // 2, 8_000, 0, ()), RequestFamily((), 4), id="of a fraction too"),
    ],
)
def test_kinds_of_requests(shape, kind):
    assert kind_of(shape) == kind


def test_a_step_ends_with_its_number_of_cores():
    assert [cores_step(GPU_UNITS, cpu) for cpu in (0, 4_000, 4_001, 48_000, 48_001)] == [0, 0, 1, 7, 8]


def test_what_the_plan_does_not_know_is_steered_like_its_nearest_kin():
    plan: Plan = {
        RequestFamily(("T4",), 1): {T4: 1},
        RequestFamily(("T4",), 6): {T4: 6},
        RequestFamily((), 3): {G2: 3},
        RequestFamily((), -1): {G2: 9},
    }
    asked = (
        RequestFamily(("T4",), 2),
        RequestFamily(("T4",), 8),
        RequestFamily((), 0),
        RequestFamily((), -1),
        RequestFamily(("G2",), 3),
    )
    assert [planned(plan, kind) for kind in asked] == [{T4: 1}, {T4: 6}, {G2: 3}, {G2: 9}, {}]


SHAPES = st.builds(
    Shape, st.integers(0, 8), st.just(0), st.integers(0, 64_000), st.just(0), st.sampled_from([(), ("T4",), ("G2",)])
)
MIXES = st.lists(st.tuples(SHAPES, st.integers(1, 50)), min_size=1, max_size=8, unique_by=lambda entry: entry[0])
SUPPLIES = st.dictionaries(
    st.sampled_from([T4, G2, Site("G2", 6), Site("A10", 8)]),
    st.builds(Amount, st.integers(1, 500).map(lambda count: count * GPU_UNITS), st.integers(0, 10**7)),
    min_size=1,
)


@given(MIXES, SUPPLIES, st.randoms(use_true_random=False))
def test_a_plan_places_what_is_asked_where_it_may_go_and_depends_on_no_order(mix, supply, random):
    plan = make_plan(mix, supply)
    shuffled, other = list(mix), list(supply.items())
    random.shuffle(shuffled)
    random.shuffle(other)
    assert make_plan(shuffled, dict(other)) == plan
    for kind, held in plan.items():
        assert all(kind.may_take(site) and amount >= 0 for site, amount in held.items())
    whole = sum(held for kind, sites in plan.items() if kind.cores >= 0 for held in sites.values())
    assert 100 * whole <= ASKED * sum(has.gpu for has in supply.values())
