"""The order of the levels, and what a node reaches."""

from __future__ import annotations

import pytest

from headrace.contracts.isolation import LEVELS, Ranks, rank, ranks, weakest


def test_the_levels_go_from_nothing_to_the_hardware():
    assert sorted(LEVELS, key=rank) == ["none", "simulated", "watchdog", "cooperative", "driver", "kernel", "hardware"]


@pytest.mark.parametrize("text", ["any", "", "HARDWARE", "very good"])
def test_what_is_no_level_is_the_weakest(text):
    assert rank(text) == 0


def test_a_chain_is_as_strong_as_its_weakest_link():
    assert weakest("hardware", "watchdog", "kernel") == "watchdog"


def test_a_node_reaches_what_it_says_of_a_kind_and_else_what_it_says_of_all():
    assert ranks("driver", {"whole": "hardware", "slice": "nonsense"}) == Ranks(whole=6, fraction=4, slice=0)
