from __future__ import annotations

from headrace.accounting.books.preemptions import NOTED
from headrace.accounting.books.rows import NOWHERE, RowChanges, SettlementRow, UnusedRow
from headrace.contracts import facts as f
from headrace.domain.state.state import State


def noted(fact: object) -> RowChanges:
    changes = RowChanges(NOWHERE, NOWHERE)
    NOTED[type(fact)](State(now=7), changes, fact, 5_003)
    return changes


def test_a_settlement_and_why_units_were_not_used_are_noted() -> None:
    settled = f.PreemptionSettledV1(preemption="x", job="a.b.c", victims=1, lost=4, to_signal=1, grace=2, to_release=3)
    assert noted(settled).settlements == [SettlementRow("x", 7, 1, 2, 3, 4)]
    assert noted(f.NominationEndedV1(preemption="x", job="a.b.c", why="too\0late")).unused == [UnusedRow("x", "too\ufffdlate")]


def test_an_order_that_the_fold_has_not_taken_is_ignored() -> None:
    ordered = f.PreemptionOrderedV1(preemption="x", job="a.b.c", pool="hq", cause="reclaim", victims=(), places=(), rule="R23")
    assert noted(ordered).preemptions == []
