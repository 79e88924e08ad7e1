"""Verifies the ledger continuously, at low priority, and seals what is correct.

Naive meaning: read the ledger from its beginning and verify every record (`verify`); at its end, whenever enough records have come or a
time has passed, state a seal over those that have none; when it comes back through the read, store it apart. Findings are logged as
critical, and nothing is sealed any more: a damaged ledger gets no signature.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import structlog
from msgspec import structs

from headrace.audit.findings import at
from headrace.audit.seal_store import SealStoreError
from headrace.audit.seals import SEALED_MAX, sealed
from headrace.audit.verify import LedgerVerifier
from headrace.audit.verify_reading import stored_messages
from headrace.bus.log import LogBroken, LogRefused, LogUnavailable
from headrace.contracts.facts.writers import AUDIT
from headrace.contracts.transport.subjects import ledger
from headrace.contracts.values.durations import MINUTE, SECOND

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.audit.ledger_writer import LedgerWriter
    from headrace.audit.seal_store import SealStore
    from headrace.bus.log import Log, Message
    from headrace.contracts.messages.audit import VerifyReport
    from headrace.domain.fold.ledger import FoldedLedger

BATCH = 100
AT_ONCE = 10
"""Records verified before other tasks get their turn: making one decision again may take 50 ms when hundreds of thousands of jobs wait."""
POLL_EVERY = 1.0
RETRY = 1.0
SEAL_EVERY = 1 * MINUTE
"""The longest time that a record waits for its seal, in microseconds, while the log is available."""
SETTLED_AFTER = 30 * SECOND
"""Time in microseconds after which no record decided on an earlier prefix can follow."""
AGAIN_EVERY = 24 * 3600.0
"""Interval in seconds of verifying everything that has been sealed: disks lose data."""

_log = structlog.get_logger("headrace.audit")


def steady_clock() -> int:
    """Microseconds of a monotonic clock."""
    return time.monotonic_ns() // 1_000


class VerificationTask:
    """The background task. `kept`: the stored seals; `fold`: state from which on decisions are repeated, with the engine's name."""

    def __init__(
        self,
        log: Log,
        writer: LedgerWriter,
        kept: SealStore,
        engine: str,
        fold: FoldedLedger | None = None,
        *,
        every: int = SEAL_EVERY,
        steady: Callable[[], int] = steady_clock,
    ) -> None:
        self._log = log
        self._writer = writer
        self._kept = kept
        self._every = every
        self._steady = steady
        self.reported = 0
        self._stated = 0
        self._noted = 0
        self._sealed_at = steady()
        self.is_caught_up = False
        self._last_of_others = 0
        self.tip = 0
        self.verifier = self._begin(engine, fold)

    def _begin(self, engine: str, fold: FoldedLedger | None) -> LedgerVerifier:
        try:
            seals, key = self._kept.seals(), self._kept.key().public
        except SealStoreError as error:
            verifier = LedgerVerifier(engine, ledger=fold)
            verifier.findings.add(at("seal", 0, str(error)))
            return verifier
        tail = self._kept.tail(seals[-1].last if seals else 0)
        self._noted = (seals[-1].last if seals else 0) + len(tail)
        return LedgerVerifier(engine, kept=seals, tail=tail, key=key, ledger=fold)

    @property
    def found(self) -> int:
        """Number of findings so far."""
        return self.verifier.findings.count

    def report(self) -> VerifyReport:
        """The report of the verification so far."""
        return structs.replace(self.verifier.report(), seal_age=int(self.seal_age()))

    def seal_age(self) -> float:
        """Seconds since the last seal was stated, or since the start; 0 if no record waits for one."""
        return (self._steady() - self._sealed_at) / SECOND if self.verifier.seals.unsealed else 0.0

    def behind(self, tip: int) -> int:
        """Number of records not verified yet."""
        return max(0, tip - self.verifier.chains.last)

    def detail(self, tip: int) -> dict[str, int]:
        """Counters for `headrace status`."""
        verifier = self.verifier
        decisions = verifier.decisions
        return {
            "verified": verifier.chains.last,
            "verified_facts": 0 if decisions is None else decisions.facts,
            "recomputed": 0 if decisions is None else decisions.recomputed,
            "unverified": self.behind(tip),
            "sealed": verifier.seals.through,
            "seals": verifier.seals.held,
            "findings": self.found,
        }

    async def run(self) -> None:
        """Work until cancelled. Raises `Fenced`."""
        again = asyncio.create_task(self._keep_verifying_again())
        try:
            await self._follow()
        except LogBroken as error:
            _log.critical("ledger_broken", reason=str(error), help="`headrace audit verify` says what and where")
            await self._verify_rest(str(error))
        finally:
            again.cancel()
        await asyncio.Event().wait()  # keeps running, so that queries are answered

    async def _follow(self) -> None:
        self.tip = await self._patient_tip()
        reader = await self._log.read(0)
        try:
            while True:
                await self.take(await reader.batch(BATCH, POLL_EVERY))
                await asyncio.sleep(0)
        finally:
            await reader.close()

    async def take(self, messages: list[Message]) -> None:
        """Verify messages, and seal if it is time."""
        for first in range(0, len(messages), AT_ONCE):
            self.verifier.take(messages[first : first + AT_ONCE])
            await asyncio.sleep(0)
        for message in messages:
            if message.subject != ledger(AUDIT):
                self._last_of_others = message.sequence
        decisions, before = self.verifier.decisions, time.time_ns() // 1_000 - SETTLED_AFTER
        while decisions is not None and decisions.fold_before(before, AT_ONCE):  # noqa: ASYNC110 - it waits for nothing: others get their turn
            await asyncio.sleep(0)
        if self.verifier.chains.last >= self.tip:
            if not self.is_caught_up:
                self.is_caught_up = True
                self.verifier.seals.finish()
            if not self.verifier.findings.damages:
                self._keep()
                await self._seal()
        self._report_findings()

    def _keep(self) -> None:
        """Store the seals that have come, and marks of the records without a seal."""
        seals = self.verifier.seals
        for seal in seals.came:
            self._kept.keep(seal)
            self._noted = seal.last
        seals.came.clear()
        unsealed = seals.unsealed
        if unsealed and unsealed.sequences[-1] > self._noted:
            first = max(self._noted + 1, unsealed.sequences[0])
            self._kept.note(first, unsealed.marks(len(unsealed), first - unsealed.sequences[0]))
            self._noted = unsealed.sequences[-1]

    async def _seal(self) -> None:
        """State the next seal, if it is time and the last one has come back."""
        seals = self.verifier.seals
        unsealed, before = seals.unsealed, 0 if seals.last is None else seals.last.number
        if self._stated > before or not unsealed or self._last_of_others < unsealed.sequences[0]:
            return
        if len(unsealed) < SEALED_MAX and self._steady() - self._sealed_at < self._every:
            return
        count = min(len(unsealed), SEALED_MAX)
        seal = sealed(unsealed, count, seals.last, self._kept.key())
        try:
            await self._writer.state((seal,), seal.last, 0)
        except (LogUnavailable, LogRefused) as error:
            _log.error("not_sealed", reason=str(error), help="it is tried again")
            return
        self._stated, self._sealed_at = seal.number, self._steady()

    def _report_findings(self) -> None:
        if self.found == self.reported:
            return
        self.reported = self.found
        first = self.verifier.findings.in_order()[0]
        _log.critical(
            "not_as_it_was_written",
            findings=self.found,
            record=first.sequence,
            kind=first.kind,
            reason=first.text,
            help="`headrace audit verify` shows all of it; where records are damaged, nothing is sealed any more",
        )

    async def _verify_rest(self, why: str) -> None:
        """Verify what follows after a gap, so that all damage is reported."""
        before = self.found
        tip = await self._patient_tip()
        with suppress(LogBroken):
            async for batch in stored_messages(self._log, self.verifier.chains.last, tip):
                self.verifier.take(batch)
                await asyncio.sleep(0)
        self.verifier.finish()
        if self.found == before:  # not visible in any other finding
            self.verifier.findings.add(at("removed", self.verifier.chains.last + 1, why))
        self._report_findings()

    async def _keep_verifying_again(self) -> None:
        """Verify sealed records again at intervals."""
        while True:
            await asyncio.sleep(AGAIN_EVERY)
            await self.verify_again()

    async def verify_again(self) -> None:
        """Compare the present records with the stored seals."""
        seals = self._kept.seals()
        if not seals or self.verifier.findings.damages:
            return
        again = LedgerVerifier(None, kept=seals, key=self.verifier.seals.key)
        async for batch in stored_messages(self._log, 0, seals[-1].last):
            again.take(batch)
            await asyncio.sleep(0)
        again.finish()
        for finding in again.findings.in_order():
            self.verifier.findings.add(finding)
        self._report_findings()

    async def _patient_tip(self) -> int:
        while True:
            try:
                return await self._log.tip()
            except LogUnavailable as error:
                _log.warning("log_awaited", reason=str(error))
                await asyncio.sleep(RETRY)
