"""Verifies that decisions follow from the records: each is repeated on the prefix that it was made on. Pure.

Naive meaning: for each record of a deciding service, fold the ledger through its `as_of`, ask the service's decider at the record's `now`,
and compare. The ledger is folded only once, because deciders leave the state unchanged: messages are read ahead far enough that all
decisions on a prefix are known when the fold reaches it.

Only records of this engine's version are compared. What a service knew besides the ledger is left out: what administrators wrote
(governance), the silence of nodes (`node.lost`), and of people's submissions whatever is not in the verdict (`admission.review`).
"""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from headrace.admission.review import Review
from headrace.allocator.decide import Allocator
from headrace.audit.findings import at
from headrace.contracts.facts import LeaseIdledV1, LeaseUsedV1, NodeLostV1
from headrace.contracts.facts.levels import read_back
from headrace.contracts.facts.writers import ADMISSION, ALLOCATOR, AUDIT, PREEMPTION
from headrace.contracts.messages.audit import Finding
from headrace.contracts.transport.codec import Malformed, decode_record
from headrace.contracts.values.ids import NODE_WRITER
from headrace.domain.fold.ledger import FoldedLedger, LedgerBroken
from headrace.preemption.decide import PreemptionWatch

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.admission.review import Objection
    from headrace.audit.findings import AuditFindings
    from headrace.audit.verify_chains import RecordHead
    from headrace.contracts.facts import AnyFact
    from headrace.contracts.facts.records import Record
    from headrace.domain.fold.ledger import StoredMessage
    from headrace.domain.state.state import State

AHEAD = 1_000
"""Messages read ahead of the fold. A writer appends at once what it has decided, so others state little between."""
SHOWN = 20
"""Maximum number of facts of a difference that are shown."""


class Decider(Protocol):
    """Interface of a service's `decide` module."""

    def decide(self, now: int) -> tuple[AnyFact, ...]:
        """The facts to state at log time `now`."""


DECIDERS: dict[str, Callable[[State], Decider]] = {ALLOCATOR: Allocator, PREEMPTION: PreemptionWatch}
"""Deciders of the services whose decisions follow from the ledger alone."""
JUDGED = frozenset({*DECIDERS, ADMISSION})
"""Writers whose records are verified on the prefix that they were decided on."""
OBSERVED = (NodeLostV1, LeaseIdledV1, LeaseUsedV1)
"""Their facts that follow from more than the ledger."""


class Decisions:
    """Folds messages with a delay, and repeats decisions. `engine`: version whose records are compared."""

    def __init__(self, engine: str, findings: AuditFindings, ledger: FoldedLedger | None = None) -> None:
        self.ledger = FoldedLedger() if ledger is None else ledger
        self.recomputed = 0
        self.decision_facts = 0
        self.facts = 0
        self.judged = 0
        """Number of facts of admission that were verified."""
        self.unverifiable: Counter[str] = Counter()
        """Number of facts that cannot be verified without the submission, by reason."""
        self.others: Counter[str] = Counter()
        self.observed: Counter[str] = Counter()
        self.late = 0
        """Number of decisions on a record that was folded too long ago when they came."""
        self.broken = ""
        """Why folding has stopped; empty if it has not."""
        self._deciders = {by: make(self.ledger.state) for by, make in DECIDERS.items()}
        self._engine = engine
        self._findings = findings
        self._ahead: deque[StoredMessage] = deque()
        self._due: dict[int, list[StoredMessage]] = {}

    @property
    def folded(self) -> int:
        """The sequence of the last record folded."""
        return self.ledger.sequence

    def take(self, message: StoredMessage, head: RecordHead | None) -> None:
        """Take the next message, and its head if it has one."""
        if self.broken:
            return
        self._ahead.append(message)
        if head is not None and head.by in JUDGED and head.engine == self._engine:
            self._expect(message, head.as_of)
        if len(self._ahead) > AHEAD:
            self._fold()

    def finish(self) -> None:
        """Fold what was read ahead."""
        while self._ahead and not self.broken:
            self._fold()

    def fold_before(self, before: int, most: int) -> bool:
        """Fold what was stored before that time, in microseconds since 1970: later records are decided on more.

        Folds `most` records at most; returns whether there may be more.
        """
        for _ in range(most):
            if not self._ahead or self.broken or self._ahead[0].stamped >= before:
                return False
            self._fold()
        return True

    def _expect(self, message: StoredMessage, as_of: int) -> None:
        """Note a decision that was made on the record `as_of`."""
        if as_of < self.ledger.sequence:
            self.late += 1
            return
        self._due.setdefault(as_of, []).append(message)
        if as_of == self.ledger.sequence:
            self._decide()

    def _fold(self) -> None:
        message = self._ahead.popleft()
        try:
            record = self.ledger.read(message)
        except LedgerBroken as broken:
            self._stop(message.sequence, str(broken))
            return
        if record is not None:
            self._count(record)
        self._decide()

    def _stop(self, sequence: int, why: str) -> None:
        """Stop folding, because later prefixes are invalid."""
        self.broken = why
        self._ahead.clear()
        if not self._findings.touches(sequence):
            self._findings.add(at("void", sequence, why))

    def _count(self, record: Record) -> None:
        self.facts += len(record.facts)
        if record.by in JUDGED:
            if record.engine != self._engine:
                self.others[record.engine] += 1
        elif record.by != AUDIT and not record.by.startswith(NODE_WRITER):
            self.observed[record.by] += 1

    def _decide(self) -> None:
        """Repeat the decisions that were made on the current prefix, and compare."""
        for message in self._due.pop(self.ledger.sequence, ()):
            try:
                record = decode_record(message.payload)
            except Malformed:
                continue  # reported when it is folded
            if record.by in DECIDERS:
                self._compare(message.sequence, record)
            elif record.by == ADMISSION:
                self._review(message.sequence, record)

    def _compare(self, sequence: int, record: Record) -> None:
        """Compare a record with a repeated decision. If they differ, a new decider decides again, because deciders may cache."""
        self.recomputed += 1
        self.decision_facts += len(record.facts)
        recorded = tuple(fact for fact in record.facts if not isinstance(fact, OBSERVED))
        moved = self.ledger.state.pass_time(record.now)
        computed = self._decided(record)
        if not _same(recorded, computed):
            self._deciders[record.by] = DECIDERS[record.by](self.ledger.state)
            computed = self._decided(record)
        if not _same(recorded, computed):
            self._findings.add(_difference(sequence, record, recorded, computed))
        self.ledger.state.take_back_time(moved)

    def _decided(self, record: Record) -> tuple[AnyFact, ...]:
        state = self.ledger.state
        return read_back(self._deciders[record.by].decide(record.now), state.terms.level)

    def _review(self, sequence: int, record: Record) -> None:
        """Verify the verdicts of admission, as far as the ledger has the submissions."""
        review = Review(self.ledger.state, record)
        self.recomputed += 1
        self.decision_facts += review.judged
        self.judged += review.judged
        self.unverifiable += review.unverifiable
        if review.objections:
            self._findings.add(_objected(sequence, record, review.objections))


def _objected(sequence: int, record: Record, objections: list[Objection]) -> Finding:
    more = f" (and {len(objections) - 1} more like it)" if len(objections) > 1 else ""
    return Finding(
        kind="decision",
        sequence=sequence,
        through=sequence,
        text=f"record {sequence} of {record.by}, decided on record {record.as_of}: {objections[0].why}{more}",
        recorded=_shown(Counter(_written(each.fact) for each in objections)),
        computed=_shown(Counter(_written(each.instead) for each in objections if each.instead is not None)),
    )


def _same(recorded: tuple[AnyFact, ...], computed: tuple[AnyFact, ...]) -> bool:
    """True if both have the same facts in any order."""
    return recorded == computed or (
        len(recorded) == len(computed) and Counter(map(_written, recorded)) == Counter(map(_written, computed))
    )


def _difference(sequence: int, record: Record, recorded: tuple[AnyFact, ...], computed: tuple[AnyFact, ...]) -> Finding:
    stated, again = Counter(map(_written, recorded)), Counter(map(_written, computed))
    only_stated, only_again = stated - again, again - stated
    text = (
        f"record {sequence} of {record.by}, decided on record {record.as_of}: {_many(only_stated)} recorded that this engine does not "
        f"decide there, {_many(only_again)} decided that the record does not hold"
    )
    return Finding(
        kind="decision",
        sequence=sequence,
        through=sequence,
        text=text,
        recorded=_shown(only_stated),
        computed=_shown(only_again),
    )


def _written(fact: AnyFact) -> bytes:
    """A fact by value: encoded with its keys sorted."""
    return msgspec.json.encode(fact, order="sorted")


def _many(facts: Counter[bytes]) -> str:
    number = facts.total()
    return "1 fact is" if number == 1 else f"{number or 'no'} facts are"


def _shown(facts: Counter[bytes]) -> tuple[dict[str, Any], ...]:
    return tuple(msgspec.json.decode(fact) for fact in list(facts.elements())[:SHOWN])
