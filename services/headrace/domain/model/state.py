"""Everything that is true after a prefix of the ledger: plain data, changed by the fold only.

Objects point at each other (a job at its policy, a lease at its node), so that no rule has to look anything up twice. All times
are microseconds of log time (R34) unless they are called `at_node`.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.contracts.documents.model import DEFAULT_TENANT, Group, Policy, Pool, Profile, Tenant, User
from headrace.contracts.values.amounts import plus
from headrace.contracts.values.durations import HOUR
from headrace.contracts.values.isolation import UNPROVED, Ranks
from headrace.domain.indexes.node_index import NodeIndex
from headrace.domain.indexes.pending import Pending
from headrace.domain.model.deadlines import Deadlines
from headrace.domain.model.demand_mix import DemandMix
from headrace.domain.model.derived import AID
from headrace.domain.model.devices import CutDevices, DeviceState
from headrace.domain.model.requests import Request
from headrace.domain.model.time_rules import TimeRules
from headrace.domain.model.tokens import Tokens

if TYPE_CHECKING:
    from headrace.contracts.facts.admission import Dependency
    from headrace.contracts.values.amounts import Amounts
    from headrace.domain.indexes.running_index import RunningIndex
    from headrace.domain.model.attempts import PastJob
    from headrace.domain.model.jobs import JobRecord, LeaseState
    from headrace.domain.model.node_claims import Approval, NodeClaimsState
    from headrace.domain.model.preemption_state import Hold, Preemption, Search
    from headrace.domain.model.search_backoff import Fruitless
    from headrace.domain.model.supply import Census
    from headrace.domain.model.time_rules import BudgetMeter, PolicyGate


ENDED_KEPT = 1 * HOUR
"""How long an ended job stays in the fold; older ones are answered from the books (R14)."""
IDS_REMEMBERED = 25 * HOUR


@dataclass(slots=True, eq=False)
class Scope:
    """One account of use: a policy over all pools, a policy in a pool, a tenant's share in a pool (R7).

    `use` is what tests look at (R17): leased + nominated - yielding to a nominated preemptor. `firm` is the part of `use` that is
    non-preemptible; `apart` is leased - use, and mostly empty. `reservation` None means that the document has no such block.
    """

    kind: str
    name: str
    reservation: Amounts | None = None
    limit: Amounts = field(default_factory=dict)
    use: Amounts = field(default_factory=dict)
    firm: Amounts = field(default_factory=dict)
    apart: Amounts = field(default_factory=dict)

    @property
    def leased(self) -> Amounts:
        """What leases hold."""
        return plus(self.use, self.apart) if self.apart else self.use


@dataclass(slots=True, eq=False)
class PolicyState:
    """A policy as written, and what its jobs hold. `scopes` has one account for each pool one of its jobs ever aimed at."""

    document: Policy
    revision: int
    wide: Scope
    scopes: dict[str, Scope] = field(default_factory=dict)
    jobs: dict[str, JobRecord] = field(default_factory=dict)
    """Jobs that hold leases, by key, in the order of their grants."""
    pending: int = 0
    gate: PolicyGate | None = None
    meters: dict[str, BudgetMeter] = field(default_factory=dict)
    share_base: dict[str, int] = field(default_factory=dict, metadata=AID)
    """Capacity of the pools reached, per key, for the dominant share (R15); emptied when capacity changes."""
    totals: dict[str, tuple[tuple[Amounts, ...], tuple[Amounts, ...]]] = field(default_factory=dict, metadata=AID)
    """Pool to where leases count, preemptible ones and others (`scopes.totals_of`); emptied when documents change."""

    shelves: RunningIndex | None = field(default=None, metadata=AID)  # its jobs that might yield (`shelves.shelves_of`)

    def forget(self) -> None:
        """What was worked out from documents and hardware may be otherwise now."""
        self.share_base.clear()
        self.totals.clear()

    @property
    def key(self) -> tuple[str, str]:
        """(tenant, name)."""
        return self.document.tenant, self.document.name


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
    when it stopped; what was granted after that is not meant by it (0: it named none). `said`: what it said of itself at its last
    registration; `labels`, `devices`, `isolation` and `levels` are what is believed of that (`claims`). None: below level 2.
    `cordoned_by`, `cordoned_at`: who cordoned or drained it, and when. `status_at`: since when it is stopped or lost.
    """

    name: str
    labels: dict[str, str]
    devices: list[DeviceState]
    cpu: int
    memory: int
    cpu_free: int
    memory_free: int
    registered_at: int
    pool: PoolState | None = None
    status: str = "ready"
    cordoned: str = ""
    draining: bool = False
    refusals: dict[str, str] = field(default_factory=dict)
    probation: Probation | None = None
    stopped_through: int = 0
    said: NodeClaimsState | None = None
    cordoned_by: str = ""
    cordoned_at: int = 0
    status_at: int = 0
    isolation: str = ""
    cpu_nominated: int = 0
    memory_nominated: int = 0
    leases: dict[str, LeaseState] = field(default_factory=dict)
    model: str = ""
    has_apart: bool = False
    """Whether any of its devices is not given in units: it is cut into slices (R4), or unfit."""
    levels: Ranks = UNPROVED
    """How well it has proved to isolate jobs, by what they take of a GPU."""
    by_name: dict[str, DeviceState] = field(default_factory=dict, metadata=AID)

    @property
    def healthy(self) -> bool:
        """Whether it counts for usable capacity (R6)."""
        return self.status == "ready"

    @property
    def grantable(self) -> bool:
        """Whether anything may be granted on it now; on probation it is given one job, and no other before that runs (R36)."""
        return self.status == "ready" and not self.cordoned and (self.probation is None or not self.probation.job)

    @property
    def cpu_open(self) -> int:
        """Millicores that anybody may be granted now. What is kept for a preemptor may be more than is free until its victims have left."""
        return max(0, self.cpu_free - self.cpu_nominated)

    @property
    def memory_open(self) -> int:
        """MiB that anybody may be granted now."""
        return max(0, self.memory_free - self.memory_nominated)


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
    apart: Amounts = field(default_factory=dict)
    lasting: Amounts = field(default_factory=dict, metadata=AID)  # at most so much is held by leases that stay (R16)
    overdue: int = field(default=0, metadata=AID)  # leases here that should have ended (R28)
    nominated: Amounts = field(default_factory=dict)
    cut: CutDevices = field(default_factory=CutDevices)
    families: frozenset[str] = frozenset()
    """How the devices in MIG mode here are cut (R4)."""
    governed: frozenset[str] = frozenset()
    census: Census | None = field(default=None, metadata=AID)  # what each of its nodes brings (`supply.recount`)
    epoch: int = 0
    openings: int = 0
    """Counts what may make it possible to keep something for a job for which nothing could be kept before (R16)."""
    search: Search | None = None
    fruitless: dict[tuple[object, ...], Fruitless] = field(default_factory=dict)
    rest: int = 0
    rests_until: int = 0
    next_retry: int = 0

    @property
    def leased(self) -> Amounts:
        """What leases hold in it; `use` and `apart` as in `Scope`."""
        return plus(self.use, self.apart) if self.apart else self.use


@dataclass(slots=True, eq=False)
class GovernanceObject:
    """A governance object without arithmetic of its own, and the sequence that last wrote it."""

    document: Tenant | User | Group | Profile
    revision: int


@dataclass(slots=True, eq=False)
class State:
    """The fold of a prefix of the ledger."""

    sequence: int = 0
    now: int = 0
    writers: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Writer to (sequence, digest) of its last record."""
    voids: dict[str, int] = field(default_factory=dict)
    judged: int = 0  # the last wish on SUBMIT that admission has judged
    refusals: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    """(tenant, user) to (second, refusals stated in it), so that a flood of them is counted, not stated one by one (R14)."""
    documents_sequence: int = 0
    """The last record that changed what may ever run, documents or hardware, or that admitted jobs without having read such a change."""

    tenants: dict[str, GovernanceObject] = field(default_factory=dict)
    users: dict[tuple[str, str], GovernanceObject] = field(default_factory=dict)
    groups: dict[tuple[str, str], GovernanceObject] = field(default_factory=dict)
    profiles: dict[tuple[str, str], GovernanceObject] = field(default_factory=dict)
    pools: dict[str, PoolState] = field(default_factory=dict)
    policies: dict[tuple[str, str], PolicyState] = field(default_factory=dict)
    deleted_policies: dict[tuple[str, str], PolicyState] = field(default_factory=dict)
    """Kept for jobs that were granted or admitted when the deletion was already on its way: no job is ever without a policy."""
    shares: dict[tuple[str, str], Scope] = field(default_factory=dict)
    """(tenant, pool) to the tenant's share there; a tenant without one is transparent (R7)."""
    nodes: dict[str, NodeState] = field(default_factory=dict)
    approvals: dict[str, Approval] = field(default_factory=dict)
    """By node, registered or not: how much of its claims is believed. Those without one log in by the installation's configuration."""
    excluded: dict[str, str] = field(default_factory=dict)
    """Nodes that are not let in, until an operator uncordons them, and why."""
    terms: TimeRules = field(default_factory=TimeRules)
    tokens: Tokens = field(default_factory=Tokens)

    jobs: dict[str, JobRecord] = field(default_factory=dict)
    pending: Pending = field(default_factory=Pending, metadata=AID)
    requests: dict[tuple[object, ...], Request] = field(default_factory=dict)
    unsettled: dict[str, JobRecord] = field(default_factory=dict)
    """Jobs whose attempt has news that the allocator has not answered yet: an ending, a lost node."""
    cancels: dict[str, JobRecord] = field(default_factory=dict)
    requeues: dict[str, JobRecord] = field(default_factory=dict)
    doomed: dict[str, JobRecord] = field(default_factory=dict)
    forced: dict[str, JobRecord] = field(default_factory=dict)
    """Jobs that an operator takes from by force, until they are told to stop (R24)."""
    dependants: dict[str, list[Dependency]] = field(default_factory=dict)
    """Job key to the (dependant, when) that wait for its end."""
    locked: dict[tuple[str, str], int] = field(default_factory=dict)
    """(tenant, handle) to the record that said that the key of their texts is missing: jobs admitted before that wait."""
    deadlines: Deadlines = field(default_factory=Deadlines, metadata=AID)
    """Job key to when its phase is over by time alone (`phases`)."""
    ladders: Deadlines = field(default_factory=Deadlines, metadata=AID)
    """Job key to when the ladder it walks is overdue (R28)."""
    ends: Deadlines = field(default_factory=Deadlines, metadata=AID)  # job key to when the first of its leases is known to end
    suspended: dict[str, JobRecord] = field(default_factory=dict)
    refusing: dict[str, NodeState] = field(default_factory=dict)
    """Nodes whose last start was refused (R36)."""
    set_aside: dict[str, NodeState] = field(default_factory=dict)
    """Nodes that were set aside by their refusals, and have not started a job since (R36)."""
    draining: dict[str, NodeState] = field(default_factory=dict)
    preemptions: dict[str, Preemption] = field(default_factory=dict)
    barred: dict[str, list[JobRecord]] = field(default_factory=dict)
    """Preemptor's key to its victims, until it has started or is out (R27)."""
    holds: dict[str, Hold] = field(default_factory=dict)
    """What is kept for jobs that have waited too long (R16), by the job's key, in the order in which they were placed."""
    preemptions_ordered: int = 0
    ended: deque[JobRecord] = field(default_factory=deque)
    answered: dict[str, PastJob] = field(default_factory=dict)
    forgetting: deque[tuple[int, str]] = field(default_factory=deque)
    accounts: dict[tuple[str, str], int] = field(default_factory=dict)
    """(tenant, user) to account number on nodes (`accounts`); empty below level 2."""
    retired_accounts: set[int] = field(default_factory=set)
    """Numbers of removed users, and numbers that two users shared; never handed out again."""
    job_ids: dict[tuple[str, str], str] | None = field(default=None, metadata=AID)
    """(tenant, job id) to the job's key (`known_ids`); built at the first query."""
    stale: dict[PolicyState, None] | None = field(default=None, metadata=AID)
    """Policies whose accounts have changed since somebody who watches last took them."""

    def stir(self) -> None:
        """Something has changed that may make a reclaim possible, in any pool: sides are counted over all of them (R7, R23)."""
        for pool in self.pools.values():
            pool.epoch += 1

    def profile(self, tenant: str, name: str) -> Profile | None:
        """A tenant's own profile of that name, else the provider's."""
        written = self.profiles.get((tenant, name)) or self.profiles.get(("", name))
        return written.document if written and isinstance(written.document, Profile) else None

    def group(self, tenant: str, name: str) -> Group | None:
        """A group by name."""
        written = self.groups.get((tenant, name))
        return written.document if written and isinstance(written.document, Group) else None

    def has_tenant(self, tenant: str) -> bool:
        """Whether a tenant exists; `default` always does."""
        return tenant == DEFAULT_TENANT or tenant in self.tenants
