"""A part of the ledger, read record by record: the state at its beginning, its inputs, and their real outcome. Pure."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from msgspec import structs

from headrace.contracts.facts.derived_facts import with_implied_facts
from headrace.contracts.values.durations import format_time
from headrace.domain.fold.ledger import FoldedLedger
from headrace.domain.snapshots.snapshot import copy_of
from headrace.simulate.difference import Side, numbers_of
from headrace.simulate.outcome import Outcome
from headrace.simulate.recorded_inputs import RecordedInputs
from headrace.simulate.usage_cost import Tally
from headrace.simulate.whatif import FOR, compare_from

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.contracts.messages.whatif import Difference
    from headrace.domain.fold.ledger import StoredMessage
    from headrace.domain.state.state import State
    from headrace.simulate.changes import WhatIfChanges


class NoPeriod(ValueError):
    """The ledger has no such part; one line that names the field and the way out."""


class LedgerPoint(NamedTuple):
    """A point in the ledger: through a sequence, or through a moment of the server's time in microseconds; None: not given."""

    sequence: int | None = None
    time: int | None = None

    def is_before(self, record: StoredMessage) -> bool:
        """Return whether the record is beyond the point."""
        if self.sequence is not None:
            return record.sequence > self.sequence
        return self.time is not None and record.stamped > self.time


NOW = LedgerPoint()


class LedgerWindow:
    """From `since` to `until`; without `until` it is the moment `since` alone, and no jobs come later.

    `clock`: the present time in microseconds. Raises `NoPeriod` at once if the two are impossible. `read` takes the ledger's records in
    order, until `is_over`.
    """

    def __init__(self, since: LedgerPoint, until: LedgerPoint | None, clock: int) -> None:
        self._since = since
        self._until = until
        self._clock = clock
        self._ledger = FoldedLedger()
        self._begin: State | None = None
        self._start = 0
        self._came: RecordedInputs | None = None
        self._recorded: Outcome | None = None
        self._over = False
        for name, point in (("from", since), ("to", until)):
            if point is not None and (point.time or 0) > clock:
                raise NoPeriod(f"{name}: {format_time(point.time or 0)} is yet to come; write a moment up to now")
        if until is not None and (_reaches(since.sequence, until.sequence) or _reaches(since.time, until.time)):
            raise NoPeriod("from, to: the end is not behind the beginning; write the earlier one first")

    @property
    def sequence(self) -> int:
        """The last record that was read."""
        return self._ledger.sequence

    @property
    def is_over(self) -> bool:
        """True if no more records are needed."""
        return self._over

    @property
    def start(self) -> tuple[int, int]:
        """(sequence, log time) of the beginning, once reached."""
        return (0, 0) if self._begin is None else (self._begin.sequence, self._start)

    @property
    def wants(self) -> LedgerPoint:
        """The beginning: records before it may be replaced by a state."""
        return self._since

    def skip_to(self, state: State) -> None:
        """Begin with a state from before the beginning; the next record to read is the one after it."""
        self._ledger = FoldedLedger(state)

    def read(self, record: StoredMessage) -> None:
        """Read the next record; one that is not needed is ignored.

        Raises `LedgerBroken`, and `NoPeriod` if the ledger begins after the beginning.
        """
        if self._over:
            return
        if record.sequence == 1 and self._since.time is not None and self._since.time < record.stamped:
            raise NoPeriod(f"from: the ledger begins at {format_time(record.stamped)}; write a moment behind that")
        if self._begin is None and self._since.is_before(record):
            self._set_out()
        if self._begin is not None and (self._until is None or self._until.is_before(record)):
            self._over = True
            return
        folded = self._ledger.read(record)
        if self._came is not None and self._recorded is not None and folded is not None:
            self._came.note(folded, self._ledger.state)
            for _, fact in with_implied_facts(folded.facts):
                self._recorded.note(fact, self._ledger.now)

    def _set_out(self) -> None:
        """The beginning is reached."""
        state = self._ledger.state
        self._start = max(state.now, self._since.time or 0)
        self._begin = state if self._until is None else copy_of(state)
        if self._until is not None:
            self._came = RecordedInputs(self._start, self._begin)
            self._recorded = Outcome(state)
            self._recorded.begin(self._start)

    def end(self, tip: int) -> None:
        """No record follows: `tip` is the last record of the ledger. Raises `NoPeriod` if that is too early."""
        for name, point in (("from", self._since), ("to", self._until)):
            if point is not None and (point.sequence or 0) > tip:
                raise NoPeriod(f"{name}: the ledger ends with record {tip}, {point.sequence} is not there yet")
        if self._begin is None:
            if self._since == NOW:
                self._ledger.state.now = max(self._ledger.state.now, self._clock)
            self._set_out()

    def compare(
        self, changes: WhatIfChanges, *, span: int = FOR, tenant: str = "", progress: Callable[[int], None]
    ) -> Difference:
        """Run it twice. Raises what `compare_from` does, and `NoPeriod` if nothing lies between beginning and end."""
        if self._begin is None:
            raise NoPeriod("from: the ledger has not been read to there")
        came, recorded, play = self._came, self._recorded, partial(compare_from, self._begin, changes, self._start)
        if came is None or recorded is None or self._until is None:
            return play(span=span, tenant=tenant, progress=progress)
        end = max(self._ledger.now, self._until.time or 0)
        if end <= self._start:
            raise NoPeriod("to: the ledger holds nothing between the beginning and there")
        recorded.end(end)
        came.close(self._ledger.state)
        numbers = numbers_of(Side(recorded.job_outcomes, Tally({}, {}), {}).of(tenant))
        return structs.replace(play(span=end - self._start, inputs=came, tenant=tenant, progress=progress), recorded=numbers)


def _reaches(since: int | None, until: int | None) -> bool:
    return since is not None and until is not None and since >= until
