"""What if nothing were otherwise? Then nothing is, at whatever moment of whatever history it is asked."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.contracts.durations import HOUR
from headrace.domain.snapshot import dump
from headrace.simulate.changes import Changes
from headrace.simulate.scenario import Nodes
from headrace.simulate.whatif import compare, compare_from
from headrace.simulate.world import World
from tests.properties.histories import scenarios

HISTORIES = int(os.environ.get("HEADRACE_HISTORIES", "150"))
ELSEWHERE = Changes(nodes=(Nodes(name="elsewhere", gpus=1),))
"""A node that no pool selects."""


@settings(
    max_examples=max(1, HISTORIES // 5),
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(scenarios(), st.randoms(use_true_random=False))
def test_a_change_that_concerns_nobody_moves_nobody_and_asking_leaves_no_trace(scenario, random) -> None:
    world = World(scenario, judged=False)
    world.begin()
    list(world.play(random.choice([moment.at for moment in scenario.timeline])))
    before = dump(world.state)

    as_played = compare(world, ELSEWHERE, span=2 * HOUR)
    as_found = compare_from(world.state, ELSEWHERE, world.now, span=2 * HOUR)

    for found in (as_played, as_found):
        assert (found.moved, found.total.before) == ((), found.total.after)
    assert dump(world.state) == before
