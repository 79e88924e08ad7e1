"""Facts that another fact implies, derived as facts of their own, so that readers handle one form.

There is one case: a `preemption.ordered` that carries its victims' ladders implies a `stop.ordered` for each victim, because thousands
of those would not fit into one record beside it (R26, R28).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.contracts.facts.allocation import StopOrderedV1
from headrace.contracts.facts.preemption import PreemptionOrderedV1

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from headrace.contracts.facts import AnyFact


def with_implied_facts(facts: Iterable[AnyFact]) -> Iterator[tuple[int, AnyFact]]:
    """Every fact with its index in the record, each followed by the facts that it implies, at the same index."""
    facts = tuple(facts)
    return _with_implied(facts) if PreemptionOrderedV1 in map(type, facts) else enumerate(facts)


def _with_implied(facts: tuple[AnyFact, ...]) -> Iterator[tuple[int, AnyFact]]:
    for place, fact in enumerate(facts):
        yield place, fact
        if isinstance(fact, PreemptionOrderedV1) and fact.ladders:
            for victim in fact.victims:
                yield place, StopOrderedV1(job=victim.job, attempt=victim.attempt, ladder=fact.ladders[victim.ladder])
