"""Reading the ledger into the state: decode, check, apply. Every reader of the ledger does it through this, and so in the same way.

The law: sequences follow each other without a gap; a void record changes nothing but is counted; a gap or a void record of one of our
services raises `LedgerBroken`, and the reader stops.
"""

from __future__ import annotations

from typing import Protocol

from headrace.contracts.facts.levels import too_early
from headrace.contracts.facts.records import Record, digest
from headrace.contracts.facts.upcasters import upcast
from headrace.contracts.transport.codec import Malformed, decode_written
from headrace.contracts.transport.subjects import ledger_writer
from headrace.contracts.values.ids import NODE_WRITER, IdError
from headrace.domain.fold.apply import apply
from headrace.domain.fold.entitlement import objection
from headrace.domain.fold.installation import beyond_us
from headrace.domain.fold.node_orders import end_probation
from headrace.domain.model.nodes import SELF
from headrace.domain.state.state import State


class LedgerBroken(Exception):
    """The ledger is not what our services wrote: the text says where and what."""


class StoredMessage(Protocol):
    """What the log hands out (`headrace.bus.log.Message`)."""

    @property
    def sequence(self) -> int:
        """Its place in the ledger, from 1."""

    @property
    def subject(self) -> str:
        """Where it was written."""

    @property
    def stamped(self) -> int:
        """The server's time, microseconds."""

    @property
    def payload(self) -> bytes:
        """The record's bytes as stored."""


class FoldedLedger:
    """A state and the position it reflects. `void_reason` tells about the last void record."""

    def __init__(self, state: State | None = None) -> None:
        self.state = State() if state is None else state
        self.void_reason = ""

    @property
    def sequence(self) -> int:
        """The sequence of the last message read."""
        return self.state.sequence

    @property
    def now(self) -> int:
        """Log time: the greatest `now` of any record read (R34)."""
        return self.state.now

    def last_of(self, writer: str) -> tuple[int, str]:
        """(sequence, digest) of a writer's last record; (0, "") where it has none."""
        return self.state.writers.get(writer, (0, ""))

    def read(self, message: StoredMessage) -> Record | None:
        """Fold one message. Returns the record, or None if it is void."""
        state = self.state
        if message.sequence != state.sequence + 1:
            raise LedgerBroken(f"after sequence {state.sequence} comes {message.sequence}: records are missing")
        try:
            writer = ledger_writer(message.subject)
            written = decode_written(message.payload)
            record = upcast(written)
            reason = too_early(written.facts, state.terms.level) or objection(state, record, writer, message.stamped)
        except (Malformed, IdError) as error:
            writer, record, reason = message.subject.removeprefix("hr.ledger."), None, str(error)
        if record is None or reason:
            self._void(writer, message, reason)
            return None
        if beyond := beyond_us(record):
            raise LedgerBroken(f"record {message.sequence} {beyond}")
        state.writers[writer] = (message.sequence, digest(message.payload))
        apply(state, record, message.sequence)
        return record

    def _void(self, writer: str, message: StoredMessage, reason: str) -> None:
        state = self.state
        self.void_reason = f"record {message.sequence} on {message.subject} is void: {reason}"
        if not writer.startswith(NODE_WRITER):
            raise LedgerBroken(self.void_reason)
        state.sequence = message.sequence
        state.voids[writer] = state.voids.get(writer, 0) + 1
        state.writers[writer] = (message.sequence, digest(message.payload))
        node = state.nodes.get(writer.removeprefix(NODE_WRITER))
        if node is not None and (not node.cordoned or node.name in state.set_aside):
            end_probation(state, node.name)  # what it says is not to be trusted: only an operator lets it in again
            node.cordoned = f"its record {message.sequence} was void: {reason}"
            node.cordoned_by, node.cordoned_at = SELF, state.now
            pool = state.pool_of(node)
            if pool is not None:
                pool.index.put(node)
