"""The fast allocator decides what the slow one would, in every round of random histories and of the scenario files (R15-R19)."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given

from headrace.contracts.documents.yaml_text import read_tree
from headrace.simulate.scenario import read_scenario
from tests.properties.campaign import histories
from tests.properties.crowded import crowded
from tests.properties.histories import scenarios
from tests.properties.oracle_watch import compiled, watch

FILES = sorted((Path(__file__).parents[1] / "scenarios").glob("*.yaml"))


@compiled
@histories(one_in=2)
@given(scenarios())
def test_every_round_grants_what_a_look_at_everything_would(scenario) -> None:
    watch(scenario)


@compiled
@histories(one_in=2)
@given(crowded())
def test_so_does_every_round_in_small_pools_that_are_shared_out(scenario) -> None:
    watch(scenario)


@compiled
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_so_does_every_round_of_a_scenario_file(path) -> None:
    watch(read_scenario(read_tree(path.read_text(encoding="utf-8"))), judged=True)
