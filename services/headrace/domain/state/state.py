"""Everything that is true after a prefix of the ledger: plain data, changed by the fold only.

Objects point at each other (a job at its policy, a lease at its node), so that no rule has to look anything up twice. All times
are microseconds of log time (R34) unless they are called `at_node`.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.contracts.documents.model import Group, Profile, Tenant, User
from headrace.contracts.values.durations import HOUR
from headrace.contracts.values.ids import DEFAULT_TENANT
from headrace.domain.indexes.pending import Pending
from headrace.domain.indexes.running_index import note_running
from headrace.domain.model.deadlines import Deadlines
from headrace.domain.model.derived import AID
from headrace.domain.model.maintenance import Maintenance
from headrace.domain.model.requests import Request
from headrace.domain.model.time_rules import TimeRules
from headrace.domain.model.tokens import Tokens

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from headrace.contracts.facts.admission import Dependency
    from headrace.domain.indexes.running_index import RunningIndex
    from headrace.domain.model.attempts import PastJob
    from headrace.domain.model.instances import Instance, OfferState, Spending
    from headrace.domain.model.jobs import ArrayState, JobRecord, PolicyState, Preemption, Scope
    from headrace.domain.model.node_claims import Approval
    from headrace.domain.model.nodes import NodeState
    from headrace.domain.model.preemption_state import Hold
    from headrace.domain.state.pools import PoolState


ENDED_KEPT = 1 * HOUR
"""How long an ended job stays in the fold; older ones are answered from the books (R14)."""
IDS_REMEMBERED = 25 * HOUR


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
    judged: int = 0  # the last submission on SUBMIT that admission has judged
    refusals: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    """(tenant, user) to (second, refusals stated in it), so that a flood of them is counted, not stated one by one (R14)."""
    documents_sequence: int = 0
    """The last record that changed what may ever run, documents or hardware, or that admitted jobs without having read that change."""

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
    instances: dict[str, Instance] = field(default_factory=dict)
    """By name: those that live, and for a while those that have ended (R38)."""
    offers: dict[tuple[str, str], OfferState] = field(default_factory=dict)
    """(pool, offer) to what is known of it, where anything is."""
    spent: dict[str, Spending] = field(default_factory=dict)
    """Pool to what its ended instances cost this month (R38)."""
    tenants_spent: dict[tuple[str, str], Spending] = field(default_factory=dict)
    """(pool, tenant) to what the tenant's jobs cost there this month, on created nodes, as far as they have ended (R38)."""
    leaving: dict[str, NodeState] = field(default_factory=dict)
    """Nodes that have left the installation, while something is held or kept on them."""
    terms: TimeRules = field(default_factory=TimeRules)
    tokens: Tokens = field(default_factory=Tokens)

    jobs: dict[str, JobRecord] = field(default_factory=dict)
    arrays: dict[str, ArrayState] = field(default_factory=dict)
    """By the key of the array: until it leaves, an hour after the end of its last element."""
    pending: Pending = field(default_factory=Pending, metadata=AID)
    requests: dict[tuple[object, ...], Request] = field(default_factory=dict)
    unsettled: dict[str, JobRecord] = field(default_factory=dict)
    """Jobs whose attempt has news that the allocator has not answered yet: an ending, a lost node."""
    cancels: dict[str, JobRecord] = field(default_factory=dict)
    requeues: dict[str, JobRecord] = field(default_factory=dict)
    doomed: dict[str, JobRecord] = field(default_factory=dict)
    forced: dict[str, JobRecord] = field(default_factory=dict)
    """Jobs that an operator takes from by force, until their stop is ordered (R24)."""
    dependants: dict[str, list[Dependency]] = field(default_factory=dict)
    """Job key to the (dependant, when) that wait for its end."""
    locked: dict[tuple[str, str], int] = field(default_factory=dict)
    """(tenant, handle) to the record that states that the key of their texts is missing: jobs admitted before that wait."""
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
    """Nodes that are drained, or in maintenance."""
    maintenance: Maintenance = field(default_factory=Maintenance)
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
    running: dict[PolicyState, RunningIndex] | None = field(default=None, metadata=AID)
    """Of each policy with jobs that might yield (R24): those jobs; built at the first query (`jobs_that_may_yield`)."""

    def __post_init__(self) -> None:
        """Pending jobs stand in line by what they would outlast (R41)."""
        self.pending.maintenance = self.maintenance

    def pass_time(self, now: int) -> Sequence[JobRecord]:
        """Make true what follows from time alone: pending jobs whose back-off is over by `now` join the line.

        Call it before a decision at log time `now`. It changes an index only; the fold does the same with the time of each record.
        Returns the jobs that it changes something for: what `take_back_time` needs.
        """
        return self.pending.follow_time(now)

    def take_back_time(self, moved: Iterable[JobRecord]) -> None:
        """Undo `pass_time`, for the next decision that was made on the same state at an earlier time, by another service."""
        for job in moved:
            if self.pending.remove(job):
                self.pending.add(job, self.now)

    def jobs_and_arrays(self) -> Iterator[JobRecord]:
        """All jobs, and each array as one; of those that wait, `JobRecord.stands_for` says how many each is."""
        yield from self.jobs.values()
        for array in self.arrays.values():
            yield array.job

    def jobs_that_may_yield(self) -> dict[PolicyState, RunningIndex]:
        """By policy. Built at the first query, because only searches for victims ask: other readers of the ledger do not keep it.

        A decider that searches asks once when it is created: no decision may change the state.
        """
        if self.running is None:
            self.running = {}
            for policy in (*self.policies.values(), *self.deleted_policies.values()):
                for job in policy.jobs.values():
                    note_running(self.running, job)
        return self.running

    def pool_of(self, node: NodeState) -> PoolState | None:
        """The pool that a node is in; None outside all pools."""
        return self.pools.get(node.pool)

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
