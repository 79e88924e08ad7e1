"""A machine as the fold has it: what it offers, what is free on it, and why nothing may be granted there."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.contracts.values.isolation import UNPROVED, Ranks
from headrace.domain.model.derived import AID
from headrace.domain.model.devices import DeviceState

if TYPE_CHECKING:
    from headrace.domain.model.jobs import LeaseState
    from headrace.domain.model.maintenance import PoolMaintenance
    from headrace.domain.model.node_claims import NodeClaimsState


@dataclass(slots=True, eq=False)
class Probation:
    """How a node that was set aside by its refusals comes back (R36): `waits` until `until`, `checks` itself, `tries` one job.

    `failed`: its check did, for the reason in `message`. `times`: how often in a row it was set aside. `ordered`: the sequence of the
    order to check itself. `job`: the key of the job that it tries.
    """

    times: int
    until: int
    stage: str = "waits"
    ordered: int = 0
    message: str = ""
    job: str = ""


SELF = "headrace"
"""Who cordons a node for void records or for saying too much: the installation itself."""


@dataclass(slots=True, eq=False)
class NodeState:
    """One machine. `status` is `ready`, `stopped` or `lost`; cpu in millicores, memory in MiB.

    `refusals`: jobs whose starts it refused since it last started one, and why (R36). `stopped_through`: the last order that it had read
    when it stopped; what was granted after that is not meant by it (0: it named none). `claims`: what it stated of itself at its last
    registration; `labels`, `devices`, `isolation` and `levels` are what is believed of that (`claims`). None: below level 2.
    `cordoned_by`, `cordoned_at`: who cordoned or drained it, and when. `status_at`: since when it is stopped or lost.
    `pool`: the name of the pool it is in, empty outside all pools.
    """

    name: str
    labels: dict[str, str]
    devices: list[DeviceState]
    cpu: int
    memory: int
    cpu_free: int
    memory_free: int
    registered_at: int
    pool: str = ""
    status: str = "ready"
    cordoned: str = ""
    draining: bool = False
    refusals: dict[str, str] = field(default_factory=dict)
    probation: Probation | None = None
    stopped_through: int = 0
    claims: NodeClaimsState | None = None
    cordoned_by: str = ""
    cordoned_at: int = 0
    status_at: int = 0
    isolation: str = ""
    cpu_nominated: int = 0
    memory_nominated: int = 0
    leases: dict[str, LeaseState] = field(default_factory=dict)
    model: str = ""
    some_deny_units: bool = False
    """Whether any of its devices is not given in units: it is cut into slices (R4), or unfit."""
    has_nvlink: bool = False
    """Whether any of its devices is in a group of NVLink (R40)."""
    leaves: bool = False
    """Whether its instance is to end (R38): it is cordoned for good, and what is granted there from then on has no effect."""
    levels: Ranks = UNPROVED
    """How well it has proved to isolate jobs, by what they take of a GPU."""
    maintenance: PoolMaintenance | None = field(default=None, metadata=AID)
    """The window of its pool, while it is under way (R41)."""
    by_name: dict[str, DeviceState] = field(default_factory=dict, metadata=AID)

    @property
    def healthy(self) -> bool:
        """Whether it counts for usable capacity (R6)."""
        return self.status == "ready"

    @property
    def grantable(self) -> bool:
        """Whether anything may be granted on it now; on probation it is given one job, and no other before that runs (R36)."""
        if self.status != "ready" or self.cordoned or self.maintenance is not None:
            return False
        return self.probation is None or not self.probation.job

    @property
    def cpu_open(self) -> int:
        """Millicores that any job may be granted now. What is kept for a preemptor may be more than is free until its victims have left."""
        return max(0, self.cpu_free - self.cpu_nominated)

    @property
    def memory_open(self) -> int:
        """MiB that any job may be granted now."""
        return max(0, self.memory_free - self.memory_nominated)
