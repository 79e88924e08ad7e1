"""Begins scheduled drains of nodes, and states what the windows of pools say, when their time comes (R41)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from headrace.contracts import facts as f
from headrace.domain.model.maintenance import WindowTurn, turn_of_windows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.contracts.facts import AnyFact
    from headrace.domain.state.state import State


class _Evaluation(NamedTuple):
    """The turn of a pool's windows, for the documents of a sequence."""

    documents: int
    turn: WindowTurn


NOTHING = WindowTurn(0, 0, begun=False, reason="", until=None)


class MaintenanceTurns:
    """The maintenance of one state. `_evaluations` is a cache: losing it costs time only."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._evaluations: dict[str, _Evaluation] = {}

    def __bool__(self) -> bool:
        """Whether any drain is scheduled, or any pool has windows."""
        return bool(self._state.maintenance or self._state.maintenance.planned)

    def changes(self, now: int) -> Iterator[AnyFact]:
        """What begins or ends by log time `now`. Grants have to wait until this is in the log."""
        known = self._state.maintenance
        for name, drain in sorted(known.drains.items()):
            if drain.begins <= now:
                yield f.NodeDrainBeganV1(node=name)
        for name in sorted({*known.planned, *known.pools}):
            turn, before = self._turn(name, now), known.pools.get(name)
            begins = before.begins if before is not None and turn.begun and before.begins <= now else turn.begins
            stated = (begins, turn.ends, turn.begun, turn.reason)
            if stated != ((0, 0, False, "") if before is None else (before.begins, before.ends, before.begun, before.reason)):
                yield f.MaintenanceStatedV1(pool=name, begins=begins, ends=turn.ends, begun=turn.begun, reason=turn.reason)

    def next_change(self, now: int) -> int | None:
        """Time at which something begins, ends or is announced next."""
        known = self._state.maintenance
        turns = (self._turn(name, now).until for name in known.planned)
        moments = (*(drain.begins for drain in known.drains.values()), *turns)
        return min((moment for moment in moments if moment is not None and moment > now), default=None)

    def _turn(self, name: str, now: int) -> WindowTurn:
        state = self._state
        pool = state.pools.get(name)
        if pool is None or not pool.document.maintenance:
            return NOTHING
        last = self._evaluations.get(name)
        if last is None or last.documents != state.documents_sequence or last.turn.until is None or last.turn.until <= now:
            turn = turn_of_windows(pool.document.maintenance, state.terms.calendars, now)
            last = self._evaluations[name] = _Evaluation(state.documents_sequence, turn)
        return last.turn
