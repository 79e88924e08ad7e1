"""Who goes first (R15). One comparator: `rank_of_group` and `rank_of_job` are its only composition, and nothing else joins its parts."""

from __future__ import annotations

from bisect import bisect_left
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from headrace.domain.indexes.pending import place_in_line
from headrace.domain.queueing.gates import must_borrow
from headrace.domain.state.quota import over_reservation, policy_scope, user_scope, with_reservation
from headrace.domain.state.supply import known_to

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.contracts.documents.model import Profile
    from headrace.contracts.values.amounts import Amounts
    from headrace.domain.indexes.pending import JobGroup, Place
    from headrace.domain.model.jobs import JobRecord, PolicyState
    from headrace.domain.state.pools import PoolState
    from headrace.domain.state.state import State

SHARE_STEPS = 32
"""The dominant share is a fraction of 2^32 (R15)."""

StaticRank = tuple[int, int, int]
"""(2)-(4) of R15's list: what depends on documents alone."""
_PRIORITY = itemgetter(0)
GroupRank = tuple[int, int, int, int, int]
"""(1)-(5): what all jobs of a group have in common."""
Rank = tuple[Any, ...]
"""A `GroupRank`, and the items of a `Place`."""


def rank_of_job(group: GroupRank, place: Place) -> Rank:
    """The key by which jobs are ordered in a pool, smaller first, of its group's rank and its `place_in_line`: R15's list.

    1. fits in the unused reservation, 2. the pool's profile order, 3. the profile's policy order, 4. policy priority, higher first,
    5. dominant share of borrowed use, smaller first (borrowers only), 6. job priority, higher first, 7. time admitted, 8. order of
    submission, then the job's key. Under a policy with `fair_among: users` the place is one that was dealt (`deal`).

    `allocator.pool_queue` keeps candidates in this order without composing it for each; a property compares its grants with `rank`.
    """
    return (*group, *place)


def rank_of_group(static: StaticRank, share: int, *, inside: bool) -> GroupRank:
    """(1)-(5) of `rank_of_job`, which all jobs of a group have in common."""
    return (0, *static, 0) if inside else (1, *static, share)


def is_fair(policy: PolicyState) -> bool:
    """Whether the places of the policy's candidates are dealt among its users (R15)."""
    return policy.document.fair_among == "users"


def deal(mine: Place, use: int, lines: Iterable[tuple[int, list[Place]]]) -> Place:
    """The place that a candidate of a policy that is fair among users is dealt, for `place_in_line` (R15, last paragraph).

    `lines`: of each group of the policy's candidates that are equal to it by (1)-(5), its own with them, the use of its user and the
    places of its jobs, best first. Of those that are equal by (6) too, the user with the least use comes first, then the older job; they
    are dealt the places that they have, in this order, so that the ranks of others do not move. `use`: that of its own user.
    """
    before, there = 0, []
    for its, places in lines:
        first = bisect_left(places, mine[0], key=_PRIORITY)
        end = bisect_left(places, mine[0] + 1, first, key=_PRIORITY)
        there.append((places, first, end))
        if its < use:
            before += end - first
        elif its == use:
            before += bisect_left(places, mine, first, end) - first
    if not before:
        return min(places[first] for places, first, end in there if first < end)
    return sorted(chain.from_iterable(places[first : min(end, first + before + 1)] for places, first, end in there))[before]


def user_share(state: State, policy: PolicyState, user: str) -> int:
    """The greatest share of any governed key that the user's jobs of the policy use, in steps of 2^-32, rounded down (R15).

    Of the capacity that `dominant_share` divides by; the use is that before admission (R17).
    """
    scope = user_scope(policy, user)
    greatest = 0
    for key, base in share_base(state, policy).items():
        used = scope.use.get(key, 0) if scope is not None else 0
        if used > 0 and base > 0:
            greatest = max(greatest, (used << SHARE_STEPS) // base)
    return greatest


def share_base(state: State, policy: PolicyState) -> dict[str, int]:
    """Capacity of the pools that the policy reaches, of each governed key, kept until it changes."""
    if not policy.share_base:
        policy.share_base = _capacity_reached(state, policy)
    return policy.share_base


def is_inside(state: State, group: JobRecord | JobGroup, pool: PoolState) -> bool:
    """Whether the job, or one more of the group, fits in its unused reservation, in every account that is looked at (R7, R15 (1)).

    All use of the policy counts, for non-preemptible jobs as well (R17). Before the amendment those saw only what others of their kind use.
    """
    return _fits(state, group, pool, firm=ranks_by_firm(state, preemptible=group.preemptible))


def ranks_by_firm(state: State, *, preemptible: bool) -> bool:
    """Whether a job's rank looks at non-preemptible use only (R15 (1)): before the amendment that of a non-preemptible one did."""
    return not preemptible and not state.terms.amended


def may_hold_inside(state: State, group: JobRecord | JobGroup, pool: PoolState) -> bool:
    """Whether the job may start as far as its reservation goes, if it may not borrow.

    A non-preemptible one sees only what others of its kind use, because the reservation is attributed to those first (R17): it may start
    where it does not rank inside the reservation.
    """
    return _fits(state, group, pool, firm=not group.preemptible)


def _fits(state: State, group: JobRecord | JobGroup, pool: PoolState, *, firm: bool) -> bool:
    if must_borrow(group.policy):  # R33
        return False
    scopes = with_reservation(state, group.policy, pool.document.name)
    return over_reservation(scopes, pool.governed, group.request.total, firm=firm) is None


def rank(
    state: State, group: JobRecord | JobGroup, job: JobRecord, pool: PoolState, *, inside: bool, place: Place | None = None
) -> Rank:
    """The key by which candidates of a pool are ordered, smaller first: that of the group, then the job's place in it (R15).

    `place`: the one that it is dealt, if it is not its own.
    """
    share = 0 if inside else dominant_share(state, group.policy)
    static = static_rank(state, group.policy, group.profile, pool)
    return rank_of_job(rank_of_group(static, share, inside=inside), place or place_in_line(job))


def static_rank(state: State, policy: PolicyState, profile: str, pool: PoolState) -> StaticRank:
    """(2)-(4): the pool's profile order, the profile's policy order, policy priority."""
    document = policy.document
    order = _policy_position(state.profile(document.tenant, profile), document.tenant, document.name)
    return _position(pool.document.profile_order, profile), order, -document.priority


def _position(order: tuple[str, ...], name: str) -> int:
    """Unlisted names share the last place."""
    return order.index(name) if name in order else len(order)


def _policy_position(profile: Profile | None, tenant: str, name: str) -> int:
    order = profile.policy_order if profile is not None else ()
    full = f"{tenant}/{name}"
    return next((place for place, listed in enumerate(order) if listed in (name, full)), len(order))


def dominant_share(state: State, policy: PolicyState, without: Amounts | None = None) -> int:
    """The greatest share of any governed key that the policy borrows, divided by its weight, in steps of 2^-32, rounded down.

    Borrowed is use above the policy-wide reservation; the share is of the known capacity of the pools its profiles reach, without what
    is dedicated to others (R21). `without`: use that does not count, because the job that is ranked holds it itself (R29).
    """
    reservation = _reservation(state, policy)
    greatest = 0
    for key, base in share_base(state, policy).items():
        over = policy.wide.use.get(key, 0) - reservation.get(key, 0)
        if without is not None:
            over -= without.get(key, 0)
        if over > 0 and base > 0:
            greatest = max(greatest, (over << SHARE_STEPS) // (base * policy.document.weight))
    return greatest


def _reservation(state: State, policy: PolicyState) -> dict[str, int]:
    """The policy-wide reservation; for a policy that has only per-pool ones, their sum."""
    if policy.wide.reservation is not None:
        return policy.wide.reservation
    total: dict[str, int] = {}
    for pool in state.pools:
        for key, value in (policy_scope(policy, pool).reservation or {}).items():
            total[key] = total.get(key, 0) + value
    return total


def _capacity_reached(state: State, policy: PolicyState) -> dict[str, int]:
    reached: dict[str, PoolState] = {}
    for link in policy.document.profiles:
        profile = state.profile(policy.document.tenant, link.name)
        for name in profile.pools if profile is not None else ():
            if name in state.pools:
                reached[name] = state.pools[name]
    base: dict[str, int] = {}
    for pool in reached.values():
        known = known_to(pool, policy.key)
        for key in sorted(pool.governed):
            base[key] = base.get(key, 0) + known.get(key, 0)
    return base
