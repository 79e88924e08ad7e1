"""Governance's records, followed one after the other and no other way."""

from __future__ import annotations

import asyncio

import pytest

from headrace.bus.log import LogBroken, LogUnavailable, Message
from headrace.callout.directory_follower import SUBJECT, Directory, Follower
from headrace.contracts import facts as f
from headrace.contracts.documents.model import Group, Tenant
from headrace.contracts.facts.levels import LEVEL
from headrace.contracts.facts.records import Record, digest
from headrace.contracts.transport.codec import encode
from tests.patience import PATIENCE

ACME = f.TenantAppliedV1(author="a.b", tenant=Tenant(name="acme"))
GROUP = f.GroupAppliedV1(author="a.b", group=Group(tenant="acme", name="g", members=("ann",)))
CORDON = f.NodeCordonedV1(author="a.b", node="gpu01")


class Log:
    """A ledger of governance's records at every third sequence, as it is where others write as well."""

    def __init__(self):
        self.messages = []
        self.away = False
        self.asked = asyncio.Event()

    def append_facts(self, *facts, by="governance", prev=None):
        last = digest(self.messages[-1].payload) if self.messages else ""
        sequence = 3 * len(self.messages) + 3
        record = Record(by=by, now=sequence, engine="t", as_of=0, prev=last if prev is None else prev, facts=facts)
        self.messages.append(Message(sequence, SUBJECT, sequence, encode(record)))

    async def next(self, subject, after):
        assert subject == SUBJECT
        self.asked.set()
        await asyncio.sleep(0)
        if self.away:
            raise LogUnavailable("away")
        return next((message for message in self.messages if message.sequence > after), None)


@pytest.fixture
def log():
    return Log()


def following(log):
    changes = []
    return Follower(log, lambda: changes.append(1)), changes


async def test_all_that_is_there_is_read_and_told_of_once(log):
    log.append_facts(ACME)
    log.append_facts(CORDON)
    log.append_facts(GROUP, CORDON)
    follower, changes = following(log)
    await follower.catch_up()
    state = follower.directory.state
    assert (state.sequence, state.has_tenant("acme"), state.group("acme", "g").members) == (9, True, ("ann",))
    assert changes == [1]


async def test_what_says_nothing_of_people_changes_nothing(log):
    log.append_facts(CORDON)
    follower, changes = following(log)
    await follower.catch_up()
    assert (follower.directory.state.sequence, changes) == (3, [])


@pytest.mark.parametrize("how", ["missing", "another", "unreadable", "not entitled"])
async def test_a_record_that_is_not_governances_next_stops_it_loudly(log, how):
    log.append_facts(ACME)
    if how == "missing":
        log.append_facts(CORDON)
        log.append_facts(GROUP)
        del log.messages[1]
    elif how == "another":
        log.append_facts(GROUP, by="admission")
    elif how == "not entitled":
        log.append_facts(f.WishesJudgedV1(through=1))
    else:
        log.messages.append(Message(6, SUBJECT, 6, b"{"))
    follower, _ = following(log)
    with pytest.raises(LogBroken):
        await follower.catch_up()
    assert follower.directory.state.sequence == 3


async def test_what_is_heard_is_read_at_once_and_a_log_that_is_away_is_waited_for(log):
    follower, changes = following(log)
    log.away = True
    task = asyncio.create_task(follower.run())
    await log.asked.wait()
    log.away = False
    log.append_facts(ACME)
    follower.wake()
    async with asyncio.timeout(PATIENCE):
        while not changes:
            await asyncio.sleep(0.001)
    task.cancel()
    assert follower.directory.state.has_tenant("acme")


def test_a_directory_begins_empty():
    assert Directory().state.tenants == {}


async def test_a_level_that_this_release_does_not_read_stops_it_loudly(log):
    log.append_facts(ACME)
    log.append_facts(f.InstallationLevelV1(level=LEVEL + 1, release="9.0.0"))
    with pytest.raises(LogBroken, match=rf"reads up to level {LEVEL}: install headrace 9.0.0 or newer here$"):
        await following(log)[0].catch_up()
