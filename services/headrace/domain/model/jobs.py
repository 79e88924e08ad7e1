"""What refers to each other by nature: a policy and its accounts, its jobs, their leases, and the preemptions that make room for them.

Jobs and leases are made by functions that are written out: the constructors that dataclasses write are not compiled, and took a tenth of
the fold.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from headrace.contracts.documents.model import Policy
from headrace.contracts.values.amounts import plus
from headrace.contracts.values.arrays import ArrayRange, size
from headrace.contracts.values.ids import element_name
from headrace.domain.model.derived import AID, NOTHING, nothing
from headrace.domain.model.job_states import JobState

# Not for the checker alone: machine code looks these up for the annotations of fields, and ends where they are not imported.
from headrace.domain.model.requests import Request

if TYPE_CHECKING:
    from headrace.contracts.facts import LeaseGrantedV1
    from headrace.contracts.facts.fact import DeviceShare, Ladder, Place
    from headrace.contracts.facts.preemption import Victim
    from headrace.contracts.values.amounts import Amounts
    from headrace.domain.model.attempts import Attempt, Ending
    from headrace.domain.model.policy_gate import BudgetMeter, PolicyGate


@dataclass(slots=True, eq=False)
class Scope:
    """One account of use: a policy over all pools, a policy in a pool, a tenant's share in a pool, a user of a policy (R7).

    Of a user of a policy (kind `user`) only `use`, `leased_minus_use` and `limit` are kept.

    `use` is what tests look at (R17): leased + nominated - yielding to a nominated preemptor. `firm` is the part of `use` that is
    non-preemptible; `leased_minus_use` is leased - use, and mostly empty. `reservation` None means that the document has no such block.
    """

    kind: str
    name: str
    reservation: Amounts | None = None
    limit: Amounts = field(default_factory=dict)
    use: Amounts = field(default_factory=dict)
    firm: Amounts = field(default_factory=dict)
    leased_minus_use: Amounts = field(default_factory=dict)

    @property
    def leased(self) -> Amounts:
        """Amounts held by leases."""
        return plus(self.use, self.leased_minus_use) if self.leased_minus_use else self.use


@dataclass(slots=True, eq=False)
class PolicyState:
    """A policy as written, and what its jobs hold. `scopes`: its account in each pool that its jobs may go to, or hold leases in."""

    document: Policy
    revision: int
    wide: Scope
    scopes: dict[str, Scope] = field(default_factory=dict)
    jobs: dict[str, JobRecord] = field(default_factory=dict)
    """Jobs that hold leases, by key, in the order of their grants."""
    idle: dict[str, JobRecord] = field(default_factory=nothing)
    """Of these, preemptible jobs all of whose leases are marked as idle (R39), by key."""
    pending: int = 0
    gate: PolicyGate | None = None
    meters: dict[str, BudgetMeter] = field(default_factory=dict)
    share_base: dict[str, int] = field(default_factory=dict, metadata=AID)
    """Capacity of the pools reached, per key, for the dominant share (R15); emptied when capacity changes."""
    profiles: set[str] = field(default_factory=set, metadata=AID)
    """Profiles that it links or has had jobs of: in their pools its accounts are open (`quota.open_scopes`)."""
    totals: dict[str, tuple[tuple[Amounts, ...], tuple[Amounts, ...]]] = field(default_factory=dict, metadata=AID)
    """Pool to where leases count, preemptible ones and others (`scopes.totals_of`); emptied when documents change."""
    users: dict[str, Scope] | None = field(default=None, metadata=AID)
    """What each user's jobs hold, where the policy is fair among users or limits each of them (`quota.open_user`); else None."""

    user_pending: dict[str, int] = field(default_factory=dict, metadata=AID)
    """Jobs that wait, by user, where `users` are kept; users without one are not in it."""

    def count_pending(self, job: JobRecord, change: int) -> None:
        """One more of the policy's jobs waits, or one less."""
        self.pending += change
        if self.users is None:
            return
        user = job.user
        after = self.user_pending.get(user, 0) + change
        if after:
            self.user_pending[user] = after
        else:
            del self.user_pending[user]

    def forget(self) -> None:
        """What was worked out from documents and hardware may be otherwise now."""
        self.share_base.clear()
        self.totals.clear()

    @property
    def key(self) -> tuple[str, str]:
        """Key of the policy: (tenant, name)."""
        return self.document.tenant, self.document.name


@dataclass(slots=True, eq=False)
class Preemption:
    """An ordered preemption, until it is settled. While `kept`, its places are nominated for the preemptor (R27).

    The move of a suspended job (R29) is one without victims: the job itself has to leave its place, and there is nothing to settle.

    `all_left_at`: when the last victim left; `overdue_at`: when the last of their leases so far became overdue (R28).
    """

    id: str
    job: JobRecord
    pool: str
    cause: str
    victims: tuple[Victim, ...]
    places: tuple[Place, ...]
    total: Amounts
    sequence: int
    ordered_at: int
    leaving: set[str]
    kept: bool = True
    settled: bool = False
    all_left_at: int = 0
    signalled_at: int = 0
    exited_at: int = 0
    released_at: int = 0
    overdue_at: int = 0


@dataclass(slots=True, eq=False)
class LeaseState:
    """The right of one replica to hold devices and amounts on one node.

    While it is suspended its devices are not its own (R29). `empty`: its node, or an operator, has confirmed that nothing is left of it.
    """

    job: JobRecord
    attempt: int
    rank: int
    node: str
    pool: str
    devices: tuple[DeviceShare, ...]
    amounts: Amounts
    sequence: int
    place: int
    """Its place in the record of that sequence."""
    granted_at: int
    started_at: int = 0
    overdue: bool = False
    suspended_at: int = 0
    resuming: bool = False
    empty: bool = False
    idle_at: int = 0
    """Since when it is marked as idle (R39), in log time; 0: it is not."""
    charged: Amounts = field(default_factory=nothing)
    """What counts against budgets at the moment (`meters.charge`)."""

    @property
    def yields(self) -> bool:
        """True if what it holds no longer counts as use (R17): its job makes room for another, or moves to another place (R29).

        Of a victim that is suspended, what it still holds counts again: it gives up no more than its devices.
        """
        job = self.job
        return bool(job.yields_to) and (not self.suspended_at or job.nomination is not None)


@dataclass(slots=True, eq=False)
class JobRecord:
    """A job from its admission until an hour after its end. `order` is (record sequence, place in it): the order of submission."""

    key: str
    policy: PolicyState
    profile: str
    request: Request
    preemptible: bool
    beyond: bool
    priority: int
    max_retries: int
    time_limit: int | None
    admitted_at: int
    order: tuple[int, int]
    name: str
    labels: dict[str, str]
    digest: str
    trace: str
    state: JobState = JobState.PENDING
    attempt: int = 0
    leases: dict[int, LeaseState] = field(default_factory=nothing)
    endings: tuple[Ending, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    pending_since: int = 0
    last_since: int = 0
    """When a preemption put it behind all jobs that waited then (R29, `requeue_last`); 0 if none did."""
    not_before: int = 0
    avoids: dict[str, int] = field(default_factory=nothing)
    """Nodes that have refused to start it, and until when it is kept away from them (R36)."""
    avoiding: tuple[str, ...] = field(default=(), metadata=AID)
    """Nodes that it is kept away from while it stands in line where it does, by name: those, and those that it would outlast."""
    outlasts: tuple[str, ...] = field(default=(), metadata=AID)
    """Pools whose maintenance begins before it would end if it started now (R41), by name."""
    started_at: int = 0
    suspended_at: int = 0
    suspended_by: str = ""  # the cause for which it is suspended
    resumed_at: int = 0
    paused: int = 0
    """How long this attempt has been suspended, up to its last resumption; `paused_saved`: of that, before its last checkpoint."""
    paused_saved: int = 0
    ended_at: int = 0
    retries_used: int = 0
    losses: int = 0
    preemptions: int = 0
    min_runtime: int = 0
    waits_for: dict[str, str] = field(default_factory=nothing)
    locked: bool = False  # the key of its text is missing (`texts.locked`)
    doomed_by: str = ""
    stop: Ladder | None = None
    stop_sequence: int = 0
    stop_at: int = 0
    yields_to: str = ""  # the preemption it makes room for, or its own move (R29): its use counts no more (R17)
    barred_from: str = ""  # the pool it may not re-enter before the preemptor it yielded to has started (R27)
    nomination: Preemption | None = None
    expired_nominations: int = 0  # its nominations in a row whose time was over before it started (R27)
    checkpoint: str = ""
    checkpoint_at: int = 0
    checkpoint_attempt: int = 0
    cancel_by: str = ""
    exit_code: int | None = None
    reason: str = ""
    message: str = ""
    array: ArrayState | None = None
    """The array to which it belongs as an element, or which it stands for as a whole."""

    @property
    def is_new_element(self) -> bool:
        """True for an element of an array that was never granted anything: its end may be stated together with that of others."""
        return self.array is not None and not self.attempt

    @property
    def stands_for(self) -> int:
        """How many waiting jobs it is, if it waits: the next element of an array stands in line for all behind it."""
        array = self.array
        if array is None:
            return 1
        return (self is not array.job) + (size(array.waiting) if array.front is self else 0)

    @property
    def tenant(self) -> str:
        """The tenant in its key."""
        return self.policy.document.tenant

    @property
    def user(self) -> str:
        """The user in its key."""
        return self.key.split(".")[1]

    @property
    def queue(self) -> str:
        """Name of the queue: `<policy>/<profile>`."""
        return f"{self.policy.document.name}/{self.profile}"


class UnstartedElements(NamedTuple):
    """Elements of an array that ended without having been granted anything, by number."""

    numbers: tuple[tuple[int, int], ...]
    state: JobState
    reason: str
    message: str
    at: int


@dataclass(slots=True, eq=False)
class ArrayState:
    """An array, from its admission until an hour after the end of its last element.

    `job`: the array as one job, with what its elements have in common; it is final when all of them have ended. `waiting`: elements
    without a record of their own, by number. `front`: the one with a record that stands in line for all that wait behind it; while the
    array waits for another job, that is `job`. `is_full`: as many as may run at once do.
    """

    job: JobRecord
    range: ArrayRange
    waiting: tuple[tuple[int, int], ...]
    front: JobRecord | None = None
    is_full: bool = False
    elements: dict[str, JobRecord] = field(default_factory=dict)
    """Elements with a record that have not ended, by key."""
    ended: dict[str, int] = field(default_factory=dict)
    """How many have ended, by state."""
    reasons: dict[str, str] = field(default_factory=dict)
    """Why the last of those of each state did."""
    unstarted: tuple[UnstartedElements, ...] = ()
    cancelling: tuple[tuple[int, int], ...] = ()
    """Of those that wait, the ones whose end was asked for."""

    @property
    def busy(self) -> int:
        """How many elements hold leases, or have places that are kept for them."""
        return sum(1 for job in self.elements.values() if job.state is not JobState.PENDING or job.nomination is not None)

    def element(self, number: int) -> JobRecord:
        """A record for an element, as it was admitted."""
        whole, job = self.job, blank_job()
        job.key = element_name(whole.key, self.range.index(number))
        job.policy, job.profile, job.request = whole.policy, whole.profile, whole.request
        job.preemptible, job.beyond, job.priority = whole.preemptible, whole.beyond, whole.priority
        job.max_retries, job.time_limit, job.order = whole.max_retries, whole.time_limit, whole.order
        job.admitted_at = job.pending_since = whole.admitted_at
        job.name, job.labels, job.digest, job.trace = whole.name, whole.labels, "", whole.trace
        job.locked, job.array = whole.locked, self
        return job


def blank_job() -> JobRecord:
    """A job without stated fields: all fields have their defaults."""
    job = JobRecord.__new__(JobRecord)
    job.state = JobState.PENDING
    job.leases = job.avoids = job.waits_for = NOTHING
    job.endings = job.attempts = job.avoiding = job.outlasts = ()
    job.attempt = job.retries_used = job.losses = job.preemptions = job.expired_nominations = 0
    job.pending_since = job.last_since = job.not_before = job.started_at = job.ended_at = job.min_runtime = 0
    job.suspended_at = job.resumed_at = job.paused = job.paused_saved = 0
    job.suspended_by = job.doomed_by = job.yields_to = job.barred_from = ""
    job.stop = job.nomination = job.exit_code = job.array = None
    job.locked = False
    job.stop_sequence = job.stop_at = 0
    job.checkpoint = job.cancel_by = job.reason = job.message = ""
    job.checkpoint_at = job.checkpoint_attempt = 0
    return job


def new_job(
    key: str,
    policy: PolicyState,
    profile: str,
    request: Request,
    *,
    preemptible: bool,
    beyond: bool,
    priority: int,
    max_retries: int,
    time_limit: int | None,
    admitted_at: int,
    order: tuple[int, int],
    name: str,
    labels: dict[str, str],
    digest: str,
    trace: str,
) -> JobRecord:
    """One that has just been admitted, and waits."""
    job = blank_job()
    job.key = key
    job.policy = policy
    job.profile = profile
    job.request = request
    job.preemptible = preemptible
    job.beyond = beyond
    job.priority = priority
    job.max_retries = max_retries
    job.time_limit = time_limit
    job.admitted_at = job.pending_since = admitted_at
    job.order = order
    job.name = name
    job.labels = labels
    job.digest = digest
    job.trace = trace
    return job


def new_lease(job: JobRecord, fact: LeaseGrantedV1, node: str, sequence: int, place: int, now: int) -> LeaseState:
    """One that has just been granted. `node`: the name as the node has it, so that all leases share one text."""
    lease = LeaseState.__new__(LeaseState)
    lease.job = job
    lease.attempt = fact.attempt
    lease.rank = fact.rank
    lease.node = node
    lease.pool = fact.pool
    lease.devices = fact.devices
    lease.amounts = fact.amounts
    lease.sequence = sequence
    lease.place = place
    lease.granted_at = now
    lease.started_at = lease.suspended_at = lease.idle_at = 0
    lease.overdue = lease.resuming = lease.empty = False
    lease.charged = NOTHING
    return lease
