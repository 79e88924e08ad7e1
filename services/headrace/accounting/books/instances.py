"""Instances as rows: by which offer each was ordered, when it was there, and its price (R38). Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.accounting.books.rows import InstanceRow, RowChanges, plain
from headrace.contracts import facts as f
from headrace.domain.state.state import State


def _changed(state: State, changes: RowChanges, fact: Any, _number: int) -> None:
    """Note the instance as the fold has it now; the last note of a stretch counts."""
    one = state.instances.get(fact.node if isinstance(fact, f.NodeRegisteredV1) else fact.instance)
    if one is not None:
        changes.instances[one.name] = InstanceRow(
            instance=one.name,
            pool=one.pool,
            provider=one.provider,
            provider_id=plain(one.provider_id),
            offer=one.offer,
            market=one.market,
            price=one.price,
            ordered_at=one.ordered_at,
            created_at=one.created_at or None,
            joined_at=one.joined_at or None,
            ended_at=one.ended_at or None,
            cause=one.refused or one.ended or one.released,
        )


NOTED: dict[type, Callable[[State, RowChanges, Any, int], None]] = dict.fromkeys(
    (
        *(f.InstanceOrderedV1, f.InstanceCreatedV1, f.InstanceRefusedV1, f.InstanceReleasedV1, f.InstanceEndedV1),
        f.NodeRegisteredV1,
    ),
    _changed,
)
"""Functions that note a fact in the changes, by its type."""
