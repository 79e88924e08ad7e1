"""A question out of a service, answered from a ledger."""

from __future__ import annotations

import asyncio

import pytest

from headrace.audit.ledger_writer import LedgerWriter
from headrace.audit.snapshot_policy import SnapshotPolicy
from headrace.audit.snapshotter import Snapshotter
from headrace.bus.log import LogUnavailable
from headrace.bus.memory import MemoryLog
from headrace.bus.nats.object_store import MemoryObjects
from headrace.contracts.documents.yaml_text import read_tree
from headrace.contracts.messages.whatif import WhatIfQuestion
from headrace.contracts.values.durations import HOUR, SECOND
from headrace.domain.snapshots.snapshot import dump
from headrace.service.fold import LedgerFold
from headrace.service.snapshots import Snapshots
from headrace.simulate.scenario import read_scenario
from headrace.simulate.virtual_system import START
from headrace.simulate.whatif_worker import answer, followed
from headrace.simulate.world import World
from headrace.views.state_at import PastStates
from tests.patience import PATIENCE

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


async def test_who_waits_for_the_question_has_read_the_ledger_and_answers_the_same(ledger):
    growing, coming = MemoryLog(lambda: START + HOUR), asyncio.get_running_loop().create_future()
    messages = ledger.messages_after(0)
    for message in messages[:-2]:
        growing.append_now(message.subject, message.payload, None)
    following = asyncio.ensure_future(followed(growing, None, coming))
    await until(lambda: bool(growing.readers))
    for message in messages[-2:]:
        growing.append_now(message.subject, message.payload, None)
    await until(lambda: all(reader.buffered == 0 for reader in growing.readers))
    coming.set_result(b"")
    state = await following
    assert dump(state) == dump(await PastStates(growing).behind(growing.last_sequence, 0, growing.last_sequence))
    question = WhatIfQuestion(changes=NODE)
    assert await answer(question, ledger, START + HOUR, state=state) == await answer(question, ledger, START + HOUR)


async def test_who_has_the_question_already_or_no_ledger_waits_for_nothing(ledger):
    coming = asyncio.get_running_loop().create_future()
    coming.set_result(b"")
    assert await followed(ledger, None, coming) is None
    assert await followed(Away(lambda: 0), None, asyncio.get_running_loop().create_future()) is None


class Away(MemoryLog):
    """A ledger that does not answer."""

    async def tip(self) -> int:
        raise LogUnavailable("no server")


async def until(holds) -> None:
    async with asyncio.timeout(PATIENCE):
        while not holds():
            await asyncio.sleep(0)


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
