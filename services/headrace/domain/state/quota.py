"""The arithmetic of reservations and limits (R5, R7, R17): which accounts a job touches, and whether it fits in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from headrace.contracts.values.amounts import CPU, JOB, MEMORY, model_of
from headrace.domain.model.jobs import Scope

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.contracts.documents.model import Policy
    from headrace.contracts.values.amounts import Amounts
    from headrace.domain.indexes.pending import JobGroup
    from headrace.domain.model.jobs import JobRecord, PolicyState
    from headrace.domain.state.pools import PoolState
    from headrace.domain.state.state import State

UNGOVERNED = frozenset({CPU, MEMORY, JOB})
"""Keys that bind nothing here unless the pool's `capacity` names them (R5), as those of GPU models; any other then has capacity 0."""


WILL_BE, IS_HELD, BOTH = range(3)
"""What of an account a limit is held against (R17): what is used once those who yield have left and what is nominated is held; what leases
hold now, those that yield included; the greater of the two."""


class Shortfall(NamedTuple):
    """The first test that failed: in `scope`, key `key`: `used` + `asked` > `ceiling`."""

    scope: Scope
    key: str
    used: int
    asked: int
    ceiling: int


def policy_scope(policy: PolicyState, pool: str) -> Scope:
    """The policy's account in one pool. If none is open there: an empty one, which the state does not keep."""
    scope = policy.scopes.get(pool)
    return _new_scope(policy, pool) if scope is None else scope


def open_scope(policy: PolicyState, pool: str) -> Scope:
    """The policy's account in one pool, opened if it was not; without a document block it limits nothing."""
    scope = policy.scopes.get(pool)
    if scope is None:
        scope = policy.scopes[pool] = _new_scope(policy, pool)
    return scope


def _new_scope(policy: PolicyState, pool: str) -> Scope:
    tenant, name = policy.key
    block = policy.document.per_pool.get(pool)
    limit = dict(block.limit) if block else {}
    return Scope("policy", f"policy {tenant}/{name} in pool {pool}", block.reservation if block else None, limit)


def open_scopes(state: State, policy: PolicyState, profile: str) -> None:
    """Open the policy's accounts in the pools of a profile.

    The fold does so for profiles that the policy links or has jobs of, when one of the documents changes. So decisions find accounts, and
    open none.
    """
    policy.profiles.add(profile)
    document = state.profile(policy.document.tenant, profile)
    for pool in document.pools if document is not None else ():
        open_scope(policy, pool)


def scopes_of(state: State, policy: PolicyState, pool: str) -> tuple[Scope, ...]:
    """All accounts a job of `policy` touches in `pool`, the policy's own first, the tenant's share last."""
    share = state.shares.get((policy.document.tenant, pool))
    own = (policy.wide, policy_scope(policy, pool))
    return (*own, share) if share is not None else own


def limits_of(state: State, job: JobRecord | JobGroup, pool: str) -> tuple[Scope, ...]:
    """All accounts whose limits a job has to keep in `pool`: those of `scopes_of`, and its user's where the policy keeps one."""
    scopes = scopes_of(state, job.policy, pool)
    user = user_scope(job.policy, job.user)
    return scopes if user is None else (user, *scopes)


def counts_users(document: Policy) -> bool:
    """Whether the policy keeps an account of each user: it is fair among them (R15), or limits each (R7, R14)."""
    return document.fair_among == "users" or document.per_user is not None


def user_scope(policy: PolicyState, user: str) -> Scope | None:
    """The account of one user of the policy; None: the policy keeps none. If none is open: an empty one, which is not kept."""
    if policy.users is None:
        return None
    return policy.users.get(user) or _new_user(policy, user)


def open_user(policy: PolicyState, user: str) -> None:
    """Open the account of a user, if the policy keeps one. The fold does so for each user whose job is admitted."""
    if policy.users is not None and user not in policy.users:
        policy.users[user] = _new_user(policy, user)


def _new_user(policy: PolicyState, user: str) -> Scope:
    tenant, name = policy.key
    per_user = policy.document.per_user
    return Scope("user", f"user {user} in policy {tenant}/{name}", None, dict(per_user.limit) if per_user is not None else {})


def totals_of(state: State, policy: PolicyState, pool: PoolState, *, firm: bool) -> tuple[Amounts, ...]:
    """Where a lease of `policy` in `pool` counts as use: there, in each account, and with `firm` in what is not preemptible too (R17)."""
    known = policy.totals.get(pool.document.name)
    if known is None:
        open_scope(policy, pool.document.name)
        scopes = scopes_of(state, policy, pool.document.name)
        uses = (pool.use, *(scope.use for scope in scopes))
        known = policy.totals[pool.document.name] = uses, uses + tuple(scope.firm for scope in scopes)
    return known[firm]


def with_reservation(state: State, policy: PolicyState, pool: str) -> tuple[Scope, ...]:
    """The accounts at which a test of reservation looks (R7): those with a block; a policy without any is looked at policy-wide, with 0."""
    share = state.shares.get((policy.document.tenant, pool))
    looked_at = policy_side(policy, pool)
    return (*looked_at, share) if share is not None and share.reservation is not None else looked_at


def policy_side(policy: PolicyState, pool: str) -> tuple[Scope, ...]:
    """The policy's own accounts with a reservation block, or its policy-wide one, whose reservation is then 0."""
    own = tuple(scope for scope in (policy.wide, policy_scope(policy, pool)) if scope.reservation is not None)
    return own or (policy.wide,)


def lending_side(state: State, policy: PolicyState, pool: str) -> tuple[Scope, ...]:
    """The account in which a policy's use in the pool is borrowed where it is above the reservation (R24).

    The pool's own where the policy has a reservation block for the pool, else the policy-wide one: what is inside a pool's own
    reservation is never taken because of borrowing elsewhere, and what is beyond it may be taken whatever is unused elsewhere. Before the
    amendment: all accounts of `policy_side`, and all of them had to be above.
    """
    here = policy_scope(policy, pool)
    if not state.terms.amended:
        return policy_side(policy, pool)
    return (here,) if here.reservation is not None else (policy.wide,)


def over_reservation(
    scopes: Iterable[Scope], governed: frozenset[str], asked: Amounts, *, firm: bool = False
) -> Shortfall | None:
    """The first account whose reservation would be exceeded by `asked` more, on a governed key of it; None: it fits inside.

    With `firm` only non-preemptible use counts, because the reservation is attributed to that first (R17).
    """
    for scope in scopes:
        reservation = scope.reservation or {}
        used = scope.firm if firm else scope.use
        for key, amount in asked.items():
            if key in governed and amount and used.get(key, 0) + amount > reservation.get(key, 0):
                return Shortfall(scope, key, used.get(key, 0), amount, reservation.get(key, 0))
    return None


def to_grant(state: State) -> int:
    """What a grant to one in line holds a limit against (R17): both, so that it is not exceeded during a grace either."""
    return BOTH if state.terms.amended else WILL_BE


def to_start(state: State) -> int:
    """What the start of a nominated job holds a limit against (R17): what is held; that it will fit was tested when it was ordered."""
    return IS_HELD if state.terms.amended else WILL_BE


def over_limit(
    scopes: Iterable[Scope], governed: frozenset[str], asked: Amounts, *, beyond: bool = False, against: int = WILL_BE
) -> Shortfall | None:
    """The first account whose limit would be exceeded. `beyond`: the member may exceed the policy's limits, never the tenant's (R12).

    A user's limit on the number of jobs holds wherever they run (R5).

    `against`: which use counts (R17). To plan a reclaim it is what will be: the default.
    """
    for scope in scopes:
        if not scope.limit or (beyond and scope.kind != "tenant"):
            continue
        for key, amount in asked.items():
            if amount and key in scope.limit and (key in governed or (key == JOB and scope.kind == "user")):
                used = counted_use(scope, key, against)
                if used + amount > scope.limit[key]:
                    return Shortfall(scope, key, used, amount, scope.limit[key])
    return None


def counted_use(scope: Scope, key: str, against: int) -> int:
    """What an account uses of a key, as far as it counts `against` a limit."""
    used = scope.use.get(key, 0)
    if against == WILL_BE or not scope.leased_minus_use:
        return used
    held = used + scope.leased_minus_use.get(key, 0)
    return held if against == IS_HELD else max(used, held)


def over_capacity(pool: PoolState, asked: Amounts) -> tuple[str, int] | None:
    """The first governed key with too little left in the pool for `asked`, and how much is left (R6).

    Both must hold: leases alone never exceed the usable capacity, nor would they with what is nominated in place of what yields.
    """
    for key, amount in asked.items():
        if not amount or not is_bounded(pool, key):
            continue
        left = free_of(pool, key)
        if amount > left:
            return key, left
    return None


def is_bounded(pool: PoolState, key: str) -> bool:
    """Whether the pool's sum of a key binds what is granted (R5)."""
    return key in pool.governed or (key not in UNGOVERNED and not model_of(key))


def unbounded(state: State) -> frozenset[str]:
    """Keys that no pool bounds. One that any does counts everywhere: accounts over all pools are looked at in each of them (R7)."""
    keys = UNGOVERNED.difference(*[pool.governed for pool in state.pools.values()])
    return keys - {JOB} if any(policy.users is not None for policy in state.policies.values()) else keys


def free_of(pool: PoolState, key: str) -> int:
    """Units of a governed key that any job may be granted now."""
    left = pool.usable.get(key, 0) - pool.use.get(key, 0)
    if pool.leased_minus_use:
        left -= max(0, pool.leased_minus_use.get(key, 0))
    return max(0, left)


def borrowed(scope: Scope, key: str) -> int:
    """Leased above the reservation (R17)."""
    return max(0, scope.leased.get(key, 0) - (scope.reservation or {}).get(key, 0))


def is_above(scopes: Iterable[Scope], key: str) -> bool:
    """Whether a side is above its reservation on a key, in every account that is looked at (R24): part of its use is borrowed."""
    return all(scope.use.get(key, 0) > (scope.reservation or {}).get(key, 0) for scope in scopes)
