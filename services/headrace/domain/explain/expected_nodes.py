"""Nodes that pools are expected to create (R38), put into the state on trial and taken out again. Pure.

Nodes that were asked for come when they take to boot. While a pool creates none for it, who waits asks the first pool of its order that
could hold it after it has grown; those that rank before it ask too.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from headrace.contracts.values.amounts import CPU_UNITS, GPU_UNITS
from headrace.contracts.values.isolation import LEVELS, Ranks
from headrace.contracts.values.mig import family_of
from headrace.domain.model.devices import DeviceState
from headrace.domain.model.nodes import NodeState
from headrace.domain.placement.pool_growth import GrowthRequest, may_hold, nodes_for, open_growth
from headrace.domain.state.supply import recount

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from headrace.contracts.documents.model import Burst
    from headrace.domain.model.requests import Request
    from headrace.domain.state.pools import PoolState
    from headrace.domain.state.state import State
    from headrace.domain.state.trial import Trial

ENOUGH = 1 << 40
"""Amount of a resource on a created node if its document states none."""
PROVED = Ranks(*[len(LEVELS) - 1] * 3)
"""How well it isolates jobs: nothing is known to the contrary."""


class ExpectedNodes:
    """The growth of some pools, tried in `trial`. `joined`: whether any node has come so far."""

    def __init__(self, state: State, trial: Trial, pools: Mapping[str, PoolState], now: int) -> None:
        self.joined = False
        self._state = state
        self._trial = trial
        self._pools = pools
        self._now = now
        self._created = 0
        self._coming: dict[str, tuple[int, int]] = {}
        """By pool, when how many come."""

    def on_the_way(self) -> Iterator[tuple[str, int]]:
        """The pools that grow already, and when their nodes are there; and those closed for growth, and when they may be asked again."""
        for name, pool in self._pools.items():
            burst, growth = pool.document.burst, open_growth(self._state, name)
            if burst is None:
                continue
            if growth is not None:
                self._coming[name] = max(self._now, growth.asked_at + burst.boot), max(0, growth.nodes - growth.joined)
                yield name, self._coming[name][0]
            elif self._closed_until(name) > self._now:
                yield name, self._closed_until(name)

    def ask(
        self, request: Request, open_to: Iterable[tuple[str, Iterable[tuple[Request, int]]]], moment: int
    ) -> Iterator[tuple[str, int]]:
        """Who wants this asks for nodes, where no pool grows for it: the pool that grows then, and when the nodes will be there.

        `open_to`: the pools it may be granted something in, in its order, and what those want there who go before it.
        """
        for name, before in open_to:
            pool = self._pools[name]
            burst = pool.document.burst
            if burst is None or request.required or not may_hold(burst.node, request.shape):
                continue
            if name in self._coming:
                return
            creatable = burst.max_nodes - len(pool.nodes) if self._closed_until(name) <= moment else 0
            asks = [GrowthRequest(wanted, count, "") for wanted, count in before] if creatable > 0 else []
            nodes = nodes_for(burst.node, [*asks, GrowthRequest(request, 1, "")], creatable) if creatable > 0 else 0
            if nodes:
                self._coming[name] = moment + burst.boot, nodes
                yield name, moment + burst.boot
                return

    def come(self, name: str, moment: int) -> None:
        """The nodes that are due in a pool are there."""
        due, count = self._coming.get(name, (moment + 1, 0))
        burst = self._pools[name].document.burst
        if due > moment or burst is None:
            return
        del self._coming[name]
        for _ in range(count):
            self._create(self._pools[name], burst)

    def _closed_until(self, name: str) -> int:
        growth = self._state.terms.growths.get(name)
        return 0 if growth is None or growth.open else growth.closed_until

    def _create(self, pool: PoolState, burst: Burst) -> None:
        """One more: with a name that no node can have, and the labels by which the pool selects."""
        spec = burst.node
        name = f"{pool.document.name} {self._created:06}"
        family = family_of(spec.gpu_model) if spec.mig else ""
        devices = [
            DeviceState(f"{number}", spec.gpu_model, 0, GPU_UNITS, mig=spec.mig, family=family) for number in range(spec.gpus)
        ]
        cpu, memory = spec.cpus * CPU_UNITS or ENOUGH, spec.memory or ENOUGH
        labels = dict(pool.document.selector)
        node = NodeState(name, labels, devices, cpu, memory, cpu, memory, self._now, model=spec.gpu_model, levels=PROVED)
        node.some_deny_units = spec.mig
        node.pool = pool.document.name
        self._state.nodes[name] = pool.nodes[name] = node
        self._created += 1
        pool.index.put(node)
        recount(pool, node)
        self._trial.note(partial(self._remove, pool, node))
        self.joined = True

    def _remove(self, pool: PoolState, node: NodeState) -> None:
        pool.index.remove(node)
        del pool.nodes[node.name], self._state.nodes[node.name]
        recount(pool, node)
