from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.domain.queueing.reservation_feasibility import Overbooked, Promise, overbooked


def promise(to: str, amount: int, *supplies: str) -> Promise:
    return Promise(to, amount, frozenset(supplies))


WEST_5 = promise("a", 5, "west")
WEST_6 = promise("b", 6, "west")
EITHER_4 = promise("c", 4, "west", "east")


@pytest.mark.parametrize(
    ("promises", "supplies", "expected"),
    [
        pytest.param([], {}, (), id="nothing is promised"),
        pytest.param([WEST_5], {"west": 5}, (), id="equality keeps the promise"),
        pytest.param([WEST_5, WEST_6], {"west": 11}, (), id="two fit exactly"),
        pytest.param(
            [WEST_5, WEST_6], {"west": 10}, (Overbooked((WEST_5, WEST_6), ("west",), 11, 10),), id="two are one unit too many"
        ),
        pytest.param([WEST_5, WEST_6], {"west": None}, (), id="a supply without bound keeps all"),
        pytest.param([WEST_5], {}, (Overbooked((WEST_5,), ("west",), 5, 0),), id="an unknown supply has nothing"),
        pytest.param(
            [promise("a", 1)], {"west": 5}, (Overbooked((promise("a", 1),), (), 1, 0),), id="a promise of nothing in particular"
        ),
        pytest.param([promise("a", 0)], {}, (), id="a promise of zero is always kept"),
        pytest.param([EITHER_4, WEST_6], {"west": 6, "east": 4}, (), id="who can go elsewhere is sent there"),
        pytest.param(
            [EITHER_4, WEST_6],
            {"west": 6, "east": 3},
            (Overbooked((EITHER_4, WEST_6), ("east", "west"), 10, 9),),
            id="the union of what they reach is too small",
        ),
        pytest.param(
            [WEST_6, EITHER_4],
            {"west": 5, "east": 4},
            (Overbooked((WEST_6,), ("west",), 6, 5),),
            id="only those that stand in the way of each other are named",
        ),
        pytest.param(
            [WEST_6, promise("d", 3, "north")],
            {"west": 5, "north": 2},
            (Overbooked((WEST_6,), ("west",), 6, 5), Overbooked((promise("d", 3, "north"),), ("north",), 3, 2)),
            id="independent sets are told apart",
        ),
    ],
)
def test_promises_against_supplies(promises, supplies, expected):
    assert overbooked(promises, supplies) == expected


def test_a_chain_of_detours_is_found():
    promises = [promise("a", 1, "p1", "p2"), promise("b", 1, "p2", "p3"), promise("c", 1, "p3", "p4"), promise("d", 1, "p1")]
    assert overbooked(promises, dict.fromkeys(("p1", "p2", "p3", "p4"), 1)) == ()


def test_large_amounts_cost_no_more_than_small_ones():
    many = 126_000 * 10**9
    promises = [promise("a", many, "west", "east"), promise("b", many, "west", "east")]
    assert [found.short for found in overbooked(promises, {"west": many, "east": many - 1})] == [1]


SUPPLIES = ("p", "q", "r", "s")

some_promises = st.lists(
    st.builds(
        Promise,
        st.sampled_from("abc"),
        st.integers(0, 9),
        st.frozensets(st.sampled_from(SUPPLIES), max_size=4),
    ),
    max_size=6,
)
some_supplies = st.dictionaries(st.sampled_from(SUPPLIES), st.none() | st.integers(0, 15))


def worst_by_brute_force(promises, supplies) -> int:
    """The largest excess of any set of promises over the union of its supplies."""
    worst = 0
    for size in range(1, len(promises) + 1):
        for chosen in combinations(promises, size):
            union = [supplies.get(supply, 0) for supply in frozenset().union(*(one.supplies for one in chosen))]
            if None not in union:
                worst = max(worst, sum(one.amount for one in chosen) - sum(union))
    return worst


@given(some_promises, some_supplies)
def test_what_is_missing_is_what_the_worst_set_misses(promises, supplies):
    assert sum(found.short for found in overbooked(promises, supplies)) == worst_by_brute_force(promises, supplies)


@given(some_promises, some_supplies)
def test_each_set_named_is_promised_too_much_and_stands_alone(promises, supplies):
    sets = overbooked(promises, supplies)
    for found in sets:
        union = frozenset().union(*(one.supplies for one in found.promises))
        assert found.supplies == tuple(sorted(union))
        assert found.asked == sum(one.amount for one in found.promises)
        assert found.available == sum(supplies.get(supply, 0) for supply in union)
        assert found.short > 0
    named = [drawn for found in sets for drawn in {one.supplies for one in found.promises}]
    assert len(named) == len(set(named))
