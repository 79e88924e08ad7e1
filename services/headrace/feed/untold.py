"""What has been folded and is not told yet: of a feed that still reads, or stands by while another one tells. Pure.

Strategy: whoever stands by makes no messages, and so costs little more than its fold. It keeps the records, with what the state will not
say any more when they are told, and lets go of them as FEED is seen to have them. As many facts as FEED itself would hold are kept.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from headrace.contracts.records import Record
    from headrace.feed.outgoing import Place, Started


class Told(NamedTuple):
    """A record that has been folded, for FEED; `started`: the jobs all of whose replicas run from it on."""

    record: Record
    sequence: int
    started: tuple[Started, ...]


class Untold:
    """Records in order. `skip` hears of each that will not be told from here."""

    def __init__(self, skip: Callable[[Record], None], facts_max: int) -> None:
        self._skip = skip
        self._facts_max = facts_max
        self._facts = 0
        self._records: deque[Told] = deque()

    def __bool__(self) -> bool:
        """Whether there is anything to tell."""
        return bool(self._records)

    def keep(self, told: Told) -> None:
        """One more; the oldest go where there are too many."""
        self._records.append(told)
        self._facts += len(told.record.facts)
        while self._facts > self._facts_max and len(self._records) > 1:
            self._drop()

    def has_been_told(self, place: Place) -> None:
        """FEED ends there; the record itself may have been told in part."""
        while self._records and self._records[0].sequence < place.sequence:
            self._drop()

    def take(self) -> Iterator[Told]:
        """All of them, to be told now."""
        self._facts = 0
        while self._records:
            yield self._records.popleft()

    def _drop(self) -> None:
        record = self._records.popleft().record
        self._facts -= len(record.facts)
        self._skip(record)
