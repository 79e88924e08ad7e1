"""Verifies that records are those that were sealed; of a range that differs, which records. Pure.

Strategy: an unchanged range is recognised by its digests. For a changed one, the marks of the sealed and of the present records are
compared one by one (`sequence_diff`).
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from headrace.audit.findings import at
from headrace.audit.seals import RecordRange, flaw, is_behind, marks_of
from headrace.audit.sequence_diff import SEARCH_WINDOW, Walk, differences

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from headrace.audit.findings import AuditFindings
    from headrace.contracts.facts import LedgerSealedV1
    from headrace.domain.fold.ledger import StoredMessage


class Seals:
    """Compares a ledger with its seals. `kept`: trusted seals stored apart; `key`: the key of all seals.

    `tail`: marks of the records after the last stored seal, if noted. `last`: the last accepted seal.
    """

    def __init__(
        self, findings: AuditFindings, *, kept: Iterable[LedgerSealedV1] = (), key: str = "", tail: Sequence[bytes] = ()
    ) -> None:
        self.key = key
        self.last: LedgerSealedV1 | None = None
        self.held = 0
        """Number of seals that match."""
        self.through = 0
        """The last record under a matching seal."""
        self.came: list[LedgerSealedV1] = []
        """Seals in the ledger that are not stored apart yet; the code that stores them removes them."""
        self._findings = findings
        self._range = RecordRange()
        self._due: list[LedgerSealedV1] = []
        self._kept = {seal.number: seal for seal in kept}
        self._shift = 0
        self._checked = 0
        self._before: LedgerSealedV1 | None = None
        self._tail = list(tail)
        self._believe_kept()
        self._tail_first = self._next

    def take(self, message: StoredMessage) -> None:
        """Take the next record."""
        self._range.add(message)
        if self._due and message.sequence - self._shift >= self._due[0].last:
            self._check(final=False)

    def note(self, seal: LedgerSealedV1, sequence: int) -> None:
        """Take in a seal that the record `sequence` states."""
        kept = self._kept.get(seal.number)
        if kept is None:
            if self._believe(seal, f"in record {sequence}", sequence):
                self.came.append(seal)
            self._check(final=False)
        elif kept != seal:
            self._findings.add(
                at("seal", sequence, f"seal {seal.number} in record {sequence} is not the one that was kept apart")
            )

    @property
    def unsealed(self) -> RecordRange:
        """The records that are not covered by a seal yet, if all seals match."""
        return self._range

    def finish(self) -> None:
        """Check at the end of the ledger: records that were sealed, or noted after the seals, and are missing, have been removed."""
        self._check(final=True)
        noted = self._tail[max(0, self._checked + 1 - self._tail_first) :]
        self._tail = []
        if noted:
            first = max(self._tail_first, self._checked + 1)
            self._skip_to(first)
            if self._range.marks(len(noted)) != noted:
                self._lay_beside(noted, len(noted), first)

    @property
    def _next(self) -> int:
        """The first record that is not covered by a known seal."""
        return 1 if self.last is None else self.last.last + 1

    def _believe_kept(self) -> None:
        for number in sorted(self._kept):
            seal = self._kept[number]
            self._believe(seal, "that was kept apart", seal.first)

    def _believe(self, seal: LedgerSealedV1, where: str, sequence: int) -> bool:
        """Accept the next seal if it is valid; a missing seal before it is reported, and its records are not checked."""
        number = 1 if self.last is None else self.last.number + 1
        wrong = flaw(seal, self.key)
        if not wrong and seal.number < number:
            wrong = f"seal {number} comes next"
        if wrong:
            self._findings.add(at("seal", sequence, f"seal {seal.number} {where} is invalid: {wrong}"))
            return False
        if not is_behind(seal, self.last):
            text = f"seal {seal.number} {where} does not name the one before it"
            if seal.number > number:
                left = f"nothing holds the records {self._next} to {seal.first - 1}"
                text = f"seal {seal.number} {where} comes next, not seal {number}: {left}"
            self._findings.add(at("seal", sequence, text))
        self.key = self.key or seal.key
        self.last = seal
        self._due.append(seal)
        return True

    def _check(self, *, final: bool) -> None:
        while self._due:
            seal = self._due[0]
            self._skip_to(seal.first)
            end = self._range.sequences[-1] - self._shift if self._range else 0
            if end < seal.last and not final:
                return
            count = seal.last - seal.first + 1
            if self._holds(seal, count):
                self._range.drop(count)
                self.held, self.through = self.held + 1, seal.last
            elif end < seal.last + SEARCH_WINDOW and not final:
                return  # the next records show where the range continues
            else:
                ahead = marks_of(self._due[1])[:SEARCH_WINDOW] if len(self._due) > 1 else []
                if self._lay_beside([*marks_of(seal), *ahead], count, seal.first):
                    text = f"the records {seal.first} to {seal.last} are not those that were sealed, and their marks do not say which"
                    self._findings.add(at("changed", seal.first, text, seal.last))
            self._before, self._checked = seal, seal.last
            del self._due[0]

    def _skip_to(self, first: int) -> None:
        """Leave out records before `first`, which no seal covers."""
        self._range.drop(bisect_left(self._range.sequences, first + self._shift))

    def _holds(self, seal: LedgerSealedV1, count: int) -> bool:
        records, shift = self._range, self._shift
        if len(records) < count or (records.sequences[0], records.sequences[count - 1]) != (
            seal.first + shift,
            seal.last + shift,
        ):
            return False
        return records.contents(count) == seal.contents and records.times(count) == seal.times

    def _lay_beside(self, sealed: list[bytes], count: int, first: int) -> bool:
        """Report how the first `count` sealed records, from `first` on, differ from the present ones; True if they do not."""
        sequences = self._range.sequences
        walk = Walk(sealed, self._range.marks(count + SEARCH_WINDOW), count)
        before = [] if self._before is None else marks_of(self._before)
        found = tuple(differences(walk, first, sequences, before))
        for finding in found:
            self._findings.add(finding)
        if walk.passed < len(sequences):
            self._shift = sequences[walk.passed] - (first + count)
        self._range.drop(walk.passed)
        return not found
