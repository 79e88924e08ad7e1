"""Follows the ledger and stores snapshots of the fold, so that it need not be read from its start."""

from __future__ import annotations

import asyncio
import time
from hashlib import sha256
from typing import TYPE_CHECKING

import structlog

from headrace.audit.snapshot_policy import SnapshotPolicy, superfluous
from headrace.bus.log import LogDiverged, LogRefused, LogUnavailable
from headrace.contracts.facts import SnapshotTakenV1
from headrace.contracts.values.durations import SECOND
from headrace.domain.snapshots import snapshot
from headrace.service.snapshots import SnapshotName

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.audit.ledger_writer import LedgerWriter
    from headrace.bus.log import Log, Message
    from headrace.service.fold import LedgerFold
    from headrace.service.snapshots import Snapshots

BATCH = 50
"""Records folded before queries get their turn."""
POLL_EVERY = 5.0
AGAIN_AFTER = 20 * SECOND
"""Duration in microseconds that counts for a snapshot that could not be stored."""

_log = structlog.get_logger("headrace.audit")


def steady_clock() -> int:
    """Microseconds of a monotonic clock."""
    return time.monotonic_ns() // 1_000


class Snapshotter:
    """Takes the snapshots of one ledger. `fold` is at the last snapshot, with `facts` facts folded so far."""

    def __init__(
        self,
        log: Log,
        fold: LedgerFold,
        snapshots: Snapshots,
        writer: LedgerWriter,
        *,
        facts: int = 0,
        policy: SnapshotPolicy | None = None,
        steady: Callable[[], int] = steady_clock,
    ) -> None:
        self.fold = fold
        self.last = fold.sequence
        """Sequence of the last snapshot; 0 if there has not been one."""
        self.taken = 0
        self._log = log
        self._snapshots = snapshots
        self._writer = writer
        self._facts = self._facts_then = facts
        self._policy = policy or SnapshotPolicy()
        self._steady = steady
        self._taken_at = steady()
        self._took = 0

    async def run(self) -> None:
        """Work until cancelled. Raises `LogBroken`, `LogDiverged`, `Fenced`."""
        reader = await self._log.read(self.fold.sequence)
        try:
            while True:
                await self.take_in(await reader.batch(BATCH, POLL_EVERY))
                await asyncio.sleep(0)
        finally:
            await reader.close()

    async def take_in(self, messages: list[Message]) -> None:
        """Fold messages, and take a snapshot after them if one is due."""
        for message in messages:
            record = self.fold.read(message)
            self._facts += len(record.facts) if record is not None else 0
        if self._policy.is_due(self._facts - self._facts_then, self._steady() - self._taken_at, self._took):
            await self._take()

    async def _take(self) -> None:
        """Take a snapshot. Nothing is folded meanwhile; a failure to store it is retried later. Raises `LogDiverged`."""
        began, least = self._steady(), 0
        state, sequence = self.fold.state, self.fold.sequence
        data = await asyncio.to_thread(snapshot.dump, state)
        digest = sha256(data).hexdigest()
        name = SnapshotName(sequence, self._facts, snapshot.SCHEMA, digest[:16])
        try:
            if not await self._snapshots.ends_as_the_ledger(state):
                raise LogDiverged(f"the record at {sequence} is not the one that has been read: no snapshot is made of that")
            if str(name) not in await self._snapshots.objects.names():
                await self._snapshots.objects.put(str(name), data)
            fact = SnapshotTakenV1(
                name=str(name), sequence=sequence, schema=snapshot.SCHEMA, digest=digest, bytes=len(data), facts=self._facts
            )
            await self._writer.state((fact,), sequence, state.now)
            self.last, self._facts_then, self.taken = sequence, self._facts, self.taken + 1
            _log.info("snapshot_taken", sequence=sequence, bytes=len(data), facts=self._facts)
            for old in superfluous(await self._snapshots.names(), snapshot.SCHEMA, self._policy):
                await self._snapshots.objects.delete(str(old))
        except (LogUnavailable, LogRefused) as error:
            least = AGAIN_AFTER
            _log.error("snapshot_not_kept", sequence=sequence, reason=str(error), help="it is tried again")
        self._taken_at = self._steady()
        self._took = max(self._taken_at - began, least)
