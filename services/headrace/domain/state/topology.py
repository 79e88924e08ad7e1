"""In which topology domains of a pool a gang may be placed (R40)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.domain.model.topology import PoolTopology

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from headrace.contracts.documents.model import Topology
    from headrace.domain.model.requests import Request
    from headrace.domain.model.topology import TopologyDomain
    from headrace.domain.state.pools import PoolState


def topology_of(pool: PoolState) -> PoolTopology:
    """The pool's topology; computed if missing."""
    if pool.topology is None:
        pool.topology = PoolTopology(pool.document.topology, pool.nodes)
    return pool.topology


def searched_levels(pool: PoolState, topology: Topology) -> tuple[str, ...]:
    """The levels in which one domain for a whole gang is looked for in a pool, in turn: from the preferred up to the required one."""
    levels = pool.document.topology
    if topology.require and topology.require not in levels:
        return ()
    first = levels.index(topology.require) if topology.require else 0
    if topology.prefer in levels[first:]:
        return levels[first : levels.index(topology.prefer) + 1][::-1]
    return (topology.require,) if topology.require else ()


def domains_by_fit(pool: PoolState, request: Request, replicas: Mapping[str, int]) -> Iterator[TopologyDomain]:
    """Domains that hold all replicas, the best first: of the first level that is searched, that with the least left, then by path.

    `replicas`: how many each node holds.
    """
    if request.topology is None:
        return
    for level in searched_levels(pool, request.topology):
        counted = topology_of(pool).counted(level, replicas)
        fitting = sorted((count, domain.path, domain) for count, domain in counted if count >= request.replicas)
        yield from (domain for *_, domain in fitting)


def required_domains(pool: PoolState, request: Request) -> list[TopologyDomain] | None:
    """The domains of the level that a gang requires: it goes into one of them; None: it requires no level."""
    return topology_of(pool).domains(request.required) if request.required else None


def stand_together(pool: PoolState, request: Request, nodes: Collection[str]) -> bool:
    """Whether these nodes are in one domain of the level that the gang requires; True if it requires none."""
    domains = required_domains(pool, request)
    return domains is None or any(set(nodes).issubset(domain.nodes) for domain in domains)
