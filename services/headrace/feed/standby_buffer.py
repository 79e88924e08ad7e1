"""What has been folded and is not told yet: of a feed that still reads, or stands by while another one tells. Pure.

Strategy: whoever stands by makes no messages, and so costs little more than its fold. It keeps the records, with what the state will not
say any more when they are told, and lets go of them as FEED is seen to have them. As many facts as FEED itself would hold are kept, and
no more than so many bytes of records, in which the texts of jobs may be large.
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
    """A record that has been folded, for FEED; `started`: the jobs all of whose replicas run from it on; `size`: its bytes in the log."""

    record: Record
    sequence: int
    started: tuple[JobStarted, ...]
    size: int


class StandbyBuffer:
    """Records in order. `skip` hears of each that will not be told from here.

    `lost`: facts for which there was no room, and which FEED may not have.
    """

    def __init__(self, skip: Callable[[Record], None], facts_max: int, bytes_max: int = BYTES_MAX) -> None:
        self._skip = skip
        self._facts_max, self._bytes_max = facts_max, bytes_max
        self._facts = self._bytes = 0
        self._records: deque[FoldedRecord] = deque()
        self.lost, self._lost_through = 0, 0

    def __bool__(self) -> bool:
        """Whether there is anything to tell."""
        return bool(self._records)

    def keep(self, told: FoldedRecord) -> None:
        """One more; the oldest go where there are too many."""
        self._records.append(told)
        self._facts += len(told.record.facts)
        self._bytes += told.size
        while (self._facts > self._facts_max or self._bytes > self._bytes_max) and len(self._records) > 1:
            oldest = self._records[0]
            self.lost, self._lost_through = self.lost + len(oldest.record.facts), oldest.sequence
            self._drop()

    def has_been_told(self, place: FeedPosition) -> None:
        """FEED ends there; the record itself may have been told in part."""
        while self._records and self._records[0].sequence < place.sequence:
            self._drop()
        if self._lost_through < place.sequence:
            self.lost = 0

    def take(self) -> Iterator[FoldedRecord]:
        """All of them, to be told now."""
        self._facts = self._bytes = 0
        while self._records:
            yield self._records.popleft()

    def _drop(self) -> None:
        told = self._records.popleft()
        self._facts -= len(told.record.facts)
        self._bytes -= told.size
        self._skip(told.record)
