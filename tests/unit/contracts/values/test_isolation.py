"""The order of the levels, and what a node reaches."""

from __future__ import annotations

import pytest

from headrace.contracts.values.isolation import LEVELS, UNABLE, Ranks, levels_by_kind, rank, ranks, weakest


def test_the_levels_go_from_nothing_to_the_hardware():
    assert sorted(LEVELS, key=rank) == ["none", "simulated", "watchdog", "cooperative", "driver", "kernel", "hardware"]


@pytest.mark.parametrize("text", ["any", "", "HARDWARE", "very good"])
def test_what_is_not_a_level_is_the_weakest(text):
    assert rank(text) == 0


def test_a_chain_is_as_strong_as_its_weakest_link():
    assert weakest("hardware", "watchdog", "kernel") == "watchdog"


def test_a_node_reaches_what_it_says_of_a_kind_and_else_what_it_says_of_all():
    assert ranks("driver", {"whole": "hardware", "slice": "nonsense"})[:3] == (6, 4, 0)


def test_of_containers_a_node_says_where_they_are_another_matter_than_processes():
    assert ranks("driver", {"whole": "hardware"}) == Ranks(6, 4, 4, 0, 6, 4, 4)
    container_levels = {"container-whole": "watchdog", "container-fraction": UNABLE, "container-slice": "cooperative"}
    assert ranks("driver", container_levels) == Ranks(4, 4, 4, 0, 2, -1, 3)
    assert ranks("none", {"container": UNABLE}).container == -1


@pytest.mark.parametrize(
    "levels",
    [
        {},
        {"whole": "hardware", "slice": "none"},
        {"container": UNABLE, "container-whole": UNABLE, "container-fraction": UNABLE, "container-slice": UNABLE},
        {"container-whole": "watchdog", "container-slice": "watchdog"},
    ],
)
def test_what_a_node_reaches_is_told_as_it_said_it(levels):
    plain = {"whole": "driver", "fraction": "driver", "slice": "driver"}
    assert levels_by_kind(ranks("driver", levels)) == plain | levels


def test_what_cannot_be_had_is_less_than_nothing_and_never_a_chains_strength():
    assert (rank(UNABLE), weakest("hardware", UNABLE)) == (-1, "none")
