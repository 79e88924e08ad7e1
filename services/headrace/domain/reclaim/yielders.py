"""Everybody who may be taken (R24), in the order in which they are (R25), drawn only as far as somebody looks.

Strategy: what stands first in the order belongs to policies: shelter and priority. So the policies of one priority are gone through
together, their jobs are thrown into buckets of lost work, and of a bucket candidates are made and sorted only when it is reached: a
search that finds its victims among the first has looked at the jobs of the lowest priority, and sorted a few.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from headrace.contracts.amounts import GPU_UNITS
from headrace.contracts.durations import SECOND
from headrace.domain.reclaim.eligibility import (
    can_leave,
    can_yield,
    kind_of,
    lost_bucket,
    lost_work,
    may_take_from,
    protected_until,
)
from headrace.domain.state import JobState

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.domain.reclaim.eligibility import Kind
    from headrace.domain.requests import Request
    from headrace.domain.state import JobRecord, LeaseState, PolicyState, PoolState, State

    Buckets = dict[int, list[tuple[JobRecord, int]]]
    """Jobs of one kind and what is lost with each, by the bucket of that."""

_RUNNING, _STARTING = JobState.RUNNING, JobState.STARTING
_BUCKET = 2 * GPU_UNITS * SECOND
"""What is lost in the first bucket that is not 0, in GPU-unit-microseconds."""


class Candidate(NamedTuple):
    """A job that may be taken. Candidates compare as R24 and R25 order them, best first; no two have the same key.

    Sheltered by its policy's own reservation last; then policy priority, bucket of lost work, newest grant (sequence and place, negated).
    """

    sheltered: bool
    priority: int
    bucket: int
    sequence: int
    place: int
    key: str
    job: JobRecord
    lost: int
    kind: Kind


class Yielders:
    """Victims allowed by R24 for a job that asks in a pool by `cause`, given what is `short`.

    `drawn`: those in front, as far as they have been asked for; `kinds`: of what kinds they are.
    """

    __slots__ = (
        "_asking",
        "_away",
        "_cause",
        "_kinds",
        "_now",
        "_pool",
        "_protected",
        "_retry_at",
        "_short",
        "_state",
        "_tiers",
        "drawn",
        "kinds",
    )

    def __init__(self, state: State, asking: JobRecord, pool: PoolState, cause: str, short: frozenset[str], now: int) -> None:
        self._state = state
        self._asking = asking
        self._pool = pool
        self._cause = cause
        self._short = short
        self._now = now
        self._away = {node.name for node in pool.nodes.values() if node.status != "ready"}
        self._kinds: dict[tuple[PolicyState, Request], Kind] = {}
        self._protected = 0
        self._retry_at: int | None = None
        self._tiers = self._in_order()
        self.drawn: list[Candidate] = []
        self.kinds: dict[Kind, None] = {}

    def __iter__(self) -> Iterator[Candidate]:
        """In order; who has not been drawn yet is when it is reached."""
        number = 0
        while number < len(self.drawn) or self.more():
            yield self.drawn[number]
            number += 1

    def more(self) -> bool:
        """Draw those who come next; False: there are no more."""
        tier = next(self._tiers, None)
        if tier is None:
            return False
        self.drawn += tier
        return True

    def all(self) -> list[Candidate]:
        """Everybody."""
        while self.more():
            pass
        return self.drawn

    def protected(self) -> tuple[int, int | None]:
        """How many have not had their minimum run time, and when the first of those is free to take."""
        self.all()
        return self._protected, self._retry_at

    def of(self, victim: JobRecord) -> Candidate | None:
        """The job as it stands among them, drawn or not; None: it is none of them."""
        policy, pool = victim.policy, self._pool
        if policy is self._asking.policy or not can_yield(victim, pool.document.name) or not can_leave(victim, self._away):
            return None
        until = protected_until(victim)
        if until is None or until > self._now or not self._may_take_from(policy):
            return None
        kind = self._kind(policy, victim.request)
        return self._candidate(victim, lost_work(victim, self._now), kind) if kind.lends else None

    def _may_take_from(self, policy: PolicyState) -> bool:
        return may_take_from(self._state, self._asking, policy, self._pool, self._cause)

    def _kind(self, policy: PolicyState, request: Request) -> Kind:
        kind = self._kinds.get((policy, request))
        if kind is None:
            kind = kind_of(self._state, self._asking, self._pool, self._short, policy, request)
            self._kinds[policy, request] = kind
        return kind

    @staticmethod
    def _candidate(victim: JobRecord, lost: int, kind: Kind) -> Candidate:
        lease, priority = last_lease(victim), kind.policy.document.priority
        return Candidate(
            kind.sheltered, priority, lost_bucket(lost), -lease.sequence, -lease.place, victim.key, victim, lost, kind
        )

    def _in_order(self) -> Iterator[list[Candidate]]:
        """The sheltered ones wait until those of all priorities have been drawn who are not (R24)."""
        priorities: dict[int, list[PolicyState]] = {}
        for policy in self._state.policies.values():
            if policy is not self._asking.policy and policy.jobs and self._may_take_from(policy):
                priorities.setdefault(policy.document.priority, []).append(policy)
        sheltered = []
        for priority in sorted(priorities):
            found = [item for policy in priorities[priority] for item in self._thrown(policy).items()]
            yield from self._tiers_of([(kind, buckets) for kind, buckets in found if not kind.sheltered])
            sheltered.append([(kind, buckets) for kind, buckets in found if kind.sheltered])
        for those in sheltered:
            yield from self._tiers_of(those)

    def _tiers_of(self, found: list[tuple[Kind, Buckets]]) -> Iterator[list[Candidate]]:
        """Bucket by bucket, each in order; none is empty."""
        name, new = self._pool.document.name, tuple.__new__  # of a named tuple, in a third of the time
        for bucket in sorted({bucket for _, buckets in found for bucket in buckets}):
            tier: list[Candidate] = []
            for kind, buckets in found:
                before, priority = len(tier), kind.policy.document.priority
                for victim, lost in reversed(buckets.get(bucket, ())):
                    leases = victim.leases
                    lease = leases[0] if len(leases) == 1 and 0 in leases else last_lease(victim)
                    if lease.pool == name:
                        parts = (
                            kind.sheltered,
                            priority,
                            bucket,
                            -lease.sequence,
                            -lease.place,
                            victim.key,
                            victim,
                            lost,
                            kind,
                        )
                        tier.append(new(Candidate, parts))
                if len(tier) > before:
                    self.kinds[kind] = None
            if tier:
                tier.sort()
                yield tier

    def _thrown(self, policy: PolicyState) -> dict[Kind, Buckets]:
        """One policy's jobs in buckets. Each of its running jobs is looked at, so the loop says in its own words what `of` says."""
        now, away, terms = self._now, self._away, policy.document.preemption
        least, every = terms.min_runtime, terms.assume_checkpoint_every
        found: dict[Kind, Buckets] = {}
        rows: dict[Request, tuple[Kind, Buckets]] = {}
        for victim in policy.jobs.values():
            if not victim.preemptible or (victim.state is not _RUNNING and victim.state is not _STARTING):
                continue
            row = rows.get(victim.request)
            if row is None:
                kind = self._kind(policy, victim.request)
                row = rows[victim.request] = kind, found.setdefault(kind, {})
            kind, buckets = row
            if (
                not kind.lends
                or (away and not can_leave(victim, away))
                or ((least or victim.min_runtime) and self._protects(victim))
            ):
                continue
            since = victim.started_at
            if victim.checkpoint_at > since and victim.checkpoint_attempt == victim.attempt:
                since = victim.checkpoint_at
            span = now - since if since else 0
            if victim.paused:
                span -= victim.paused - victim.paused_saved
            span = max(span, 0)
            if every is not None and span > every:
                span = every
            lost = kind.gpu * span
            bucket = (lost // _BUCKET).bit_length()
            there = buckets.get(bucket)
            if there is None:
                buckets[bucket] = [(victim, lost // SECOND)]
            else:
                there.append((victim, lost // SECOND))
        return found

    def _protects(self, victim: JobRecord) -> bool:
        """Whether the job is kept by its minimum run time; if it is in this pool, that is noted."""
        until = protected_until(victim)
        if until is not None and until <= self._now:
            return False
        if can_yield(victim, self._pool.document.name):
            self._protected += 1
            if until is not None:
                self._retry_at = until if self._retry_at is None else min(self._retry_at, until)
        return True


def last_lease(job: JobRecord) -> LeaseState:
    """The one whose grant stands last in the log."""
    return max(job.leases.values(), key=lambda lease: (lease.sequence, lease.place))
