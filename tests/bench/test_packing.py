"""Every way of comparing places plays a small trace through the product's own placement, and leaves nothing of itself behind."""

from __future__ import annotations

import random

import pytest

from bench import packing
from headrace.contracts.values.amounts import CPU, GPU, GPU_UNITS, MEMORY
from headrace.domain.indexes.fragmentation import Fragmentation
from headrace.domain.indexes.gpu_model_balance import Steering
from headrace.domain.indexes.node_classes import NodeClass
from tests.replacing import NotReachedError

GPUS = (GPU_UNITS // 4, GPU_UNITS // 2, GPU_UNITS, 2 * GPU_UNITS)


def trace() -> packing.Trace:
    """Sixty nodes of two models, and requests for half as much again as they have."""
    chance = random.Random(3)
    nodes = [(f"n{number}", "A" if number % 2 else "B", 4, 16_000, 65_536) for number in range(60)]
    requests = [
        packing.Asked({GPU: gpu, CPU: 1_000 * chance.randrange(1, 6), MEMORY: 4_096}, chance.choice(((), ("A",))))
        for gpu in (chance.choice(GPUS) for _ in range(400))
    ]
    return packing.Trace(nodes, requests, {"once": list(range(400))})


@pytest.mark.parametrize("policy", packing.POLICIES)
def test_every_policy_places_what_fits_and_drops_the_rest(policy: str) -> None:
    usual = NodeClass.rating, Steering.choose, Fragmentation.bounds
    (run,) = packing.measure(trace(), policy, ["once"], rack=0)

    assert (run.arrived, set(run.allocated)) == (400, set(packing.MARKS))
    assert 0 < run.dropped < 400
    assert all(50 < allocated <= 100 for allocated in run.allocated.values())
    assert (NodeClass.rating, Steering.choose, Fragmentation.bounds) == usual


def test_policies_that_are_compared_place_differently():
    """Were a replacement not to reach the product, several of them would print one and the same line."""
    runs = {policy: packing.measure(trace(), policy, ["once"], rack=0)[0].allocated for policy in packing.POLICIES}
    assert len({tuple(allocated.values()) for allocated in runs.values()}) == len(runs)


def test_racks_of_a_pool_do_not_change_the_places_of_jobs_that_are_not_gangs():
    runs = [packing.measure(trace(), "Headrace", ["once"], rack)[0] for rack in (0, 7)]
    assert runs[0].allocated == runs[1].allocated


def test_a_replacement_that_nothing_calls_is_an_error():
    with (
        pytest.raises(NotReachedError, match=r"nothing has called what was put in place of NodeClass\.rating"),
        packing.instead(packing.best_fit, ours=True),
    ):
        pass
