"""Preemptions as rows: what was ordered, how it ended, and why freed units were not used. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.accounting.books.rows import PLACES, PreemptionRow, RowChanges, SettlementRow, UnusedRow, VictimRow, plain
from headrace.contracts import facts as f
from headrace.domain.state.state import State


def _ordered(state: State, changes: RowChanges, fact: f.PreemptionOrderedV1, number: int) -> None:
    """Note an order that the fold has accepted."""
    ordered = state.preemptions.get(fact.preemption)
    if ordered is None or ordered.sequence != number // PLACES:
        return
    changes.preemptions.append(
        PreemptionRow(fact.preemption, fact.job, fact.pool, fact.cause, fact.rule, ordered.sequence, ordered.ordered_at)
    )
    changes.victims += [
        VictimRow(fact.preemption, victim.job, victim.attempt, victim.policy, victim.lost) for victim in fact.victims
    ]


def _settled(state: State, changes: RowChanges, fact: f.PreemptionSettledV1, _number: int) -> None:
    changes.settlements.append(
        SettlementRow(fact.preemption, state.now, fact.to_signal, fact.grace, fact.to_release, fact.lost)
    )


def _unused(_state: State, changes: RowChanges, fact: f.NominationEndedV1, _number: int) -> None:
    changes.unused.append(UnusedRow(fact.preemption, plain(fact.why)))


NOTED: dict[type, Callable[[State, RowChanges, Any, int], None]] = {
    f.PreemptionOrderedV1: _ordered,
    f.PreemptionSettledV1: _settled,
    f.NominationEndedV1: _unused,
}
"""Functions that note a fact in the changes, by its type."""
