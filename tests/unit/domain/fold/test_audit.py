"""What is kept beside the ledger is not a part of it."""

from __future__ import annotations

from headrace.contracts.facts import SnapshotTakenV1
from headrace.domain.fold.apply import HANDLERS
from headrace.domain.state.state import State
from tests.unit.domain.snapshot import snapshot


def test_a_state_does_not_know_of_its_snapshots():
    state = State()
    fact = SnapshotTakenV1(name="n", sequence=1, schema="s", digest="d", bytes=1, facts=1)
    HANDLERS[SnapshotTakenV1](state, fact, 2, 0)
    assert snapshot(state) == snapshot(State())
