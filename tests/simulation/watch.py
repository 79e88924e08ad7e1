"""Looks at every record as it is stored, and at everything once more when all has come to rest: what must never be is told as a line.

The independent auditor reads the ledger in the order in which it was decided: a decision of the allocator stands right behind what it had
read (`as_of`), because what others stated meanwhile is answered by the next one. What was stated is as old as it was in the ledger, though,
however late it is heard: it counts from the time of the fold there (R34).
"""

from __future__ import annotations

import json
import re
from collections import Counter, deque
from collections.abc import Callable
from hashlib import blake2b
from typing import Any

from headrace.audit.findings import AuditFindings
from headrace.audit.verify_chains import head_of
from headrace.audit.verify_decisions import Decisions
from headrace.bus.log import Message
from headrace.contracts.facts import NodeSetAsideV1
from headrace.contracts.messages.audit import Finding
from headrace.contracts.values.mig import charge
from headrace.domain.fold.ledger import FoldedLedger, LedgerBroken
from headrace.domain.model.job_states import FINAL
from headrace.domain.snapshots.snapshot import dump
from headrace.service.engine_version import ENGINE
from tests.properties.auditor import GPU_UNITS, SERVICES, Auditor
from tests.simulation.books import disagreement

AHEAD_MAX = 2_000_000
"""A record that is further before the server's clock is void (R34)."""

MOST = 20
"""Violations that are kept of one run; what follows from the first says little."""


class Watch:
    """`violations` are lines. `lies`: payloads that were made up to be void; `troubled`: nodes that have a cause to refuse starts."""

    def __init__(self) -> None:
        self.violations: list[str] = []
        self.lies: set[bytes] = set()
        self.troubled: set[str] = set()
        self.fold = FoldedLedger()
        self.auditor = Auditor()
        self.facts = 0
        self.records = 0
        self.void: set[int] = set()
        self.judged: set[str] = set()
        self.counted: list[tuple[int, Counter[str]]] = []
        self.digest = blake2b(digest_size=16)
        self.on_violation: Callable[[], None] | None = None
        self._later: deque[tuple[int, dict[str, Any]]] = deque()
        self._last: dict[str, str] = {}
        self._reported = 0

    @property
    def state(self) -> Any:
        """What all services should believe."""
        return self.fold.state

    def wrong(self, what: str) -> None:
        """Something that must never be."""
        if len(self.violations) < MOST:
            self.violations.append(what)
        if self.on_violation is not None:
            self.on_violation()

    def stored(self, message: Message) -> None:
        """The ledger has one more record."""
        self.digest.update(b"%d %s %d\n" % (message.sequence, message.subject.encode(), message.stamped))
        self.digest.update(message.payload)
        self.records += 1
        void = self._expected_void(message)
        try:
            record = self.fold.read(message)
        except LedgerBroken as error:
            self.wrong(f"the ledger is broken: {error}")
            return
        if (record is None) != void:
            self.wrong(
                f"record {message.sequence} on {message.subject} should be {'void' if void else 'good'}: {self.fold.void_reason}"
            )
        if record is None:
            self.void.add(message.sequence)
            return
        self.facts += len(record.facts)
        for fact in record.facts:
            if isinstance(fact, NodeSetAsideV1) and fact.node not in self.troubled:
                self.wrong(f"{message.sequence}: node {fact.node} is set aside, and nothing is wrong with it: {fact.reason}")
        self._audit(message)

    def _expected_void(self, message: Message) -> bool:
        if message.payload in self.lies:
            return True
        return bool(json.loads(message.payload)["now"] > message.stamped + AHEAD_MAX)

    def _audit(self, message: Message) -> None:
        record = json.loads(message.payload)
        by = record["by"]
        if message.subject != f"hr.ledger.{by}":
            self.wrong(f"{message.sequence}: {by} wrote on {message.subject}")
        if by in SERVICES:
            if record.get("prev", "") != self._last.get(by, ""):
                self.wrong(f"{message.sequence}: the record of {by} does not name the one before it")
            if by == "admission":
                self._note_verdicts(record["facts"])
            self._last[by] = blake2b(message.payload, digest_size=16).hexdigest()
        if by != "allocator":
            record["now"] = self.state.now
            self._later.append((message.sequence, record))
            return
        while self._later and self._later[0][0] <= record["as_of"]:
            self._read(*self._later.popleft())
        self._read(message.sequence, record)

    def _note_verdicts(self, facts: list[dict[str, Any]]) -> None:
        """Who is judged by name; of a flood of refusals what is beyond is counted, by user, up to the record's last submission (R14)."""
        self.judged |= {fact["job"] for fact in facts if "job" in fact}
        through = next((fact["through"] for fact in facts if fact["type"] == "wishes.judged.v1"), None)
        counts: Counter[str] = Counter()
        for fact in facts:
            if fact["type"] == "refusals.counted.v1":
                counts[f"{fact['tenant']}.{fact['user']}"] += fact["count"]
        if through is not None:
            self.counted.append((through, counts))

    def _read(self, sequence: int, record: dict[str, Any]) -> None:
        auditor = self.auditor
        auditor.sequence = sequence
        try:
            auditor.read_record(record)
        except Exception as error:  # noqa: BLE001 - a ledger that it cannot read breaks a promise
            self.wrong(f"{sequence}: the auditor cannot read it: {error!r}")
        for violation in auditor.violations[self._reported :]:
            if not _dearest(violation):
                self.wrong(violation)
        self._reported = len(auditor.violations)

    def finish(self) -> None:
        """Hear what is left."""
        while self._later:
            self._read(*self._later.popleft())

    # At rest

    def at_rest(
        self, messages: list[Message], acknowledged: dict[str, int], folds: dict[str, Any], machines: dict[str, Any]
    ) -> None:
        """All has had its time: everything is over, and all services agree. `acknowledged`: submissions, and where they stand in SUBMIT."""
        self.finish()
        state = self.state
        open_jobs = {key: job.state for key, job in state.jobs.items() if job.state not in FINAL}
        open_jobs |= {key: job.state for key, job in self.auditor.jobs.items() if job.state in ("pending", "holding")}
        for key, stands in sorted(open_jobs.items()):
            self.wrong(f"{key} is {stands} and does not end")
        if self.auditor.leases:
            self.wrong(f"leases that do not end: {sorted(self.auditor.leases)}")
        for submission in self._never_judged(acknowledged):
            self.wrong(f"{submission} was acknowledged and was never judged")
        for machine in machines.values():
            for lease in sorted(machine.running):
                self.wrong(f"{lease} still runs on {machine.name}")
        self._see_nothing_taken()
        differing = disagreement(messages, self.void)
        if differing:
            self.wrong(f"the books are not what adds up: {differing}")
        for finding in decided_otherwise(messages):
            self.wrong(f"what was decided is not what would be decided: {finding.text}")
        mine = dump(state)
        for name, fold in sorted(folds.items()):
            if fold.sequence != state.sequence:
                self.wrong(f"{name} stands at {fold.sequence}, the ledger at {state.sequence}")
            elif dump(fold.state) != mine:
                self.wrong(f"{name} believes something else than the ledger says")

    def _never_judged(self, acknowledged: dict[str, int]) -> list[str]:
        """Submissions that no verdict names, and that are not among those that were counted when their turn was."""
        left, missing = [(through, Counter(counts)) for through, counts in self.counted], []
        for submission, place in sorted(acknowledged.items()):
            user = submission.rpartition(".")[0]
            if submission in self.judged:
                continue
            counts = next((counts for through, counts in left if place <= through), Counter[str]())
            if counts[user]:
                counts[user] -= 1
            else:
                missing.append(submission)
        return missing

    def _see_nothing_taken(self) -> None:
        for node in self.state.nodes.values():
            taken = [device.name for device in node.devices if device.nominated or device.free != GPU_UNITS]
            if node.leases or taken or (node.cpu_free, node.memory_free) != (node.cpu, node.memory):
                self.wrong(f"nothing runs, and of node {node.name} something is taken: {taken or sorted(node.leases)}")


def decided_otherwise(messages: list[Message]) -> tuple[Finding, ...]:
    """What does not follow from what was recorded, as `audit verify` finds it."""
    findings = AuditFindings()
    decisions = Decisions(ENGINE, findings)
    for message in messages:
        decisions.take(message, head_of(message.payload))
    decisions.finish()
    return findings.in_order()


def _dearest(violation: str) -> bool:
    """Whether it is about a slice that was asked for before any node was there: it is charged as where it is dearest, for good."""
    charged = re.search(r"is charged (\d+) for \('([^']+)', \d+\)$", violation)
    return charged is not None and int(charged[1]) == charge(charged[2])
