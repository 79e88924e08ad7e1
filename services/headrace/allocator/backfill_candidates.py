"""For which heads of one pool units may be kept now (R16): who has waited long enough, and whether it is its turn or its rest.

Strategy: a heap of moments at which a head's turn begins or ends. Entries of heads that have left are dropped when they come to the top,
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
"""Heads whose time is noted, before those that have left are thrown out."""


class Turns:
    """Sets of requests, as posts have them, or more than those: `due` may have units kept behind whatever may end.

    `resting`: for their heads units are kept only where they surely come free. `has_limited`: a head with a time limit has been seen, to
    which kept units might be lent.
    """

    __slots__ = ("_amended", "_document", "_live", "_posts", "_waited", "_waiting", "due", "has_limited", "resting")

    def __init__(self, document: Pool, *, amended: bool) -> None:
        self.due = self.resting = 0
        self.has_limited = False
        self._amended = amended
        self._document = document
        self._waiting: list[tuple[int, int, int, PoolCandidates, JobRecord, int]] = []
        self._waited = self._live = 0
        self._posts: dict[PoolCandidates, None] = {}

    def await_room(self, post: PoolCandidates, number: int, head: JobRecord) -> None:
        """Somebody new heads a request: note when it will have waited long enough."""
        if len(self._waiting) > WAITING_KEPT and len(self._waiting) > 4 * self._live:
            self._waiting = [entry for entry in self._waiting if _heads(*entry[2:])]
            heapify(self._waiting)
            self._live = len(self._waiting)
        if head.time_limit is not None:
            self.has_limited = True
        since = head.pending_since
        self._waited += 1
        heappush(self._waiting, (since + self._document.backfill_for, self._waited, number, post, head, since))

    def come(self, now: int) -> bool:
        """Begin and end all turns up to now; whether there were any."""
        changed = False
        while self._waiting and self._waiting[0][0] <= now:
            _, _, number, post, head, since = heappop(self._waiting)
            if not _heads(number, post, head, since):
                continue
            turn, bit, changed = turn_of(self._document, since, now) if self._amended else ALWAYS, 1 << number, True
            if turn.until is not None:
                self._waited += 1
                heappush(self._waiting, (turn.until, self._waited, number, post, head, since))
            post.due = post.due | bit if turn.keeps else post.due & ~bit
            post.resting = post.resting & ~bit if turn.keeps else post.resting | bit
            self._posts[post] = None
        if changed:
            self._gather()
        return changed

    def _gather(self) -> None:
        self.due = self.resting = 0
        for post in list(self._posts):
            if not post.due and not post.resting:
                del self._posts[post]
            self.due |= post.due
            self.resting |= post.resting

    def next(self) -> int | None:
        """When the next turn begins or ends."""
        while self._waiting and not _heads(*self._waiting[0][2:]):
            heappop(self._waiting)
        return self._waiting[0][0] if self._waiting else None


def _heads(number: int, post: PoolCandidates, head: JobRecord, since: int) -> bool:
    """Whether the job, which waits since then, is still the head of the request: it may have been away and have come back."""
    found = post.strand.heads.get(number)
    return found is not None and found[1] is head and head.pending_since == since
