"""Checks that SUBMIT still has what admission read of it, and renumbers new submissions if its store was lost.

Admission goes on behind the last submission that it has judged, which is in the ledger. A stream that was made anew begins at 1, so what
it acknowledges would be passed over as judged already. Two things show that: the stream ends before that submission, or the message in
that submission's place came after it was judged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from headrace.bus.log import LogError, LogRefused, LogUnavailable
from headrace.bus.nats.jetstream import JetStreamLog
from headrace.bus.nats.streams import ensure_stream
from headrace.contracts.facts import WishesJudgedV1
from headrace.contracts.facts.writers import ADMISSION
from headrace.contracts.transport.codec import decode_record
from headrace.contracts.transport.subjects import LEDGER_STREAM, SUBMIT_STREAM, ledger

if TYPE_CHECKING:
    from headrace.bus.log import Message
    from headrace.nats_client.connection import Connection

AT_ONCE, SILENCE = 500, 2.0


class SubmissionsLost(LogError):
    """SUBMIT is younger or shorter than what was read of it; the text says so, and the way out."""


class Loss(NamedTuple):
    """`judged`: the last submission that admission has judged; `tip`: the end of the stream, None if it is missing."""

    judged: int
    tip: int | None

    @property
    def description(self) -> str:
        """One line for people."""
        if self.tip is None:
            what = f"is gone, and submissions through {self.judged} were judged"
        elif self.tip < self.judged:
            what = f"ends at submission {self.tip}, and submissions through {self.judged} were judged"
        else:
            what = f"was made anew: submission {self.judged} was judged before it came"
        return (
            f"stream {SUBMIT_STREAM} {what}: its store was lost, with every submission that was not judged yet; "
            "`headrace repair` lets new submissions come behind those that were judged"
        )


async def check_none_lost(bus: Connection) -> None:
    """Raise `SubmissionsLost`, and `LogUnavailable` if the servers do not answer; without a ledger nothing is missing."""
    loss = await find_loss(bus)
    if loss is not None:
        raise SubmissionsLost(loss.description)


async def find_loss(bus: Connection) -> Loss | None:
    """Return what SUBMIT lacks by the ledger's record of what was judged; None: nothing."""
    try:
        record = await JetStreamLog(bus, LEDGER_STREAM).last(ledger(ADMISSION))
    except LogRefused:
        return None  # the ledger does not exist yet
    judged = _judged(record)
    if record is None or not judged:
        return None
    submit = JetStreamLog(bus, SUBMIT_STREAM)
    try:
        tip = await submit.tip()
    except LogRefused:
        return Loss(judged, None)
    if tip < judged:
        return Loss(judged, tip)
    first = await submit.following(0)
    younger = first is not None and first.sequence <= judged and first.stamped > record.stamped
    return Loss(judged, tip) if younger else None


def _judged(record: Message | None) -> int:
    """Return the last submission that admission's last record names; 0 if it has no record."""
    facts = decode_record(record.payload).facts if record is not None else ()
    return max((fact.through for fact in facts if isinstance(fact, WishesJudgedV1)), default=0)


async def renumber_new(bus: Connection, loss: Loss, replicas: int = 1) -> int:
    """Number new submissions behind those that were judged. Those in the new stream are moved there; returns their number."""
    await ensure_stream(bus, SUBMIT_STREAM, replicas)
    log = JetStreamLog(bus, SUBMIT_STREAM)
    kept = await _all_of(log)
    await bus.ask(f"$JS.API.STREAM.PURGE.{SUBMIT_STREAM}", b'{"seq":%d}' % (max(loss.judged, await log.tip()) + 1))
    for message in kept:
        await log.append(message.subject, message.payload, None)
    return len(kept)


async def _all_of(log: JetStreamLog) -> list[Message]:
    state = await log.state()
    found: list[Message] = []
    if state.last_seq < max(1, state.first_seq):
        return found
    reader = await log.read(state.first_seq - 1)
    try:
        while not found or found[-1].sequence < state.last_seq:
            batch = await reader.batch(AT_ONCE, SILENCE)
            if not batch:
                raise LogUnavailable(f"{SUBMIT_STREAM} gives nothing behind submission {found[-1].sequence if found else 0}")
            found += batch
    finally:
        await reader.close()
    return found
