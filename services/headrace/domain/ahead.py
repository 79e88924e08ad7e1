"""Who goes before a waiting job: in its queue, and in a pool, as all stand now (R15). Pure.

Strategy: jobs of one group (`pending`) rank alike but for their own priority and age, so a group is ranked once for all its members.
A group that its own limit, its reservation, a bar or the pool's access keeps out is before nobody (R16).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.domain.access import may_enter
from headrace.domain.closings import is_closed
from headrace.domain.pending import JobGroup
from headrace.domain.ranking import is_inside, rank
from headrace.domain.scopes import over_limit, scopes_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.domain.state import JobRecord, PolicyState, PoolState, State

GroupRank = tuple[object, ...]
"""(1) to (5) of a rank (R15): what all members of a group have in common."""
OwnRank = tuple[object, ...]
"""(6) to (8): what they differ in."""


def own_rank(job: JobRecord) -> OwnRank:
    """Its place among jobs of the same queue: priority, higher first, time admitted, order of submission, key (R15 (6)-(8))."""
    return (-job.priority, job.admitted_at, job.order, job.key)


def group_for(state: State, job: JobRecord) -> JobGroup:
    """The group in which it stands; one of its own where it stands aside, or is no job but a question."""
    return state.pending.group_of(job) or JobGroup(
        job.policy, job.profile, job.request, job.preemptible, job.beyond, job.barred_from
    )


def group_rank(state: State, group: JobGroup, job: JobRecord, pool: PoolState) -> GroupRank:
    """What the group stands at in a pool, whether or not it may be granted anything there; `job` is any member."""
    return rank(state, group, job, pool, inside=is_inside(state, group, pool))[:5]


def borrows(policy: PolicyState, profile: str) -> bool:
    """Whether the queue starts jobs beyond the reservation as well (R12)."""
    return next((link.borrow for link in policy.document.profiles if link.name == profile), True)


def may_be_granted(state: State, group: JobGroup, pool: PoolState) -> bool:
    """Whether nothing but room keeps the group from being granted something in the pool: profile, access, bar, limits, reservation."""
    document, name = group.policy.document, pool.document.name
    profile = state.profile(document.tenant, group.profile)
    if profile is None or name not in profile.pools or name == group.barred_from or is_closed(state, group, name):
        return False
    if not may_enter(pool, document.tenant, document.group):
        return False
    if not (group.preemptible and borrows(group.policy, group.profile)) and not is_inside(state, group, pool):
        return False
    scopes = scopes_of(state, group.policy, name)
    return over_limit(scopes, pool.governed, group.request.total, beyond=group.beyond) is None


def position(state: State, job: JobRecord) -> int:
    """The job's place in its queue, from 1; 0 when it does not stand in line (a dependency, a nomination)."""
    if state.pending.group_of(job) is None:
        return 0
    mine = own_rank(job)
    queue = [group for group in state.pending.by_policy.get(job.policy.key, ()) if group.profile == job.profile]
    return 1 + sum(own_rank(other) < mine for group in queue for other in group.members.values())


def groups_ahead(state: State, job: JobRecord, pool: PoolState) -> Iterator[tuple[GroupRank, list[JobRecord]]]:
    """Each group that has jobs ranked before `job` in the pool, and those jobs, in no order.

    Beside those who may be granted something there, all of its own policy count: they wait for the same limit and reservation.
    """
    group = group_for(state, job)
    mine, own = group_rank(state, group, job, pool), own_rank(job)
    for other in state.pending.groups.values():
        head = other.head()
        if head is None or (other.policy is not job.policy and not may_be_granted(state, other, pool)):
            continue
        profile = state.profile(other.policy.document.tenant, other.profile)
        if profile is None or pool.document.name not in profile.pools:
            continue
        theirs = group_rank(state, other, head, pool)
        if theirs > mine:
            continue
        before = [member for member in other.members.values() if theirs < mine or own_rank(member) < own]
        if before:
            yield theirs, before
