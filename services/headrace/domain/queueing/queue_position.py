"""Who goes before a waiting job: in its queue, and in a pool, as all stand now (R15). Pure.

Strategy: jobs of one group (`pending`) rank alike but for their own priority and age, so a group is ranked once for all its members, and
what all groups of a policy have in common is looked up once. A group that its own limit, its reservation, a bar, a closing, a gate or the
pool's access keeps out is before no other (R16).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from headrace.domain.indexes.pending import JobGroup, place_in_line
from headrace.domain.queueing.access import may_enter
from headrace.domain.queueing.freeze_drain import pool_closing, queue_closing
from headrace.domain.queueing.gates import gated, must_borrow
from headrace.domain.queueing.ranking import StaticRank, dominant_share, rank_of_group, ranks_by_firm, static_rank
from headrace.domain.state.quota import over_limit, over_reservation, scopes_of, to_grant, with_reservation

if TYPE_CHECKING:
    from collections.abc import Iterator

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

    def forget(self, policy: PolicyState) -> None:
        """What it borrows may be another amount now."""
        self._shares.pop(policy, None)

    def of(self, group: JobGroup) -> GroupRank | None:
        """What the group stands at; None if something other than room keeps it from being granted anything here."""
        queue = self._queue(group.policy, group.profile)
        if not queue.reaches or group.barred_from == self._pool.document.name or gated(group) is not None:
            return None
        rank = self._rank(queue, group)
        if rank[0] and not (queue.borrows if group.preemptible else self._may_hold(queue, group)):
            return None
        against, total = to_grant(self._state), group.request.total
        short = over_limit(queue.limited, self._pool.governed, total, beyond=group.beyond, against=against)
        return rank if short is None else None

    def at_least(self, group: JobGroup) -> GroupRank:
        """What it would stand at, whatever keeps it from being granted anything."""
        return self._rank(self._queue(group.policy, group.profile), group)

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
    mine = place_in_line(job)
    queue = [group for group in state.pending.by_policy.get(job.policy.key, ()) if group.profile == job.profile]
    return 1 + sum(place_in_line(other) < mine for group in queue for other in group.members.values())


def groups_ahead(state: State, job: JobRecord, pool: PoolState) -> Iterator[tuple[GroupRank, list[JobRecord]]]:
    """Each group that has jobs ranked before `job` in the pool, and those jobs, in no order.

    Beside those who may be granted something there, all of its own policy count: they wait for the same limit and reservation.
    """
    ranks, group, own = GroupRanks(state, pool), state.pending.group_for(job), place_in_line(job)
    mine = ranks.at_least(group)
    fellows = state.pending.by_policy.get(job.policy.key, {})
    for other in state.pending.groups.values():
        theirs = ranks.of(other)
        if theirs is None and other in fellows:
            profile = state.profile(job.tenant, other.profile)
            theirs = ranks.at_least(other) if profile is not None and pool.document.name in profile.pools else None
        if theirs is None or theirs > mine:
            continue
        members = other.members.values()
        before = list(members) if theirs < mine else [member for member in members if place_in_line(member) < own]
        if before:
            yield theirs, before
