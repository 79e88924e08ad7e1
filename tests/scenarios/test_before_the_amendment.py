"""Where release 0.2.0 amended a rule, the former one decides below its level: a ledger of release 0.1.0 means what it meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.contracts.documents.yaml_text import read_tree
from headrace.contracts.facts import InstallationLevelV1
from headrace.contracts.facts.levels import FIRST, RELEASES
from headrace.contracts.facts.writers import GOVERNANCE
from headrace.simulate.expectations import differences
from headrace.simulate.scenario import read_scenario
from headrace.simulate.world import World


@pytest.mark.parametrize(
    ("name", "formerly"),
    [
        (
            "R15_who_may_not_reclaim_is_not_inside",
            ("2h: job o: expected running, is pending", "2h: job o2: expected running, is pending"),
        ),
        (
            "R17_a_limit_holds_during_a_grace",
            ("1m: job p: expected pending, is running", "1m: gpu used in pool a: expected 4, is 6"),
        ),
        (
            "R17_who_yields_counts_under_its_policys_limit",
            ("20s: job again: expected pending, is running", "20s: reason of again: expected AT_POLICY_LIMIT, is none"),
        ),
        (
            "R19_a_used_up_share_does_not_make_it_spill",
            (
                "10m: job j1: expected pending, is running",
                "10m: pool of j2: expected a, is b",
                "10m: preemptions: expected 1, is 0",
            ),
        ),
        (
            "R19_the_first_of_one_moment_reclaims",
            (
                "2h: job big: expected running, is pending",
                "2h: job small: expected pending, is running",
                "2h: preemptions: expected 1, is 0",
            ),
        ),
        (
            "R24_a_pools_own_reservation_is_given_back",
            ("1h: job o: expected running, is pending", "1h: preemptions: expected 2, is 0"),
        ),
        (
            "R24_a_key_is_short_whatever_is_idle_on_cordoned_nodes",
            (
                "5m: job ann: expected running, is pending",
                "5m: job sam: expected pending, is running",
                "5m: reason of sam: expected NO_FREE_CAPACITY, is none",
                "5m: preemptions: expected 1, is 2",
            ),
        ),
        (
            "R24_only_on_a_key_that_is_asked_for",
            (
                "1h: job o: expected pending, is running",
                "1h: reason of o: expected FRAGMENTED, is none",
                "1h: preemptions: expected 0, is 1",
            ),
        ),
        ("R29_a_suspended_job_goes_on_elsewhere", ("1h: job l: expected running, is suspended",)),
    ],
)
def test_the_former_rule_decides_otherwise(name: str, formerly: tuple[str, ...]) -> None:
    scenario = read_scenario(read_tree((Path(__file__).parent / f"{name}.yaml").read_text(encoding="utf-8")))
    world = World(scenario)
    world.append(GOVERNANCE, [InstallationLevelV1(level=FIRST, release=RELEASES[0])])

    found = [line for at, expect in world.run() for line in differences(world, at, expect)]

    assert tuple(found) == formerly
