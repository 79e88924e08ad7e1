"""All jobs that may be taken (R24), in the order in which they are (R25), drawn only as far as they are read.

Strategy: what stands first in the order belongs to policies: shelter and priority. So the policies of one priority are gone through
together, bucket of lost work by bucket. Jobs are kept in the order of their grants (`running_index`): of those the
blocks are looked at, from the newest on, that may have a job in the bucket, and only as far as candidates are needed. A search that finds
its victims among the first looks at few others, however many jobs run.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from itertools import chain, islice
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from headrace.contracts.values.amounts import GPU_UNITS
from headrace.contracts.values.durations import SECOND
from headrace.domain.indexes.running_index import grant_of, last_lease, site_of
from headrace.domain.model.jobs import JobRecord
from headrace.domain.preemption.eligibility import (
    RECLAIM,
    VictimGroup,
    can_leave,
    can_yield,
    counts_as_idle,
    kind_of,
    lost_bucket,
    lost_work,
    may_take_from,
    protected_until,
)
from headrace.domain.state.idleness import idle_jobs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from headrace.domain.indexes.running_index import GrantBlock, RequestBucket
    from headrace.domain.model.jobs import PolicyState
    from headrace.domain.model.requests import Request
    from headrace.domain.state.pools import PoolState
    from headrace.domain.state.state import State

FRONT = 256
"""Number of jobs that are drawn one by one; a reader that needs more gets all others, bucket by bucket and sorted at once."""
_BUCKET = 2 * GPU_UNITS * SECOND
"""What is lost in the first bucket that is not 0, in GPU-unit-microseconds."""


IDLE_BUCKET = -1
"""Bucket of idle jobs above their reservation (R39): before all that are in use."""


def tier_of(kind: VictimGroup) -> int:
    """After which others the jobs of a kind are taken: 1 if sheltered (R24), 2 if they are victims only because they are idle (R39)."""
    return 2 if kind.spare else int(kind.sheltered)


class VictimCandidate(NamedTuple):
    """A job that may be taken. Candidates compare as R24 and R25 order them, best first; no two have the same grant.

    `tier`: 1 if sheltered by its policy's own reservation, 2 if only its being idle makes it a victim (R39), else 0; then policy priority,
    bucket of lost work (-1: idle, above its reservation), newest grant (where it stands, negated).
    """

    tier: int
    priority: int
    bucket: int
    newest: int
    job: JobRecord
    site: str
    lost: int
    kind: VictimGroup


_kind_of = attrgetter("kind")
_newest_of = attrgetter("newest")


class VictimCandidates:
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
        self._kinds: dict[tuple[PolicyState, Request, bool], VictimGroup] = {}
        self._protected = 0
        self._retry_at: int | None = None
        self._tiers = self._in_order()
        self.drawn: list[VictimCandidate] = []
        self.kinds: dict[VictimGroup, None] = {}

    def __iter__(self) -> Iterator[VictimCandidate]:
        """In order; who has not been drawn yet is when it is reached."""
        number = 0
        while number < len(self.drawn) or self.more():
            known = self.drawn[number:]
            yield from known
            number += len(known)

    def more(self) -> bool:
        """Draw those who come next; False: there are no more."""
        tier = next(self._tiers, None)
        if tier is None:
            return False
        self.drawn += tier
        return True

    def all(self) -> list[VictimCandidate]:
        """All candidates, in order."""
        while self.more():
            pass
        return self.drawn

    def protected(self) -> tuple[int, int | None]:
        """How many have not had their minimum run time, and when the first of those is free to take."""
        self.all()
        return self._protected, self._retry_at

    def of(self, victim: JobRecord) -> VictimCandidate | None:
        """The job as a candidate, drawn or not; None: it is not a candidate."""
        policy, pool = victim.policy, self._pool
        if policy is self._asking.policy or not can_yield(victim, pool.document.name) or not can_leave(victim, self._away):
            return None
        until = protected_until(victim)
        if until is None or until > self._now or not self._may_take_from(policy):
            return None
        kind = self._kind(policy, victim.request, idle=counts_as_idle(victim, self._cause))
        return self._candidate(victim, lost_work(victim, self._now), kind) if kind.lends else None

    def _may_take_from(self, policy: PolicyState) -> bool:
        return may_take_from(self._state, self._asking, policy, self._pool, self._cause)

    def _kind(self, policy: PolicyState, request: Request, *, idle: bool = False) -> VictimGroup:
        kind = self._kinds.get((policy, request, idle))
        if kind is None:
            kind = kind_of(self._state, self._asking, self._pool, self._short, policy, request, idle=idle)
            self._kinds[policy, request, idle] = kind
        return kind

    @staticmethod
    def _candidate(victim: JobRecord, lost: int, kind: VictimGroup) -> VictimCandidate:
        priority, newest = kind.policy.document.priority, -grant_of(last_lease(victim))
        bucket = IDLE_BUCKET if kind.idle and not kind.spare else lost_bucket(lost)
        return VictimCandidate(tier_of(kind), priority, bucket, newest, victim, site_of(victim), lost, kind)

    def _in_order(self) -> Iterator[list[VictimCandidate]]:
        """The sheltered ones wait until those of all priorities have been drawn who are not (R24), and after them come spare ones (R39)."""
        priorities: dict[int, list[PolicyState]] = {}
        for policy in self._state.policies.values():
            if policy is not self._asking.policy and policy.jobs and self._may_take_from(policy):
                priorities.setdefault(policy.document.priority, []).append(policy)
        later: dict[int, list[list[_Row | _IdleRow]]] = {1: [], 2: []}
        for priority in sorted(priorities):
            rows = [row for policy in priorities[priority] for row in self._rows(policy)]
            yield from self._tiers_of([row for row in rows if not tier_of(row.kind)])
            for tier, groups in later.items():
                groups.append([row for row in rows if tier_of(row.kind) == tier])
        for alike in chain.from_iterable(later.values()):
            yield from self._tiers_of(alike)

    def _rows(self, policy: PolicyState) -> Iterator[_Row | _IdleRow]:
        index, pool = self._state.jobs_that_may_yield().get(policy), self._pool.document.name
        idle = idle_jobs(policy, pool) if policy.idle and self._cause == RECLAIM else ()
        for request, jobs in index.by_pool.get(pool, {}).items() if index is not None else ():
            kind = self._kind(policy, request)
            if kind.lends:
                is_guarded = bool(self._away or policy.document.preemption.min_runtime)
                yield _Row(kind, jobs, self._now, self._stays, is_guarded=is_guarded, idle=idle)
        by_request: dict[Request, list[JobRecord]] = {}
        for victim in idle:
            if can_yield(victim, pool):
                by_request.setdefault(victim.request, []).append(victim)
        for request, those in by_request.items():
            kind = self._kind(policy, request, idle=True)
            free = [victim for victim in those if not self._stays(victim)] if kind.lends else ()
            if free:
                yield _IdleRow(self._candidate(victim, lost_work(victim, self._now), kind) for victim in free)

    def _tiers_of(self, rows: list[_Row | _IdleRow]) -> Iterator[list[VictimCandidate]]:
        """Bucket by bucket, each in order, those in front of all first; none is empty."""
        spans, left = [(*row.span(), row) for row in rows], max(0, FRONT - len(self.drawn))
        for bucket in range(min((span[0] for span in spans), default=0), max((span[1] for span in spans), default=-1) + 1):
            here = [row for first, last, row in spans if first <= bucket <= last]
            front = list(islice(heapq.merge(*(row.draw(bucket) for row in here)), left)) if left else []
            yield from self._noted(front)
            if len(front) == left:
                alike = chain.from_iterable(row.draw(bucket) for row in here)  # but for their grants
                yield from self._noted(sorted(alike, key=_newest_of)[left:])
            left -= len(front)

    def _noted(self, tier: list[VictimCandidate]) -> Iterator[list[VictimCandidate]]:
        if tier:
            self.kinds.update(dict.fromkeys(map(_kind_of, tier)))
            yield tier

    def _stays(self, victim: JobRecord) -> bool:
        """True if a running job may not be taken now: one of its nodes cannot receive the order, or it is protected.

        Not to be asked about one that has no minimum run time while no node is away.
        """
        return (bool(self._away) and not can_leave(victim, self._away)) or self._protects(victim)

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


class _IdleRow:
    """The idle jobs of one kind that may be taken (R39): a few, which are all looked at."""

    __slots__ = ("_candidates", "kind")

    def __init__(self, candidates: Iterable[VictimCandidate]) -> None:
        self._candidates = sorted(candidates)
        self.kind = self._candidates[0].kind

    def span(self) -> tuple[int, int]:
        """The first and the last bucket that contain a candidate."""
        return self._candidates[0].bucket, self._candidates[-1].bucket

    def draw(self, bucket: int) -> Iterator[VictimCandidate]:
        """Those in a bucket, the newest grant first."""
        return (candidate for candidate in self._candidates if candidate.bucket == bucket)


class _Row:
    """The running jobs of one kind. Each block is thrown into buckets when it is first looked at; each job is looked at once.

    `stays` is asked about all if `is_guarded`, else about those that have a minimum run time of their own. `idle` are left out.
    """

    __slots__ = ("_idle", "_is_guarded", "_now", "_stays", "_thrown", "jobs", "kind")

    def __init__(
        self,
        kind: VictimGroup,
        jobs: RequestBucket,
        now: int,
        stays: Callable[[JobRecord], bool],
        *,
        is_guarded: bool,
        idle: Sequence[JobRecord] = (),
    ) -> None:
        self._idle = {id(victim) for victim in idle}
        self.kind = kind
        self.jobs = jobs
        self._now = now
        self._stays = stays
        self._is_guarded = is_guarded
        self._thrown: dict[int, dict[int, list[VictimCandidate]]] = {}

    def span(self) -> tuple[int, int]:
        """The first and the last bucket that may contain a candidate."""
        earliest = min(block.span[0] for block in self.jobs.blocks)
        latest = max(block.span[1] for block in self.jobs.blocks)
        return self._bucket(latest), self._bucket(earliest)

    def draw(self, bucket: int) -> Iterator[VictimCandidate]:
        """Those in a bucket, the newest grant first."""
        thrown, blocks = self._thrown, self.jobs.blocks
        for number in range(len(blocks) - 1, -1, -1):
            found = thrown.get(number)
            if found is None:
                earliest, latest = blocks[number].span
                if not self._bucket(latest) <= bucket <= self._bucket(earliest):
                    continue
                found = thrown[number] = self._throw(blocks[number])
            yield from found.get(bucket, ())

    def _throw(self, block: GrantBlock) -> dict[int, list[VictimCandidate]]:
        """A block's jobs that may be taken, in buckets, the newest first."""
        kind, now, stays, is_guarded, guarded = self.kind, self._now, self._stays, self._is_guarded, block.guarded
        terms, gpu, tier, idle = kind.policy.document.preemption, kind.gpu, tier_of(kind), self._idle
        every, priority = terms.assume_checkpoint_every, kind.policy.document.priority
        new = tuple.__new__  # of a named tuple, in a third of the time
        found: defaultdict[int, list[VictimCandidate]] = defaultdict(list)
        those = zip(block.grants, block.jobs, block.sinces, block.sites, strict=True)
        for grant, victim, since, site in reversed(list(those)):
            if (is_guarded or grant in guarded) and stays(victim):
                continue
            if idle and id(victim) in idle:
                continue
            span = now - since if since < now else 0
            if every is not None and span > every:
                span = every
            lost = gpu * span
            bucket = (lost // _BUCKET).bit_length()
            found[bucket].append(new(VictimCandidate, (tier, priority, bucket, -grant, victim, site, lost // SECOND, kind)))
        return found

    def _bucket(self, since: int) -> int:
        span, every = max(self._now - since, 0), self.kind.policy.document.preemption.assume_checkpoint_every
        return (self.kind.gpu * (span if every is None else min(span, every)) // _BUCKET).bit_length()
