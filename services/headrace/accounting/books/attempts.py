"""Times of attempts and leases: the node's clock within bounds (R37), and the work that no checkpoint saved (R25). Pure."""

from __future__ import annotations

from headrace.accounting.books.rows import AttemptRow, LeaseRow, plain
from headrace.contracts import facts as f

TAKEN = frozenset(
    {"preempted", "max_preemptions", "node_lost", "node_stopped", "drain", "interrupted", "start_timeout", "moved"}
)
"""Causes of an end by which a job loses work without its own doing."""
SUSPENDED_FOR_NOTHING = frozenset({"suspend_max", "device_lost", "suspension_lost"})
"""The same for a suspended job that cannot continue where it is (R29), since rules were amended; before, its work did not count as lost."""


def fact_time(lease: LeaseRow, at: int, now: int) -> int:
    """The time of a node's fact about a lease: `at`, but not before the lease's previous fact and not after the record (R37)."""
    lease.heard_at = max(lease.heard_at, min(at, now))
    return lease.heard_at


def begin(fact: f.LeaseGrantedV1, waiting_since: int, now: int) -> AttemptRow:
    """The attempt that the first of its leases begins."""
    return AttemptRow(
        job=fact.job,
        attempt=fact.attempt,
        pool=fact.pool,
        waiting_since=waiting_since,
        granted_at=now,
        resume_from=plain(fact.resume_from),
    )


def start(attempt: AttemptRow, lease: LeaseRow, at: int, now: int) -> None:
    """Note that a replica's process runs; a gang runs when all do (R35)."""
    if lease.started_at is not None:
        return
    lease.started_at = fact_time(lease, at, now)
    started = [each.started_at for each in attempt.leases.values() if each.started_at is not None]
    if len(started) == len(attempt.leases):
        attempt.started_at = max(started)


def to_charge(attempt: AttemptRow) -> list[LeaseRow]:
    """The leases to charge from now on: all that are not yet, once every replica has started and none has ended (R35, R37)."""
    if attempt.started_at is None or any(lease.ended_at is not None for lease in attempt.leases.values()):
        return []
    return [lease for lease in attempt.leases.values() if lease.charged_at is None]


def checkpoint(attempt: AttemptRow, fact: f.CheckpointRegisteredV1, node: str, now: int) -> list[LeaseRow]:
    """Note that work is saved, in every replica that still runs; returns those. For leases of `node` that is its last contact."""
    running = [lease for lease in attempt.leases.values() if lease.ended_at is None]
    for lease in running:
        within = max(lease.heard_at, min(fact.at, now))
        lease.checkpoint_at = fact_time(lease, fact.at, now) if lease.node == node else within
    if running:
        attempt.checkpoint = plain(fact.uri)
        attempt.checkpoint_step = fact.step
        attempt.checkpoint_at = max(lease.checkpoint_at or 0 for lease in running)
    return running


def release(attempt: AttemptRow, lease: LeaseRow, fact: f.LeaseEndedV1, now: int) -> int:
    """Note the node's report that the process ended and the devices are free; returns the time up to which the lease is charged."""
    lease.exited_at = fact_time(lease, min(fact.exited_at, fact.at), now)
    lease.outcome, lease.exit_code = plain(fact.outcome), fact.exit_code
    return _end(attempt, lease, fact_time(lease, fact.at, now))


def revoke(attempt: AttemptRow, lease: LeaseRow, now: int) -> int:
    """Note that the lease was revoked without a report of the node (R32); returns the time up to which it is charged."""
    lease.exited_at = fact_time(lease, now, now)
    lease.outcome = "revoked"
    return _end(attempt, lease, lease.exited_at)


def _end(attempt: AttemptRow, lease: LeaseRow, at: int) -> int:
    lease.ended_at = at
    ended = [each.ended_at for each in attempt.leases.values() if each.ended_at is not None]
    if len(ended) == len(attempt.leases):
        attempt.ended_at = max(ended)
    return at


def settle(attempt: AttemptRow, cause: str, exit_code: int | None, *, amended: bool = True) -> list[LeaseRow]:
    """Settle an attempt that is over; returns the leases whose work since start or checkpoint was lost."""
    attempt.cause = plain(cause)
    attempt.exit_code = _exit_code(attempt) if exit_code is None else exit_code
    if cause not in TAKEN and not (amended and cause in SUSPENDED_FOR_NOTHING):
        return []
    return [lease for lease in attempt.leases.values() if _lose(lease)]


def _exit_code(attempt: AttemptRow) -> int | None:
    codes = [lease.exit_code for lease in attempt.leases.values() if lease.exit_code is not None]
    return next((code for code in codes if code), codes[0] if codes else None)


def _lose(lease: LeaseRow) -> bool:
    if lease.started_at is None or lease.exited_at is None:
        return False
    saved = lease.started_at if lease.checkpoint_at is None else max(lease.started_at, lease.checkpoint_at)
    if saved >= lease.exited_at:
        return False
    lease.lost_from, lease.lost_until = saved, lease.exited_at
    return True
