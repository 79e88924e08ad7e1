"""Searching for the set that yields to a gang that stands within one topology domain (R26, R40): in each domain, and the best of all.

Strategy: jobs on other nodes are not looked at, unless an account that belongs to no node lacks something, which they could free too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.domain.preemption.hopeless import is_hopeless
from headrace.domain.preemption.victim_search import any_set, best_choice, merit

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from headrace.domain.model.topology import TopologyDomain
    from headrace.domain.preemption.victim_candidates import VictimCandidate, VictimCandidates
    from headrace.domain.preemption.victim_search import SearchContext, VictimSet


class _There:
    """The candidates with leases in one domain, in R25's order."""

    def __init__(self, drawn: list[VictimCandidate]) -> None:
        self.drawn = drawn

    def __iter__(self) -> Iterator[VictimCandidate]:
        return iter(self.drawn)

    def all(self) -> Sequence[VictimCandidate]:
        """All candidates in this domain."""
        return self.drawn


def leaving_suffices(context: SearchContext, domains: Sequence[TopologyDomain]) -> bool:
    """Whether what is leaving anyway makes room in one of the domains."""
    for domain in domains:
        context.among = domain.nodes
        if context.places((), context.usable()) is not None:
            return True
    return False


def find_in_domains(context: SearchContext, eligible: VictimCandidates, domains: Sequence[TopologyDomain]) -> VictimSet | None:
    """Jobs that have to yield for a gang to have all of its places in one domain; None if none are found."""
    if is_hopeless(context.accounts, eligible):
        return None
    best: tuple[tuple[object, ...], VictimSet] | None = None
    there = _by_domain(eligible.all(), domains)
    for domain, candidates in zip(domains, there, strict=True):
        context.among = domain.nodes
        some = eligible if context.accounts else _There(candidates)
        found = best_choice(context, some) or any_set(context, some.all(), context.usable())
        if found is not None and (best is None or merit(found, domain.label) < best[0]):
            best = (merit(found, domain.label), found)
    return None if best is None else best[1]


def _by_domain(candidates: Sequence[VictimCandidate], domains: Sequence[TopologyDomain]) -> list[list[VictimCandidate]]:
    """Of each domain, the candidates that hold something there."""
    number_of = {name: number for number, domain in enumerate(domains) for name in domain.nodes}
    found: list[list[VictimCandidate]] = [[] for _ in domains]
    for candidate in candidates:
        nodes = (lease.node for lease in candidate.job.leases.values())
        for number in {number_of[name] for name in nodes if name in number_of}:
            found[number].append(candidate)
    return found
