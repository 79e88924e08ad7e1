from __future__ import annotations

from headrace.accounting.books.rows import CapacityRow
from headrace.accounting.books.supply import Supply
from headrace.domain.state.state import State


def test_what_was_noted_last_and_is_there_no_more_becomes_nothing_once() -> None:
    supply = Supply(State(now=9))
    supply.restore([CapacityRow("hq", "gpu", 1, 5, 8, 8)])
    assert list(supply.changes(3)) == [CapacityRow("hq", "gpu", 3, 9, 0, 0)]
    assert list(supply.changes(4)) == []


def test_an_unknown_node_is_not_written() -> None:
    supply = Supply(State())
    supply.node_changed("n1")
    supply.nodes_moved()
    assert supply.take_nodes() == []
