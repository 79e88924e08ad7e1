"""Pools over a cloud with faults (R38): nothing leaks, nothing is made twice or ended under a lease, and instances come to rest (R31).

`HEADRACE_CLOUDS=1000 pytest tests/properties/test_cloud.py` plays more histories.
"""

from __future__ import annotations

import os

import pytest

from headrace.contracts import facts as f
from headrace.contracts.values.durations import HOUR, MINUTE
from headrace.contracts.values.money import MILLION
from tests.properties.campaign import examples
from tests.properties.cloud_world import BUSY, QUIET, CloudWorld
from tests.unit.allocator.history import START

SEEDS = int(os.environ.get("HEADRACE_CLOUDS", examples(12, whole_from=50)))


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_cloud_with_faults_leaks_nothing_and_comes_to_rest(seed: int) -> None:
    least = seed % 3 if seed % 2 else 0
    world = CloudWorld(seed, min_nodes=least)
    world.play()

    assert world.violations == []
    assert [(job.key, job.state) for job in world.state.jobs.values() if not job.ended_at] == []
    served = {one.name for one in world.state.instances.values() if one.serves}
    assert (world.running, len(served)) == (served, least)
    assert world.state.nodes.keys() == {"h1", *served}
    ordered = [fact.instance for _, fact in world.stated if isinstance(fact, f.InstanceOrderedV1)]
    assert len(set(ordered)) == len(ordered)
    assert world.machines.keys() <= set(ordered)


@pytest.mark.parametrize("seed", range(0, SEEDS, 2))
def test_without_new_work_instances_neither_come_nor_go(seed: int) -> None:
    world = CloudWorld(seed)
    world.play()
    late = [fact for at, fact in world.stated if at > START + BUSY + QUIET - 3 * HOUR]
    assert late == []


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_cap_is_overrun_by_no_more_than_a_node_minute(seed: int) -> None:
    cap = 1 + seed % 3
    world = CloudWorld(seed, cap=str(cap), orderly=True)
    world.play()

    assert world.violations == []
    assert world.running == set()
    dearest = 2 * MILLION
    assert world.billed <= cap * MILLION + dearest * MINUTE // HOUR


@pytest.mark.parametrize("seed", range(SEEDS))
def test_without_new_work_instances_neither_come_nor_go_whatever_tenants_may_spend(seed: int) -> None:
    caps = ("0.3", "0.6", "2", "")
    world = CloudWorld(seed, caps={"default": caps[seed % 4], "acme": caps[seed // 4 % 4]}, cap=("", "3")[seed % 2])
    world.play()

    assert world.violations == []
    of_instances = (f.InstanceOrderedV1, f.GrowthRequestedV1)  # the hall may go on with what waits
    late = [fact for at, fact in world.stated if at > START + BUSY + QUIET - 3 * HOUR and isinstance(fact, of_instances)]
    assert late == []
    assert world.running == set()
