"""Records of one writer stand behind each other, each naming the digest of the one before."""

from __future__ import annotations

import pytest

from headrace.bus.log import LogUnavailable, Message, WrongLast
from headrace.bus.memory import MemoryLog
from headrace.bus.writer_chain import Chain, RecordTooLarge
from headrace.contracts.facts import NodeCordonedV1
from headrace.contracts.facts.records import RECORD_BYTES_MAX, RECORD_FACTS_MAX, Record, digest
from headrace.contracts.transport.codec import decode_record

FACT = NodeCordonedV1(node="gpu01", author="alice")


async def test_a_record_says_who_when_on_what_and_why() -> None:
    log = MemoryLog(lambda: 7)
    chain = Chain(log, "governance", "0.1.0")
    assert await chain.append(5, 3, (FACT,), "a request", "00-trace") == 1
    (message,) = log.messages_after(0)
    assert message.subject == "hr.ledger.governance"
    assert decode_record(message.payload) == Record(
        by="governance", now=5, engine="0.1.0", as_of=3, prev="", cause="a request", trace="00-trace", facts=(FACT,)
    )
    assert (chain.last, chain.digest) == (1, digest(message.payload))


async def test_a_restored_chain_goes_on_where_it_ended() -> None:
    log = MemoryLog(lambda: 7)
    await Chain(log, "governance", "1").append(1, 0, (FACT,))
    (first,) = log.messages_after(0)
    chain = Chain(log, "governance", "2")
    chain.restore(1, digest(first.payload))
    await chain.append(2, 1, (FACT,))
    assert decode_record(log.messages_after(1)[0].payload).prev == digest(first.payload)


def test_the_simulator_encodes_and_stores_by_itself() -> None:
    log = MemoryLog(lambda: 7)
    chain = Chain(log, "governance", "1")
    for n in range(2):
        payload = chain.encode(n, n, (FACT,))
        chain.stored(log.append_now("hr.ledger.governance", payload, chain.last), payload)
    first, second = log.messages_after(0)
    assert decode_record(second.payload).prev == digest(first.payload)


async def test_a_record_that_is_too_large_is_never_split_and_leaves_the_chain_as_it_was() -> None:
    log = MemoryLog(lambda: 7)
    chain = Chain(log, "governance", "1")
    with pytest.raises(RecordTooLarge, match="at most 1000 facts, this has 1001"):
        await chain.append(1, 0, (FACT,) * (RECORD_FACTS_MAX + 1))
    with pytest.raises(RecordTooLarge, match="bytes"):
        await chain.append(1, 0, (NodeCordonedV1(node="x" * RECORD_BYTES_MAX, author="alice"),))
    assert (log.last_sequence, chain.last, chain.digest) == (0, 0, "")
    assert await chain.append(1, 0, (FACT,) * RECORD_FACTS_MAX) == 1


class Flaky(MemoryLog):
    """Loses answers as told: `store` behind the storing, `drop` before it, `deaf` when asked for the last message."""

    def __init__(self, *faults: str) -> None:
        super().__init__(lambda: 7)
        self.faults = list(faults)
        self.slept: list[float] = []

    async def append(self, subject: str, payload: bytes, expected_last: int | None) -> int:
        fault = self.faults.pop(0) if self.faults else ""
        if fault == "drop":
            raise LogUnavailable("lost")
        sequence = self.append_now(subject, payload, expected_last)
        if fault == "store":
            raise LogUnavailable("lost")
        return sequence

    async def last(self, subject: str) -> Message | None:
        if self.faults and self.faults[0] == "deaf":
            self.faults.pop(0)
            raise LogUnavailable("lost")
        return await super().last(subject)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


@pytest.mark.parametrize(
    "faults", [("drop",), ("store",), ("drop", "drop", "store"), ("store", "drop", "drop"), ("store", "", "deaf")]
)
async def test_a_lost_answer_is_asked_for_until_it_is_known_and_the_record_is_stored_once(faults: tuple[str, ...]) -> None:
    log = Flaky(*faults)
    chain = Chain(log, "governance", "1", sleep=log.sleep)
    assert await chain.append(1, 0, (FACT,)) == 1
    assert (log.last_sequence, chain.last) == (1, 1)
    assert await chain.append(2, 1, (FACT,)) == 2


async def test_the_pauses_between_tries_grow_to_a_quarter_of_a_second() -> None:
    log = Flaky(*["drop"] * 9)
    await Chain(log, "governance", "1", sleep=log.sleep).append(1, 0, (FACT,))
    assert log.slept == [0.02, 0.04, 0.08, 0.16, 0.25, 0.25, 0.25, 0.25, 0.25]


async def test_another_writer_in_this_name_is_found_out() -> None:
    log = Flaky()
    chain, other = Chain(log, "governance", "1", sleep=log.sleep), Chain(log, "governance", "1", sleep=log.sleep)
    await other.append(1, 0, (FACT,))
    with pytest.raises(WrongLast):
        await chain.append(1, 0, (FACT,))
    log.faults = ["drop"]
    with pytest.raises(WrongLast):
        await chain.append(2, 0, (FACT,))
    assert log.last_sequence == 1
