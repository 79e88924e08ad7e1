"""A time of the ledger, read record by record."""

from __future__ import annotations

import pytest

from headrace.contracts.documents.yaml_text import read_tree
from headrace.contracts.values.durations import MINUTE, SECOND
from headrace.simulate.changes import WhatIfChanges, read_changes
from headrace.simulate.ledger_window import NOW, LedgerPoint, LedgerWindow, NoPeriod
from headrace.simulate.scenario import read_scenario
from headrace.simulate.virtual_system import START
from headrace.simulate.world import World

STORY = """
groups: [{name: all, members: [ann]}]
pools: [{name: hall, selector: {site: a}, price: {gpu: 3.6}}]
profiles: [{name: one, request: {gpu: 1}, pools: [hall]}]
nodes: [{name: n, count: 2, labels: {site: a}, gpus: 1}]
policies: [{name: q, group: all, profiles: [one], reservation: {gpu: 1}}, {name: r, group: all, profiles: [one], reservation: {gpu: 1}}]
timeline:
  - {at: 0s, submit: {name: early, queue: q/one, duration: 90s, abort_takes: 3s}}
  - {at: 60s, submit: {name: b, queue: q/one, count: 2, duration: 100s, abort_takes: 3s, checkpoint_every: 20s}}
  - {at: 80s, submit: {name: c, queue: r/one, duration: 2m}}
  - {at: 3m, node_lost: n-2}
  - {at: 4m, node_back: n-2}
  - {at: 4m30s, apply: {pools: [{name: hall, selector: {site: a}, price: {gpu: 7.2}}]}}
  - {at: 5m, submit: {name: d, queue: q/one, count: 2, duration: 70s}}
  - {at: 6m, cancel: d-2}
  - {at: 10m, expect: {}}
"""
CLOCK = START + 60 * MINUTE


@pytest.fixture(scope="module")
def world():
    made = World(read_scenario(read_tree(STORY)))
    list(made.run())
    return made


@pytest.fixture(scope="module")
def ledger(world):
    return world.log.messages_after(0)


def read(period, ledger):
    for message in ledger:
        period.read(message)
        if period.is_over:
            break
    period.end(len(ledger))
    return period


def test_played_again_as_it_was_it_comes_to_what_it_came_to(ledger):
    period = read(LedgerWindow(LedgerPoint(time=START + 30 * SECOND), LedgerPoint(time=START + 10 * MINUTE), CLOCK), ledger)
    dearer = read_changes(read_tree("pools: [{name: hall, selector: {site: a}, price: {gpu: 36}}]"))
    found = period.compare(dearer, progress=lambda _: None)
    split = {"reserved": found.total.before.reserved, "borrowed": found.total.before.borrowed, "cost": found.total.before.cost}
    assert found.recorded is not None
    assert {**vars_of(found.recorded), **split} == vars_of(found.total.before)
    assert (found.recorded.starts, found.recorded.preemptions, found.span) == (6, 1, 10 * MINUTE - 30 * SECOND)
    assert found.pools["hall"].before.had == 2 * 570 - 60
    held = found.total.before.used
    assert found.total.after.cost == f"{held * 36 / 3_600:.6f}"
    assert float(found.total.before.cost) < float(found.total.after.cost) / 5


def vars_of(numbers):
    return {name: getattr(numbers, name) for name in numbers.__struct_fields__}


def test_with_another_node_those_who_really_waited_wait_less(ledger):
    period = read(LedgerWindow(LedgerPoint(time=START + 30 * SECOND), LedgerPoint(time=START + 10 * MINUTE), CLOCK), ledger)
    more = read_changes(read_tree("nodes: [{name: more, labels: {site: a}, gpus: 2}]"))
    found = period.compare(more, progress=lambda _: None)
    assert (found.total.before.preemptions, found.total.after.preemptions) == (1, 0)
    assert found.total.after.wait_max == 0 < found.total.before.wait_max


def test_without_an_end_no_new_job_comes(ledger):
    period = read(LedgerWindow(LedgerPoint(time=START + 70 * SECOND), None, CLOCK), ledger)
    found = period.compare(read_changes(read_tree("submit: [{name: x, queue: q/one, duration: 1s}]")), progress=lambda _: None)
    assert (found.recorded, found.total.before.starts, found.total.before.waiting) == (None, 0, 1)
    assert period.start[1] == START + 70 * SECOND


def test_without_a_beginning_it_is_now(ledger):
    period = read(LedgerWindow(NOW, None, CLOCK), ledger)
    assert period.start == (len(ledger), CLOCK)


def test_what_is_changed_stays_so_whatever_was_written_later(ledger):
    period = read(LedgerWindow(LedgerPoint(time=START + 30 * SECOND), LedgerPoint(time=START + 10 * MINUTE), CLOCK), ledger)
    free = read_changes(read_tree("pools: [{name: hall, selector: {site: a}}]"))
    found = period.compare(free, progress=lambda _: None)
    assert (found.total.after.cost, found.total.before.cost != "0.000000") == ("0.000000", True)


@pytest.mark.parametrize(
    ("since", "until", "refusal"),
    [
        pytest.param(
            LedgerPoint(time=CLOCK + SECOND), None, "from: 2026-01-01T01:00:01.000Z is yet to come", id="from the future"
        ),
        pytest.param(
            LedgerPoint(), LedgerPoint(time=CLOCK + SECOND), "to: 2026-01-01T01:00:01.000Z is yet to come", id="to the future"
        ),
        pytest.param(LedgerPoint(9), LedgerPoint(9), "the end is not behind the beginning", id="the wrong way round"),
        pytest.param(
            LedgerPoint(time=START + 9), LedgerPoint(time=START + 3), "the end is not behind the beginning", id="times"
        ),
        pytest.param(
            LedgerPoint(time=START - MINUTE), None, "from: the ledger begins at 2026-01-01T00:00:00.000Z", id="too early"
        ),
        pytest.param(
            LedgerPoint(99_999), None, r"from: the ledger ends with record \d+, 99999 is not there", id="a record to come"
        ),
        pytest.param(
            LedgerPoint(3), LedgerPoint(99_999), r"to: the ledger ends with record \d+, 99999 is not there", id="an end to come"
        ),
        pytest.param(LedgerPoint(time=CLOCK - 1), LedgerPoint(3), "to: the ledger holds nothing between", id="nothing"),
    ],
)
def test_a_time_that_cannot_be_is_told(ledger, since, until, refusal):
    with pytest.raises(NoPeriod, match=refusal):
        read(LedgerWindow(since, until, CLOCK), ledger).compare(WhatIfChanges(), progress=lambda _: None)
