"""Which leases are to be marked as idle, and which are in use again (R39). Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from headrace.contracts import facts as f
from headrace.contracts.facts.levels import IDLE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.contracts.facts import AnyFact
    from headrace.domain.model.jobs import LeaseState, PolicyState
    from headrace.domain.state.state import State

BUSY, UNMEASURED, POLICY = "busy", "unmeasured", "policy"


class Idle(NamedTuple):
    """Since when all devices of a lease are idle (log time; 0: one is in use), and how busy they were at most, in percent."""

    since: int
    average: int = 0


class LeaseUse(Protocol):
    """How leases use their devices. It is not part of the state, because samples are not in the ledger."""

    def of(self, lease: LeaseState) -> Idle | None:
        """Since when the lease is idle, in log time; 0: in use; None: unknown."""

    def knows(self) -> bool:
        """False while samples have not been received for long enough to tell that something is not measured."""

    def next_change(self, now: int) -> int | None:
        """Log time at which to look again without a new record; None: the receiver of samples asks for a look."""


def changes(state: State, use: LeaseUse, now: int) -> Iterator[AnyFact]:
    """The marks to set and to remove. Only policies with `idle_after`, or with marked jobs, are looked at."""
    if state.terms.level < IDLE:
        return
    for policy in state.policies.values():
        if policy.document.idle_after is not None or policy.idle:
            yield from _changes_in(policy, use, now)


def _changes_in(policy: PolicyState, use: LeaseUse, now: int) -> Iterator[AnyFact]:
    for job in policy.jobs.values():
        for lease in job.leases.values() if job.preemptible else ():
            cause = _ends(policy, lease, use)
            if cause:
                yield f.LeaseUsedV1(job=job.key, attempt=job.attempt, rank=lease.rank, node=lease.node, cause=cause)
            elif not lease.idle_at and (idle := due(policy, lease, use, now)) is not None:
                yield f.LeaseIdledV1(
                    job=job.key,
                    attempt=job.attempt,
                    rank=lease.rank,
                    node=lease.node,
                    idle_for=now - max(idle.since, lease.started_at),
                    average=idle.average,
                )


def due(policy: PolicyState, lease: LeaseState, use: LeaseUse, now: int) -> Idle | None:
    """The measured idleness of a lease that is to be marked now; None: it is not. It counts from the start of the lease at the earliest."""
    moment = marked_from(policy, lease, use)
    return use.of(lease) if moment is not None and moment <= now else None


def marked_from(policy: PolicyState, lease: LeaseState, use: LeaseUse) -> int | None:
    """Log time from which on the lease is to be marked, if it stays idle; None: it is not idle, or may not be marked."""
    after = policy.document.idle_after
    if after is None or not lease.devices or not lease.started_at or lease.suspended_at:
        return None
    idle = use.of(lease)
    return None if idle is None or not idle.since else max(idle.since, lease.started_at) + after


def _ends(policy: PolicyState, lease: LeaseState, use: LeaseUse) -> str:
    """Why a mark ends; empty if it stays, or if the lease is not marked."""
    if not lease.idle_at:
        return ""
    if policy.document.idle_after is None:
        return POLICY
    idle = use.of(lease)
    if idle is None:
        return UNMEASURED if use.knows() else ""
    return "" if idle.since else BUSY
