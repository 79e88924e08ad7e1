"""Whether the ledger is what was written, and what was written what this engine decides: everything that is looked at, in one pass. Pure.

Messages go in, in the order in which the log hands them out; findings and counts come out. Nothing is stopped by what is found but the
decisions: they have no prefix to stand on behind a record that is not there or breaks the law.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.audit.findings import AuditFindings
from headrace.audit.verify_chains import Chains
from headrace.audit.verify_decisions import Decisions
from headrace.audit.verify_seals import Seals
from headrace.contracts.facts import LedgerSealedV1
from headrace.contracts.facts.writers import AUDIT
from headrace.contracts.messages.audit import VerifyReport
from headrace.contracts.transport.codec import Malformed, decode_record
from headrace.contracts.transport.subjects import NODE_WRITER

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from headrace.domain.fold.ledger import FoldedLedger, StoredMessage


class LedgerVerifier:
    """Looks at a ledger from its beginning. `engine`: whose decisions are made again; None: nobody's, and nothing is folded.

    `kept`: seals that were kept apart; `tail`: marks of the records behind them; `key`: with which seals have to be made (empty: with
    whichever the first was). `ledger`: a fold that stands somewhere, from which on decisions are made again.
    """

    def __init__(
        self,
        engine: str | None,
        *,
        kept: Iterable[LedgerSealedV1] = (),
        tail: Sequence[bytes] = (),
        key: str = "",
        ledger: FoldedLedger | None = None,
    ) -> None:
        self.findings = AuditFindings()
        self.chains = Chains(self.findings)
        self.seals = Seals(self.findings, kept=kept, key=key, tail=tail)
        self.decisions = None if engine is None else Decisions(engine, self.findings, ledger)
        self.records = 0

    def take(self, messages: Iterable[StoredMessage]) -> None:
        """The next messages."""
        chains, seals, decisions = self.chains, self.seals, self.decisions
        for message in messages:
            self.records += 1
            head = chains.take(message)
            seals.take(message)
            if head is not None and head.by == AUDIT:
                self._note_seals(message)
            if decisions is not None and message.sequence > decisions.folded:
                decisions.take(message, head)

    def finish(self) -> None:
        """There are no more."""
        self.seals.finish()
        if self.decisions is not None:
            self.decisions.finish()

    def _note_seals(self, message: StoredMessage) -> None:
        try:
            facts = decode_record(message.payload).facts
        except Malformed:
            return  # its chain says so
        for fact in facts:
            if isinstance(fact, LedgerSealedV1):
                self.seals.note(fact, message.sequence)

    def report(self) -> VerifyReport:
        """How it stands."""
        seals, decisions = self.seals, self.decisions
        voids = {} if decisions is None else decisions.ledger.state.voids
        return VerifyReport(
            through=self.chains.last,
            records=self.records,
            facts=0 if decisions is None else decisions.facts,
            voids={writer.removeprefix(NODE_WRITER): count for writer, count in sorted(voids.items())},
            recomputed=0 if decisions is None else decisions.recomputed,
            decision_facts=0 if decisions is None else decisions.decision_facts,
            judged=0 if decisions is None else decisions.judged,
            untold={} if decisions is None else dict(sorted(decisions.untold.items())),
            other_engines={} if decisions is None else dict(sorted(decisions.others.items())),
            observed={} if decisions is None else dict(sorted(decisions.observed.items())),
            late=0 if decisions is None else decisions.late,
            folded=0 if decisions is None else decisions.folded,
            stopped="" if decisions is None else decisions.broken,
            seals=seals.held,
            sealed_through=seals.through,
            key=seals.key,
            found=self.findings.count,
            findings=self.findings.in_order(),
        )
