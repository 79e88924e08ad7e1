"""What *audit* states is one chain, whichever part of it has something to state."""

from __future__ import annotations

import asyncio

import pytest

from headrace.audit.ledger_writer import LedgerWriter
from headrace.bus.log import LogUnavailable
from headrace.bus.loop import Fenced
from headrace.bus.memory import MemoryLog
from headrace.contracts.facts import SnapshotTakenV1
from headrace.contracts.facts.records import digest
from headrace.contracts.transport.codec import decode_record

FACT = SnapshotTakenV1(name="n", sequence=1, schema="s", digest="d", bytes=1, facts=1)


async def test_records_follow_each_other_in_one_chain_also_after_a_restart():
    log = MemoryLog(lambda: 500)
    first = LedgerWriter(log)
    await asyncio.gather(first.state((FACT,), 7, 100), first.state((FACT,), 8, 900, "because"))
    await LedgerWriter(log).state((FACT,), 9, 0)
    messages = log.messages_after(0)
    records = [decode_record(message.payload) for message in messages]
    assert [(record.as_of, record.now, record.cause) for record in records] == [(7, 500, ""), (8, 900, "because"), (9, 500, "")]
    assert [record.prev for record in records] == ["", digest(messages[0].payload), digest(messages[1].payload)]


async def test_the_one_that_loses_the_race_stops():
    log = MemoryLog(lambda: 500)
    one, other = LedgerWriter(log), LedgerWriter(log)
    await one.state((FACT,), 1, 0)
    await other.state((FACT,), 2, 0)
    with pytest.raises(Fenced, match="another instance writes as audit"):
        await one.state((FACT,), 3, 0)


class Away(MemoryLog):
    """Is away the first time it is asked anything."""

    def __init__(self):
        super().__init__(lambda: 500)
        self.asked = set()

    def _ask(self, what):
        if what not in self.asked:
            self.asked.add(what)
            raise LogUnavailable("away")

    async def last(self, subject):
        self._ask("last")
        return await super().last(subject)

    async def now(self):
        self._ask("now")
        return await super().now()


async def test_a_log_that_is_away_is_waited_for(monkeypatch):
    monkeypatch.setattr("headrace.audit.ledger_writer.RETRY", 0)
    log = Away()
    assert await LedgerWriter(log).state((FACT,), 1, 0) == 1
    assert log.asked == {"last", "now"}
