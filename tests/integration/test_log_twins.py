"""One suite for both logs: what a log promises holds for the one in memory and for JetStream on a real server."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, NamedTuple

import pytest

from headrace.bus.log import Log, LogBroken, LogReader, LogRefused, LogUnavailable, Message, WrongLast
from headrace.bus.memory import MemoryLog
from headrace.bus.nats.jetstream import JetStreamLog
from headrace.bus.nats.object_store import JetStreamObjects, MemoryObjects, ObjectDamaged, Objects
from headrace.bus.nats.streams import STREAMS, ensure_streams
from headrace.bus.writer_chain import Chain
from headrace.contracts.facts import NodeCordonedV1
from headrace.contracts.facts.records import digest
from headrace.contracts.transport.codec import decode_record
from headrace.contracts.transport.subjects import LEDGER_STREAM, SNAPSHOT_BUCKET, SNAPSHOT_STREAM, SUBMIT_STREAM
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from .conftest import NatsServer

CAP = 3
ALLOCATOR, ADMISSION = "hr.ledger.allocator", "hr.ledger.admission"
QUEUE, OTHER_QUEUE = "hr.submit.acme.alice.dev.half", "hr.submit.acme.bob.dev.half"
SOON = 0.05
"""Seconds to wait for what must not come."""


class Twin(NamedTuple):
    """Either log, twice: one that never forgets, one that is capped and purged."""

    ledger: Log
    submit: Log


@pytest.fixture(params=["memory", "jetstream"])
async def twin(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Twin]:
    if request.param == "memory":
        yield Twin(MemoryLog(_clock), MemoryLog(_clock, cap=CAP, begins_late=True))
        return
    monkeypatch.setitem(STREAMS, SUBMIT_STREAM, STREAMS[SUBMIT_STREAM] | {"max_msgs_per_subject": CAP})
    server: NatsServer = request.getfixturevalue("nats_server")
    connection = await server.connect("operator")
    await ensure_streams(connection)
    yield Twin(JetStreamLog(connection, LEDGER_STREAM), JetStreamLog(connection, SUBMIT_STREAM))
    await connection.close()


def _clock() -> int:
    return time.time_ns() // 1_000


async def _take(reader: LogReader, count: int) -> list[Message]:
    messages: list[Message] = []
    while len(messages) < count:
        batch = await reader.batch(wait=PATIENCE)
        assert batch, f"only {len(messages)} of {count} came"
        messages += batch
    return messages


async def test_messages_are_read_in_the_order_they_were_appended_in_and_stamped(twin: Twin) -> None:
    before = _clock()
    assert [await twin.ledger.append(ALLOCATOR, b"%d" % n, n) for n in range(3)] == [1, 2, 3]
    assert await twin.ledger.append(ADMISSION, b"other", 0) == 4
    reader = await twin.ledger.read(0)
    messages = await _take(reader, 4)
    assert [(m.sequence, m.subject, m.payload) for m in messages] == [
        (1, ALLOCATOR, b"0"),
        (2, ALLOCATOR, b"1"),
        (3, ALLOCATOR, b"2"),
        (4, ADMISSION, b"other"),
    ]
    stamps = [before - 1_000_000, *(m.stamped for m in messages), _clock() + 1_000_000]
    assert stamps == sorted(stamps)
    await reader.close()


async def test_a_reader_begins_behind_what_it_knows_and_hears_what_comes_later(twin: Twin) -> None:
    await twin.ledger.append(ALLOCATOR, b"a", 0)
    await twin.ledger.append(ALLOCATOR, b"b", 1)
    reader = await twin.ledger.read(1)
    assert [m.payload for m in await _take(reader, 1)] == [b"b"]
    assert await reader.batch(wait=SOON) == []
    await twin.ledger.append(ALLOCATOR, b"c", 2)
    assert [m.payload for m in await _take(reader, 1)] == [b"c"]
    await reader.close()
    await reader.close()


async def test_a_batch_has_at_most_its_limit_and_the_rest_stays_buffered(twin: Twin) -> None:
    for n in range(5):
        await twin.ledger.append(ALLOCATOR, b"x", n)
    reader = await twin.ledger.read(0)
    sizes = []
    while sum(sizes) < 5:
        sizes.append(len(await reader.batch(2, wait=PATIENCE)))
    assert max(sizes) <= 2
    assert reader.buffered == 0
    await reader.close()


async def test_a_waiting_reader_can_be_woken_and_a_wake_up_is_not_forgotten(twin: Twin) -> None:
    reader = await twin.ledger.read(0)
    assert await reader.batch(wait=SOON) == []
    reader.wake()
    assert await reader.batch(wait=None) == []
    await reader.close()


async def test_an_append_behind_another_message_is_refused(twin: Twin) -> None:
    await twin.ledger.append(ALLOCATOR, b"a", 0)
    for wrong in (0, 2):
        with pytest.raises(WrongLast):
            await twin.ledger.append(ALLOCATOR, b"b", wrong)
    assert await twin.ledger.append(ADMISSION, b"c", 0) == 2
    assert await twin.ledger.append(ALLOCATOR, b"d", 1) == 3
    assert await twin.ledger.append(ALLOCATOR, b"e", None) == 4


async def test_messages_are_found_by_sequence_and_by_subject(twin: Twin) -> None:
    assert (await twin.ledger.tip(), await twin.ledger.last(ALLOCATOR), await twin.ledger.get(1)) == (0, None, None)
    await twin.ledger.append(ALLOCATOR, b"a", 0)
    await twin.ledger.append(ADMISSION, b"b", 0)
    last, second = await twin.ledger.last(ALLOCATOR), await twin.ledger.get(2)
    assert last is not None
    assert second is not None
    assert (last.sequence, last.subject, last.payload) == (1, ALLOCATOR, b"a")
    assert (second.sequence, second.subject, second.payload) == (2, ADMISSION, b"b")
    reader = await twin.ledger.read(0)
    assert await _take(reader, 2) == [last, second]
    assert await twin.ledger.get(3) is None
    assert await twin.ledger.tip() == 2
    await reader.close()


async def test_the_log_tells_the_time_it_stamps_with(twin: Twin) -> None:
    before = await twin.ledger.now()
    await twin.ledger.append(ALLOCATOR, b"a", 0)
    stored = await twin.ledger.get(1)
    assert stored is not None
    assert before <= stored.stamped <= await twin.ledger.now()


async def test_a_message_that_is_repeated_is_stored_again(twin: Twin) -> None:
    assert [await twin.submit.append(QUEUE, b"a", None) for _ in range(3)] == [1, 2, 3]
    assert await twin.submit.tip() == 3


async def test_a_full_subject_refuses_itself_and_no_other(twin: Twin) -> None:
    for _ in range(CAP):
        await twin.submit.append(QUEUE, b"a", None)
    with pytest.raises(LogRefused, match="per subject"):
        await twin.submit.append(QUEUE, b"a", None)
    assert await twin.submit.append(OTHER_QUEUE, b"a", None) == CAP + 1
    await twin.submit.purge_through(1)
    assert await twin.submit.append(QUEUE, b"a", None) == CAP + 2


async def test_a_purged_stream_begins_at_the_first_message_there_is(twin: Twin) -> None:
    for n in range(3):
        await twin.submit.append(QUEUE, b"%d" % n, None)
    await twin.submit.purge_through(2)
    reader = await twin.submit.read(0)
    assert [(m.sequence, m.payload) for m in await _take(reader, 1)] == [(3, b"2")]
    assert (await twin.submit.get(2), await twin.submit.tip()) == (None, 3)
    await reader.close()


async def test_the_first_message_behind_a_hole_is_found_on_whichever_subject(twin: Twin) -> None:
    for n in range(3):
        await twin.submit.append(f"{QUEUE}{n}", b"%d" % n, None)
    await twin.submit.purge_through(2)
    found = [await twin.submit.following(after) for after in (0, 2, 3)]
    assert [message and (message.sequence, message.payload) for message in found] == [(3, b"2"), (3, b"2"), None]


async def test_purging_beyond_the_end_skips_no_sequence(twin: Twin) -> None:
    await twin.submit.append(QUEUE, b"a", None)
    await twin.submit.purge_through(1_000)
    await twin.submit.purge_through(1_000)
    assert await twin.submit.tip() == 1
    assert await twin.submit.last(QUEUE) is None
    reader = await twin.submit.read(1)
    assert await reader.batch(wait=SOON) == []
    assert await twin.submit.append(QUEUE, b"b", 0) == 2
    assert [m.sequence for m in await _take(reader, 1)] == [2]
    await reader.close()


async def test_a_reader_that_is_overtaken_by_a_purge_goes_on_at_the_front(twin: Twin) -> None:
    await twin.submit.append(QUEUE, b"a", None)
    reader = await twin.submit.read(0)
    assert [m.sequence for m in await _take(reader, 1)] == [1]
    await reader.close()
    await twin.submit.append(QUEUE, b"b", None)
    await twin.submit.append(QUEUE, b"c", None)
    await twin.submit.purge_through(2)
    late = await twin.submit.read(1)
    assert [m.sequence for m in await _take(late, 1)] == [3]
    await late.close()


async def test_a_ledger_without_its_beginning_stops_the_reader(twin: Twin) -> None:
    for n in range(3):
        await twin.ledger.append(ALLOCATOR, b"%d" % n, n)
    await twin.ledger.purge_through(1)
    reader = await twin.ledger.read(0)
    with pytest.raises(LogBroken, match="begins at 2"):
        await reader.batch(wait=PATIENCE)
    await reader.close()
    whole = await twin.ledger.read(1)
    assert [m.sequence for m in await _take(whole, 2)] == [2, 3]
    await whole.close()


async def test_a_ledger_that_lost_its_end_stops_the_reader(twin: Twin) -> None:
    await twin.ledger.append(ALLOCATOR, b"a", 0)
    reader = await twin.ledger.read(7)
    with pytest.raises(LogBroken, match="lost its end"):
        await reader.batch(wait=PATIENCE)
    await reader.close()


FACT = NodeCordonedV1(node="gpu01", reason="test", author="alice")


async def test_records_of_a_chain_name_the_digest_of_the_one_before(twin: Twin) -> None:
    chain = Chain(twin.ledger, "governance", "1.0")
    assert [await chain.append(now, now - 1, (FACT,)) for now in (1, 2)] == [1, 2]
    reader = await twin.ledger.read(0)
    first, second = await _take(reader, 2)
    assert [decode_record(m.payload).prev for m in (first, second)] == ["", digest(first.payload)]
    again = Chain(twin.ledger, "governance", "1.0")
    again.restore(2, digest(second.payload))
    assert await again.append(3, 2, (FACT,)) == 3
    with pytest.raises(WrongLast):
        await chain.append(3, 2, (FACT,))
    await reader.close()


class Losing:
    """A log whose answers get lost, before or after it has stored the message."""

    def __init__(self, log: Log, *, stores: Callable[[int], bool], fails: int) -> None:
        self._log = log
        self._stores = stores
        self._fails = fails
        self.tries = 0

    async def append(self, subject: str, payload: bytes, expected_last: int | None) -> int:
        self.tries += 1
        if self.tries > self._fails:
            return await self._log.append(subject, payload, expected_last)
        if self._stores(self.tries):
            await self._log.append(subject, payload, expected_last)
        raise LogUnavailable("the answer was lost")

    async def last(self, subject: str) -> Message | None:
        return await self._log.last(subject)


async def _no_sleep(_seconds: float) -> None:
    return


@pytest.mark.parametrize("stored_at", [0, 1, 2])
async def test_an_append_whose_answer_was_lost_is_stored_once(twin: Twin, stored_at: int) -> None:
    losing = Losing(twin.ledger, stores=lambda attempt: attempt == stored_at, fails=2)
    chain = Chain(losing, "governance", "1.0", sleep=_no_sleep)  # type: ignore[arg-type]
    assert await chain.append(1, 0, (FACT,)) == 1
    assert (await twin.ledger.tip(), chain.last, losing.tries) == (1, 1, 3)
    assert await chain.append(2, 1, (FACT,)) == 2


async def test_a_lost_answer_does_not_hide_that_another_process_writes_in_this_name(twin: Twin) -> None:
    losing = Losing(twin.ledger, stores=lambda _attempt: False, fails=1)
    chain = Chain(losing, "governance", "1.0", sleep=_no_sleep)  # type: ignore[arg-type]
    await Chain(twin.ledger, "governance", "1.0").append(9, 0, (FACT,))
    with pytest.raises(WrongLast):
        await chain.append(1, 0, (FACT,))
    assert await twin.ledger.tip() == 1


async def test_the_next_message_on_a_subject_is_found_behind_any(twin: Twin) -> None:
    for subject in (ALLOCATOR, ADMISSION, ALLOCATOR):
        await twin.ledger.append(subject, b"x", None)
    found = [await twin.ledger.next(ALLOCATOR, after) for after in range(4)]
    assert [message and message.sequence for message in found] == [1, 3, 3, None]


@pytest.fixture(params=["memory", "jetstream"])
async def objects(request: pytest.FixtureRequest) -> AsyncIterator[Objects]:
    if request.param == "memory":
        yield MemoryObjects()
        return
    server: NatsServer = request.getfixturevalue("nats_server")
    operator = await server.connect("operator")
    await ensure_streams(operator)
    connection = await server.connect("audit")
    yield JetStreamObjects(connection, SNAPSHOT_BUCKET, piece=5)
    await connection.close()
    await operator.close()


async def test_an_object_is_read_as_it_was_put_until_it_is_removed(objects: Objects) -> None:
    for name, data in (("b", b"in several pieces"), ("a", b""), ("c", b"five!")):
        await objects.put(name, data)
    assert await objects.names() == ["a", "b", "c"]
    assert [await objects.get(name) for name in "abc"] == [b"", b"in several pieces", b"five!"]
    await objects.delete("b")
    await objects.delete("b")
    assert await objects.names() == ["a", "c"]
    with pytest.raises(ObjectDamaged, match="b does not exist"):
        await objects.get("b")


async def test_an_object_with_a_missing_or_a_damaged_piece(nats_server: NatsServer) -> None:
    operator = await nats_server.connect("operator")
    await ensure_streams(operator)
    objects = JetStreamObjects(operator, SNAPSHOT_BUCKET, piece=5)
    await objects.put("missing", b"twice five")
    await objects.put("longer", b"five!")
    await operator.ask(f"$JS.API.STREAM.MSG.DELETE.{SNAPSHOT_STREAM}", b'{"seq":2}')
    with pytest.raises(ObjectDamaged, match="only 1 of its 2 pieces are there"):
        await objects.get("missing")
    stream = JetStreamLog(operator, SNAPSHOT_STREAM)
    piece = await stream.get(4)
    assert piece is not None
    await operator.ask(f"$JS.API.STREAM.MSG.DELETE.{SNAPSHOT_STREAM}", b'{"seq":4}')
    await stream.append(piece.subject, b"four", None)
    with pytest.raises(ObjectDamaged, match="its 4 bytes are not those that were put there"):
        await objects.get("longer")
    await operator.close()


async def test_every_fold_reads_snapshots_and_audit_alone_writes_them(nats_server: NatsServer) -> None:
    operator = await nats_server.connect("operator")
    await ensure_streams(operator)
    await JetStreamObjects(operator, SNAPSHOT_BUCKET).put("a", b"whole")
    for name in ("allocator", "preemption", "admission", "governance", "feed", "accounting"):
        connection = await nats_server.connect(name)
        objects = JetStreamObjects(connection, SNAPSHOT_BUCKET)
        assert await objects.get("a") == b"whole"
        with pytest.raises(LogRefused, match="may not publish"):
            await objects.put("b", b"forged")
        await connection.close()
    await operator.close()
