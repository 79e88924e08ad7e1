"""A section stays small and exact however often its nodes change. That its answers are right is shown by `test_node_index`."""

from __future__ import annotations

import pytest

from headrace.contracts.values.amounts import GPU_UNITS
from headrace.domain.indexes import shape_buckets
from headrace.domain.indexes.expected_use import Amount, Site
from headrace.domain.indexes.fragmentation import Fragmentation
from headrace.domain.indexes.node_classes import ClassKey, SectionTag, Shapes
from headrace.domain.indexes.shape_buckets import Section
from headrace.domain.model.requests import Shape
from tests.unit.size import size

ONE_GPU = Amount(GPU_UNITS, 12_000)
ONE = Shape(1, 0, 0, 0, ())
CPU = Shape(0, 0, 1, 0, ())


def key(cpu: int, *opens: int) -> ClassKey:
    return ClassKey(cpu, 0, opens, ())


def section(*shapes: Shape) -> Section:
    return Section(SectionTag(Site("H100", 3), ""), Shapes(shapes), Fragmentation())


@pytest.fixture
def no_slack(monkeypatch):
    monkeypatch.setattr(shape_buckets, "SLACK", 0)


def test_a_new_seat_takes_nothing_and_a_section_without_nodes_is_empty():
    here = section(ONE)
    first = here.enter("a", ONE_GPU)
    assert (here.feasible, here.is_empty) == (0, False)
    here.move(first, key(0, GPU_UNITS))
    here.leave(first)
    assert (here.feasible, here.is_empty) == (0, True)


def test_what_is_feasible_is_the_union_of_what_the_nodes_take():
    here = section(ONE, CPU)
    seats = [here.enter(name, ONE_GPU) for name in "abcde"]
    seen = []
    for seat in seats:
        here.move(seat, key(0))
    for cpu, opens in ((0, ()), (1, ()), (1, (GPU_UNITS,)), (0, (GPU_UNITS,)), (0, ())):
        here.move(seats[3], key(cpu, *opens))
        seen.append(here.feasible)
    assert seen == [0b00, 0b10, 0b11, 0b01, 0b00]


def test_a_trial_undone_leaves_lines_and_log_as_they_were():
    here = section(CPU)
    seat = here.enter("a", ONE_GPU)
    here.move(seat, key(5))
    assert here.best(0) == ((0, 5 * 126, 0), "a")
    for _ in range(3):
        here.move(seat, key(4))
        here.move(seat, key(5))
    before = size(here)
    for _ in range(100):
        here.move(seat, key(4))
        here.move(seat, key(5))
    assert here.best(0) == ((0, 5 * 126, 0), "a")
    assert size(here) < before + 10


def test_classes_log_and_lines_are_cut_back(no_slack):
    here = section(CPU, ONE)
    seats = [here.enter(name, ONE_GPU) for name in "abc"]
    for seat in seats:
        here.move(seat, key(1))
    sizes = []
    for cpu in range(2, 200):
        here.move(seats[cpu % 3], key(cpu))
        if cpu % 5 == 0:
            here.best(0)
        sizes.append(size(here))
    assert here.best(0) == ((0, 197 * 126, 0), "c")
    assert max(sizes[30:]) < max(sizes[:30]) + 10


def test_a_line_that_is_not_asked_for_ends_and_begins_anew_when_it_is(no_slack):
    here = section(CPU)
    seat = here.enter("a", ONE_GPU)
    here.move(seat, key(1))
    here.best(0)
    for cpu in range(2, 20):
        here.move(seat, key(cpu))
    assert here.lines == {}
    assert here.best(0) == ((0, 19 * 126, 0), "a")


def test_a_shape_registered_later_is_looked_at_for_all_jobs():
    shapes = Shapes([ONE])
    here = Section(SectionTag(Site("H100", 3), ""), shapes, Fragmentation())
    here.move(here.enter("a", ONE_GPU), key(1))
    shapes.all.append(CPU)
    here.learn()
    assert (here.feasible, here.best(1)) == (0b10, ((0, 126, 0), "a"))


def test_with_another_mix_the_same_nodes_are_good_for_other_things():  # R20
    here = section(ONE)
    for name, opens in {"a": (GPU_UNITS,), "b": (GPU_UNITS, GPU_UNITS)}.items():
        here.move(here.enter(name, ONE_GPU), key(0, *opens))
    seen = [here.best(0)[1]]
    for wanted in ((), ((Shape(2, 0, 0, 0, ()), 1),), ()):
        here.weigh(Fragmentation(wanted))
        seen.append(here.best(0)[1])
    assert seen == ["a", "a", "a", "a"]


def test_it_knows_what_its_nodes_have_when_they_are_empty():
    here = section(ONE)
    seats = [here.enter("a", ONE_GPU), here.enter("b", Amount(2 * GPU_UNITS, 16_000))]
    seen = [here.supply]
    here.leave(seats[0])
    seen.append(here.supply)
    assert seen == [Amount(3 * GPU_UNITS, 28_000), Amount(2 * GPU_UNITS, 16_000)]
