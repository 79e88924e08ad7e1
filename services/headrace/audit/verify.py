"""Verifies whether the ledger is as it was written, and whether this engine decides the same: all checks in one pass. Pure.

Messages go in, in the order of the log; findings and counts come out. Findings do not stop the checks, except for decisions: after a
missing or invalid record the prefix for them is missing.
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
from headrace.contracts.values.ids import NODE_WRITER

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from headrace.domain.fold.ledger import FoldedLedger, StoredMessage


class LedgerVerifier:
    """Verifies a ledger from its beginning. `engine`: the version whose decisions are repeated; None: decisions are not checked.

    `kept`: seals that were stored apart; `tail`: marks of the records after them; `key`: the key of all seals (empty: that of the first
    one). `ledger`: a fold from which on decisions are repeated.
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
        """Check the next messages."""
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
        """Check what is left at the end."""
        self.seals.finish()
        if self.decisions is not None:
            self.decisions.finish()

    def _note_seals(self, message: StoredMessage) -> None:
        try:
            facts = decode_record(message.payload).facts
        except Malformed:
            return  # reported with its chain
        for fact in facts:
            if isinstance(fact, LedgerSealedV1):
                self.seals.note(fact, message.sequence)

    def report(self) -> VerifyReport:
        """The report of the verification so far."""
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
            untold={} if decisions is None else dict(sorted(decisions.unverifiable.items())),
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
