"""The same prefix gives the same decision: ten times over, in any order of any dict, in another process with other hashes (R34)."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import fields, is_dataclass
from pathlib import Path
from random import Random
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from headrace.allocator.decide import Allocator
from headrace.contracts.facts import AnyFact
from headrace.contracts.facts.writers import ALLOCATOR, PREEMPTION
from headrace.domain.indexes.pending import JobGroup, Pending
from headrace.domain.snapshots.snapshot import copy_of
from headrace.domain.state.state import State
from headrace.preemption.decide import PreemptionWatch
from headrace.simulate.world import World
from tests.properties.campaign import histories, some
from tests.properties.histories import scenarios

TIMES = 10
SEEDS = st.integers(0, 2**32 - 1)
"""Of an ordinary `Random`: one that Hypothesis draws from would spend all its choices on shuffling."""
ROOT = Path(__file__).parents[2]


def shuffle(state: State, random) -> State:
    """The same state, with every dict in another order."""
    seen: set[int] = set()
    ahead: list[Any] = [state]
    while ahead:
        thing = ahead.pop()
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        if type(thing) is dict:
            items = list(thing.items())
            random.shuffle(items)
            thing.clear()
            thing.update(items)
            ahead += [value for _, value in items]
        elif isinstance(thing, Pending):
            ahead += [thing.groups, thing.ineligible, thing.by_policy]
        elif isinstance(thing, list | tuple):
            ahead += thing
        elif is_dataclass(thing) and not isinstance(thing, JobGroup):
            ahead += [getattr(thing, field.name) for field in fields(thing)]
    return state


def written(fact: AnyFact) -> bytes:
    """A fact by value: the order of its keys says nothing."""
    return msgspec.json.encode(fact, order="sorted")


class Shuffled:
    """A decider whose every decision is made again, by one that knows nothing, on copies with all dicts in other orders."""

    def __init__(self, world: World, by: str, kind, random, times: int) -> None:
        self.world, self.trusted, self.kind, self.random, self.times = world, world.deciders[by], kind, random, times
        self.asked = 0
        world.deciders[by] = self

    def decide(self, now: int):
        self.asked += 1
        copies = [copy_of(self.world.state) for _ in range(self.times)]
        decided = self.trusted.decide(now)
        for copy in copies:
            copy.pass_time(now)
            again = self.kind(shuffle(copy, self.random)).decide(now)
            assert sorted(map(written, again)) == sorted(map(written, decided))
        return decided

    def next_wakeup(self) -> int | None:
        return self.trusted.next_wakeup()


def watched(scenario, random, times: int) -> None:
    world = World(scenario, judged=False)
    shuffled = [
        Shuffled(world, by, kind, random, times) for by, kind in ((ALLOCATOR, Allocator), (PREEMPTION, PreemptionWatch))
    ]
    for _ in world.run():
        pass
    assert all(decider.asked for decider in shuffled)


@histories(one_in=10)
@given(scenarios(), SEEDS)
def test_no_decision_depends_on_the_order_of_a_dict(scenario, seed) -> None:
    watched(scenario, Random(seed), 1)


@histories(one_in=150)
@given(scenarios(), SEEDS)
def test_the_same_prefix_gives_the_same_decision_ten_times_over(scenario, seed) -> None:
    watched(scenario, Random(seed), TIMES)


def test_another_process_with_other_hashes_writes_the_same_bytes() -> None:
    command = [sys.executable, "-m", "tests.properties.drawn", str(some(5))]
    digests = {
        subprocess.run(
            command, cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in ("1", "4711")
    }
    assert len(digests) == 1
