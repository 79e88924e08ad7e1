"""The books as a function of the ledger: each record becomes changes of rows. Pure; `storage.store` writes them.

Strategy: jobs, policies and nodes are read from the shared fold after it has read the record; the books themselves store only the attempts
that are not settled (for the nodes' own times, R37) and one meter for each policy and key (R17).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from headrace.accounting.books import attempts
from headrace.accounting.books.arrays import ArrayParts
from headrace.accounting.books.charging import Charging
from headrace.accounting.books.meter import PastUse
from headrace.accounting.books.meters import Gap, MeterKey, Meters
from headrace.accounting.books.noted_facts import NOTED
from headrace.accounting.books.reserved_idle import ReservedIdle
from headrace.accounting.books.rollups import RollupAccount, Rollups
from headrace.accounting.books.row_mapping import about, account_of, job_row, new_lease, rejected_row, service_accounts
from headrace.accounting.books.rows import (
    NOWHERE,
    PLACES,
    AttemptRow,
    FactRow,
    LeaseRow,
    Position,
    RecordRow,
    ReservationRow,
    RowChanges,
    StoredBooks,
    UnservedRow,
    attempt_columns,
    lease_columns,
    plain,
)
from headrace.accounting.books.supply import CHANGES_SUPPLY, Supply
from headrace.accounting.books.tariffs import Tariffs
from headrace.contracts import facts as f
from headrace.contracts.facts.records import Record, digest
from headrace.contracts.values.durations import SECOND
from headrace.domain.fold.ledger import StoredMessage
from headrace.domain.model.job_states import FINAL, JobState
from headrace.domain.model.jobs import ArrayState, JobRecord
from headrace.domain.state.state import State

MEMORY = 10 * SECOND
"""How far back the meters remember, in log time; a release that becomes known later than that is looked up in the database."""


class Books:
    """The books over one fold. `state` is what the fold has read, the message that is entered next included.

    Call `enter` for each message, then `settle` once for many; before that, close the `gaps` by `remember`. The final rows do not depend
    on how the messages were batched.
    """

    def __init__(self, state: State, position: Position = NOWHERE) -> None:
        self._state = state
        self._position = position
        self._attempts: dict[tuple[str, int], AttemptRow] = {}
        self._accounts: dict[str, RollupAccount] = {}
        """Jobs that have not ended, and the account under which each was admitted."""
        self._waiting = {job.key for job in state.jobs.values() if job.state is JobState.PENDING}
        self._arrays = ArrayParts(state)
        self._meters = Meters()
        self._supply = Supply(state)
        self._tariffs = Tariffs(state)
        self._sums = Rollups(self._tariffs)
        self._charging = Charging(self._meters, self._sums)
        self._keeping = ReservedIdle(state, self._sums, self._account)
        self._service_accounts = service_accounts(state)
        self._known_accounts: dict[RollupAccount, RollupAccount] = {}
        self._changes = RowChanges(position, position)
        self._changed_jobs: dict[str, JobRecord] = {}
        self._changed_attempts: dict[tuple[str, int], AttemptRow] = {}
        self._changed_leases: dict[int, LeaseRow] = {}

    @property
    def position(self) -> Position:
        """The position of the last message entered."""
        return self._position

    def restore(self, stored: StoredBooks) -> None:
        """Continue from stored books. Meters follow by `remember`."""
        self._attempts = {(attempt.job, attempt.attempt): attempt for attempt in stored.unsettled}
        self._charging.restore(stored.suspensions)
        self._accounts = {job: self._known_accounts.setdefault(account, account) for job, account in stored.accounts}
        self._meters.restore(stored.reservations)
        self._supply.restore(stored.supply)
        self._tariffs.restore(stored.tariffs, stored.prices)
        self._keeping.restore(stored.kept)

    def remember(self, key: MeterKey, since: int, past: Iterable[PastUse], reservations: Iterable[ReservationRow]) -> None:
        """Give a meter what was stored since `since`."""
        self._meters.remember(key, since, past, reservations)

    def enter(self, message: StoredMessage, record: Record | None, void: str = "") -> None:
        """Take in one message that the fold has just read; `record`: None for a void one, for which `void` says why."""
        sequence = message.sequence
        named = digest(message.payload)
        self._position = Position(sequence, named, max(self._state.now, self._position.now))
        stated = record.now if record is not None else None
        self._changes.records.append(
            RecordRow(sequence, plain(message.subject), message.stamped, stated, named, plain(void), message.payload)
        )
        if record is None:
            self._supply.node_changed(message.subject.rpartition(".")[2])
            return
        supply, facts = False, self._changes.facts
        for place, fact in enumerate(record.facts):
            kind = type(fact)
            facts.append(FactRow(sequence, place, f.fact_type(kind), about(fact)))
            handler = self._HANDLERS.get(kind)
            if handler is not None:
                handler(self, fact, record, sequence * PLACES + place)
            if kind in NOTED:
                NOTED[kind](self._state, self._changes, fact, sequence * PLACES + place)
            supply = supply or kind in CHANGES_SUPPLY
        if supply:
            self._changes.capacity += self._supply.changes(sequence)
        self._changes.kept += self._keeping.changes(record.facts)

    def gaps(self) -> list[Gap]:
        """Meters with a change before the time that they remember."""
        return self._meters.gaps()

    def settle(self) -> RowChanges:
        """All changes since the last call."""
        changes = self._changes
        changes.position = self._position
        self._meters.settle(changes.usage, self._sums, self._state.now - MEMORY)
        changes.suspensions = self._charging.take_rows()
        changes.days, changes.hours, changes.node_hours = self._sums.take()
        changes.jobs = [job_row(job, self._account(job)) for job in self._changed_jobs.values()]
        for job in self._changed_jobs.values():
            if job.state in FINAL:
                self._accounts.pop(job.key, None)
        changes.attempts = [attempt_columns(attempt) for attempt in self._changed_attempts.values()]
        changes.leases = [lease_columns(lease) for lease in self._changed_leases.values()]
        changes.nodes = self._supply.take_nodes()
        self._changed_jobs.clear()
        self._changed_attempts.clear()
        self._changed_leases.clear()
        self._changes = RowChanges(self._position, self._position)
        return changes

    def _job_changed(self, fact: Any, _record: Record, _number: int) -> None:
        job = self._state.jobs.get(fact.job)
        if job is not None:
            self._changed_jobs[job.key] = job

    def _is_service_account(self, job: JobRecord) -> bool:
        return (job.tenant, job.user) in self._service_accounts

    def _account(self, job: JobRecord) -> RollupAccount:
        """The account under which a job was admitted; of an ended one by the present state, because its row exists already."""
        admitted_as = job.key if job.array is None else job.array.job.key
        return self._accounts.get(admitted_as) or account_of(job, service_account=self._is_service_account(job))

    def _job_admitted(self, fact: f.JobAdmittedV1, record: Record, number: int) -> None:
        array = self._state.arrays.get(fact.job)
        job = self._state.jobs.get(fact.job) if array is None else array.job
        if job is not None and job.order == (number // PLACES, number % PLACES):
            account = self._account(job)
            self._accounts[job.key] = self._known_accounts.setdefault(account, account)
            if array is None:
                self._waiting.add(job.key)
            else:
                self._changed_jobs[job.key] = job
        self._job_changed(fact, record, number)

    def _wait_ends(self, job: JobRecord, at: int, *, is_unnoted: bool = False) -> bool:
        """True if a job was pending until `at`; the request that it asked for first is then counted as waited for (R42)."""
        if job.key not in self._waiting and not is_unnoted:
            return False
        self._waiting.discard(job.key)
        self._sums.waited(self._account(job), job.request.first.total, job.pending_since, at)
        return True

    def _left_unserved(self, fact: Any, record: Record, number: int) -> None:
        """Note the end of a job that has been granted nothing since it last became pending, or of elements of an array."""
        self._job_changed(fact, record, number)
        job = self._state.jobs.get(fact.job)
        if job is not None and not job.is_new_element:
            self._note_unserved(job)
        whole = self._state.arrays.get(fact.job) if job is None else job.array
        if whole is not None:
            self._elements_left(whole)

    def _note_unserved(self, job: JobRecord) -> None:
        if job.state in FINAL and self._wait_ends(job, job.ended_at, is_unnoted=job.is_new_element):
            self._changes.unserved.append(UnservedRow(job.key, job.pending_since, job.ended_at))

    def _elements_left(self, whole: ArrayState) -> None:
        """Note elements that were granted nothing and ended by this record: those with a record of their own, and all others as ranges."""
        for part in self._arrays.news(whole.job.key):
            self._changes.array_parts += part.rows
            self._sums.waited(self._account(part.job), part.total, part.job.pending_since, part.at)
        for element in self._arrays.ended_by_name(whole):
            self._note_unserved(element)
            self._changed_jobs[element.key] = element
        if whole.job.ended_at:
            self._changed_jobs[whole.job.key] = whole.job

    def _job_rejected(self, fact: f.JobRejectedV1, _record: Record, number: int) -> None:
        if fact.job not in self._state.jobs:
            self._changes.rejected.append(rejected_row(fact, number // PLACES, self._state.now))

    def _job_requeued(self, fact: f.JobRequeuedV1, record: Record, number: int) -> None:
        self._job_changed(fact, record, number)
        job = self._state.jobs.get(fact.job)
        if job is not None and job.attempt == fact.attempt and not job.leases:
            self._waiting.add(job.key)
        self._settle_attempt(fact.job, fact.attempt, fact.cause, None)

    def _job_ended(self, fact: f.JobEndedV1, record: Record, number: int) -> None:
        self._left_unserved(fact, record, number)
        self._settle_attempt(fact.job, fact.attempt, fact.cause, fact.exit_code)

    def _settle_attempt(self, job: str, number: int, cause: str, exit_code: int | None) -> None:
        """Settle an attempt unless it still holds leases, as in the fold."""
        attempt = self._attempts.get((job, number))
        if attempt is None or any(lease.ended_at is None for lease in attempt.leases.values()):
            return
        for lease in attempts.settle(attempt, cause, exit_code, amended=self._state.terms.amended):
            self._changed_leases[lease.lease] = lease
        self._changed_attempts[job, number] = attempt
        del self._attempts[job, number]

    def _lease_granted(self, fact: f.LeaseGrantedV1, record: Record, number: int) -> None:
        """Begin a lease if the fold has accepted the grant; one that came too late for its job or pool is ignored."""
        job = self._state.jobs.get(fact.job)
        held = job.leases.get(fact.rank) if job is not None else None
        if job is None or held is None or (held.sequence, held.attempt) != (number // PLACES, fact.attempt):
            return
        key = (fact.job, fact.attempt)
        attempt = self._attempts.get(key)
        service_account = self._is_service_account(job)
        if attempt is None:
            self._wait_ends(job, record.now, is_unnoted=job.array is not None and fact.attempt == 1)
            attempt = self._attempts[key] = attempts.begin(fact, job.pending_since, record.now)
        lease = attempt.leases[fact.rank] = new_lease(job, fact, number, record.now, service_account=service_account)
        self._changed_attempts[key] = attempt
        self._changed_leases[number] = lease
        self._changed_jobs[job.key] = job
        self._keeping.touch(lease.node, lease.pool)
        if not self._state.terms.amended:
            self._charging.begin(lease, record.now)

    def _lease_started(self, fact: f.LeaseStartedV1, record: Record, number: int) -> None:
        attempt, lease = self._held(fact)
        if attempt is not None and lease is not None:
            attempts.start(attempt, lease, fact.at, record.now)
            self._lease_changed(attempt, lease)
            self._job_changed(fact, record, number)
            for each in attempts.to_charge(attempt):
                self._charging.begin(each, attempt.started_at or 0)
                self._lease_changed(attempt, each)

    def _lease_rung(self, fact: f.LeaseRungV1, record: Record, _number: int) -> None:
        _, lease = self._held(fact)
        if lease is not None:
            attempts.fact_time(lease, fact.at, record.now)
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

    def _release(self, attempt: AttemptRow, lease: LeaseRow, at: int) -> None:
        self._lease_changed(attempt, lease)
        self._keeping.touch(lease.node, lease.pool)
        self._charging.end(lease, at)

    def _lease_suspended(self, fact: f.LeaseSuspendedV1, record: Record, number: int) -> None:
        """Stop charging the devices of a suspended lease (R29, R37)."""
        attempt, lease = self._held(fact)
        if attempt is not None and lease is not None and self._charging.is_charged_gpus(lease):
            self._charging.suspend(lease, attempts.fact_time(lease, fact.at, record.now))
            self._keeping.touch(lease.node)
            self._lease_changed(attempt, lease)
            self._job_changed(fact, record, number)

    def _resume_ordered(self, fact: f.ResumeOrderedV1, record: Record, number: int) -> None:
        """Before rules were amended, charge the devices again from the order on; since then the node's report that it runs counts."""
        attempt = self._attempts.get((fact.job, fact.attempt))
        for lease in attempt.leases.values() if attempt is not None else ():
            if not self._state.terms.amended:
                self._resume(lease, record.now)
            self._keeping.touch(lease.node)
        self._job_changed(fact, record, number)

    def _lease_resumed(self, fact: f.LeaseResumedV1, record: Record, number: int) -> None:
        attempt, lease = self._held(fact)
        if attempt is None or lease is None or not self._state.terms.amended:
            return
        job = self._state.jobs.get(fact.job)
        if lease.charged_at is None and job is not None and job.resumed_at and job.attempt == fact.attempt:
            self._charging.begin(lease, attempts.fact_time(lease, fact.at, record.now))
        self._resume(lease, min(fact.at, record.now))
        self._lease_changed(attempt, lease)
        self._job_changed(fact, record, number)

    def _resume(self, lease: LeaseRow, at: int) -> None:
        job = self._state.jobs.get(lease.job)
        held = job.leases.get(lease.rank) if job is not None else None
        if held is not None and not held.suspended_at and self._charging.resume(lease, at):
            self._position = self._position._replace(now=max(lease.heard_at, self._position.now))
            self._changed_leases[lease.lease] = lease

    def _held(self, fact: Any) -> tuple[AttemptRow | None, LeaseRow | None]:
        """The attempt and the lease of a fact, if it is still held; facts of superseded attempts do not count (R32)."""
        attempt = self._attempts.get((fact.job, fact.attempt))
        lease = attempt.leases.get(fact.rank) if attempt is not None else None
        return attempt, lease if lease is not None and lease.ended_at is None else None

    def _lease_changed(self, attempt: AttemptRow, lease: LeaseRow) -> None:
        self._changed_attempts[attempt.job, attempt.attempt] = attempt
        self._changed_leases[lease.lease] = lease

    def _policy_applied(self, fact: f.PolicyAppliedV1, record: Record, number: int) -> None:
        policy = fact.policy
        self._reserve(policy.tenant, policy.name, policy.reservation or {}, policy.group, record.now, number)

    def _policy_deleted(self, fact: f.PolicyDeletedV1, record: Record, number: int) -> None:
        self._reserve(fact.tenant, fact.name, {}, "", record.now, number)

    def _reserve(self, *policy: Any) -> None:
        self._changes.reservations += self._meters.reserve(*policy)

    def _preemption_ordered(self, fact: f.PreemptionOrderedV1, record: Record, number: int) -> None:
        """Note the victims if the preemption has their stop orders."""
        for victim in fact.victims if fact.ladders else ():
            self._job_changed(victim, record, number)

    def _node_fact(self, fact: Any, _record: Record, _number: int) -> None:
        node = fact.instance if isinstance(fact, (f.InstanceReleasedV1, f.InstanceEndedV1)) else fact.node
        self._supply.node_changed(node)
        self._keeping.touch(node)

    def _pool_fact(self, fact: f.PoolAppliedV1 | f.PoolDeletedV1, _record: Record, number: int) -> None:
        self._supply.nodes_moved()
        self._keeping.touch_pool(fact.pool.name if isinstance(fact, f.PoolAppliedV1) else fact.name)
        if isinstance(fact, f.PoolAppliedV1):
            self._price(number, [fact.pool.name])

    def _tenant_applied(self, _fact: f.TenantAppliedV1, _record: Record, number: int) -> None:
        """Note the prices of all pools, because the tenant's own rates may have changed."""
        self._price(number, self._state.pools)

    def _price(self, number: int, pools: Iterable[str]) -> None:
        for tariff, prices in self._tariffs.changed(number, pools, self._state.now):
            self._changes.tariffs.append(tariff)
            self._changes.prices += prices

    def _group_fact(self, _fact: f.GroupAppliedV1 | f.GroupDeletedV1, _record: Record, _number: int) -> None:
        self._service_accounts = service_accounts(self._state)

    _HANDLERS: ClassVar[dict[type, Callable[[Books, Any, Record, int], None]]] = {
        f.JobAdmittedV1: _job_admitted,
        f.JobRejectedV1: _job_rejected,
        f.JobDismissedV1: _left_unserved,
        f.StopOrderedV1: _job_changed,
        f.JobRequeuedV1: _job_requeued,
        f.JobEndedV1: _job_ended,
        f.LeaseGrantedV1: _lease_granted,
        f.LeaseStartedV1: _lease_started,
        f.LeaseRungV1: _lease_rung,
        f.LeaseSuspendedV1: _lease_suspended,
        f.ResumeOrderedV1: _resume_ordered,
        f.LeaseResumedV1: _lease_resumed,
        f.CheckpointRegisteredV1: _checkpoint_registered,
        f.LeaseEndedV1: _lease_ended,
        f.LeaseRevokedV1: _lease_revoked,
        f.PolicyAppliedV1: _policy_applied,
        f.PolicyDeletedV1: _policy_deleted,
        f.PreemptionOrderedV1: _preemption_ordered,
        **dict.fromkeys((f.NodeRegisteredV1, f.NodeApprovedV1, f.NodeExcludedV1, f.NodeStoppedV1, f.NodeLostV1), _node_fact),
        **dict.fromkeys((f.InstanceReleasedV1, f.InstanceEndedV1, f.NodeRemovedV1), _node_fact),
        **dict.fromkeys((f.NodeCordonedV1, f.NodeUncordonedV1, f.NodeDrainOrderedV1, f.NodeSetAsideV1), _node_fact),
        **dict.fromkeys((f.NodeCheckedV1, f.NodeDrainBeganV1, f.DeviceDrainedV1, f.DeviceReturnedV1), _node_fact),
        **dict.fromkeys((f.PoolAppliedV1, f.PoolDeletedV1), _pool_fact),
        f.TenantAppliedV1: _tenant_applied,
        f.GroupAppliedV1: _group_fact,
        f.GroupDeletedV1: _group_fact,
    }
