"""The accounts that a reclaim compares: just below the lowest common ancestor of the two policies (R23, R24)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.domain.state.idleness import idle_jobs
from headrace.domain.state.quota import is_above, lending_side, over_reservation, policy_side

if TYPE_CHECKING:
    from headrace.domain.model.jobs import JobRecord, PolicyState, Scope
    from headrace.domain.state.pools import PoolState
    from headrace.domain.state.state import State


def side_below(state: State, policy: PolicyState, other: PolicyState, pool: PoolState) -> tuple[Scope, ...]:
    """The accounts of `policy` just below its lowest common ancestor with `other` (R23): its own, or its tenant's share.

    A tenant without a share here, or with one that reserves nothing, is transparent (R7).
    """
    across = policy.document.tenant != other.document.tenant
    return (across and share_side(state, policy, pool)) or policy_side(policy, pool.document.name)


def lends_as(state: State, policy: PolicyState, other: PolicyState, pool: PoolState) -> tuple[Scope, ...]:
    """The account of `policy` that has to be above its reservation before `other` may take from it (R24)."""
    across = policy.document.tenant != other.document.tenant
    return (across and share_side(state, policy, pool)) or lending_side(state, policy, pool.document.name)


def share_side(state: State, policy: PolicyState, pool: PoolState) -> tuple[Scope, ...]:
    """The share of the policy's tenant in the pool, if it reserves something."""
    share = state.shares.get((policy.document.tenant, pool.document.name))
    return (share,) if share is not None and share.reservation is not None else ()


def stays_within(side: tuple[Scope, ...], job: JobRecord, pool: PoolState) -> bool:
    """Whether a side is within its reservation after admission, on every governed key of the request (R23)."""
    return over_reservation(side, pool.governed, job.request.total) is None


def lends(state: State, policy: PolicyState, asking: PolicyState, pool: PoolState) -> bool:
    """Whether a policy's side is above its reservation here, on a key that it holds, as `asking` sees it (R24), or has idle jobs (R39)."""
    held = policy.scopes.get(pool.document.name)
    if policy is asking or not policy.jobs or held is None or not held.leased:
        return False
    if policy.idle and idle_jobs(policy, pool.document.name):
        return True
    side = lends_as(state, policy, asking, pool)
    return any(is_above(side, key) for key in held.leased if key in pool.governed)
