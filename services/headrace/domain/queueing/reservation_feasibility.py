"""Whether promises can be kept together (R8): every set of them asks for no more than the supplies it may draw on have.

Strategy: by the theorem of Hall that holds for all sets exactly if a flow from the promises through their supplies carries
everything. Promises that may draw on the same supplies are one source, so the network stays as small as there are different
sets of supplies. Where a source stays short, the sources and supplies that it reaches in the residual network are a set that is
promised too much: all that flows into those supplies comes from those sources.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import NamedTuple


class Promise(NamedTuple):
    """`amount` units, promised to `to`, from any of `supplies`, in any mixture."""

    to: str
    amount: int
    supplies: frozenset[str]


class Overbooked(NamedTuple):
    """Promises that cannot be kept together: they ask for `asked` units, and all supplies they may draw on have `available`."""

    promises: tuple[Promise, ...]
    supplies: tuple[str, ...]
    asked: int
    available: int

    @property
    def short(self) -> int:
        """Units that are missing."""
        return self.asked - self.available


def overbooked(promises: Iterable[Promise], supplies: Mapping[str, int | None]) -> tuple[Overbooked, ...]:
    """The sets of promises that cannot be kept together; empty if all can. A supply of None has no bound, an unknown one has 0.

    No promise stands in two of the sets, and what they are short of together is the least by which the whole is overbooked.
    """
    members = _by_supplies(promises, supplies)
    flow = _Flow(supplies)
    unmet = [source for source in members if flow.send(source, sum(promise.amount for promise in members[source]))]
    closed: list[tuple[set[frozenset[str]], set[str]]] = []
    for source in unmet:
        if any(source in sources for sources, _ in closed):
            continue
        sources, reached = flow.reach(source)
        for other in [other for other in closed if not other[0].isdisjoint(sources)]:
            closed.remove(other)
            sources, reached = sources | other[0], reached | other[1]
        closed.append((sources, reached))
    return tuple(_overbooked(members, sources, reached, supplies) for sources, reached in closed)


def _overbooked(
    members: Mapping[frozenset[str], list[Promise]],
    sources: set[frozenset[str]],
    reached: set[str],
    supplies: Mapping[str, int | None],
) -> Overbooked:
    promises = tuple(promise for source, those in members.items() if source in sources for promise in those)
    asked = sum(promise.amount for promise in promises)
    return Overbooked(promises, tuple(sorted(reached)), asked, sum(supplies.get(supply) or 0 for supply in reached))


def _by_supplies(promises: Iterable[Promise], supplies: Mapping[str, int | None]) -> dict[frozenset[str], list[Promise]]:
    """Promises by what they may draw on; promises of nothing, and promises on a supply without bound, are left out."""
    members: dict[frozenset[str], list[Promise]] = {}
    for promise in promises:
        if promise.amount > 0 and all(supplies.get(supply, 0) is not None for supply in promise.supplies):
            members.setdefault(promise.supplies, []).append(promise)
    return members


class _Flow:
    """Units on their way from sources (sets of supplies) to supplies. `carried[supply][source]` is never 0."""

    def __init__(self, supplies: Mapping[str, int | None]) -> None:
        self.left = {supply: units for supply, units in supplies.items() if units}
        self.carried: dict[str, dict[frozenset[str], int]] = {}

    def send(self, source: frozenset[str], units: int) -> int:
        """Send as many of `units` as can be, over the shortest ways first; what cannot."""
        while units:
            way = self._way(source)
            if way is None:
                break
            sent = min([units, self.left[way[-1][1]], *(self.carried[supply][by] for supply, by in _detours(way))])
            self._push(way, sent)
            units -= sent
        return units

    def reach(self, source: frozenset[str]) -> tuple[set[frozenset[str]], set[str]]:
        """The sources and supplies that a further unit of `source` could come to, by pushing others aside."""
        sources, supplies, waiting = {source}, set[str](), deque([source])
        while waiting:
            for supply in waiting.popleft() - supplies:
                supplies.add(supply)
                pushed = self.carried.get(supply, {}).keys() - sources
                sources |= pushed
                waiting += pushed
        return sources, supplies

    def _way(self, source: frozenset[str]) -> list[tuple[frozenset[str], str]] | None:
        """The shortest way to a supply with something left: steps (source, supply), each source pushed off the supply before."""
        came: dict[frozenset[str], tuple[frozenset[str], str] | None] = {source: None}
        seen: set[str] = set()
        waiting = deque([source])
        while waiting:
            here = waiting.popleft()
            for supply in sorted(here - seen):
                seen.add(supply)
                if self.left.get(supply):
                    return _trace(came, (here, supply))
                for pushed in self.carried.get(supply, ()):
                    if pushed not in came:
                        came[pushed] = (here, supply)
                        waiting.append(pushed)
        return None

    def _push(self, way: list[tuple[frozenset[str], str]], units: int) -> None:
        for source, supply in way:
            carried = self.carried.setdefault(supply, {})
            carried[source] = carried.get(source, 0) + units
        for supply, pushed in _detours(way):
            carried = self.carried[supply]
            carried[pushed] -= units
            if not carried[pushed]:
                del carried[pushed]
        last = way[-1][1]
        self.left[last] -= units


def _trace(
    came: Mapping[frozenset[str], tuple[frozenset[str], str] | None], last: tuple[frozenset[str], str]
) -> list[tuple[frozenset[str], str]]:
    way = [last]
    while (step := came[way[-1][0]]) is not None:
        way.append(step)
    return way[::-1]


def _detours(way: list[tuple[frozenset[str], str]]) -> list[tuple[str, frozenset[str]]]:
    """(supply, source that is pushed off it) on the way."""
    return [(supply, way[number + 1][0]) for number, (_, supply) in enumerate(way[:-1])]
