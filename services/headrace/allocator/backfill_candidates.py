"""Heads of one pool for which units may be kept now (R16): those that have waited long enough, in alternating backfill and rests.

Strategy: a heap of the times at which a head's turn begins or ends. Entries of heads that have left are dropped when they reach the top,
or all at once when they are most of the heap.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from headrace.domain.backfill.hold_policy import ALWAYS, turn_of

if TYPE_CHECKING:
    from headrace.allocator.request_classes import PoolCandidates
    from headrace.contracts.documents.model import Pool
    from headrace.domain.model.jobs import JobRecord

WAITING_KEPT = 4_096
"""Entries of the heap, beyond which those of heads that have left are removed."""


class BackfillCandidates:
    """Sets of requests, or supersets of these: `due` may have units kept that anything expected to end occupies.

    `resting`: for their heads only units that surely become free are kept. `has_limited`: a head with a time limit has been seen, to which
    kept units might be lent.
    """

    __slots__ = ("_amended", "_document", "_live", "_serials", "_waited", "due", "has_limited", "resting", "waiting")

    def __init__(self, document: Pool, *, amended: bool) -> None:
        self.due = self.resting = 0
        self.has_limited = False
        self._amended = amended
        self._document = document
        self.waiting: list[tuple[int, int, int, PoolCandidates, JobRecord, int]] = []
        self._waited = self._live = 0
        self._serials: dict[PoolCandidates, None] = {}

    def add_head(self, candidates: PoolCandidates, number: int, head: JobRecord) -> None:
        """Note when a new head of a request will have waited long enough."""
        if len(self.waiting) > WAITING_KEPT and len(self.waiting) > 4 * self._live:
            self.waiting = [entry for entry in self.waiting if _heads(*entry[2:])]
            heapify(self.waiting)
            self._live = len(self.waiting)
        if head.time_limit is not None:
            self.has_limited = True
        since = head.pending_since
        self._waited += 1
        heappush(self.waiting, (since + self._document.backfill_for, self._waited, number, candidates, head, since))

    def advance(self, now: int) -> bool:
        """Begin and end all backfill up to `now`. Returns whether there were any."""
        changed = False
        while self.waiting and self.waiting[0][0] <= now:
            _, _, number, candidates, head, since = heappop(self.waiting)
            if not _heads(number, candidates, head, since):
                continue
            turn, bit, changed = turn_of(self._document, since, now) if self._amended else ALWAYS, 1 << number, True
            if turn.until is not None:
                self._waited += 1
                heappush(self.waiting, (turn.until, self._waited, number, candidates, head, since))
            candidates.due = candidates.due | bit if turn.keeps else candidates.due & ~bit
            candidates.resting = candidates.resting & ~bit if turn.keeps else candidates.resting | bit
            self._serials[candidates] = None
        if changed:
            self._gather()
        return changed

    def _gather(self) -> None:
        self.due = self.resting = 0
        for candidates in list(self._serials):
            if not candidates.due and not candidates.resting:
                del self._serials[candidates]
            self.due |= candidates.due
            self.resting |= candidates.resting

    def next(self) -> int | None:
        """Time at which the next turn begins or ends."""
        while self.waiting and not _heads(*self.waiting[0][2:]):
            heappop(self.waiting)
        return self.waiting[0][0] if self.waiting else None


def _heads(number: int, candidates: PoolCandidates, head: JobRecord, since: int) -> bool:
    """True if the job, waiting since then, is still the head of the request; it may have left and returned."""
    found = candidates.pending_class.heads.get(number)
    return found is not None and found[1] is head and head.pending_since == since
