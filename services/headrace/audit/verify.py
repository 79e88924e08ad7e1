"""Whether the ledger is what was written, and what was written what this engine decides: everything that is looked at, in one pass. Pure.

Messages go in, in the order in which the log hands them out; findings and counts come out. Nothing is stopped by what is found but the
decisions: they have no prefix to stand on behind a record that is not there or breaks the law.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.audit.findings import Findings
from headrace.audit.verify_chains import Chains
from headrace.audit.verify_decisions import Decisions
from headrace.contracts.audit import VerifyReport
from headrace.contracts.subjects import NODE_WRITER

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.domain.fold.ledger import StoredMessage


class Verifier:
    """Looks at a ledger from its beginning. `engine`: whose decisions are made again; None: nobody's, and nothing is folded."""

    def __init__(self, engine: str | None) -> None:
        self.findings = Findings()
        self.chains = Chains(self.findings)
        self.decisions = None if engine is None else Decisions(engine, self.findings)
        self.records = 0

    def take(self, messages: Iterable[StoredMessage]) -> None:
        """The next messages."""
        chains, decisions = self.chains, self.decisions
        for message in messages:
            self.records += 1
            head = chains.take(message)
            if decisions is not None:
                decisions.take(message, head)

    def finish(self) -> None:
        """There are no more for now; more may be taken later."""
        if self.decisions is not None:
            self.decisions.finish()

    def report(self) -> VerifyReport:
        """How it stands."""
        found = self.findings
        decisions = self.decisions
        report = VerifyReport(through=self.chains.last, records=self.records, found=found.count, findings=found.in_order())
        if decisions is None:
            return report
        voids = decisions.ledger.state.voids
        return VerifyReport(
            through=report.through,
            records=report.records,
            facts=decisions.facts,
            voids={writer.removeprefix(NODE_WRITER): count for writer, count in sorted(voids.items())},
            recomputed=decisions.recomputed,
            decision_facts=decisions.decision_facts,
            other_engines=dict(sorted(decisions.others.items())),
            observed=dict(sorted(decisions.observed.items())),
            folded=decisions.folded,
            stopped=decisions.broken,
            found=report.found,
            findings=report.findings,
        )
