"""What the nodes of one pool bring (R6), counted by their kinds; dedicated nodes by their owners (R21)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from headrace.contracts.values.amounts import CPU, GPU, GPU_UNITS, MEMORY, add_to, is_gpu, key_of_model, times
from headrace.domain.model.dedication import COMMON, has_owners, owner_of, reach

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.contracts.documents.model import Pool
    from headrace.contracts.values.amounts import Amounts
    from headrace.contracts.values.isolation import Ranks
    from headrace.domain.model.nodes import NodeState

HARDWARE = (GPU, CPU, MEMORY)
"""Keys that nodes bring, beside those of GPU models; of all others a pool has what its `capacity` says."""


def is_hardware(key: str) -> bool:
    """Whether nodes bring the key."""
    return key in HARDWARE or is_gpu(key)


PolicyKey = tuple[str, str]


class NodeKind(NamedTuple):
    """What nodes have in common that could hold the same if they were empty.

    `whole` devices, and the families of those that are cut into slices (R4), ascending. `gpu_memory`: MiB of its smallest GPU.
    """

    owner: str
    model: str
    levels: Ranks
    cpu: int
    memory: int
    whole: int
    families: tuple[str, ...]
    gpu_memory: int = 0

    @property
    def amounts(self) -> Amounts:
        """What one such node brings."""
        return {GPU: (self.whole + len(self.families)) * GPU_UNITS, CPU: self.cpu, MEMORY: self.memory}


class Brought(NamedTuple):
    """What one node brings: its kind, and what of it counts while it is healthy."""

    kind: NodeKind
    usable: Amounts


class Census:
    """What each node of a pool brings, and the sums, so that one that comes, goes or changes is counted without the others.

    `kinds`: how many nodes there are of each.
    """

    __slots__ = ("_pool", "families", "kinds", "known", "nodes", "usable")

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self.nodes: dict[str, Brought] = {}
        self.known: Amounts = dict.fromkeys(HARDWARE, 0)
        self.usable: Amounts = dict.fromkeys(HARDWARE, 0)
        self.families: Counter[str] = Counter()
        self.kinds: Counter[NodeKind] = Counter()

    def count(self, node: NodeState) -> None:
        """The node is in the pool, and as it is now."""
        self.forget(node.name)
        kind = _kind(self._pool, node)
        brought = self.nodes[node.name] = Brought(kind, _in_order(node, kind) if node.healthy else {})
        add_to(self.known, kind.amounts)
        add_to(self.usable, brought.usable)
        self.families.update(set(kind.families) - {""})
        self.kinds[kind] += 1

    def forget(self, name: str) -> None:
        """The node is not there any more."""
        brought = self.nodes.pop(name, None)
        if brought is not None:
            kind = brought.kind
            add_to(self.known, times(kind.amounts, -1))
            add_to(self.usable, times(brought.usable, -1))
            self.families.subtract(set(kind.families) - {""})
            self.kinds[kind] -= 1
            if not self.kinds[kind]:
                del self.kinds[kind]

    def by_model(self, models: Iterable[str]) -> tuple[Amounts, Amounts]:
        """Of the GPUs of each of these models, by the model's key, those that are known and those that are usable (R43)."""
        known: Amounts = {key_of_model(model): 0 for model in models}
        usable = dict(known)
        for brought in self.nodes.values() if known else ():
            key = key_of_model(brought.kind.model)
            if key in known:
                known[key] += brought.kind.amounts[GPU]
                usable[key] += brought.usable.get(GPU, 0)
        return known, usable

    def of(self, policy: PolicyKey) -> list[tuple[NodeKind, int]]:
        """The kinds of nodes that a policy may use, and how many of each (R21)."""
        if not has_owners(self._pool):
            return list(self.kinds.items())
        mine = reach(*policy)
        return [(kind, count) for kind, count in self.kinds.items() if kind.owner in mine]


def _kind(pool: Pool, node: NodeState) -> NodeKind:
    cut = tuple(sorted(device.family for device in node.devices if device.mig))
    owner = owner_of(pool, node.labels) if has_owners(pool) else COMMON
    least = min([device.memory for device in node.devices], default=0)
    return NodeKind(owner, node.model, node.levels, node.cpu, node.memory, len(node.devices) - len(cut), cut, least)


def _in_order(node: NodeState, kind: NodeKind) -> Amounts:
    """What a node brings, without the devices that it has drained."""
    total = kind.amounts
    total[GPU] -= GPU_UNITS * sum(bool(device.unfit) for device in node.devices)
    return total
