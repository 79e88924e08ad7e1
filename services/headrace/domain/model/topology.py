"""Where the nodes of a pool stand (R40): its topology domains.

A topology level is a label of nodes that the pool's document names, from the widest to the narrowest. The nodes that have one value of it,
and the same values of all wider ones, are a *topology domain*; a node that lacks one of these labels is in none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from headrace.domain.model.nodes import NodeState


class TopologyDomain(NamedTuple):
    """Nodes that stand together. `level`: the label; `path`: its value, after those of wider levels; `nodes`: their names, ascending."""

    level: str
    path: tuple[str, ...]
    nodes: tuple[str, ...]

    @property
    def label(self) -> str:
        """Its name for people: `r1`, or `b1/r1` below a wider level."""
        return "/".join(self.path)


class PoolTopology:
    """The domains of each level of a pool, by path, and in which of them each node is. `labels`: the levels, the widest first."""

    __slots__ = ("_by_level", "_number_of")

    def __init__(self, labels: Sequence[str], nodes: Mapping[str, NodeState]) -> None:
        self._by_level: dict[str, list[TopologyDomain]] = {}
        self._number_of: dict[str, dict[str, int]] = {}
        for depth, level in enumerate(labels, 1):
            found: dict[tuple[str, ...], list[str]] = {}
            for name, node in nodes.items():
                path = tuple(node.labels[label] for label in labels[:depth] if label in node.labels)
                if len(path) == depth:
                    found.setdefault(path, []).append(name)
            domains = [TopologyDomain(level, path, tuple(sorted(names))) for path, names in sorted(found.items())]
            self._by_level[level] = domains
            self._number_of[level] = {name: number for number, domain in enumerate(domains) for name in domain.nodes}

    def domains(self, level: str) -> list[TopologyDomain]:
        """The domains of a level; none if the pool does not have it."""
        return self._by_level.get(level, [])

    def counted(self, level: str, replicas: Mapping[str, int]) -> list[tuple[int, TopologyDomain]]:
        """How many replicas each domain of a level holds, given what its nodes hold."""
        domains, number_of = self.domains(level), self._number_of.get(level, {})
        totals = [0] * len(domains)
        for name, count in replicas.items():
            number = number_of.get(name)
            if number is not None:
                totals[number] += count
        return list(zip(totals, domains, strict=True))


def fullest(counted: Iterable[tuple[int, TopologyDomain]]) -> tuple[int, TopologyDomain | None]:
    """The domain that holds the most replicas, the first of several; 0 and None without domains."""
    return max(counted, key=lambda pair: pair[0], default=(0, None))
