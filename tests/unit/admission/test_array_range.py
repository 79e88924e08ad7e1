"""Which arrays are taken, and how many jobs they are."""

from __future__ import annotations

import pytest

from headrace.admission.array_range import jobs_in, read_array, wrong_array
from headrace.contracts.facts.levels import ARRAYS
from headrace.contracts.values.arrays import ArrayError, ArrayRange
from tests.unit.allocator.history import History, policy


def test_an_array_is_taken_from_its_level_on():
    state = History(policy("ml")).state
    assert read_array(state, "0-9%2") == ArrayRange(first=0, last=9, at_once=2)
    assert read_array(state, "") is None
    state.terms.level = ARRAYS - 1
    with pytest.raises(ArrayError, match="from level 3 of the installation on, and it is at level 2"):
        read_array(state, "0-9")


def test_what_a_fact_may_not_state_is_named():
    state = History(policy("ml")).state
    assert wrong_array(state, None) == wrong_array(state, ArrayRange(first=0, last=8, step=4)) == ""
    assert wrong_array(state, ArrayRange(first=0, last=9, step=4)) == "array: 0-9:4 would be stated in another form"
    assert wrong_array(state, ArrayRange(first=0, last=200_000)).startswith("array: 0-200000: an array has at most")


def test_an_array_is_as_many_jobs_as_it_has_elements():
    assert (jobs_in(None), jobs_in(ArrayRange(first=1, last=9, step=2))) == (1, 5)
