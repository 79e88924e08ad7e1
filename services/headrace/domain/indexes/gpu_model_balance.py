"""To which kind of node a job that may take several goes: the one furthest behind what the usual requests would use (R20).

So scarce GPU models stay free for jobs that can take nothing else; a model without requests is not scarce, and no job is steered. The
plan is computed when it is first needed after the mix or the supply has changed; of the supply only the first binary digits count, so
that one node more or less changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from headrace.contracts.values.amounts import CPU, GPU, GPU_UNITS
from headrace.domain.indexes.expected_use import Amount, Plan, RequestFamily, Site, cores_step, kind_of, make_plan, planned

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from headrace.contracts.values.amounts import Amounts
    from headrace.domain.model.nodes import NodeState
    from headrace.domain.model.requests import Shape

_DIGITS = 6
_REMEMBERED = 10_000
"""Entries in a memo before it is emptied."""
_NONE = (0,)
_STEPS = 1 << 20
"""In how many steps it is measured how much of what is planned is held."""


def site_of(node: NodeState) -> Site:
    """To which kind of node it belongs."""
    return Site(node.model, cores_step(len(node.devices) * GPU_UNITS, node.cpu))


class _Planned(NamedTuple):
    supply: Mapping[Site, Amount]
    rough: dict[Site, Amount]
    plan: Plan


class Steering:
    """One pool's plan, and what of each kind each site holds now, which only needs to be counted while it steers (`is_on`)."""

    __slots__ = ("_amended", "_cells", "_mix", "_planned", "held")

    def __init__(self) -> None:
        self._amended = False
        self._mix: tuple[tuple[Shape, int], ...] = ()
        self.held: dict[tuple[RequestFamily, Site], list[int]] = {}
        self._cells: dict[tuple[Shape, str, int, int], list[int]] = {}
        self._planned: _Planned | None = None

    def weigh(self, mix: Sequence[tuple[Shape, int]], *, amended: bool) -> None:
        """Another mix is in force; slices are not planned."""
        mix = tuple((shape, weight) for shape, weight in mix if not shape.mig)
        choosy = any(shape.models for shape, _ in mix)
        self._amended = amended
        self._mix, self._planned = mix if choosy else (), None
        if not choosy:
            self.held.clear()
            self._cells.clear()

    @property
    def is_on(self) -> bool:
        """Whether any job is steered: some of those in the mix name their models."""
        return bool(self._mix)

    def hold(self, node: NodeState, shape: Shape, amounts: Amounts, sign: int) -> None:
        """A replica holds these amounts on the node now, or with sign -1 no more."""
        key = (shape, node.model, node.cpu, len(node.devices))
        cell = self._cells.get(key)
        if cell is None:
            if len(self._cells) >= _REMEMBERED:
                self._cells.clear()
            cell = self._cells[key] = self.held.setdefault((kind_of(shape), site_of(node)), [0])
        cell[0] += sign * amounts.get(GPU if shape.whole or shape.fraction else CPU, 0)

    def choose(self, shape: Shape, sites: Collection[Site], supply: Mapping[Site, Amount]) -> Collection[Site]:
        """Of the sites that could take the shape now, where it should go: one that is furthest behind, or all if none is behind.

        A shape that names its models may go to any site that is behind: the plan is coarse, and sent to the very furthest those that need
        many cpus end where the cpus run out before the GPUs do. Slices may go anywhere: where they lie well is a matter of geometry.
        `supply`: what all sites have; another object when that has changed.
        """
        if not self._mix or (shape.mig and self._amended):
            return sites
        kind = kind_of(shape)
        wanted = planned(self._plan(supply), kind)
        if kind.models and self._amended:
            behind = [site for site in sites if self.held.get((kind, site), _NONE)[0] < wanted.get(site, 0)]
            return behind or sites
        best, furthest = _STEPS, None
        for site in sites:
            plan = wanted.get(site, 0)
            if plan:
                part = self.held.get((kind, site), _NONE)[0] * _STEPS // plan
                if part < best or (part == best and furthest is not None and site < furthest):
                    best, furthest = part, site
        return sites if furthest is None else (furthest,)

    def _plan(self, supply: Mapping[Site, Amount]) -> Plan:
        known = self._planned
        if known is None or known.supply is not supply:
            rough = {site: Amount(_rough(has.gpu), _rough(has.cpu)) for site, has in supply.items()}
            plan = known.plan if known is not None and known.rough == rough else make_plan(self._mix, rough)
            known = self._planned = _Planned(supply, rough, plan)
        return known.plan


def _rough(amount: int) -> int:
    """The amount with all but its first digits gone."""
    lost = max(0, amount.bit_length() - _DIGITS)
    return amount >> lost << lost
