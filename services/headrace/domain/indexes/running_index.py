"""The jobs of a policy that might yield (R24), kept in the order of their grants, so that a search looks at those in front alone.

Strategy: what a job loses (R25) grows with time, but since when it loses does not move until it starts, resumes or registers a checkpoint.
So jobs of one request in one pool are kept in a request bucket by their last grant, cut into short blocks. Of each is known since when its
jobs lose at the earliest and at the latest: a search for one range of losses passes over blocks that have no job in it. What orders
jobs lies in arrays beside them, so that a search over thousands reads those from one end to the other, and not the jobs themselves,
which lie all over the memory.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from operator import attrgetter
from typing import TYPE_CHECKING

from headrace.domain.model.job_states import JobState

if TYPE_CHECKING:
    from headrace.domain.model.jobs import JobRecord, LeaseState, PolicyState
    from headrace.domain.model.requests import Request

    Grant = int
    """Where it stands in the log: sequence of a record, and a place in it, as one number."""

PLACES_MAX = 2**20
"""More facts than a record has room for."""
BLOCK_MAX = 256
NOTHING_YET = 2**62
"""Since when a job loses that has nothing to lose yet: after all moments."""

_LAST = attrgetter("last")


class GrantBlock:
    """Jobs whose grants follow each other, oldest first.

    `sinces`: since when each loses (log time); `sites`: the node on which it stands alone; `guarded`: the grants of those that have a
    minimum run time of their own (R29).
    """

    __slots__ = ("_span", "grants", "guarded", "jobs", "sinces", "sites")

    def __init__(self) -> None:
        self.grants = array("q")
        self.jobs: list[JobRecord] = []
        self.sinces = array("q")
        self.sites: list[str] = []
        self.guarded: set[Grant] = set()
        self._span: tuple[int, int] | None = None

    @property
    def last(self) -> Grant:
        """The newest grant in it."""
        return self.grants[-1]

    @property
    def span(self) -> tuple[int, int]:
        """Since when its jobs lose, at the earliest and at the latest."""
        if self._span is None:
            self._span = min(self.sinces), max(self.sinces)
        return self._span

    def put(self, grant: Grant, job: JobRecord) -> None:
        """The job, new or as it is now."""
        at, since = bisect_left(self.grants, grant), loses_since(job)
        if at < len(self.grants) and self.grants[at] == grant:
            self.sinces[at], self.sites[at] = since, site_of(job)
        else:
            self.grants.insert(at, grant)
            self.jobs.insert(at, job)
            self.sinces.insert(at, since)
            self.sites.insert(at, site_of(job))
        if job.min_runtime:
            self.guarded.add(grant)
        else:
            self.guarded.discard(grant)
        self._span = None

    def drop(self, grant: Grant) -> None:
        """Without the job that has that grant."""
        at = bisect_left(self.grants, grant)
        del self.grants[at], self.jobs[at], self.sinces[at], self.sites[at]
        self.guarded.discard(grant)
        self._span = None

    def halve(self) -> GrantBlock:
        """Keep the older half; the other one."""
        half, other = len(self.grants) // 2, GrantBlock()
        other.grants, other.jobs = self.grants[half:], self.jobs[half:]
        other.sinces, other.sites = self.sinces[half:], self.sites[half:]
        del self.grants[half:], self.jobs[half:], self.sinces[half:], self.sites[half:]
        other.guarded = {grant for grant in self.guarded if grant >= other.grants[0]}
        self.guarded -= other.guarded
        self._span = None
        return other


class RequestBucket:
    """Jobs of one policy with one request in one pool, in blocks that follow each other, none of them empty."""

    __slots__ = ("blocks",)

    def __init__(self) -> None:
        self.blocks: list[GrantBlock] = []

    def put(self, grant: Grant, job: JobRecord) -> None:
        """The job, new or as it is now."""
        blocks = self.blocks
        if not blocks:
            blocks.append(GrantBlock())
            at = 0
        else:
            at = min(bisect_left(blocks, grant, key=_LAST), len(blocks) - 1)
        blocks[at].put(grant, job)
        if len(blocks[at].grants) > BLOCK_MAX:
            blocks.insert(at + 1, blocks[at].halve())

    def drop(self, grant: Grant) -> None:
        """Without the job that has that grant."""
        at = bisect_left(self.blocks, grant, key=_LAST)
        self.blocks[at].drop(grant)
        if not self.blocks[at].grants:
            del self.blocks[at]


class RunningIndex:
    """The running jobs of one policy, by pool and request; a job is in it while it starts or runs and is preemptible.

    A job that is added gets its place when the jobs are first read: most readers of the ledger never do, and most jobs end earlier.
    """

    __slots__ = ("_buckets", "_places", "_put")

    def __init__(self) -> None:
        self._buckets: dict[str, dict[Request, RequestBucket]] = {}
        self._places: dict[str, tuple[str, Grant]] = {}
        self._put: dict[str, JobRecord] = {}

    @property
    def is_empty(self) -> bool:
        """True while none of the policy's jobs might yield."""
        return not self._places and not self._put

    @property
    def by_pool(self) -> dict[str, dict[Request, RequestBucket]]:
        """The jobs by pool and request."""
        if self._put:
            for job in self._put.values():
                self._place(job)
            self._put.clear()
        return self._buckets

    def put(self, job: JobRecord) -> None:
        """A job that might yield, new or as it is now."""
        self._put[job.key] = job

    def drop(self, job: JobRecord) -> None:
        """Without a job that cannot yield any more, if it was here."""
        self._put.pop(job.key, None)
        before = self._places.pop(job.key, None)
        if before is not None:
            self._leave(job, *before)

    def _place(self, job: JobRecord) -> None:
        lease = last_lease(job)
        before, after = self._places.get(job.key), (lease.pool, grant_of(lease))
        if before is not None and before != after:
            self._leave(job, *before)
        self._places[job.key] = after
        buckets = self._buckets.setdefault(lease.pool, {})
        if job.request not in buckets:
            buckets[job.request] = RequestBucket()
        buckets[job.request].put(after[1], job)

    def _leave(self, job: JobRecord, pool: str, grant: Grant) -> None:
        bucket = self._buckets[pool][job.request]
        bucket.drop(grant)
        if not bucket.blocks:
            del self._buckets[pool][job.request]


def note_running(running: dict[PolicyState, RunningIndex] | None, job: JobRecord) -> None:
    """Keeps the job where it belongs as it is now. `running`: the indexes of all policies with jobs that might yield; None: not built."""
    if running is None:
        return
    index = running.get(job.policy)
    if may_yield(job):
        if index is None:
            index = running[job.policy] = RunningIndex()
        index.put(job)
    elif index is not None:
        index.drop(job)
        if index.is_empty:
            del running[job.policy]


def may_yield(job: JobRecord) -> bool:
    """Whether it is running or starting, and preemptible (R24)."""
    return bool(job.leases) and job.preemptible and (job.state is JobState.RUNNING or job.state is JobState.STARTING)


def loses_since(job: JobRecord) -> int:
    """Since when stopping the job loses work: its last checkpoint of this attempt, else its start; time suspended comes on top (R25)."""
    since = job.started_at
    if job.checkpoint_at > since and job.checkpoint_attempt == job.attempt:
        since = job.checkpoint_at
    return since + job.paused - job.paused_saved if since else NOTHING_YET


def site_of(job: JobRecord) -> str:
    """The node on which all that is charged for its request lies in one lease; empty where it has several, or holds something else."""
    first = next(iter(job.leases.values()))
    return first.node if len(job.leases) == 1 and first.amounts == job.request.total else ""


def grant_of(lease: LeaseState) -> Grant:
    """Where its grant stands in the log."""
    return lease.sequence * PLACES_MAX + lease.place


def last_lease(job: JobRecord) -> LeaseState:
    """The one whose grant stands last in the log."""
    return max(job.leases.values(), key=grant_of)
