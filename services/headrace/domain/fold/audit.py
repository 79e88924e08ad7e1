"""The fold of what is kept beside the ledger: nothing. It says what is true of a prefix, and changes nothing about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.contracts import facts as f

if TYPE_CHECKING:
    from headrace.domain.state.state import State


def _no_change(_state: State, _fact: f.LedgerSealedV1 | f.SnapshotTakenV1, _sequence: int, _place: int) -> None:
    """A state that knew of its snapshots and seals would be another with them than without."""


HANDLERS: dict[type, Any] = {f.LedgerSealedV1: _no_change, f.SnapshotTakenV1: _no_change}
