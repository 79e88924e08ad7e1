"""Completes the history of jobs that were in the state when a fold began with a snapshot.

Strategy: the fold is available at once, the histories after a while: the records between the admission of the oldest known job and the
snapshot are folded once more beside other work, a few at a time, and their sequences are put before those noted since.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import structlog

from headrace.bus.log import LogError
from headrace.domain.fold.ledger import FoldedLedger, LedgerBroken
from headrace.service.snapshots import beginning
from headrace.views.history import History
from headrace.views.job_index import jobs_of

if TYPE_CHECKING:
    from headrace.bus.log import Log
    from headrace.domain.state.state import State
    from headrace.service.snapshots import Snapshots

PIECE = 50
REST = 0.005
"""Pause in seconds between two pieces, for other work."""
SILENCE = 5.0

_log = structlog.get_logger("headrace.stories")


async def backfill_history(history: History, state: State, until: int, ledger: Log, snapshots: Snapshots | None) -> None:
    """Complete `history`, which begins after the record `until`, from the oldest known job on. Runs until cancelled."""
    oldest = min((job.order[0] for job in state.jobs.values()), default=until + 1)
    if oldest <= until and snapshots is not None:
        try:
            fold = FoldedLedger(await beginning(snapshots, oldest - 1))
            history.precede(await _noted(fold, ledger, until))
        except (LogError, LedgerBroken) as error:
            _log.warning("stories_incomplete", before=until, reason=str(error))
    await asyncio.get_running_loop().create_future()


async def _noted(fold: FoldedLedger, ledger: Log, until: int) -> History:
    earlier = History()
    reader = await ledger.read(fold.sequence)
    try:
        while fold.sequence < until:
            for message in await reader.batch(min(PIECE, until - fold.sequence), SILENCE):
                record = fold.read(message)
                if record is not None:
                    earlier.note(jobs_of(record), message.sequence)
            await asyncio.sleep(REST)
    finally:
        await reader.close()
    return earlier
