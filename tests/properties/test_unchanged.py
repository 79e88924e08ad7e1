"""The watch over deciders names what a decision has changed, and passes over memos and trials that were undone."""

from __future__ import annotations

import pytest

from headrace.contracts.documents.yaml_text import read_tree
from headrace.contracts.facts.writers import PREEMPTION
from headrace.domain.model.jobs import Scope
from headrace.domain.state import capacity
from headrace.simulate.scenario import read_scenario
from headrace.simulate.world import World
from tests.properties.checked_histories import play
from tests.properties.unchanged import Unchanged, hold_unchanged
from tests.unit.allocator.history import History, place, policy

WORLD = """
groups: [{name: all, members: [ann]}]
pools: [{name: hall, selector: {site: a}}]
profiles: [{name: one, request: {gpu: 1}, pools: [hall]}]
nodes: [{name: n, labels: {site: a}, gpus: 1}]
policies: [{name: q, group: all, profiles: [one]}]
timeline:
  - {at: 10s, submit: {name: first, queue: q/one, duration: 60s}}
"""


class Meddler:
    """A decider that does something to a state, and states nothing."""

    def __init__(self, does) -> None:
        self.does = does

    def decide(self, _now: int) -> tuple[()]:
        self.does()
        return ()

    def next_wakeup(self) -> None:
        return None


def reported_by(history: History, does) -> list[str]:
    lines: list[str] = []
    Unchanged("meddler", Meddler(does), history.state, lines.append).decide(history.now)
    return lines


def test_what_a_decision_changes_is_named_by_class_and_field():
    history = History(policy("dev"))
    history.node()
    job = history.admit("dev/one")
    dev = job.policy

    assert reported_by(history, lambda: setattr(job, "losses", 1)) == [
        "a decision of meddler changed the state: JobRecord.losses: 0 -> 1"
    ]
    opened = reported_by(history, lambda: dev.scopes.update(annex=Scope("policy", "looked at")))
    assert [line.split(": ")[1].partition(" ")[0] for line in opened] == ["PolicyState.scopes", "Scope"]


def test_a_trial_that_is_undone_and_a_memo_are_not_changes():
    history = History(policy("dev"))
    history.node()
    job, hall = history.admit("dev/one"), history.state.pools["hall"]
    where = place("n1", 0)

    def tries() -> None:
        capacity.take(history.state, job, hall, where)
        capacity.give_back(history.state, job, hall, where)

    assert reported_by(history, tries) == []
    assert reported_by(history, lambda: capacity.take(history.state, job, hall, where)) != []


def test_in_a_world_a_change_is_found_though_nothing_was_stated():
    world = World(read_scenario(read_tree(WORLD)))
    world.deciders[PREEMPTION] = Meddler(lambda: setattr(world.state.pools["hall"], "overdue", 1))
    hold_unchanged(world)

    with pytest.raises(AssertionError) as found:
        play(world)
    assert str(found.value) == "a decision of preemption or governance changed the state: PoolState.overdue: 0 -> 1"
