"""The fast allocator decides what the slow one would, in every round of random histories (R15-R19)."""

from __future__ import annotations

from hypothesis import given

from tests.properties.campaign import histories
from tests.properties.crowded import crowded
from tests.properties.histories import scenarios
from tests.properties.oracle_watch import compiled, watch


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
