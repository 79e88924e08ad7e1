"""Who stands in line in each of some pools, best first, while accounts change and one after the other leaves it (R15).

Strategy: each group (`pending`) stands there with its next job only, in one line for each request, so that who asks for what no pool has
left is never looked at. A group is ranked anew when the accounts of its policy have changed and its line is read, and not
otherwise. The state is looked at and never changed: who has left is known here alone.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING, NamedTuple

from headrace.contracts.values.arrays import common, size
from headrace.contracts.values.ids import index_of
from headrace.domain.indexes.pending import place_in_line
from headrace.domain.model.jobs import JobRecord
from headrace.domain.queueing.queue_position import GroupRanks
from headrace.domain.queueing.ranking import Rank, deal, is_fair, rank_of_job

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from headrace.domain.indexes.pending import JobGroup, Place
    from headrace.domain.model.jobs import ArrayState, PolicyState
    from headrace.domain.model.requests import Request
    from headrace.domain.state.pools import PoolState
    from headrace.domain.state.state import State


def _place_from_behind(job: JobRecord) -> tuple[int, int, int, int, int]:
    """For an order with the next job last; of one order of submission there are elements of one array only."""
    sequence, place = job.order
    return (
        job.priority,
        -(job.last_since or job.admitted_at),
        -sequence,
        -place,
        -index_of(job.key) if job.array is not None else 0,
    )


class ArrayProjection:
    """Elements of arrays as they stand in line one after the other; `asker`: the job that the projection is about."""

    def __init__(self, asker: JobRecord) -> None:
        self._asker = asker.key
        self._next: dict[str, int] = {}
        self._started: dict[str, int] = {}

    def following(self, job: JobRecord) -> JobRecord | None:
        """The element that stands in line when `job` has left; None if it stood for no others, or as many run as may."""
        array = job.array
        if array is None or not self._is_front(array, job):
            return None
        started = self._started[array.job.key] = self._started.get(array.job.key, 0) + 1
        number = self._number(array)
        if number < 0 or (array.range.at_once and array.busy + started >= array.range.at_once):
            return None
        self._next[array.job.key] = number + 1
        element = array.element(number)
        return None if element.key == self._asker else element

    def behind(self, job: JobRecord, asker: JobRecord) -> int:
        """How many elements stand behind `job`, and before `asker` if that is one of them."""
        array = job.array
        if array is None or not self._is_front(array, job):
            return 0
        last = array.range.number(index_of(asker.key)) - 1 if asker.array is array else array.range.count
        return size(common(array.waiting, ((self._next.get(array.job.key, 0), last),)))

    def _is_front(self, array: ArrayState, job: JobRecord) -> bool:
        passed = self._next.get(array.job.key)
        return array.front is job if passed is None else array.range.number(index_of(job.key)) == passed - 1

    def _number(self, array: ArrayState) -> int:
        """The next of those that wait; -1 after the last one."""
        passed = self._next.get(array.job.key, 0)
        return next((max(first, passed) for first, last in array.waiting if last >= passed), -1)


class ProjectedEntry(NamedTuple):
    """The next job of a group as it stands in one pool; `number` is the group's here."""

    rank: Rank
    number: int
    job: JobRecord


class QueueProjection:
    """All that wait. `ranked` counts the groups that have been ranked so far. Who asks may still have to `join`.

    No head has been pending since before `oldest`.
    """

    def __init__(self, state: State, job: JobRecord, pools: Mapping[str, PoolState]) -> None:
        self.ranked = 0
        self._state = state
        self._ranks = {name: GroupRanks(state, pool) for name, pool in pools.items()}
        mine = state.pending.group_for(job)
        groups = [group for group in state.pending.groups.values() if group is not mine]
        self._groups: list[JobGroup] = [*groups, mine]
        self._heads: list[JobRecord | None] = [*(group.head() for group in groups), mine.head()]
        self.oldest = min((head.pending_since for head in (*self._heads, job) if head is not None), default=0)
        self._rest: dict[int, list[JobRecord]] = {}
        self._arrays = ArrayProjection(job)
        self._places: dict[int, list[Place]] = {}
        self._lines: dict[tuple[str, Request], list[ProjectedEntry]] = {}
        self._entries: dict[tuple[str, int], ProjectedEntry] = {}
        self._stale: dict[tuple[str, Request], set[int]] = {}
        self._by_policy: dict[PolicyState, list[int]] = {}
        self._numbers = {group: number for number, group in enumerate(self._groups)}
        for number, group in enumerate(self._groups):
            self._by_policy.setdefault(group.policy, []).append(number)
            self._spoil(number)

    def open_all(self) -> Callable[[], None]:
        """Let all groups into all pools, whatever they would outlast now (R41); returns the inverse."""
        before = [(group, group.outlasts) for group in self._groups]
        for group in self._groups:
            group.outlasts = ()

        def shut() -> None:
            for group, pools in before:
                group.outlasts = pools

        return shut

    def join(self, job: JobRecord) -> None:
        """The one who asks stands in line from now on, if it does not yet."""
        if self._heads[-1] is None and not self._groups[-1].members:
            self._heads[-1] = job
            self._spoil(len(self._groups) - 1)

    @property
    def requests(self) -> list[Request]:
        """Resources that any job asks for."""
        return list(dict.fromkeys(group.request for group in self._groups))

    def first(self, pool: str, request: Request) -> ProjectedEntry | None:
        """The best of those who ask for this in a pool, and whom nothing but room keeps from it."""
        line = self.heads(pool, request)
        return line[0] if line else None

    def heads(self, pool: str, request: Request) -> list[ProjectedEntry]:
        """All of them, the next of each group, best first."""
        where = (pool, request)
        stale = self._stale.pop(where, None)
        line = self._lines.setdefault(where, [])
        self.ranked += len(stale or ())
        for number in stale or ():
            old = self._entries.pop((pool, number), None)
            if old is not None:
                del line[bisect_left(line, old)]
            job = self._heads[number]
            rank = self._ranks[pool].of(self._groups[number]) if job is not None else None
            if rank is not None and job is not None:
                new = self._entries[pool, number] = ProjectedEntry(
                    rank_of_job(rank, self._place(pool, number, job)), number, job
                )
                insort(line, new)
        return line

    def rank(self, pool: str, job: JobRecord) -> Rank | None:
        """What a job that stands in line is ordered by; None if something other than room keeps it out."""
        number = self._numbers.get(self._state.pending.group_for(job))
        rank = None if number is None or self._heads[number] is None else self._ranks[pool].of(self._groups[number])
        return None if rank is None or number is None else rank_of_job(rank, self._place(pool, number, job))

    def standing(self, pool: str, job: JobRecord) -> Rank:
        """Where a job of the last group, that of the one who asks, stands in a pool, whether or not it may be granted anything there."""
        return rank_of_job(self._ranks[pool].at_least(self._groups[-1]), self._place(pool, len(self._groups) - 1, job))

    def is_open(self, pool: str) -> bool:
        """Whether nothing but room keeps the one who asks from being granted something in a pool."""
        return self._ranks[pool].of(self._groups[-1]) is not None

    def ahead(self, pool: str, job: JobRecord) -> Iterator[tuple[Request, int]]:
        """What those who still go before the one who asks want in a pool, and how many they are, group by group."""
        mine, own = self._ranks[pool].at_least(self._groups[-1]), self._place(pool, len(self._groups) - 1, job)
        for number, group in enumerate(self._groups):
            head = self._heads[number]
            rank = self._ranks[pool].of(group) if head is not None else None
            if head is None or rank is None or rank > mine:
                continue
            left: Collection[JobRecord] = group.members.values()
            if number in self._rest:
                left = [head, *self._rest[number]]
            before = left if rank < mine else self._before(pool, group, left, own, job)
            count = sum(1 if other.array is None else 1 + self._arrays.behind(other, job) for other in before)
            if count:
                yield group.request, count

    def _before(
        self, pool: str, group: JobGroup, left: Collection[JobRecord], own: Place, job: JobRecord
    ) -> Collection[JobRecord]:
        """Those of the jobs of an equal group that come before the place of the one who asks."""
        if group.policy is not job.policy or not is_fair(job.policy):
            return [other for other in left if place_in_line(other) < own]
        use, mine = self._ranks[pool].use_of, (-job.priority, place_in_line(job))
        theirs, my = use(group), use(self._groups[-1])
        return [other for other in left if (-other.priority, theirs, place_in_line(other)) < (mine[0], my, mine[1])]

    def _place(self, pool: str, number: int, job: JobRecord) -> Place:
        """The place of a job of a group: one that it is dealt of those still there, where its policy is fair among users (R15)."""
        ranks, group, mine = self._ranks[pool], self._groups[number], place_in_line(job)
        rank = ranks.of(group) if is_fair(group.policy) else None
        if rank is None:
            return mine
        lines = []
        for other in self._by_policy[group.policy]:
            if self._heads[other] is not None and ranks.of(self._groups[other]) == rank:
                lines.append((ranks.use_of(self._groups[other]), self._places_of(other)))
            elif other == number:
                lines.append((ranks.use_of(group), [mine]))
        return deal(mine, ranks.use_of(group), lines)

    def _places_of(self, number: int) -> list[Place]:
        """The places of those of a group who are still there, best first."""
        places = self._places.get(number)
        if places is None:
            head = self._heads[number]
            group = self._groups[number].places() or ([place_in_line(head)] if head is not None else [])
            places = self._places[number] = list(group)
        return places

    def mark(self, policy: PolicyState) -> None:
        """The accounts of a policy have changed, and with them those of its tenant's other policies where there is a share."""
        tenant = policy.document.tenant
        if any((tenant, name) in self._state.shares for name in self._ranks):
            marked = [one for one in self._by_policy if one.document.tenant == tenant]
        else:
            marked = [policy] if policy in self._by_policy else []
        for one in marked:
            for ranks in self._ranks.values():
                ranks.forget(one)
            for number in self._by_policy[one]:
                self._spoil(number)

    def leave(self, entry: ProjectedEntry) -> None:
        """The job of an entry stands in line no more; the next of its group does."""
        rest = self._rest.get(entry.number)
        if rest is None:
            members = self._groups[entry.number].members.values()
            rest = self._rest[entry.number] = sorted(members, key=place_in_line, reverse=True)  # the next one last
            rest.pop()
        following = self._arrays.following(entry.job) if entry.job.array is not None else None
        if following is not None:
            insort(rest, following, key=_place_from_behind)
        head = self._heads[entry.number] = rest.pop() if rest else None
        if head is not None:
            self.oldest = min(self.oldest, head.pending_since)
        policy = self._groups[entry.number].policy
        if is_fair(policy):
            del self._places_of(entry.number)[0]
        for number in self._by_policy[policy] if is_fair(policy) else (entry.number,):
            self._spoil(number)

    def _spoil(self, number: int) -> None:
        for name in self._ranks:
            self._stale.setdefault((name, self._groups[number].request), set()).add(number)
