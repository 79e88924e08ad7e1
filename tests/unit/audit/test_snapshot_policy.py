"""When a snapshot is due, and which ones stay."""

from __future__ import annotations

import pytest

from headrace.audit.snapshot_policy import SnapshotPolicy, superfluous
from headrace.service.snapshots import SnapshotName

PACE = SnapshotPolicy(facts=100, every=1_000, least=10)


@pytest.mark.parametrize(
    ("facts", "passed", "took", "due"),
    [
        pytest.param(100, 0, 0, True, id="enough facts"),
        pytest.param(99, 999, 0, False, id="neither"),
        pytest.param(10, 1_000, 0, True, id="a while"),
        pytest.param(9, 1_000, 0, False, id="a while in which next to nothing happened"),
        pytest.param(100, 24, 50, False, id="it would take more than two thirds of the time"),
        pytest.param(100, 25, 50, True, id="two thirds of the time"),
    ],
)
def test_a_snapshot_is_due_after_a_number_of_facts_or_a_time_and_never_costs_more_than_two_thirds(facts, passed, took, due):
    assert PACE.is_due(facts, passed, took) is due


def name(facts, schema="own"):
    return SnapshotName(facts, facts, schema, "0" * 16)


def test_the_last_few_stay_and_enough_of_the_others_that_none_is_too_far_from_the_next():
    names = [name(facts) for facts in (90, 130, 150, 200, 230, 330, 340, 350, 360)]
    assert [gone.facts for gone in superfluous(names, "own", PACE)] == [130, 200]
    assert superfluous([name(101 * number) for number in range(1, 9)], "own", PACE) == []


def test_what_the_release_before_can_read_stays_until_there_are_enough_of_our_own():
    others = [name(facts, "other") for facts in (1, 2, 3)]
    few = [name(facts) for facts in (10, 20)]
    assert superfluous([*others, *few], "own", PACE) == []
    assert [gone.facts for gone in superfluous([*others, *few, name(30)], "own", PACE)] == [1, 2]
