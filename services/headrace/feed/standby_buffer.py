"""Records that have been folded and not published yet, of a feed that catches up or is a standby. Pure.

Strategy: a standby builds no messages, and so costs little more than its fold. It stores the records, with what the state will no longer
have when they are published, and drops them as FEED is seen to have them. It stores as many facts as FEED itself would hold, and at most
BYTES_MAX of records, in which the texts of jobs may be large.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from headrace.contracts.facts.records import Record
    from headrace.feed.outgoing_message import FeedPosition, JobStarted

BYTES_MAX = 64 * 1024**2


class FoldedRecord(NamedTuple):
    """A folded record, for FEED; `started`: the jobs whose last replica started with it; `size`: its bytes in the log."""

    record: Record
    sequence: int
    started: tuple[JobStarted, ...]
    size: int


class StandbyBuffer:
    """Records in order. `skip` is called for each that is dropped here. `lost`: facts that did not fit, and that FEED may not have."""

    def __init__(self, skip: Callable[[Record], None], facts_max: int, bytes_max: int = BYTES_MAX) -> None:
        self._skip = skip
        self._facts_max, self._bytes_max = facts_max, bytes_max
        self._facts = self._bytes = 0
        self._records: deque[FoldedRecord] = deque()
        self.lost, self._lost_through = 0, 0

    def __len__(self) -> int:
        """Number of records that wait to be published."""
        return len(self._records)

    def add(self, folded: FoldedRecord) -> None:
        """Add a record; drops the oldest if there are too many."""
        self._records.append(folded)
        self._facts += len(folded.record.facts)
        self._bytes += folded.size
        while (self._facts > self._facts_max or self._bytes > self._bytes_max) and len(self._records) > 1:
            oldest = self._records[0]
            self.lost, self._lost_through = self.lost + len(oldest.record.facts), oldest.sequence
            self._drop()

    def drop_published(self, place: FeedPosition) -> None:
        """Drop records before FEED's end; the record at `place` itself may have been published in part."""
        while self._records and self._records[0].sequence < place.sequence:
            self._drop()
        if self._lost_through < place.sequence:
            self.lost = 0

    def take(self) -> Iterator[FoldedRecord]:
        """Remove and return all records, to be published now."""
        self._facts = self._bytes = 0
        while self._records:
            yield self._records.popleft()

    def _drop(self) -> None:
        folded = self._records.popleft()
        self._facts -= len(folded.record.facts)
        self._bytes -= folded.size
        self._skip(folded.record)
