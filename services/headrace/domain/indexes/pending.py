"""Pending jobs, in groups whose members differ in nothing that a rule looks at but their own order.

Strategy: all jobs of a group share queue, request, preemptibility, and the pools and nodes that they are kept away from, so rank
(1)-(5), limits, fit and reason are the same for all of them; only the head is ever looked at. Jobs that cannot start whatever happens (a
dependency, a back-off, a nomination of their own) stand outside the groups. Entries of jobs that have left are dropped when they come
to the top.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections import deque
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar

from headrace.domain.model.job_states import JobState
from headrace.domain.model.maintenance import Maintenance

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from headrace.domain.model.jobs import JobRecord, PolicyState
    from headrace.domain.model.requests import Request


STALE_MAX = 10_000
"""Groups that are remembered to have changed; each is a few hundred bytes."""

Place = tuple[Any, ...]
"""A job's place in line: (-priority, time since which it waits in line, (sequence, place in the record), key).

Its items have no types here, so that machine code compares it as it is, and does not take it apart and make it anew each time.
"""


def place_in_line(job: JobRecord) -> Place:
    """What jobs of one group are ordered by: priority, then time since which it waits in line, order of submission, key (R15 (6)-(8)).

    That time is of its admission, or of the preemption that put it behind the others (R29).

    `_is_older` compares without making these, as the fold adds each job; `ranking.rank_of_job` puts them behind the rank of the group.
    """
    return -job.priority, job.last_since or job.admitted_at, job.order, job.key


class JobGroup:
    """Pending jobs that differ only in priority and age. `user`: their user, where the policy keeps accounts of users; else empty.

    Those of one priority mostly come in their order, so they stand in a plain line; who comes back stands in a heap beside the lines,
    and so does who was put behind the others (R29), because only that changes a place. A job that leaves from the middle, or whose place
    has changed, is dropped when it comes to the front: the front of each is always a job of this group.
    """

    __slots__ = (
        "_places",
        "avoiding",
        "barred_from",
        "beyond",
        "heap",
        "lines",
        "members",
        "outlasts",
        "policy",
        "preemptible",
        "profile",
        "request",
        "user",
    )

    locked: ClassVar[bool] = False  # locked jobs are ineligible

    def __init__(self, like: JobRecord, avoiding: tuple[str, ...] = ()) -> None:
        self.policy: PolicyState = like.policy
        self.profile = like.profile
        self.request: Request = like.request
        self.preemptible = like.preemptible
        self.beyond = like.beyond
        self.barred_from = like.barred_from
        self.avoiding = avoiding
        self.outlasts = like.outlasts
        self.user = "" if like.policy.users is None else like.user  # where that tells apart who goes first or who is at a limit
        self._places: list[Place] | None = None
        self.members: dict[str, JobRecord] = {}
        self.lines: dict[int, deque[JobRecord]] = {}
        self.heap: list[Place] = []

    def head(self) -> JobRecord | None:
        """The next job (R15 (6)-(8))."""
        first, heap = None, self.heap
        for line in self.lines.values():
            if line:
                first = line[0]
                break
        if heap and (first is None or heap[0] < place_in_line(first)):
            return self.members[heap[0][3]]
        return first

    def join(self, job: JobRecord) -> None:
        """Stand in line here."""
        if job.key in self.members:
            return
        self.members[job.key] = job
        if self._places is not None:
            insort(self._places, place_in_line(job))
        line = self.lines.get(job.priority)
        if line is None:
            self.lines = dict(sorted([*self.lines.items(), (job.priority, line := deque())], reverse=True))
        if job.last_since:
            heapq.heappush(self.heap, place_in_line(job))
        elif not line or _is_older(line[-1], job):
            line.append(job)
        elif _is_older(job, line[0]):
            line.appendleft(job)
        else:
            heapq.heappush(self.heap, place_in_line(job))

    def leave(self, job: JobRecord) -> bool:
        """Stand here no more; False if the job did not."""
        members, heap = self.members, self.heap
        if members.pop(job.key, None) is None:
            return False
        if self._places is not None:
            del self._places[bisect_left(self._places, place_in_line(job))]
        line = self.lines[job.priority]
        while line and (members.get(line[0].key) is not line[0] or line[0].last_since):
            line.popleft()
        while heap and ((there := members.get(heap[0][3])) is None or heap[0] != place_in_line(there)):
            heapq.heappop(heap)
        return True

    def places(self) -> list[Place]:
        """The places of all its jobs, best first; kept up from the first call on, which only those who deal them anew need (R15)."""
        if self._places is None:
            self._places = sorted(map(place_in_line, self.members.values()))
        return self._places


class Changes:
    """What a reader has to look at again: groups whose head, and policies whose accounts, may have changed since its last look.

    `missed`: it has to look at all groups. More than `STALE_MAX` changes are not kept, because a standby, and an auditor of another
    release's records, fold for days without a look.
    """

    __slots__ = ("groups", "missed", "policies")

    def __init__(self, *, missed: bool = False) -> None:
        self.groups: dict[JobGroup, None] = {}
        self.policies: dict[PolicyState, None] = {}
        self.missed = missed


class Pending:
    """All groups, and `ineligible` jobs, which something of their own keeps from starting.

    `choosing`: the groups whose jobs may be given one of several GPU models (R42).
    `changes` belongs to the reader that follows them (`watch`); None: no reader does. `maintenance` is that of the state.
    """

    __slots__ = ("_delayed", "_delayed_max", "by_policy", "changes", "choosing", "groups", "ineligible", "maintenance")

    def __init__(self, maintenance: Maintenance | None = None) -> None:
        self.maintenance = Maintenance() if maintenance is None else maintenance
        self.groups: dict[tuple[object, ...], JobGroup] = {}
        self.ineligible: dict[str, JobRecord] = {}
        self.by_policy: dict[tuple[str, str], dict[JobGroup, None]] = {}
        self.choosing: dict[JobGroup, None] = {}
        self.changes: Changes | None = None
        self._delayed: list[tuple[int, str, JobRecord]] = []
        self._delayed_max = STALE_MAX

    def add(self, job: JobRecord, now: int) -> None:
        """Put a pending job in line, or among the ineligible ones while something of its own keeps it from starting."""
        if job.avoids or self.maintenance:
            self._keep_away(job, now)
        elif job.avoiding or job.outlasts:
            job.avoiding = job.outlasts = ()
        if job.waits_for or job.nomination is not None or job.doomed_by or job.locked:
            self.ineligible[job.key] = job
            return
        if job.array is not None and job.array.is_full:
            self.ineligible[job.key] = job
            return
        if job.not_before > now:
            self.ineligible[job.key] = job
            self._wake(job.not_before, job)
            return
        if self.ineligible:
            self.ineligible.pop(job.key, None)
        key = _key(job)
        group = self.groups.get(key)
        if group is None:
            group = self.groups[key] = JobGroup(job, job.avoiding)
            self.by_policy.setdefault(job.policy.key, {})[group] = None
            if job.request.choices is not None:
                self.choosing[group] = None
        group.join(job)
        self.mark(group)

    def _keep_away(self, job: JobRecord, now: int) -> None:
        """Note the nodes and pools that the job is kept away from at `now`, and look again when they are others."""
        job.avoiding, job.outlasts = self.kept_from(job, now)
        moments = [until for until in job.avoids.values() if until > now]
        if self.maintenance and (later := self.maintenance.next_outlasted(job, now)) is not None:
            moments.append(later)
        if moments:
            self._wake(min(moments), job)

    def _wake(self, moment: int, job: JobRecord) -> None:
        """Look at the job again at that moment. Jobs that wait no longer are dropped when there are many."""
        heapq.heappush(self._delayed, (moment, job.key, job))
        if len(self._delayed) > self._delayed_max:
            self._delayed = [entry for entry in self._delayed if entry[2].state is JobState.PENDING]
            heapq.heapify(self._delayed)
            self._delayed_max = max(STALE_MAX, 2 * len(self._delayed))

    def kept_from(self, job: JobRecord, now: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Nodes that the job is kept away from at `now` (R36, R41), and pools that it would outlast; both by name."""
        refused = avoided(job, now)
        if not self.maintenance:
            return refused, ()
        nodes, pools = self.maintenance.outlasted(job, now)
        return tuple(sorted({*refused, *nodes})) if refused else nodes, pools

    def sort_again(self, now: int) -> None:
        """Maintenance is another now: put the jobs that are kept from other nodes or pools by it where they belong."""
        there = [job for group in self.groups.values() for job in group.members.values()]
        for job in (*there, *self.ineligible.values()):
            if (job.avoiding, job.outlasts) != self.kept_from(job, now) or self.maintenance:
                self.remove(job)
                self.add(job, now)

    def refill(self, jobs: Iterable[JobRecord], now: int) -> None:
        """`add` for very many waiting jobs, into empty lines: group by group instead of one by one."""
        groups: dict[tuple[object, ...], list[JobRecord]] = {}
        others: list[JobRecord] = []
        for job in jobs:
            if job.state is not JobState.PENDING:
                continue
            if job.waits_for or job.nomination is not None or job.doomed_by or job.locked or job.avoids or job.not_before > now:
                others.append(job)
                continue
            if job.array is not None or job.last_since or self.maintenance:
                others.append(job)
                continue
            key = _key(job)
            alike = groups.get(key)
            if alike is None:
                groups[key] = [job]
            else:
                alike.append(job)
        for key, alike in groups.items():
            if not _in_line(alike):
                alike.sort(key=place_in_line)
            self.add(alike[0], now)
            group = self.groups[key]
            group.members = {job.key: job for job in alike}
            if alike[0].priority == alike[-1].priority:
                group.lines = {alike[0].priority: deque(alike)}
            else:
                group.lines = {priority: deque(line) for priority, line in groupby(alike, _PRIORITY)}
        for job in others:
            self.add(job, now)

    def remove(self, job: JobRecord) -> bool:
        """Remove a pending job; False if it is not in the index."""
        if self.ineligible and self.ineligible.pop(job.key, None) is not None:
            job.avoiding = job.outlasts = ()
            return True
        key = _key(job)
        group = self.groups.get(key)
        if group is None or not group.leave(job):
            return False
        if job.avoiding or job.outlasts:
            job.avoiding = job.outlasts = ()
        self.mark(group)
        if not group.members:
            del self.groups[key]
            del self.by_policy[job.policy.key][group]
            self.choosing.pop(group, None)
        return True

    def mark(self, group: JobGroup) -> None:
        """The group's head may be another now."""
        changes = self.changes
        if changes is None:
            return
        if len(changes.groups) >= STALE_MAX:
            changes.groups.clear()
            changes.missed = True
        changes.groups[group] = None

    def watch(self, *, missed: bool = False) -> Changes:
        """A new reader's changes, from now on. Only one reader follows at a time."""
        self.changes = Changes(missed=missed)
        return self.changes

    def group_of(self, job: JobRecord) -> JobGroup | None:
        """The group in which the job stands in line, if it does."""
        group = self.groups.get(_key(job))
        return group if group is not None and group.members.get(job.key) is job else None

    def group_for(self, job: JobRecord) -> JobGroup:
        """Its group; a group of its own if it is ineligible, or is a question instead of a job."""
        return self.group_of(job) or JobGroup(job)

    def follow_time(self, now: int) -> Sequence[JobRecord]:
        """Let jobs whose back-off is over join the line, and avoid no longer than they have to. An index follows time; no fact changes.

        Returns the jobs that are where they were not before, or are kept from other nodes.
        """
        if not self._delayed or self._delayed[0][0] > now:
            return ()
        moved = []
        while self._delayed and self._delayed[0][0] <= now:
            _, _, job = heapq.heappop(self._delayed)
            if job.state is not JobState.PENDING:
                continue
            if job.key in self.ineligible or (job.avoiding, job.outlasts) != self.kept_from(job, now):
                self.remove(job)
                self.add(job, now)
                moved.append(job)
        return moved

    def next_due(self) -> int | None:
        """When the next back-off or avoidance ends, or a job begins to outlast what it did not."""
        return self._delayed[0][0] if self._delayed else None


_PRIORITY = attrgetter("priority")


def _key(job: JobRecord) -> tuple[object, ...]:
    """What the jobs of one group have in common."""
    user = "" if job.policy.users is None else job.user
    request, avoiding = job.request.order, job.avoiding
    return job.policy, job.profile, request, job.preemptible, job.beyond, job.barred_from, avoiding, job.outlasts, user


group_key = attrgetter(
    "policy.document.tenant",
    "policy.document.name",
    "profile",
    "request.order",
    "preemptible",
    "beyond",
    "barred_from",
    "avoiding",
)
"""The same in names and numbers, for what is kept in the state."""


def _is_older(one: JobRecord, other: JobRecord) -> bool:
    """Whether its place is before the other's; both are of one priority."""
    since, its_since = one.last_since or one.admitted_at, other.last_since or other.admitted_at
    if since != its_since:
        return since < its_since
    (sequence, place), (its_sequence, its_place) = one.order, other.order
    if sequence != its_sequence:
        return sequence < its_sequence
    if place != its_place:
        return place < its_place
    return one.key < other.key


def _in_line(jobs: list[JobRecord]) -> bool:
    """Whether they stand by priority and age as they are, as they mostly do."""
    last = jobs[0]
    for job in jobs[1:]:
        if job.priority > last.priority or (job.priority == last.priority and not _is_older(last, job)):
            return False
        last = job
    return True


def avoided(job: JobRecord, now: int) -> tuple[str, ...]:
    """Nodes that the job is kept away from at `now` (R36), by name."""
    return tuple(sorted(node for node, until in job.avoids.items() if until > now)) if job.avoids else ()
