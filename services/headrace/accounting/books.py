"""The books as a function of the ledger: each record becomes changes of rows. Pure: what writes them is `store`.

Strategy: what a job, a policy, a node is, is read from the shared fold after it has read the record; the books themselves keep
only the attempts that are not settled (for the nodes' own times, R37) and one meter for each policy and key (R17).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any, ClassVar, NamedTuple

from headrace.accounting import attempts
from headrace.accounting.describe import SUPPLY, about, job_row, new_lease, node_row, rejected_row, suspended_leases
from headrace.accounting.meter import Meter, PastUse, order_of
from headrace.accounting.rows import (
    ATTEMPT_COLUMNS,
    LEASE_COLUMNS,
    NOWHERE,
    PLACES,
    Attempt,
    CapacityRow,
    Changes,
    FactRow,
    Lease,
    Position,
    PreemptionRow,
    RecordRow,
    ReservationRow,
    SettlementRow,
    UnusedRow,
    VictimRow,
    plain,
)
from headrace.contracts import facts as f
from headrace.contracts.amounts import GPU, Amounts
from headrace.contracts.durations import SECOND
from headrace.contracts.records import Record, digest
from headrace.domain.ledger import StoredMessage
from headrace.domain.state import JobRecord, NodeState, State

MEMORY = 10 * SECOND
"""How far back the meters remember, in log time; a release that becomes known later than that is looked up in what was stored."""

_attempt_row = attrgetter(*ATTEMPT_COLUMNS)
_lease_row = attrgetter(*LEASE_COLUMNS)


class MeterKey(NamedTuple):
    """Which meter: a policy and a key."""

    tenant: str
    policy: str
    key: str


class Gap(NamedTuple):
    """A meter that has to remember since `since` before the books can be settled."""

    meter: MeterKey
    since: int


class Books:
    """The books behind one fold. `state` is what the fold has read: up to the message that is entered next, that one included.

    `enter` each message, then `settle` once for many; before that, `gaps` have to be closed by `remember`. What the rows are in the
    end does not depend on how the messages were bundled.
    """

    def __init__(self, state: State, position: Position = NOWHERE) -> None:
        self._state = state
        self._position = position
        self._attempts: dict[tuple[str, int], Attempt] = {}
        self._suspended: set[int] = set()
        self._meters: dict[MeterKey, Meter] = {}
        self._reserved: dict[tuple[str, str], Amounts] = {}
        self._supply: dict[tuple[str, str], tuple[int, int]] = {}
        self._changes = Changes(position, position)
        self._changed_jobs: dict[str, JobRecord] = {}
        self._changed_nodes: dict[str, NodeState] = {}
        self._changed_attempts: dict[tuple[str, int], Attempt] = {}
        self._changed_leases: dict[int, Lease] = {}
        self._changed_meters: dict[MeterKey, Meter] = {}

    @property
    def position(self) -> Position:
        """The last message entered."""
        return self._position

    def restore(
        self, unsettled: Iterable[Attempt], reservations: Iterable[ReservationRow], supply: Iterable[CapacityRow]
    ) -> None:
        """Go on from stored books: attempts that are not settled, reservations and supplies in order. Meters follow by `remember`."""
        self._attempts = {(attempt.job, attempt.attempt): attempt for attempt in unsettled}
        self._suspended = {number for attempt in self._attempts.values() for number in suspended_leases(self._state, attempt)}
        for row in reservations:
            self._reserved.setdefault((row.tenant, row.policy), {})[row.key] = row.amount
        self._supply = {(row.pool, row.key): (row.known, row.usable) for row in supply}

    def remember(self, key: MeterKey, since: int, past: Iterable[PastUse], reservations: Iterable[ReservationRow]) -> None:
        """Let a meter know what was stored since `since`; see `Meter.restored`."""
        restored = self._meter(key).restored(since, past, [row.change for row in reservations])
        self._meters[key] = restored
        if key in self._changed_meters:
            self._changed_meters[key] = restored

    def enter(self, message: StoredMessage, record: Record | None, void: str = "") -> None:
        """Take in one message that the fold has just read; `record` is None where it is void, and `void` says why."""
        sequence = message.sequence
        named = digest(message.payload)
        self._position = Position(sequence, named, self._state.now)
        stated = record.now if record is not None else None
        self._changes.records.append(
            RecordRow(sequence, plain(message.subject), message.stamped, stated, named, plain(void), message.payload)
        )
        if record is None:
            self._node_changed(message.subject.rpartition(".")[2])
            return
        supply = False
        for place, fact in enumerate(record.facts):
            kind = type(fact)
            self._changes.facts.append(FactRow(sequence, place, str(kind.__struct_config__.tag), about(fact)))
            handler = self._HANDLERS.get(kind)
            if handler is not None:
                handler(self, fact, record, sequence * PLACES + place)
            supply = supply or kind in SUPPLY
        if supply:
            self._enter_supply(sequence)

    def gaps(self) -> list[Gap]:
        """Meters of which something became known that lies before what they remember."""
        return [Gap(key, since) for key, meter in self._changed_meters.items() if (since := meter.unknown_past) is not None]

    def settle(self) -> Changes:
        """Everything that has changed since the last time."""
        changes = self._changes
        changes.position = self._position
        for meter in self._changed_meters.values():
            meter.settle(changes.usage)
            meter.forget(self._state.now - MEMORY)
        changes.jobs = [job_row(job) for job in self._changed_jobs.values()]
        changes.attempts = [_attempt_row(attempt) for attempt in self._changed_attempts.values()]
        changes.leases = [_lease_row(lease) for lease in self._changed_leases.values()]
        changes.nodes = [node_row(node) for node in self._changed_nodes.values()]
        self._changed_jobs.clear()
        self._changed_nodes.clear()
        self._changed_attempts.clear()
        self._changed_leases.clear()
        self._changed_meters.clear()
        self._changes = Changes(self._position, self._position)
        return changes

    # Jobs and attempts

    def _job_changed(self, fact: Any, _record: Record, _number: int) -> None:
        job = self._state.jobs.get(fact.job)
        if job is not None:
            self._changed_jobs[job.key] = job

    def _job_rejected(self, fact: f.JobRejectedV1, _record: Record, number: int) -> None:
        if fact.job not in self._state.jobs:
            self._changes.rejected.append(rejected_row(fact, number // PLACES, self._state.now))

    def _job_requeued(self, fact: f.JobRequeuedV1, record: Record, number: int) -> None:
        self._job_changed(fact, record, number)
        self._settle_attempt(fact.job, fact.attempt, fact.cause, None)

    def _job_ended(self, fact: f.JobEndedV1, record: Record, number: int) -> None:
        self._job_changed(fact, record, number)
        self._settle_attempt(fact.job, fact.attempt, fact.cause, fact.exit_code)

    def _settle_attempt(self, job: str, number: int, cause: str, exit_code: int | None) -> None:
        """As in the fold, an attempt that still holds leases is not over."""
        attempt = self._attempts.get((job, number))
        if attempt is None or any(lease.ended_at is None for lease in attempt.leases.values()):
            return
        for lease in attempts.settle(attempt, cause, exit_code):
            self._changed_leases[lease.lease] = lease
        self._changed_attempts[job, number] = attempt
        del self._attempts[job, number]

    # Leases

    def _lease_granted(self, fact: f.LeaseGrantedV1, record: Record, number: int) -> None:
        """Only a grant that the fold has taken begins a lease; one that came too late for its job or pool does not."""
        job = self._state.jobs.get(fact.job)
        held = job.leases.get(fact.rank) if job is not None else None
        if job is None or held is None or (held.sequence, held.attempt) != (number // PLACES, fact.attempt):
            return
        key = (fact.job, fact.attempt)
        attempt = self._attempts.get(key)
        if attempt is None:
            attempt = self._attempts[key] = Attempt(
                job=fact.job,
                attempt=fact.attempt,
                pool=fact.pool,
                waiting_since=job.pending_since,
                granted_at=record.now,
                resume_from=plain(fact.resume_from),
            )
        lease = attempt.leases[fact.rank] = new_lease(job, fact, number, record.now)
        self._changed_attempts[key] = attempt
        self._changed_leases[number] = lease
        self._changed_jobs[job.key] = job
        order = order_of(number, preemptible=job.preemptible)
        for name, amount in fact.amounts.items():
            if amount:
                self._running(MeterKey(lease.tenant, lease.policy, name)).begin(record.now, order, amount)

    def _lease_started(self, fact: f.LeaseStartedV1, record: Record, number: int) -> None:
        attempt, lease = self._held(fact)
        if attempt is not None and lease is not None:
            attempts.start(attempt, lease, fact.at, record.now)
            self._lease_changed(attempt, lease)
            self._job_changed(fact, record, number)

    def _lease_rung(self, fact: f.LeaseRungV1, record: Record, _number: int) -> None:
        _, lease = self._held(fact)
        if lease is not None:
            attempts.heard(lease, fact.at, record.now)
            self._changed_leases[lease.lease] = lease

    def _checkpoint_registered(self, fact: f.CheckpointRegisteredV1, record: Record, _number: int) -> None:
        attempt = self._attempts.get((fact.job, fact.attempt))
        if attempt is not None:
            node = record.by.removeprefix("node.")
            for lease in attempts.checkpoint(attempt, fact, node, record.now):
                self._lease_changed(attempt, lease)

    def _lease_ended(self, fact: f.LeaseEndedV1, record: Record, _number: int) -> None:
        attempt, lease = self._held(fact)
        if attempt is not None and lease is not None:
            self._release(attempt, lease, attempts.release(attempt, lease, fact, record.now))

    def _lease_revoked(self, fact: f.LeaseRevokedV1, record: Record, _number: int) -> None:
        attempt, lease = self._held(fact)
        if attempt is not None and lease is not None:
            self._release(attempt, lease, attempts.revoke(attempt, lease, record.now))

    def _release(self, attempt: Attempt, lease: Lease, at: int) -> None:
        self._lease_changed(attempt, lease)
        for name, amount in lease.amounts.items():
            if amount and not (name == GPU and lease.lease in self._suspended):
                self._end(lease, name, at)
        self._suspended.discard(lease.lease)

    def _end(self, lease: Lease, key: str, at: int) -> None:
        self._running(MeterKey(lease.tenant, lease.policy, key)).end(at, order_of(lease.lease, preemptible=lease.preemptible))

    def _lease_suspended(self, fact: f.LeaseSuspendedV1, record: Record, number: int) -> None:
        """From now on its devices are charged to nobody (R29, R37)."""
        attempt, lease = self._held(fact)
        if attempt is None or lease is None or lease.lease in self._suspended or not lease.amounts.get(GPU):
            return
        self._suspended.add(lease.lease)
        attempts.heard(lease, fact.at, record.now)
        self._end(lease, GPU, lease.heard_at)
        self._lease_changed(attempt, lease)
        self._job_changed(fact, record, number)

    def _resume_ordered(self, fact: f.ResumeOrderedV1, record: Record, number: int) -> None:
        """They are charged again; never in the very moment in which that ended, so that stints stay apart."""
        attempt, job = self._attempts.get((fact.job, fact.attempt)), self._state.jobs.get(fact.job)
        for lease in attempt.leases.values() if attempt is not None and job is not None else ():
            held = job.leases.get(lease.rank) if job is not None else None
            if lease.lease not in self._suspended or held is None or held.suspended_at:
                continue
            lease.heard_at = max(lease.heard_at + 1, record.now)
            self._suspended.discard(lease.lease)
            order = order_of(lease.lease, preemptible=lease.preemptible)
            self._running(MeterKey(lease.tenant, lease.policy, GPU)).begin(lease.heard_at, order, lease.amounts[GPU])
            self._changed_leases[lease.lease] = lease
        self._job_changed(fact, record, number)

    def _held(self, fact: Any) -> tuple[Attempt | None, Lease | None]:
        """The attempt and the lease that a fact speaks of, where it is still held; facts of superseded attempts do not count (R32)."""
        attempt = self._attempts.get((fact.job, fact.attempt))
        lease = attempt.leases.get(fact.rank) if attempt is not None else None
        return attempt, lease if lease is not None and lease.ended_at is None else None

    def _lease_changed(self, attempt: Attempt, lease: Lease) -> None:
        self._changed_attempts[attempt.job, attempt.attempt] = attempt
        self._changed_leases[lease.lease] = lease

    # Policies and their meters

    def _policy_applied(self, fact: f.PolicyAppliedV1, record: Record, number: int) -> None:
        policy = fact.policy
        self._reserve(policy.tenant, policy.name, policy.reservation or {}, record.now, number)

    def _policy_deleted(self, fact: f.PolicyDeletedV1, record: Record, number: int) -> None:
        self._reserve(fact.tenant, fact.name, {}, record.now, number)

    def _reserve(self, tenant: str, policy: str, reservation: Amounts, now: int, number: int) -> None:
        """The policy-wide reservation is now this (R7); only keys of which it changes are noted."""
        known = self._reserved.setdefault((tenant, policy), {})
        for name in sorted(known.keys() | reservation.keys()):
            amount = reservation.get(name, 0)
            if known.get(name, 0) == amount:
                continue
            known[name] = amount
            row = ReservationRow(tenant, policy, name, number, now, amount)
            self._changes.reservations.append(row)
            self._running(MeterKey(tenant, policy, name)).reserve(row.change)

    def _running(self, key: MeterKey) -> Meter:
        """The meter, to be settled next time."""
        meter = self._changed_meters[key] = self._meter(key)
        return meter

    def _meter(self, key: MeterKey) -> Meter:
        meter = self._meters.get(key)
        if meter is None:
            meter = self._meters[key] = Meter(key.key)
        return meter

    # Preemptions

    def _preemption_ordered(self, fact: f.PreemptionOrderedV1, record: Record, number: int) -> None:
        for victim in fact.victims if fact.ladders else ():
            self._job_changed(victim, record, number)
        ordered = self._state.preemptions.get(fact.preemption)
        if ordered is None or ordered.sequence != number // PLACES:
            return
        self._changes.preemptions.append(
            PreemptionRow(fact.preemption, fact.job, fact.pool, fact.cause, fact.rule, ordered.sequence, ordered.ordered_at)
        )
        self._changes.victims += [
            VictimRow(fact.preemption, victim.job, victim.attempt, victim.policy, victim.lost) for victim in fact.victims
        ]

    def _preemption_settled(self, fact: f.PreemptionSettledV1, _record: Record, _number: int) -> None:
        self._changes.settlements.append(
            SettlementRow(fact.preemption, self._state.now, fact.to_signal, fact.grace, fact.to_release, fact.lost)
        )

    def _nomination_ended(self, fact: f.NominationEndedV1, _record: Record, _number: int) -> None:
        self._changes.unused.append(UnusedRow(fact.preemption, plain(fact.why)))

    # Supply

    def _node_fact(self, fact: Any, _record: Record, _number: int) -> None:
        self._node_changed(fact.node)

    def _node_changed(self, name: str) -> None:
        node = self._state.nodes.get(name)
        if node is not None:
            self._changed_nodes[name] = node

    def _pool_fact(self, _fact: Any, _record: Record, _number: int) -> None:
        """Nodes may have come into the pool or left it."""
        self._changed_nodes.update(self._state.nodes)

    def _enter_supply(self, sequence: int) -> None:
        """What each pool has, where it differs from what was noted last."""
        supply = {
            (pool.document.name, key): (pool.known.get(key, 0), pool.usable.get(key, 0))
            for pool in self._state.pools.values()
            for key in pool.known
        }
        for place in sorted(supply.keys() | self._supply.keys()):
            has = supply.get(place, (0, 0))
            if has != self._supply.get(place):
                self._supply[place] = has
                self._changes.capacity.append(CapacityRow(*place, sequence, self._state.now, *has))

    _HANDLERS: ClassVar[dict[type, Callable[[Books, Any, Record, int], None]]] = {
        f.JobAdmittedV1: _job_changed,
        f.JobRejectedV1: _job_rejected,
        f.JobDismissedV1: _job_changed,
        f.StopOrderedV1: _job_changed,
        f.JobRequeuedV1: _job_requeued,
        f.JobEndedV1: _job_ended,
        f.LeaseGrantedV1: _lease_granted,
        f.LeaseStartedV1: _lease_started,
        f.LeaseRungV1: _lease_rung,
        f.LeaseSuspendedV1: _lease_suspended,
        f.ResumeOrderedV1: _resume_ordered,
        f.CheckpointRegisteredV1: _checkpoint_registered,
        f.LeaseEndedV1: _lease_ended,
        f.LeaseRevokedV1: _lease_revoked,
        f.PolicyAppliedV1: _policy_applied,
        f.PolicyDeletedV1: _policy_deleted,
        f.PreemptionOrderedV1: _preemption_ordered,
        f.PreemptionSettledV1: _preemption_settled,
        f.NominationEndedV1: _nomination_ended,
        f.NodeRegisteredV1: _node_fact,
        f.NodeStoppedV1: _node_fact,
        f.NodeLostV1: _node_fact,
        f.NodeCordonedV1: _node_fact,
        f.NodeUncordonedV1: _node_fact,
        f.NodeDrainOrderedV1: _node_fact,
        f.NodeSetAsideV1: _node_fact,
        f.PoolAppliedV1: _pool_fact,
        f.PoolDeletedV1: _pool_fact,
    }
