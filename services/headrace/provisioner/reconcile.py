"""What a provider's list of instances means, beside what the ledger says. Pure.

An instance whose answer was lost is there: it is taken over. One that has ended is ended in the ledger too, unless its node is there. One
with our tag that the ledger does not know, or that should have ended, is an orphan. A list that shows nothing says little: it may be
a list that failed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from headrace.contracts import facts as f
from headrace.contracts.values.durations import HOUR, MINUTE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from headrace.contracts.facts import AnyFact
    from headrace.domain.model.instances import Instance
    from headrace.domain.state.state import State
    from headrace.provisioner.providers import Listed

ABSENT = 5 * MINUTE
"""How long an instance has to be missing in every list before it counts as gone."""

ABSENT_FROM_NOTHING = HOUR
"""The same while the lists show no instance at all."""

QUARANTINE = 10 * MINUTE
"""Least age of an instance that the ledger does not know before it is ended: after a restore, its node may still be connected."""


class Comparison(NamedTuple):
    """`facts` to state; `orphans` to end; `absent`: since when each instance is missing, for the next comparison."""

    facts: tuple[AnyFact, ...]
    orphans: tuple[Listed, ...]
    absent: dict[str, int]


def compare(state: State, provider: str, listed: Iterable[Listed], absent: Mapping[str, int], now: int) -> Comparison:
    """Compare the list of one provider with the ledger."""
    there = {one.instance: one for one in listed}
    facts: list[AnyFact] = []
    missing: dict[str, int] = {}
    patience = ABSENT if there else ABSENT_FROM_NOTHING
    for one in state.instances.values():
        if one.provider != provider or not one.lives:
            continue
        shown = there.get(one.name)
        if shown is not None and shown.runs:
            if not one.created_at:
                facts.append(f.InstanceCreatedV1(instance=one.name, provider_id=shown.provider_id, at=shown.created_at))
        elif shown is not None and one.released and not shown.ended_at:
            continue  # it is being ended, and the answer to that call says when
        elif one.created_at and not _is_connected(state, one):
            if shown is None:
                missing[one.name] = absent.get(one.name, now)
            if shown is not None or now - missing[one.name] >= patience:
                cause, at = one.released or "vanished", (shown.ended_at if shown is not None else 0) or now
                facts.append(f.InstanceEndedV1(instance=one.name, provider_id=one.provider_id, cause=cause, at=at))
    orphans = (shown for shown in there.values() if shown.runs and _is_orphan(state, shown, now))
    return Comparison(tuple(facts), tuple(orphans), missing)


def _is_connected(state: State, one: Instance) -> bool:
    """Whether its node is there: then no list says otherwise."""
    node = state.nodes.get(one.name)
    return node is not None and node.healthy


def _is_orphan(state: State, shown: Listed, now: int) -> bool:
    one, node = state.instances.get(shown.instance), state.nodes.get(shown.instance)
    if node is not None and node.leases:
        return False
    if one is not None:
        return not one.lives and now - one.ended_at >= ABSENT
    return now - shown.created_at >= QUARANTINE
