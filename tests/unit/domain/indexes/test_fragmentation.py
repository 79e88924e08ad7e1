"""What the usual requests cannot use, against its definition (R20)."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.contracts.values.amounts import GPU_UNITS
from headrace.domain.indexes import fragmentation
from headrace.domain.indexes.fragmentation import Fragmentation, OpenCapacity
from headrace.domain.model.requests import Shape
from tests.unit.domain.indexes.definitions import after, by_definition, fits
from tests.unit.size import size

HALF, THIRD = GPU_UNITS // 2, GPU_UNITS // 3
FREE = st.sampled_from([0, 1, THIRD, HALF, GPU_UNITS - 1, GPU_UNITS])
SHAPES = st.builds(
    Shape,
    st.integers(0, 3),
    st.just(0),
    st.integers(0, 4),
    st.integers(0, 4),
    st.sampled_from([(), ("A100",), ("H100",)]),
    st.just(""),
) | st.builds(
    Shape, st.just(0), st.sampled_from([1, THIRD, HALF]), st.integers(0, 4), st.integers(0, 4), st.just(()), st.just("")
)
MIXES = st.lists(st.tuples(SHAPES, st.integers(1, 9)), max_size=6, unique_by=lambda entry: entry[0])
CAPACITIES = st.builds(
    lambda model, cpu, memory, opens: OpenCapacity(model, cpu, memory, tuple(sorted(opens))),
    st.sampled_from(["A100", "H100"]),
    st.integers(0, 5),
    st.integers(0, 5),
    st.lists(FREE, max_size=4),
)


@given(CAPACITIES, MIXES)
def test_the_amount_is_what_its_definition_says(capacity, mix):
    assert Fragmentation(mix).amount(capacity) == by_definition(capacity, mix)


@given(CAPACITIES, MIXES.filter(bool), SHAPES)
def test_the_score_is_the_sigmoid_of_the_greatest_drop_cut_to_a_whole_number(capacity, mix, asked):
    if not fits(capacity, asked):
        return
    judge = Fragmentation(mix)
    drops = {units: by_definition(capacity, mix) - by_definition(one, mix) for units, one in after(capacity, asked).items()}
    greatest = max(drops.values())
    device = min(units for units, drop in drops.items() if drop == greatest)
    gpus = greatest / sum(weight for _, weight in mix) / GPU_UNITS
    assert judge.score(capacity, judge.amount(capacity), asked) == (int(100 / (1 + math.exp(-gpus))), device)


def test_the_steps_are_those_of_the_sigmoid():
    wanted = [round(math.log(score / (100 - score)) * GPU_UNITS) for score in range(1, 100)]
    assert list(fragmentation.STEPS) == wanted


def test_without_a_mix_nothing_is_fragmented_and_a_fraction_takes_the_fullest_device():
    capacity, judge = OpenCapacity("H100", 8, 8, (THIRD, HALF, GPU_UNITS)), Fragmentation()
    assert (judge.amount(capacity), judge.score(capacity, 0, Shape(0, HALF, 0, 0, ()))) == (0, (0, HALF))


def test_a_half_next_to_a_half_is_better_than_a_half_of_an_empty_device():
    capacity = OpenCapacity("H100", 8, 8, (HALF, GPU_UNITS))
    judge = Fragmentation([(Shape(1, 0, 0, 0, ()), 1), (Shape(0, HALF, 0, 0, ()), 1)])
    assert judge.score(capacity, judge.amount(capacity), Shape(0, HALF, 0, 0, ())) == (56, HALF)


@pytest.mark.parametrize(("cpu", "scores"), [pytest.param(4, [73, 50], id="little"), pytest.param(8, [26, 50], id="much")])
def test_gpus_for_which_cpu_would_not_suffice_go_to_those_who_need_little_of_it(cpu, scores):
    judge = Fragmentation([(Shape(1, 0, 8, 0, ()), 1)])
    capacities = [OpenCapacity("H100", there, 8, (GPU_UNITS,) * 4) for there in (12, 40)]
    assert [judge.score(capacity, judge.amount(capacity), Shape(1, 0, cpu, 0, ()))[0] for capacity in capacities] == scores


@pytest.mark.parametrize("kept", [pytest.param(50_000, id="remembered"), pytest.param(1, id="forgotten at once")])
def test_what_is_remembered_has_an_end(kept, monkeypatch):
    monkeypatch.setattr(fragmentation, "_REMEMBERED", kept)
    mix = [(Shape(1, 0, 0, 0, ()), 2), (Shape(0, HALF, 0, 0, ()), 3)]
    judge = Fragmentation(mix)
    capacities = [OpenCapacity("H100", 8, 8, tuple(sorted((units, HALF)))) for units in range(0, GPU_UNITS, 999)]
    judge.score(capacities[0], judge.amount(capacities[0]), Shape(0, HALF, 0, 0, ()))
    before = size(judge)
    assert [judge.amount(capacity) for capacity in capacities] == [by_definition(capacity, mix) for capacity in capacities]
    assert (size(judge) < before + len(capacities)) is (kept == 1)


@given(CAPACITIES, MIXES, SHAPES)
def test_slices_in_the_mix_do_not_matter_to_jobs_without_slices(capacity, mix, asked):
    if not fits(capacity, asked):
        return
    others, both = Fragmentation(mix), Fragmentation([*mix, (Shape(0, 0, 1, 1, (), "1g.10gb"), 5)], amended=True)
    amount = others.amount(capacity)
    assert (both.amount(capacity), both.score(capacity, amount, asked)) == (amount, others.score(capacity, amount, asked))
