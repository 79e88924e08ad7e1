"""Every way of placing slices plays a small cluster through the product's own fold; release 0.1.0 is compared by its own rules."""

from __future__ import annotations

import random

import pytest

from bench import slices

MIX = {"1g": 3, "2g": 2, "3g": 2, "7g": 1}


@pytest.mark.parametrize("policy", slices.POLICIES)
def test_every_policy_places_what_fits_and_refuses_the_rest(policy):
    choice, level = slices.POLICIES[policy]
    charged = slices.fill(slices.Cluster(2, choice, level=level), MIX, random.Random(1))
    served, whole = slices.churn(slices.Cluster(2, choice, level=level), MIX, random.Random(1), 200)
    assert [set(charged), 60 < charged[100] <= charged[130] < 110] == [set(slices.MARKS), True]
    assert 0 < whole <= served < 100


def test_release_0_1_0_cuts_more_devices_than_are_needed():
    cut = {}
    for policy, (choice, level) in slices.POLICIES.items():
        cluster = slices.Cluster(1, choice, level=level)
        for size in ("3g", "1g", "3g", "1g"):
            assert cluster.ask(size) is not None
        cut[policy] = sum(bool(device.slices) for device in cluster.state.nodes["n000"].devices)
    assert cut == {"Headrace": 2, "before (0.1.0)": 3, "best fit": 2, "first fit": 2}
