"""Follows the ledger, and keeps a snapshot of the fold now and then, so that nobody has to read it all again."""

from __future__ import annotations

import asyncio
import time
from hashlib import sha256
from typing import TYPE_CHECKING

import structlog

from headrace.audit.snapshot_policy import SnapshotPolicy, superfluous
from headrace.bus.log import LogRefused, LogStrayed, LogUnavailable
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
"""Records folded before questions get their turn."""
LOOK_EVERY = 5.0
AGAIN_AFTER = 20 * SECOND
"""What a snapshot that could not be kept counts as having taken."""

_log = structlog.get_logger("headrace.audit")


def steady_clock() -> int:
    """Microseconds since some moment."""
    return time.monotonic_ns() // 1_000


class Snapshotter:
    """Takes the snapshots of one ledger. `fold` stands where the last one was taken, with `facts` folded into it so far."""

    def __init__(
        self,
        log: Log,
        fold: LedgerFold,
        snapshots: Snapshots,
        pen: LedgerWriter,
        *,
        facts: int = 0,
        pace: SnapshotPolicy | None = None,
        steady: Callable[[], int] = steady_clock,
    ) -> None:
        self.fold = fold
        self.last = fold.sequence
        """The record behind which the last one was taken; 0: none was."""
        self.taken = 0
        self._log = log
        self._snapshots = snapshots
        self._pen = pen
        self._facts = self._facts_then = facts
        self._pace = pace or SnapshotPolicy()
        self._steady = steady
        self._taken_at = steady()
        self._took = 0

    async def run(self) -> None:
        """Work until cancelled. Raises `LogBroken`, `LogStrayed`, `Deposed`."""
        reader = await self._log.read(self.fold.sequence)
        try:
            while True:
                await self.take_in(await reader.batch(BATCH, LOOK_EVERY))
                await asyncio.sleep(0)
        finally:
            await reader.close()

    async def take_in(self, messages: list[Message]) -> None:
        """Fold these, and take a snapshot behind them if one is due."""
        for message in messages:
            record = self.fold.read(message)
            self._facts += len(record.facts) if record is not None else 0
        if self._pace.is_due(self._facts - self._facts_then, self._steady() - self._taken_at, self._took):
            await self._take()

    async def _take(self) -> None:
        """Nothing is folded meanwhile: it is one state. What cannot be kept now is tried again later. Raises `LogStrayed`."""
        began, least = self._steady(), 0
        state, sequence = self.fold.state, self.fold.sequence
        data = await asyncio.to_thread(snapshot.dump, state)
        digest = sha256(data).hexdigest()
        name = SnapshotName(sequence, self._facts, snapshot.SCHEMA, digest[:16])
        try:
            if not await self._snapshots.ends_as_the_ledger(state):
                raise LogStrayed(f"the record at {sequence} is not the one that has been read: no snapshot is made of that")
            if str(name) not in await self._snapshots.objects.names():
                await self._snapshots.objects.put(str(name), data)
            fact = SnapshotTakenV1(
                name=str(name), sequence=sequence, schema=snapshot.SCHEMA, digest=digest, bytes=len(data), facts=self._facts
            )
            await self._pen.state((fact,), sequence, state.now)
            self.last, self._facts_then, self.taken = sequence, self._facts, self.taken + 1
            _log.info("snapshot_taken", sequence=sequence, bytes=len(data), facts=self._facts)
            for old in superfluous(await self._snapshots.names(), snapshot.SCHEMA, self._pace):
                await self._snapshots.objects.delete(str(old))
        except (LogUnavailable, LogRefused) as error:
            least = AGAIN_AFTER
            _log.error("snapshot_not_kept", sequence=sequence, reason=str(error), help="it is tried again")
        self._taken_at = self._steady()
        self._took = max(self._taken_at - began, least)
