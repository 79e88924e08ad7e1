"""The steps that are due, from what is seen. Pure, and without memory.

Naive meaning: for each node, state what it is and what became of its leases; take gates off for grants; let pods leave that have to stop or
have no lease; let pods go whose end is in the ledger; make jobs of pods that wait, cancel jobs whose pods have gone, and tell pods why they
wait. What was done shows in the next round as a pod or a record, so nothing is done twice with effect, and nothing is forgotten.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.kubernetes import lease_steps, node_facts
from headrace.kubernetes.matching import Matching
from headrace.kubernetes.view import State
from headrace.kubernetes.waiting import conditions, waiting

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.kubernetes.view import Step, View


def decide(view: View) -> tuple[Step, ...]:
    """The steps that are due, in the order in which they are best taken."""
    seen = Matching(view)
    return (
        *_stated(seen),
        *lease_steps.gates(seen),
        *lease_steps.leaving(seen),
        *lease_steps.releases(seen),
        *waiting(seen),
        *conditions(seen),
    )


def living(view: View) -> list[str]:
    """Nodes whose heartbeats are due."""
    return node_facts.beating(Matching(view))


def _stated(seen: Matching) -> Iterator[State]:
    for name, answer in sorted(seen.view.answers.items()):
        node = seen.nodes.get(name)
        of_leases = lease_steps.facts_of(seen, name)
        of_node = tuple(node_facts.facts_of(seen, node)) if node is not None else ()
        if of_leases.facts:
            yield State(name, of_leases.facts, answer.last_record, answer.through, answer.now, of_leases.absent)
        elif of_node:
            yield State(name, of_node, answer.last_record, answer.through, answer.now)
