"""Verifies that records are as their writers wrote them: sequences without gaps, and each record of a service names its last. Pure.

This needs no fold: only the head of each record is decoded. A record of a node names no other: those are protected by the seals (`seals`).
Reading continues after a finding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from headrace.audit.findings import AuditFindings, at
from headrace.contracts.facts.records import digest
from headrace.contracts.facts.writers import AUDIT, SERVICES
from headrace.contracts.transport.subjects import ledger_writer
from headrace.contracts.values.ids import NODE_WRITER, IdError

if TYPE_CHECKING:
    from headrace.contracts.messages.audit import Finding
    from headrace.domain.fold.ledger import StoredMessage


class RecordHead(msgspec.Struct, frozen=True, gc=False):
    """The fields of a record without its facts; see `Record`."""

    by: str
    now: int
    engine: str
    as_of: int
    prev: str = ""


_heads = msgspec.json.Decoder(RecordHead)


def head_of(payload: bytes) -> RecordHead | None:
    """The head of a record; None if malformed."""
    try:
        return _heads.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


class Chains:
    """Checks every writer's chain after the record `after`; adds findings to `findings`.

    `last`: the last sequence read. `ends`: (sequence, digest) of each writer's last record, for a fold that was started in the middle.
    """

    def __init__(self, findings: AuditFindings, after: int = 0, ends: dict[str, tuple[int, str]] | None = None) -> None:
        self.last = after
        self._findings = findings
        self._ends = dict(ends or {})
        self._hole = 0

    def take(self, message: StoredMessage) -> RecordHead | None:
        """Check the next message; returns its head, or None if it is not a readable record of a known writer."""
        if not self._place(message.sequence):
            return None
        try:
            writer = ledger_writer(message.subject)
        except IdError as error:
            self._findings.add(at("void", message.sequence, f"record {message.sequence}: {error}"))
            return None
        head = head_of(message.payload)
        if writer in SERVICES:
            self._link(writer, message, head)
        elif not writer.startswith(NODE_WRITER):
            self._findings.add(at("void", message.sequence, f"record {message.sequence}: {writer} writes nothing here"))
        return head

    def _place(self, sequence: int) -> bool:
        """True if the sequence is greater than all before."""
        if sequence <= self.last:
            text = f"record {sequence} comes again behind record {self.last}"
            self._findings.add(at("repeated", sequence, text))
            return False
        if sequence > self.last + 1:
            first, through = self.last + 1, sequence - 1
            what = f"record {first} is" if first == through else f"records {first} to {through} are"
            self._findings.add(at("removed", first, f"{what} missing: behind {self.last} comes {sequence}", through))
            self._hole = through
        self.last = sequence
        return True

    def _link(self, writer: str, message: StoredMessage, head: RecordHead | None) -> None:
        last, known = self._ends.get(writer, (0, ""))
        self._ends[writer] = message.sequence, digest(message.payload)
        if head is None:
            self._findings.add(
                at("changed", message.sequence, f"record {message.sequence} of {writer} is not a record any more")
            )
        elif head.by != writer:
            self._findings.add(
                at("void", message.sequence, f"record {message.sequence} on the subject of {writer} is by {head.by}")
            )
        elif head.prev != known:
            if self._hole <= last:  # else the record that it names may be a missing one
                self._findings.add(_unchained(writer, last, message.sequence, head.prev))
        elif (
            not (last if writer != AUDIT else 0) <= head.as_of < message.sequence
        ):  # audit states its findings without reading to the tip
            text = f"record {message.sequence} of {writer} was decided on record {head.as_of}, before its writer's last, {last}"
            self._findings.add(at("unchained", message.sequence, text))


def _unchained(writer: str, last: int, sequence: int, prev: str) -> Finding:
    if not last:
        return at("unchained", sequence, f"record {sequence} of {writer} names a record before it, but it is the first")
    if not prev:
        text = f"record {sequence} of {writer} says that it is the first, and record {last} is before it"
        return at("unchained", sequence, text)
    text = (
        f"record {sequence} of {writer} does not name record {last}, the one before it: "
        "one of the two was changed, or one between them is gone"
    )
    return at("unchained", last, text, sequence)
