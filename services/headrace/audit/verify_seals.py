"""Whether the records are those that were sealed; and where a stretch is not, which of it. Pure.

Strategy: a stretch that holds is known by its digests alone. Where one does not, what was sealed and what stands there are laid side by
side, mark by mark (`differences`).
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from headrace.audit.findings import at
from headrace.audit.seals import Stretch, flaw, is_behind, marks_of
from headrace.audit.sequence_diff import LOOK, Walk, differences

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from headrace.audit.findings import AuditFindings
    from headrace.contracts.facts import LedgerSealedV1
    from headrace.domain.fold.ledger import StoredMessage


class Seals:
    """Holds a ledger against its seals. `kept`: those kept apart, which are believed; `key`: the one that all have to be made with.

    `tail`: marks of the records behind the last kept seal, where somebody has noted them. `last`: the last seal that is believed.
    """

    def __init__(
        self, findings: AuditFindings, *, kept: Iterable[LedgerSealedV1] = (), key: str = "", tail: Sequence[bytes] = ()
    ) -> None:
        self.key = key
        self.last: LedgerSealedV1 | None = None
        self.held = 0
        """Seals that hold."""
        self.through = 0
        """The last record under one of them."""
        self.came: list[LedgerSealedV1] = []
        """Seals that came in the ledger and are not kept apart yet; whoever keeps them takes them out."""
        self._findings = findings
        self._stretch = Stretch()
        self._due: list[LedgerSealedV1] = []
        self._kept = {seal.number: seal for seal in kept}
        self._shift = 0
        self._checked = 0
        self._before: LedgerSealedV1 | None = None
        self._tail = list(tail)
        self._believe_kept()
        self._tail_first = self._next

    def take(self, message: StoredMessage) -> None:
        """The next record."""
        self._stretch.add(message)
        if self._due and message.sequence - self._shift >= self._due[0].last:
            self._check(final=False)

    def note(self, seal: LedgerSealedV1, sequence: int) -> None:
        """A seal that the record `sequence` states."""
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
    def unsealed(self) -> Stretch:
        """The records that no seal covers yet, as far as all seals that came hold."""
        return self._stretch

    def finish(self) -> None:
        """There is no more for now: what was sealed, or noted behind the seals, and is not here is gone."""
        self._check(final=True)
        noted = self._tail[max(0, self._checked + 1 - self._tail_first) :]
        self._tail = []
        if noted:
            first = max(self._tail_first, self._checked + 1)
            self._skip_to(first)
            if self._stretch.marks(len(noted)) != noted:
                self._lay_beside(noted, len(noted), first)

    @property
    def _next(self) -> int:
        """The first record that no seal covers, of those that are known."""
        return 1 if self.last is None else self.last.last + 1

    def _believe_kept(self) -> None:
        for number in sorted(self._kept):
            seal = self._kept[number]
            self._believe(seal, "that was kept apart", seal.first)

    def _believe(self, seal: LedgerSealedV1, where: str, sequence: int) -> bool:
        """Take it for the next one, if it is a seal; one that is missing before it is told, and what that covered is not looked at."""
        number = 1 if self.last is None else self.last.number + 1
        wrong = flaw(seal, self.key)
        if not wrong and seal.number < number:
            wrong = f"seal {number} comes next"
        if wrong:
            self._findings.add(at("seal", sequence, f"seal {seal.number} {where} is none: {wrong}"))
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
            end = self._stretch.sequences[-1] - self._shift if self._stretch else 0
            if end < seal.last and not final:
                return
            count = seal.last - seal.first + 1
            if self._holds(seal, count):
                self._stretch.drop(count)
                self.held, self.through = self.held + 1, seal.last
            elif end < seal.last + LOOK and not final:
                return  # what comes next says where it goes on
            else:
                ahead = marks_of(self._due[1])[:LOOK] if len(self._due) > 1 else []
                if self._lay_beside([*marks_of(seal), *ahead], count, seal.first):
                    text = f"the records {seal.first} to {seal.last} are not those that were sealed, and their marks do not say which"
                    self._findings.add(at("changed", seal.first, text, seal.last))
            self._before, self._checked = seal, seal.last
            del self._due[0]

    def _skip_to(self, first: int) -> None:
        """Records before it are held by no seal."""
        self._stretch.drop(bisect_left(self._stretch.sequences, first + self._shift))

    def _holds(self, seal: LedgerSealedV1, count: int) -> bool:
        stretch, shift = self._stretch, self._shift
        if len(stretch) < count or (stretch.sequences[0], stretch.sequences[count - 1]) != (
            seal.first + shift,
            seal.last + shift,
        ):
            return False
        return stretch.contents(count) == seal.contents and stretch.times(count) == seal.times

    def _lay_beside(self, sealed: list[bytes], count: int, first: int) -> bool:
        """Tell how the first `count` of what was sealed, from the record `first` on, differ from what stands there; True: in nothing."""
        sequences = self._stretch.sequences
        walk = Walk(sealed, self._stretch.marks(count + LOOK), count)
        before = [] if self._before is None else marks_of(self._before)
        found = tuple(differences(walk, first, sequences, before))
        for finding in found:
            self._findings.add(finding)
        if walk.passed < len(sequences):
            self._shift = sequences[walk.passed] - (first + count)
        self._stretch.drop(walk.passed)
        return not found
