"""The lines of one static rank: the first candidate that is allowed, in order of place and then of serial."""

from __future__ import annotations

from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from headrace.allocator.inside_tier import InsideTier

PLACES = st.tuples(st.integers(0, 3), st.integers(0, 9))
STEPS = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 15), st.tuples(PLACES, PLACES, PLACES, PLACES), st.booleans()), max_size=20
)


def of(serial):
    """Candidates as far as a tier needs them."""
    return SimpleNamespace(serial=serial, entries={})


def anyone(_candidates, _bit):
    return True


def test_the_first_is_the_one_that_stands_best_among_the_feasible_requests_and_the_allowed_candidates():
    tier, one, other = InsideTier(), of(1), of(2)
    tier.add(0b101, one, {0: ((0, 7), None), 2: ((0, 3), None)})
    tier.add(0b001, other, {0: ((0, 5), None)})
    assert tier.requests == 0b101
    assert tier.first(0b111, anyone) == ((0, 3), one, 0b100)
    assert tier.first(0b001, anyone) == ((0, 5), other, 0b001)
    assert tier.first(0b001, lambda candidates, _: candidates is one) == ((0, 7), one, 0b001)
    assert tier.first(0b010, anyone) is None
    tier.remove(0b100, one)
    assert (tier.requests, tier.first(0b111, anyone)) == (0b001, ((0, 5), other, 0b001))


@given(STEPS, st.integers(0, 15), st.sets(st.integers(0, 4)))
def test_it_finds_what_a_look_at_every_candidate_finds(steps, feasible, allowed):
    tier, candidates, standing = InsideTier(), [of(serial) for serial in range(5)], {}
    for serial, requests, places, adds in steps:
        there = sum(1 << number for who, number in standing if who == serial)
        changed = requests & ~there if adds else requests & there
        numbers = [number for number in range(4) if changed >> number & 1]
        if adds:
            tier.add(changed, candidates[serial], {number: (places[number], None) for number in numbers})
            standing |= {(serial, number): places[number] for number in numbers}
        else:
            tier.remove(changed, candidates[serial])
            for number in numbers:
                del standing[serial, number]
    found = tier.first(feasible, lambda one, _bit: one.serial in allowed)
    options = [(place, who, n) for (who, n), place in standing.items() if who in allowed and feasible >> n & 1]
    assert tier.requests == sum(1 << number for number in {n for _, n in standing})
    assert (found is None) == (options == [])
    if found is not None:
        place, who, _ = min(options)
        assert (found[0], found[1].serial) == (place, who)
        assert (who, found[2].bit_length() - 1) in {(w, n) for p, w, n in options if (p, w) == (place, who)}
