"""What can ever run (R13): the tests that look at documents and known hardware, not at who holds what now.

Admission asks it for new jobs, the allocator again for pending ones after documents or capacity have changed (R10).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from headrace.contracts.values.amounts import CPU, GPU, GPU_MEMORY, JOB, MEMORY, format_amount, gpus_first
from headrace.contracts.values.durations import format_duration
from headrace.contracts.values.isolation import LEVELS
from headrace.contracts.values.mig import slices_of
from headrace.contracts.values.reasons import RejectReason
from headrace.domain.model.census import is_hardware
from headrace.domain.model.requests import is_steady, make_request
from headrace.domain.placement.placement import replicas_if_empty, replicas_if_replaced, replicas_together_if_empty
from headrace.domain.queueing.access import may_enter
from headrace.domain.state.gpu_shares import models_of, shares_of
from headrace.domain.state.quota import scopes_of, with_reservation
from headrace.domain.state.supply import capacity_of, is_known

if TYPE_CHECKING:
    from headrace.contracts.documents.model import Policy, Profile
    from headrace.contracts.values.amounts import Amounts
    from headrace.contracts.values.gpu_memory import ModelShare
    from headrace.domain.model.jobs import PolicyState
    from headrace.domain.model.requests import Request
    from headrace.domain.state.pools import PoolState
    from headrace.domain.state.state import State


class Rejection(NamedTuple):
    """A stable reason, and a line with the numbers and the way out."""

    reason: RejectReason
    message: str


_ORDER = list(RejectReason)


def never_fits(
    state: State,
    policy: PolicyState,
    profile: Profile,
    request: Request,
    *,
    preemptible: bool,
    beyond: bool,
    admitted: int | None = None,
) -> Rejection | None:
    """None if at least one pool of the profile could run it when empty; else why the pool that came closest could not.

    Of a job that asks for GPU memory, with the share of any GPU model that it may be given (R42). `admitted`: sequence of the record that
    admitted it, if it was; what the nodes of a pool have does not count where the first of them came later (R10).
    """
    closest: Rejection | None = None
    for one in request.each:
        for pool in open_pools(state, policy, profile):
            awaited = admitted is not None and was_empty_at(pool, admitted)
            rejection = _never_in(state, policy, pool, one, preemptible=preemptible, beyond=beyond, awaited=awaited)
            if rejection is None:
                return None
            if closest is None or _ORDER.index(rejection.reason) > _ORDER.index(closest.reason):
                closest = rejection
    return closest or _no_pool(state, policy, profile)


class MatchedModels(NamedTuple):
    """What a job may be given of each GPU model, the one tried first at the front. `by_model`: it is charged the model's own key too."""

    shares: tuple[ModelShare, ...]
    by_model: bool


def models_that_fit(
    state: State,
    policy: PolicyState,
    profile: Profile,
    amounts: Amounts,
    *,
    preemptible: bool,
    beyond: bool,
    contained: bool,
    admitted: int | None = None,
) -> MatchedModels | Rejection | None:
    """The GPU models with which a job could ever run that asks for GPU memory (R42), or has a pool that governs models (R43).

    The rejection of the model that came closest if it fits on no model. None for every other job, and while no node with GPUs is known.
    `amounts`: what one replica asks for. `admitted`: as for `never_fits`.
    """
    memory, pools = amounts.get(GPU_MEMORY, 0), open_pools(state, policy, profile)
    by_model = any(pool.models for pool in pools)
    if not memory and not (by_model and amounts.get(GPU)):
        return None
    asked = {key: amount for key, amount in amounts.items() if key != GPU_MEMORY}
    steady = is_steady(profile, state.terms.level, preemptible=preemptible)

    def never(among: tuple[ModelShare, ...]) -> Rejection | None:
        request = make_request(
            *(asked, profile.replicas, profile),
            contained=contained,
            steady=steady,
            memory=memory,
            shares=among,
            by_model=by_model,
        )
        return never_fits(state, policy, profile, request, preemptible=preemptible, beyond=beyond, admitted=admitted)

    shares = shares_of(pools, profile, policy.key, memory) if memory else models_of(pools, profile, policy.key, amounts[GPU])
    if isinstance(shares, str):
        return Rejection(RejectReason.NO_SUITABLE_NODE, shares)
    if not shares:
        return None
    fitting = tuple(share for share in shares if never((share,)) is None)
    return MatchedModels(fitting, by_model) if fitting else never(shares) or _no_pool(state, policy, profile)


def time_limit_of(policy: Policy, profile: Profile, asked: int | None) -> int | Rejection | None:
    """The time limit of a job that asks for `asked`, microseconds; None: it has none. A rejection if it asks for more than it may (R33).

    One that asks for none gets the policy's default, else the profile's, else the smaller of their maximums, and never more than those.
    """
    most = [limit for limit in (policy.max_time_limit, profile.max_time_limit) if limit is not None]
    if asked is None:
        default = profile.default_time_limit if policy.default_time_limit is None else policy.default_time_limit
        return min(most, default=None) if default is None else min([default, *most])
    for reason, of, limit in (
        (RejectReason.BEYOND_PROFILE, f"profile {profile.name}", profile.max_time_limit),
        (RejectReason.EXCEEDS_POLICY_LIMIT, f"policy {policy.tenant}/{policy.name}", policy.max_time_limit),
    ):
        if limit is not None and asked > limit:
            what = f"time_limit: {format_duration(asked)} is asked for, {of} allows at most {format_duration(limit)}"
            return Rejection(reason, what)
    return asked


def open_pools(state: State, policy: PolicyState, profile: Profile) -> list[PoolState]:
    """The pools of a profile, in its order, that exist and are open to the policy's tenant and group."""
    found = [state.pools[name] for name in profile.pools if name in state.pools]
    return [pool for pool in found if may_enter(pool, policy.document.tenant, policy.document.group)]


def was_empty_at(pool: PoolState, admitted: int) -> bool:
    """Whether all nodes of the pool came after a record, which admitted jobs without knowing them: more of them may come (R10)."""
    return bool(pool.nodes) and pool.document.burst is None and admitted < pool.nodes_since


def _no_pool(state: State, policy: PolicyState, profile: Profile) -> Rejection:
    if any(name in state.pools for name in profile.pools):
        what = f"no pool of profile {profile.name} is open to {policy.document.tenant}"
        return Rejection(RejectReason.NOT_ALLOWED, what)
    return Rejection(RejectReason.NO_SUITABLE_NODE, f"none of the profile's pools ({', '.join(profile.pools)}) exists")


def _never_in(
    state: State, policy: PolicyState, pool: PoolState, request: Request, *, preemptible: bool, beyond: bool, awaited: bool
) -> Rejection | None:
    return (
        (_beyond_declared(pool, request) if awaited else _beyond_hardware(state, pool, policy, request))
        or _beyond_limits(state, policy, pool, request, beyond=beyond)
        or (None if preemptible else _beyond_reservation(state, policy, pool, request))
    )


def _beyond_declared(pool: PoolState, request: Request) -> Rejection | None:
    """What the document says of the pool, while its nodes are still coming (R6)."""
    for key, asked in gpus_first(request.total):
        known = pool.document.capacity.get(key, None if is_hardware(key) or key == JOB else 0)
        if known is not None and asked > known:
            return _beyond_capacity(key, asked, f"pool {pool.document.name} has {format_amount(key, known)}")
    return None


def _beyond_capacity(key: str, asked: int, has: str) -> Rejection:
    return Rejection(RejectReason.EXCEEDS_POOL_CAPACITY, f"it asks for {format_amount(key, asked)} {key}, {has}")


def _beyond_hardware(state: State, pool: PoolState, policy: PolicyState, request: Request) -> Rejection | None:
    """Capacity, then nodes. Before the first node has registered nothing is known about either (R6), save of keys no node brings."""
    for key, asked in gpus_first(request.total):
        known = capacity_of(pool, key, policy.key)
        if known is not None and asked > known and (key in pool.governed or key not in (CPU, MEMORY)):
            mine = " for its policy; the rest is dedicated to others (R21)" if known < pool.known.get(key, 0) else ""
            has = f"pool {pool.document.name} has {format_amount(key, known)}{mine}"
            return _beyond_capacity(key, asked, has)
    possible = replicas_if_empty(pool, request.shape, policy.key) if is_known(pool) else request.replicas
    if possible < request.replicas:
        possible = max(possible, replicas_if_replaced(pool, request.shape, policy.key, state.instances))
    if possible < request.replicas:
        return Rejection(RejectReason.NO_SUITABLE_NODE, _unsuitable(pool, request, possible))
    if request.required and is_known(pool):
        together = replicas_together_if_empty(pool, request, policy.key)
        if together < request.replicas:
            what = f"it needs {request.replicas} replicas within one {request.required} (R40)"
            return Rejection(
                RejectReason.NO_SUITABLE_NODE, f"{what}, of those in pool {pool.document.name} none holds more than {together}"
            )
    return None


def _unsuitable(pool: PoolState, request: Request, possible: int) -> str:
    name, mig = pool.document.name, request.shape.mig
    if possible:
        return f"the nodes of pool {name} could hold {possible} of its {request.replicas} replicas"
    offered = slices_of(sorted(pool.families))
    if mig and mig not in offered:
        there = f"there are {', '.join(offered)}" if offered else "none of its GPUs is in MIG mode"
        return f"pool {name} has no slice {mig}: {there}"
    least, best = request.shape.isolation, _best_isolation(pool, request)
    if best is not None and best < 0:
        return f"it has an image, and no node of pool {name} can run {_what(request)} in a container"
    if best is not None and best < least:
        reach = f"reach {LEVELS[best]}{' in containers' if request.shape.contained else ''}"
        return f"its profile wants isolation {LEVELS[least]} at the least, the nodes of pool {name} {reach}"
    return f"no node of pool {name} could hold it"


def _best_isolation(pool: PoolState, request: Request) -> int | None:
    """The rank that some node reaches for the job's part of a GPU; None without a node, or if the job takes no part of one."""
    reached = [request.shape.isolation_on(node.levels) for node in pool.nodes.values()]
    return None if None in reached else max((level for level in reached if level is not None), default=None)


def _what(request: Request) -> str:
    return "a part of a GPU" if request.shape.fraction else "a job"


def _beyond_limits(state: State, policy: PolicyState, pool: PoolState, request: Request, *, beyond: bool) -> Rejection | None:
    per_user = policy.document.per_user
    for key, most in per_user.limit.items() if per_user is not None and not beyond else ():
        asked = request.total.get(key, 0)
        if asked > most and (key in pool.governed or key == JOB):
            name, limit = "/".join(policy.key), format_amount(key, most)
            what = f"it asks for {format_amount(key, asked)} {key}, the limit of each user in policy {name} is {limit}"
            return Rejection(RejectReason.EXCEEDS_POLICY_LIMIT, what)
    for scope in scopes_of(state, policy, pool.document.name):
        if beyond and scope.kind == "policy":
            continue
        for key, asked in gpus_first(request.total):
            if key in pool.governed and key in scope.limit and asked > scope.limit[key]:
                reason = RejectReason.EXCEEDS_TENANT_LIMIT if scope.kind == "tenant" else RejectReason.EXCEEDS_POLICY_LIMIT
                limit = format_amount(key, scope.limit[key])
                return Rejection(reason, f"it asks for {format_amount(key, asked)} {key}, the limit of {scope.name} is {limit}")
    return None


def _beyond_reservation(state: State, policy: PolicyState, pool: PoolState, request: Request) -> Rejection | None:
    for scope in with_reservation(state, policy, pool.document.name):
        for key, asked in gpus_first(request.total):
            reserved = (scope.reservation or {}).get(key, 0)
            if asked and key in pool.governed and asked > reserved:
                what = f"it asks for {format_amount(key, asked)} {key} without being preemptible, {scope.name} has a reservation of "
                return Rejection(
                    RejectReason.EXCEEDS_RESERVATION, what + format_amount(key, reserved) + "; submit it as preemptible"
                )
    return None
