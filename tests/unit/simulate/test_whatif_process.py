"""The process that answers what-if questions: how it follows the ledger. Its copies are in `tests/integration/test_whatif.py`."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import asynccontextmanager

import pytest

from headrace.bus.log import LogUnavailable, Message
from headrace.bus.memory import MemoryLog
from headrace.bus.variables import URL
from headrace.contracts.documents.yaml_text import read_tree
from headrace.contracts.messages.whatif import WhatIfAnswered, WhatIfAsked, WhatIfQuestion
from headrace.contracts.transport.codec import decode, encode
from headrace.contracts.values.durations import HOUR
from headrace.domain.snapshots.snapshot import dump
from headrace.simulate import whatif_process as module
from headrace.simulate.scenario import read_scenario
from headrace.simulate.virtual_system import START
from headrace.simulate.whatif_process import StateFollower
from headrace.simulate.world import World
from headrace.views.state_at import PastStates
from tests.patience import PATIENCE


def played() -> list[Message]:
    world = World(
        read_scenario(
            read_tree("""
groups: [{name: all, members: [ann]}]
pools: [{name: hall, selector: {site: a}}]
profiles: [{name: one, request: {gpu: 1}, pools: [hall]}]
nodes: [{name: n, labels: {site: a}, gpus: 1}]
policies: [{name: q, group: all, profiles: [one]}]
timeline:
  - {at: 10s, submit: {name: first, queue: q/one, duration: 60s}}
  - {at: 20s, submit: {name: next, queue: q/one, duration: 60s}}
  - {at: 2m, expect: {}}
""")
        )
    )
    list(world.run())
    return world.log.messages_after(0)


STORY = played()


def opened(log):
    """Connects to that log, which has no snapshots."""

    @asynccontextmanager
    async def connects():
        yield log, None

    return connects


@pytest.fixture
async def following():
    """Makes followers of logs, which are closed at the end."""
    made = []

    def follows(log) -> StateFollower:
        made.append(StateFollower(opened(log)))
        return made[-1]

    yield follows
    for one in made:
        await one.close()


@pytest.fixture
def log() -> MemoryLog:
    """The ledger of two jobs, up to its fifth record."""
    growing = MemoryLog(lambda: START + HOUR)
    append(growing, 0, 5)
    return growing


def append(log: MemoryLog, after: int, until: int) -> None:
    for message in STORY[after:until]:
        log.append_now(message.subject, message.payload, None)


async def test_the_latest_state_is_that_behind_the_last_record_also_of_a_ledger_that_grows(log, following):
    follower = following(log)
    for tip in range(5, len(STORY) + 1):
        append(log, log.last_sequence, tip)
        assert dump(await follower.latest()) == dump(await PastStates(log).behind(tip, 0, tip))


class Away(MemoryLog):
    """A ledger that does not answer."""

    async def tip(self) -> int:
        raise LogUnavailable("no server")


async def test_there_is_no_latest_state_of_a_ledger_that_does_not_answer(following):
    assert await following(Away(lambda: 0)).latest() is None


async def test_following_begins_anew_after_the_ledger_was_away(log, following, monkeypatch):
    follower = following(log)
    with monkeypatch.context() as patch:
        patch.setattr(log, "tip", Away(lambda: 0).tip)
        assert await follower.latest() is None
    assert (await follower.latest()).sequence == await log.tip()


async def test_there_is_no_latest_state_while_records_do_not_arrive(log, following, monkeypatch):
    follower = following(log)
    await follower.latest()
    monkeypatch.setattr(module, "SILENCE", 0.01)
    beyond = await log.tip() + 1

    async def tip() -> int:
        return beyond

    monkeypatch.setattr(log, "tip", tip)
    assert await follower.latest() is None


WITHOUT_NATS = """
import os, signal, structlog
from headrace.bus.log import LogUnavailable
from headrace.contracts.messages.whatif import WhatIfAnswer
from headrace.simulate import whatif_process
async def connect(*_, **__):
    structlog.get_logger("bus").info("away")
    raise LogUnavailable("it is away")
whatif_process.connect = connect
"""
KILLED_WHILE_IT_WRITES = """
encode = whatif_process.encode
whatif_process.encode = lambda value: encode(value)[:9] if isinstance(value, WhatIfAnswer) else encode(value)
os._exit = lambda _code: os.kill(os.getpid(), signal.SIGKILL)
"""


async def first_answer(program) -> WhatIfAnswered:
    """What the process writes first when it is asked about an earlier time."""
    asked = WhatIfAsked(number=7, question=WhatIfQuestion(changes={}, since="1"))
    pipe, nowhere = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    command = (sys.executable, "-c", f"{program}whatif_process.main()")
    process = await asyncio.create_subprocess_exec(
        *command, env=os.environ | {URL: ""}, stdin=pipe, stdout=pipe, stderr=nowhere
    )
    process.stdin.write(encode(asked) + b"\n")
    async with asyncio.timeout(PATIENCE):
        answered = decode(await process.stdout.readline(), WhatIfAnswered)
        process.stdin.close()
        await process.wait()
    return answered


async def test_what_is_logged_does_not_stand_among_the_answers():
    answered = await first_answer(WITHOUT_NATS)
    assert (answered.number, answered.answer.code) == (7, "UNAVAILABLE")


async def test_a_copy_that_is_killed_while_it_writes_has_not_answered():
    answered = await first_answer(WITHOUT_NATS + KILLED_WHILE_IT_WRITES)
    assert (answered.number, answered.answer.code) == (7, "NO_ANSWER")
