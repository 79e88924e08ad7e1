"""The node's writer against a bus that forgets, lies in bed and loses acknowledgements."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec import structs

from headrace.contracts.facts import CheckpointRegisteredV1, DeviceReturnedV1, LeaseEndedV1, levels
from headrace.contracts.facts.records import RECORD_BYTES_MAX, Record, digest
from headrace.contracts.messages.orders import NodeAnswer
from headrace.contracts.transport.codec import decode_record, encode
from headrace.nats_client.errors import LogUnavailable, WrongLast
from headrace.node_executor.reporting import ledger as module
from headrace.node_executor.reporting.journal import Journal, Sending
from headrace.node_executor.reporting.ledger import FactWriter
from tests.patience import PATIENCE


@pytest.fixture(autouse=True)
def impatient(monkeypatch) -> None:
    monkeypatch.setattr(module, "WAIT_FIRST", 0.001)
    monkeypatch.setattr(module, "WAIT_MOST", 0.001)


class Bus:
    """Stores records as the stream does. `plan` says what happens to the next appends: `ok`, `away`, `lost` (stored, no ack)."""

    def __init__(self, *plan: str, names_digests: bool = True, lag: int = 0, now: int = 0, level: int = 1) -> None:
        self.stored: list[bytes] = []
        self.asked = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self._plan = list(plan)
        self._names_digests = names_digests
        self._lag = lag
        self._now = now
        self._level = level

    async def append(self, payload: bytes, expected: int) -> int:
        await self.gate.wait()
        step = self._plan.pop(0) if self._plan else "ok"
        if step == "away":
            raise LogUnavailable("the bus is away")
        if expected != len(self.stored):
            raise WrongLast("another", len(self.stored))
        self.stored.append(payload)
        if step == "lost":
            raise LogUnavailable("no answer")
        return len(self.stored)

    async def ask(self) -> NodeAnswer:
        self.asked += 1
        if self._lag:
            self._lag -= 1
            if self._lag % 2:
                raise LogUnavailable("nobody listens")
            return NodeAnswer(node="gpu01", through=0, last_record=0)
        known = digest(self.stored[-1]) if self.stored and self._names_digests else ""
        sequence = len(self.stored)
        return NodeAnswer(node="gpu01", through=0, last_record=sequence, last_digest=known, now=self._now, level=self._level)

    def facts(self) -> list[list[int]]:
        """The steps of the checkpoints in each record."""
        return [[fact.step for fact in decode_record(payload).facts] for payload in self.stored]  # type: ignore[union-attr]


def fact(step: int, uri: str = "/x") -> CheckpointRegisteredV1:
    return CheckpointRegisteredV1(job="acme.alice.x", attempt=1, uri=uri, step=step, at=step)


@pytest.fixture
def spool(tmp_path) -> str:
    return str(tmp_path / "journal")


@asynccontextmanager
async def writing(
    bus: Bus, spool: str, engine: str = "test/1", now: Callable[[], int] = lambda: 42
) -> AsyncIterator[FactWriter]:
    journal = Journal(spool)
    ledger = FactWriter(bus, "node.gpu01", engine, now, journal)
    task = asyncio.create_task(ledger.run())
    yield ledger
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    journal.close()


async def settled(ledger: FactWriter) -> None:
    async with asyncio.timeout(PATIENCE):
        await ledger.all_stored()


async def test_a_fact_becomes_a_record_behind_the_last_one(spool) -> None:
    bus = Bus()
    bus.stored.append(b"{}")
    async with writing(bus, spool) as ledger:
        ledger.as_of = 17
        ledger.state(fact(1))
        await settled(ledger)
        assert ledger.last_record == 2
    assert bus.stored[1] == encode(Record(by="node.gpu01", now=42, engine="test/1", as_of=17, facts=(fact(1),)))


async def test_what_is_stated_while_a_record_is_under_way_is_packed_into_the_next(spool) -> None:
    bus = Bus()
    bus.gate.clear()
    async with writing(bus, spool) as ledger:
        ledger.state(fact(1))
        await asyncio.sleep(0)
        for _ in range(3):
            await asyncio.sleep(0)
        for step in range(2, 1500):
            ledger.state(fact(step))
        bus.gate.set()
        await settled(ledger)
        assert bus.facts() == [[1], list(range(2, 1002)), list(range(1002, 1500))]


async def test_a_record_is_never_larger_than_it_may_be(spool) -> None:
    bus = Bus()
    async with writing(bus, spool) as ledger:
        for step in range(300):
            ledger.state(fact(step, "/" + "x" * 4_000))
        await settled(ledger)
        assert [step for record in bus.facts() for step in record] == list(range(300))
        assert max(map(len, bus.stored)) <= RECORD_BYTES_MAX


async def test_while_the_bus_is_away_facts_wait_in_order(spool) -> None:
    bus = Bus("away", "away", "away")
    async with writing(bus, spool) as ledger:
        ledger.state(fact(1))
        ledger.state(fact(2))
        await settled(ledger)
        assert bus.facts() == [[1, 2]]


@pytest.mark.parametrize("names_digests", [True, False])
async def test_a_record_whose_acknowledgement_was_lost_is_not_written_twice(spool, names_digests) -> None:
    bus = Bus("ok", "lost", names_digests=names_digests)
    async with writing(bus, spool) as ledger:
        for step in (1, 2, 3):
            ledger.state(fact(step))
            await settled(ledger)
        assert bus.facts() == [[1], [2], [3]]


async def test_a_record_of_another_is_not_taken_for_ours(spool) -> None:
    bus = Bus("ok", "away")
    async with writing(bus, spool) as ledger:
        ledger.state(fact(1))
        await settled(ledger)
        bus.stored.append(encode(Record(by="node.gpu01", now=1, engine="clone", as_of=0, facts=(fact(99),))))
        ledger.state(fact(2))
        await settled(ledger)
        assert bus.facts() == [[1], [99], [2]]


async def test_a_feed_that_is_behind_is_asked_until_it_has_caught_up(spool) -> None:
    bus = Bus(lag=5)
    bus.stored += [encode(Record(by="node.gpu01", now=1, engine="former", as_of=0, facts=(fact(0),)))]
    async with writing(bus, spool) as ledger:
        ledger.state(fact(1))
        await settled(ledger)
        assert bus.facts() == [[0], [1]]
        assert bus.asked == 6


@pytest.mark.parametrize("step", ["lost", "away"])
async def test_what_a_former_executor_could_not_state_is_stated_once_and_first(spool, step) -> None:
    """Whether its last record was stored is told by the digest of the very same bytes."""
    bus = Bus("ok", step)
    async with writing(bus, spool, engine="former/1") as ledger:
        ledger.state(fact(1))
        await settled(ledger)
        bus.gate.clear()
        ledger.state(fact(2))
        while not Path(spool).read_bytes().count(b'"sending"') > 1:  # noqa: ASYNC240 - a look at a local file
            await asyncio.sleep(0.001)
        if step == "lost":
            bus.stored.append(encode(Record(by="node.gpu01", now=42, engine="former/1", as_of=0, facts=(fact(2),))))
        ledger.state(fact(3))
    bus.gate.set()
    async with writing(bus, spool) as ledger:
        ledger.state(fact(4))
        await settled(ledger)
    assert bus.facts() == [[1], [2], [3, 4]]
    async with writing(bus, spool) as ledger:
        await settled(ledger)
    assert bus.facts() == [[1], [2], [3, 4]]


@pytest.mark.parametrize(
    ("log_time", "stated"),
    [
        pytest.param(0, 5_000_042, id="nobody says what time it is"),
        pytest.param(4_800_000, 5_000_042, id="a little ahead"),
        pytest.param(5_300_000, 5_000_042, id="a little behind"),
    ],
)
async def test_a_record_carries_the_nodes_own_time(spool, log_time, stated) -> None:
    bus = Bus(now=log_time)
    async with writing(bus, spool, now=lambda: 5_000_042) as ledger:
        ledger.state(fact(1))
        await asyncio.wait_for(ledger.all_stored(), PATIENCE)
    assert decode_record(bus.stored[0]).now == stated


@pytest.mark.parametrize(
    ("log_time", "clock"),
    [
        pytest.param(1_000_000, 5_000_042_000_000, id="ahead: its records would be void"),  # R34
        pytest.param(5_000_042_000_000, 1_000_000, id="behind: its facts would be later than their record"),  # R37
    ],
)
async def test_a_node_whose_clock_is_wrong_states_the_logs_time(spool, log_time, clock) -> None:
    bus = Bus(now=log_time)
    async with writing(bus, spool, now=lambda: clock) as ledger:
        ledger.state(fact(1))
        await asyncio.wait_for(ledger.all_stored(), PATIENCE)
    assert log_time <= decode_record(bus.stored[0]).now < log_time + PATIENCE * 1_000_000


HOUR = 3_600_000_000
ENDED = LeaseEndedV1(job="acme.alice.x", attempt=1, rank=0, outcome="exited", exit_code=0, exited_at=2 * HOUR - 5, at=2 * HOUR)
"""Stated at two o'clock, by the node's clock."""


@pytest.mark.parametrize("log_time", [HOUR, 3 * HOUR])
async def test_times_of_facts_are_corrected_by_the_offset_of_a_clock_that_is_wrong(spool, log_time) -> None:  # R37
    bus = Bus(now=log_time)
    async with writing(bus, spool, now=lambda: 2 * HOUR) as ledger:
        ledger.take_answer(await bus.ask(), asyncio.get_running_loop().time())
        ledger.state(ENDED)
        await settled(ledger)
    (stated,) = decode_record(bus.stored[0]).facts
    assert log_time <= stated.at < log_time + PATIENCE * 1_000_000
    assert stated == structs.replace(ENDED, at=stated.at, exited_at=stated.at - 5)


@pytest.mark.parametrize(
    ("log_time", "took"),
    [
        pytest.param(2 * HOUR - 400_000, 0.0, id="a little ahead"),
        pytest.param(2 * HOUR + 400_000, 0.0, id="a little behind"),
        pytest.param(2 * HOUR - 9_000_000, 10.0, id="by less than the answer took"),
    ],
)
async def test_times_of_facts_are_the_nodes_own_if_its_clock_may_be_right(spool, log_time, took) -> None:  # R37
    bus = Bus(now=log_time)
    async with writing(bus, spool, now=lambda: 2 * HOUR) as ledger:
        ledger.take_answer(await bus.ask(), asyncio.get_running_loop().time() - took)
        ledger.state(ENDED)
        await settled(ledger)
    assert decode_record(bus.stored[0]).facts == (ENDED,)


async def test_a_node_states_what_the_installation_reads_and_newer_facts_once_it_has_heard_of_their_level(
    spool, monkeypatch
) -> None:
    monkeypatch.setattr(levels, "LEVEL", 2)
    monkeypatch.setitem(levels.SINCE, CheckpointRegisteredV1, 2)
    monkeypatch.setitem(
        levels.DOWNCASTERS, CheckpointRegisteredV1, lambda fact: DeviceReturnedV1(node="gpu01", device=fact.uri, at=fact.at)
    )
    bus = Bus()
    async with writing(bus, spool) as ledger:
        ledger.state(fact(1))
        await settled(ledger)
        asked_at = asyncio.get_running_loop().time()
        ledger.take_answer(NodeAnswer(node="gpu01", through=1, last_record=1, level=2), asked_at)
        ledger.take_answer(NodeAnswer(node="gpu01", through=0, last_record=1), asked_at)  # an answer that came late
        ledger.state(fact(2))
        await settled(ledger)
    assert [decode_record(payload).facts for payload in bus.stored] == [
        (DeviceReturnedV1(node="gpu01", device="/x", at=1),),
        (fact(2),),
    ]


async def test_what_an_earlier_life_stated_is_stored_before_any_answer_is_believed(spool) -> None:
    """R36: until then no other service knows what has ended here."""
    journal = Journal(spool)
    journal.note_fact(fact(1))
    journal.note_fact(fact(2))
    journal.close()
    bus = Bus()
    bus.gate.clear()
    async with writing(bus, spool) as ledger:
        waiting = asyncio.ensure_future(ledger.former_facts_stored())
        ledger.state(fact(3))
        for _ in range(20):
            await asyncio.sleep(0)
        assert not waiting.done()
        bus.gate.set()
        assert await asyncio.wait_for(waiting, PATIENCE) == 1
    assert bus.facts()[0][:2] == [1, 2]


async def test_facts_behind_a_record_that_a_former_executor_was_sending_wait_for_the_level(spool, monkeypatch) -> None:
    monkeypatch.setattr(levels, "LEVEL", 2)
    monkeypatch.setitem(levels.SINCE, CheckpointRegisteredV1, 2)
    journal = Journal(spool)
    journal.note_fact(fact(1))
    journal.sends(Sending(1, 0, 42, 0, "test/1", level=2))
    journal.note_fact(fact(2))
    journal.close()
    bus = Bus(level=2)
    async with writing(bus, spool) as ledger:
        await settled(ledger)
    assert (bus.facts(), bus.asked) == ([[1], [2]], 1)


async def test_who_has_left_nothing_is_believed_at_once(spool) -> None:
    async with writing(Bus(), spool) as ledger:
        assert await asyncio.wait_for(ledger.former_facts_stored(), PATIENCE) == 0
