"""A question out of a service, answered from a ledger."""

from __future__ import annotations

import pytest

from headrace.audit.ledger_writer import LedgerWriter
from headrace.audit.snapshot_policy import SnapshotPolicy
from headrace.audit.snapshotter import Snapshotter
from headrace.bus.memory import MemoryLog
from headrace.bus.nats.object_store import MemoryObjects
from headrace.contracts.documents.yaml_text import read_tree
from headrace.contracts.messages.whatif import WhatIfQuestion
from headrace.contracts.values.durations import HOUR, SECOND
from headrace.service.fold import LedgerFold
from headrace.service.snapshots import Snapshots
from headrace.simulate.scenario import read_scenario
from headrace.simulate.virtual_system import START
from headrace.simulate.whatif_worker import answer, answer_about_now, is_about_now
from headrace.simulate.world import World
from headrace.views.state_at import PastStates

STORY = """
groups: [{name: all, members: [ann]}]
pools: [{name: hall, selector: {site: a}}]
profiles: [{name: one, request: {gpu: 1}, pools: [hall]}]
nodes: [{name: n, labels: {site: a}, gpus: 1}]
policies: [{name: q, group: all, profiles: [one]}]
timeline:
  - {at: 10s, submit: {name: first, queue: q/one, duration: 60s}}
  - {at: 20s, submit: {name: next, queue: q/one, duration: 60s}}
  - {at: 2m, expect: {}}
"""
NODE = {"nodes": [{"name": "new", "labels": {"site": "a"}, "gpus": "1"}]}


@pytest.fixture(scope="module")
def ledger() -> MemoryLog:
    world = World(read_scenario(read_tree(STORY)))
    list(world.run())
    return world.log


async def ask(ledger, changes=NODE, **question):
    return await answer(WhatIfQuestion(changes=changes, **question), ledger, START + HOUR)


async def test_the_real_jobs_are_played_again(ledger):
    found = (await ask(ledger, since="2026-01-01T00:00:05Z", until=str(ledger.last_sequence))).found
    assert (found.total.before.wait_max, found.total.after.wait_max, found.recorded.wait_max) == (50, 0, 50)


async def test_from_a_record_on_for_a_while(ledger):
    answered = await ask(ledger, since=str(ledger.last_sequence), span="10m")
    assert (answered.code, answered.sequence, answered.since) == ("", ledger.last_sequence, START + 70 * SECOND)


async def test_about_now_the_state_at_the_end_of_the_ledger_gives_the_same_answer(ledger):
    question = WhatIfQuestion(changes=NODE)
    state = await PastStates(ledger).behind(ledger.last_sequence, 0, ledger.last_sequence)
    assert await answer_about_now(question, state, START + HOUR) == await answer(question, ledger, START + HOUR)
    assert [is_about_now(WhatIfQuestion(changes=NODE, **when)) for when in ({}, {"since": "1"}, {"until": "9"})] == [1, 0, 0]


async def test_of_a_tenant_that_has_no_jobs_there_is_nothing_to_say(ledger):
    found = (await ask(ledger, since="2026-01-01T00:00:05Z", until=str(ledger.last_sequence), tenant="acme")).found
    assert (found.total.before.starts, found.groups, found.pools, found.recorded.starts) == (0, {}, {}, 0)


@pytest.mark.parametrize(
    ("question", "message"),
    [
        pytest.param({"changes": {"pools": [{"name": "x", "colour": "red"}]}}, "changes.pools[0]", id="a key nobody knows"),
        pytest.param({"changes": {}}, "changes.nothing is changed", id="nothing"),
        pytest.param(
            {"changes": {"policies": [{"tenant": "no", "name": "p", "profiles": ["one"]}]}},
            "changes.policies[0]",
            id="no tenant",
        ),
        pytest.param({"changes": {"nodes": [{"name": "n"}]}}, "changes.node n: there is one", id="a node that is there"),
        pytest.param({"since": "soon"}, "since: write a sequence", id="no moment"),
        pytest.param({"until": "2999-01-01T00:00:00Z"}, "until: 2999-01-01", id="to come"),
        pytest.param({"since": "9", "until": "3"}, "since, until: the end is not behind", id="the wrong way round"),
        pytest.param({"span": "long"}, "span: ", id="no span"),
    ],
)
async def test_what_cannot_be_answered_is_told_with_its_field(ledger, question, message):
    answered = await ask(ledger, **question)
    assert (answered.code, answered.found) == ("INVALID", None)
    assert answered.error.startswith(message)


class Counting(MemoryLog):
    """Knows from where on it was read."""

    def __init__(self, log):
        self.__dict__.update(log.__dict__)
        self.read_behind = []

    async def read(self, after):
        self.read_behind.append(after)
        return await super().read(after)


async def test_what_lies_before_a_snapshot_is_not_read_and_the_answer_is_the_same():
    world = World(read_scenario(read_tree(STORY)))
    list(world.run())
    ledger = Counting(world.log)
    snapshots = Snapshots(MemoryObjects(), ledger)
    keeper = Snapshotter(
        ledger,
        LedgerFold(),
        snapshots,
        LedgerWriter(ledger),
        policy=SnapshotPolicy(facts=1, every=1, least=1),
        steady=lambda: 0,
    )
    tip, messages = await ledger.tip(), ledger.messages_after(0)
    await keeper.take_in(messages[: tip // 2])
    question = WhatIfQuestion(changes=NODE, since=str(tip // 2 + 1), until=str(tip))
    whole = await answer(question, ledger, START + HOUR)
    short = await answer(question, ledger, START + HOUR, snapshots)
    assert (whole.error, short, ledger.read_behind) == ("", whole, [0, tip // 2])
