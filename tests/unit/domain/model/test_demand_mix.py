"""What a pool is usually asked for (R20): what is counted, what of it is stated, and when."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from headrace.contracts.facts.allocation import UsualRequest
from headrace.contracts.values.amounts import CPU, GPU, GPU_UNITS
from headrace.domain.model import demand_mix as mixes
from headrace.domain.model.demand_mix import FIRST, GROWTH, LEARNING, REPLICAS_COUNTED, DemandMix
from headrace.domain.model.requests import Request, Shape, make_request


def request(gpus: int, replicas: int = 1, cpu: int = 0) -> Request:
    return make_request({GPU: gpus * GPU_UNITS, CPU: cpu}, replicas, None)


def counted(**times: int) -> DemandMix:
    """A mix in which `one`, `two`, ... GPUs were asked for so often."""
    mix = DemandMix()
    for name, count in times.items():
        for _ in range(count):
            mix.count(request(("none", "one", "two", "three", "four").index(name)))
    return mix


def is_due(mix: DemandMix) -> bool:
    return mix.holds_until() <= mix.asked


def test_each_replica_counts_but_no_gang_is_the_whole_mix():
    mix = DemandMix()
    mix.count(request(1, 3))
    mix.count(request(2, 1_000))
    assert mix.counts == {Shape(1, 0, 0, 0, ()): 3, Shape(2, 0, 0, 0, ()): REPLICAS_COUNTED}
    assert (mix.asked, mix.counted) == (3 + REPLICAS_COUNTED, 3 + REPLICAS_COUNTED)


def test_the_most_frequent_are_stated_first_and_no_more_than_a_fact_should_hold(monkeypatch):
    monkeypatch.setattr(mixes, "STATED_MAX", 3)
    mix = counted(one=38, two=60, three=1, four=1)
    assert mix.usual() == tuple(UsualRequest(whole=whole, weight=weight) for whole, weight in ((2, 60), (1, 38), (3, 1)))


def test_what_is_stated_is_read_back_whole():
    mix = DemandMix()
    mix.counts = {Shape(0, 63_000, 4_000, 8_192, ("A100", "H100")): 5, Shape(2, 0, 1, 2, ()): 5}
    mix.counted = 10
    mix.learn(mix.usual())
    assert dict(mix.stated) == mix.counts


def test_the_count_forgets_by_halving_and_drops_what_came_once(monkeypatch):
    monkeypatch.setattr(mixes, "COUNTED_MAX", 10)
    mix = counted(one=7, two=1, three=3)
    assert mix.counts == {Shape(1, 0, 0, 0, ()): 3, Shape(3, 0, 0, 0, ()): 1}
    assert (mix.asked, mix.counted) == (11, 4)


def test_a_flood_of_different_requests_is_bounded(monkeypatch):
    monkeypatch.setattr(mixes, "SHAPES_MAX", 10)
    mix = counted(one=8)
    for cpu in range(1, 1_000):
        mix.count(request(0, cpu=cpu))
        assert len(mix.counts) <= 10


def test_nothing_is_stated_before_enough_was_asked():
    mix = counted(one=FIRST - 1)
    seen = [is_due(mix)]
    mix.count(request(1))
    seen.append(is_due(mix))
    assert seen == [False, True]


def test_while_it_learns_the_mix_is_stated_each_time_its_count_has_grown_by_an_eighth():
    mix, stated = DemandMix(), []
    for _ in range(4 * LEARNING):
        mix.count(request(1))
        if is_due(mix):
            mix.learn(mix.usual())
            stated.append(mix.asked)
    assert stated[:10] == [16, 32, 48, 64, 80, 96, 112, 128, 144, 162]
    grown = [after - before for before, after in pairwise(stated)]
    assert grown == [max(FIRST, before // GROWTH) for before in stated[:-1]]
    assert stated[-2] < LEARNING <= stated[-1]


def test_later_it_is_stated_when_a_sixteenth_has_become_another():
    mix = counted(one=2 * LEARNING)
    mix.learn(mix.usual())
    asked = mix.asked
    while not is_due(mix):
        mix.count(request(2))
    assert mix.asked == asked + asked // 15 + 1  # 1 of 16 is now for two


@pytest.mark.parametrize("seed", range(5))
def test_until_it_may_be_due_it_is_not(seed):
    """The bound is sound: one who looks only then sees what one sees who looks after each request."""
    random, mix, until = Random(seed), DemandMix(), 0
    weights = [random.random() for _ in range(4)]
    for number in range(12_000):
        if number % 3_000 == 0:
            weights = [random.random() ** 3 for _ in range(4)]
        mix.count(request(random.choices(range(1, 5), weights)[0], random.choice((1, 1, 1, 40))))
        due = is_due(mix)
        if mix.asked >= until:
            until = mix.holds_until()
        assert due is (until <= mix.asked)
        if due:
            mix.learn(mix.usual())
            until = 0


def test_slices_are_part_of_it():
    mix = DemandMix()
    mix.counts = {Shape(0, 0, 1_000, 2, ("H100",), "1g.10gb"): 5, Shape(1, 0, 1, 2, ()): 2}
    mix.counted = 7
    assert mix.usual() == (
        UsualRequest(cpu=1_000, memory=2, models=("H100",), mig="1g.10gb", weight=5),
        UsualRequest(whole=1, cpu=1, memory=2, weight=2),
    )
    mix.learn(mix.usual())
    assert dict(mix.stated) == mix.counts


def test_requests_that_need_nodes_that_stay_count_as_the_others_and_the_stated_mix_holds():
    mix, plain = DemandMix(), request(1)
    firm = make_request({GPU: GPU_UNITS, CPU: 0}, 1, None, steady=True)
    for one in (plain, firm) * 5_000:
        mix.count(one)
    mix.learn(mix.usual())
    for _ in range(FIRST):
        mix.count(firm)
    assert firm.shape != plain.shape
    assert (mix.counts, is_due(mix)) == ({plain.shape: 10_000 + FIRST}, False)
