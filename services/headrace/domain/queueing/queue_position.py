"""Who goes before a waiting job: in its queue, and in a pool, as all stand now (R15). Pure.

Strategy: jobs of one group (`pending`) rank alike but for their own priority and age, so a group is ranked once for all its members, and
what all groups of a policy have in common is looked up once. A group that its own limit, its reservation, a bar, a closing, a gate or the
pool's access keeps out is before no other (R16).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from headrace.contracts.values.arrays import common, size
from headrace.contracts.values.ids import index_of
from headrace.domain.indexes.pending import JobGroup, place_in_line
from headrace.domain.queueing.access import may_enter
from headrace.domain.queueing.freeze_drain import pool_closing, queue_closing
from headrace.domain.queueing.gates import gated, must_borrow
from headrace.domain.queueing.ranking import (
    StaticRank,
    deal,
    dominant_share,
    is_fair,
    rank_of_group,
    ranks_by_firm,
    static_rank,
    user_share,
)
from headrace.domain.state.quota import over_limit, over_reservation, scopes_of, to_grant, user_scope, with_reservation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.domain.indexes.pending import Place
    from headrace.domain.model.jobs import JobRecord, PolicyState, Scope
    from headrace.domain.queueing.ranking import GroupRank
    from headrace.domain.state.pools import PoolState
    from headrace.domain.state.state import State


class _Queue(NamedTuple):
    """What does not change while accounts do: whether the queue reaches the pool, whether it borrows (R12), and (2)-(4) of its rank."""

    reaches: bool
    borrows: bool
    static: StaticRank
    limited: tuple[Scope, ...]
    reserved: tuple[Scope, ...]


class GroupRanks:
    """The ranks of groups in one pool. `forget` a policy when its accounts have changed."""

    def __init__(self, state: State, pool: PoolState) -> None:
        self._state = state
        self._pool = pool
        self._queues: dict[tuple[PolicyState, str], _Queue] = {}
        self._shares: dict[PolicyState, int] = {}
        self._uses: dict[tuple[PolicyState, str], int] = {}

    def forget(self, policy: PolicyState) -> None:
        """What it borrows may be another amount now."""
        self._shares.pop(policy, None)
        for key in [key for key in self._uses if key[0] is policy]:
            del self._uses[key]

    def of(self, group: JobGroup) -> GroupRank | None:
        """What the group stands at; None if something other than room keeps it from being granted anything here."""
        queue = self._queue(group.policy, group.profile)
        name = self._pool.document.name
        if not queue.reaches or name == group.barred_from or name in group.outlasts or gated(group) is not None:
            return None
        rank = self._rank(queue, group)
        if rank[0] and not (queue.borrows if group.preemptible else self._may_hold(queue, group)):
            return None
        against, total = to_grant(self._state), group.request.total
        user = user_scope(group.policy, group.user)
        limited = queue.limited if user is None else (user, *queue.limited)
        short = over_limit(limited, self._pool.governed, total, beyond=group.beyond, against=against)
        return rank if short is None else None

    def at_least(self, group: JobGroup) -> GroupRank:
        """What it would stand at, whatever keeps it from being granted anything."""
        return self._rank(self._queue(group.policy, group.profile), group)

    def place(self, group: JobGroup, job: JobRecord) -> Place:
        """The place of one of the group's jobs: the one that it is dealt where its policy is fair among users, else its own (R15)."""
        mine, rank = place_in_line(job), self.of(group) if is_fair(group.policy) else None
        if rank is None:
            return mine
        fellows = self._state.pending.by_policy.get(group.policy.key, ())
        lines = [(self.use_of(other), other.places()) for other in fellows if other is not group and self.of(other) == rank]
        return deal(mine, self.use_of(group), [*lines, (self.use_of(group), group.places() or [mine])])

    def places(self, policy: PolicyState) -> dict[str, Place]:
        """The place that each candidate of a policy that is fair among users is dealt, by job; of any other policy none."""
        dealt: dict[str, Place] = {}
        alike: dict[tuple[GroupRank, int], list[tuple[int, Place]]] = {}
        for group in self._state.pending.by_policy.get(policy.key, ()) if is_fair(policy) else ():
            rank, use = self.of(group), self.use_of(group)
            if rank is None:
                continue
            for place in group.places():
                alike.setdefault((rank, place[0]), []).append((use, place))
        for those in alike.values():
            places = sorted(place for _, place in those)
            dealt |= {own[3]: place for (_, own), place in zip(sorted(those), places, strict=True)}
        return dealt

    def use_of(self, group: JobGroup) -> int:
        """The share that the group's user uses of what its policy reaches (R15)."""
        key = group.policy, group.user
        use = self._uses.get(key)
        if use is None:
            use = self._uses[key] = user_share(self._state, group.policy, group.user)
        return use

    def _rank(self, queue: _Queue, group: JobGroup) -> GroupRank:
        inside = self._fits(queue, group, firm=ranks_by_firm(self._state, preemptible=group.preemptible))
        return rank_of_group(queue.static, 0 if inside else self._share(group.policy), inside=inside)

    def _may_hold(self, queue: _Queue, group: JobGroup) -> bool:
        """Whether one that is not preemptible may start, though it does not rank inside the reservation (R17)."""
        return self._fits(queue, group, firm=True)

    def _fits(self, queue: _Queue, group: JobGroup, *, firm: bool) -> bool:
        short = over_reservation(queue.reserved, self._pool.governed, group.request.total, firm=firm)
        return short is None and not must_borrow(group.policy)

    def _share(self, policy: PolicyState) -> int:
        share = self._shares.get(policy)
        if share is None:
            share = self._shares[policy] = dominant_share(self._state, policy)
        return share

    def _queue(self, policy: PolicyState, name: str) -> _Queue:
        queue = self._queues.get((policy, name))
        if queue is None:
            queue = self._queues[policy, name] = self._look_up(policy, name)
        return queue

    def _look_up(self, policy: PolicyState, name: str) -> _Queue:
        state, pool, document = self._state, self._pool.document.name, policy.document
        profile = state.profile(document.tenant, name)
        reaches = (
            profile is not None
            and pool in profile.pools
            and may_enter(self._pool, document.tenant, document.group)
            and queue_closing(state, policy, name) is None
            and pool_closing(state, pool) is None
        )
        borrows = next((link.borrow for link in document.profiles if link.name == name), True)
        static = static_rank(state, policy, name, self._pool)
        return _Queue(reaches, borrows, static, scopes_of(state, policy, pool), with_reservation(state, policy, pool))


def position(state: State, job: JobRecord) -> int:
    """The job's place in its queue, from 1; 0 when it does not stand in line (a dependency, a nomination)."""
    if state.pending.group_of(job) is None:
        return 0
    dealt = _places_in_first_pool(state, job)
    mine = dealt.get(job.key) or place_in_line(job)
    queue = [group for group in state.pending.by_policy.get(job.policy.key, ()) if group.profile == job.profile]
    members = (other for group in queue for other in group.members.values())
    return 1 + sum(jobs_before(other, job) for other in members if (dealt.get(other.key) or place_in_line(other)) < mine)


def _places_in_first_pool(state: State, job: JobRecord) -> dict[str, Place]:
    """What the candidates of the job's policy are dealt in the first pool of its order (R15)."""
    profile = state.profile(job.tenant, job.profile) if is_fair(job.policy) else None
    pool = next((state.pools[name] for name in profile.pools if name in state.pools), None) if profile is not None else None
    return GroupRanks(state, pool).places(job.policy) if pool is not None else {}


def jobs_before(member: JobRecord, job: JobRecord) -> int:
    """How many jobs `member`, which goes before `job`, is: of an array, those that wait behind it and before `job` as well."""
    array = member.array
    if array is None or array.front is not member or job.array is not array or job.array.job is job:
        return member.stands_for
    return 1 + size(common(array.waiting, ((0, array.range.number(index_of(job.key)) - 1),)))


def groups_ahead(state: State, job: JobRecord, pool: PoolState) -> Iterator[tuple[GroupRank, list[tuple[Place, JobRecord]]]]:
    """Each group that has jobs ranked before `job` in the pool, and those jobs with their places, in no order.

    Beside those who may be granted something there, all of its own policy count: they wait for the same limit and reservation.
    """
    ranks, group = GroupRanks(state, pool), state.pending.group_for(job)
    mine = ranks.at_least(group)
    dealt: dict[str, Place] = {}
    for policy in {other.policy: None for other in state.pending.groups.values() if is_fair(other.policy)}:
        dealt |= ranks.places(policy)
    own = dealt.get(job.key) or place_in_line(job)
    fellows = state.pending.by_policy.get(job.policy.key, {})
    for other in state.pending.groups.values():
        theirs = ranks.of(other)
        if theirs is None and other in fellows:
            profile = state.profile(job.tenant, other.profile)
            theirs = ranks.at_least(other) if profile is not None and pool.document.name in profile.pools else None
        if theirs is None or theirs > mine:
            continue
        members = [(dealt.get(member.key) or place_in_line(member), member) for member in other.members.values()]
        before = members if theirs < mine else [(place, member) for place, member in members if place < own]
        if before:
            yield theirs, before
