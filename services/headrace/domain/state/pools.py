"""A pool as the fold has it: its document, its nodes with their index, and what is taken in it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.contracts.documents.model import Pool
from headrace.contracts.values.amounts import plus
from headrace.domain.indexes.node_index import NodeIndex
from headrace.domain.model.demand_mix import DemandMix
from headrace.domain.model.derived import AID
from headrace.domain.model.devices import CutDevices

if TYPE_CHECKING:
    from headrace.contracts.values.amounts import Amounts
    from headrace.domain.model.census import Census
    from headrace.domain.model.nodes import NodeState
    from headrace.domain.model.preemption_state import Search
    from headrace.domain.model.topology import PoolTopology


@dataclass(slots=True, eq=False)
class FailedSearch:
    """The last search for a policy's request found no victims, when the pool was at `epoch`. `retry_at`: a victim's protection ends."""

    epoch: int
    protected: int
    retry_at: int | None


@dataclass(slots=True, eq=False)
class PoolState:
    """A pool as written, its nodes, and what is taken in it. `epoch` counts changes that may make a reclaim possible here."""

    document: Pool
    revision: int
    nodes: dict[str, NodeState] = field(default_factory=dict)
    index: NodeIndex = field(default_factory=NodeIndex, metadata=AID)
    mix: DemandMix = field(default_factory=DemandMix)
    known: Amounts = field(default_factory=dict)
    usable: Amounts = field(default_factory=dict)
    use: Amounts = field(default_factory=dict)
    leased_minus_use: Amounts = field(default_factory=dict)
    lasting: Amounts = field(default_factory=dict, metadata=AID)  # at most so much is held by leases that stay (R16)
    overdue: int = field(default=0, metadata=AID)  # leases here that should have ended (R28)
    nominated: Amounts = field(default_factory=dict)
    cut: CutDevices = field(default_factory=CutDevices)
    nodes_since: int = 0
    """Sequence of the record since which it has always had a node; meaningless while it has none."""
    families: frozenset[str] = frozenset()
    """How the devices in MIG mode here are cut (R4)."""
    governed: frozenset[str] = frozenset()
    models: tuple[str, ...] = ()
    """The GPU models whose own keys it governs (R43)."""
    census: Census | None = field(default=None, metadata=AID)  # what each of its nodes brings (`supply.recount`)
    topology: PoolTopology | None = field(default=None, metadata=AID)  # where its nodes stand (R40)
    epoch: int = 0
    openings: int = 0
    """Counts what may make it possible to keep something for a job for which nothing could be kept before (R16)."""
    search: Search | None = None
    failed_searches: dict[tuple[object, ...], FailedSearch] = field(default_factory=dict)
    backoff: int = 0
    backoff_until: int = 0
    next_retry: int = 0

    def __post_init__(self) -> None:
        """The index has to know the document (R21)."""
        self.index.document = self.document

    def set_document(self, document: Pool, revision: int) -> None:
        """Replaces the document; the nodes have to be put into the index again, they may have other owners (R21)."""
        self.document = self.index.document = document
        self.revision = revision

    @property
    def leased(self) -> Amounts:
        """What leases hold in it; `use` and `leased_minus_use` as in `Scope`."""
        return plus(self.use, self.leased_minus_use) if self.leased_minus_use else self.use
