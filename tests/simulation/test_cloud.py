"""Every pool creates its nodes, in a cloud with faults, while everything else goes wrong too: nothing is made twice or ended under a lease,
and at the end nothing runs that the ledger does not know (R38).

`make sim CLOUDS=1 SEEDS=1000` plays more runs.
"""

from __future__ import annotations

from collections import Counter

from tests.simulation.overflow import overflowing
from tests.simulation.plan import draw
from tests.simulation.world import play

SEEDS = ("500", "506", "508", "509", "510")
"""Few, in which the cloud is asked often."""


def test_clouds_keep_their_promises_whatever_goes_wrong() -> None:
    counts: Counter[str] = Counter()
    for seed in SEEDS:
        outcome = play(overflowing(draw(seed)))
        assert outcome.violations == [], f"seed {seed}"
        counts += outcome.counts
    assert counts["cloud: made"] >= len(SEEDS)
    assert counts["cloud: ended"] <= counts["cloud: made"]
