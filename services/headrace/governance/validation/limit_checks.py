"""Checks of the reservations and limits of each policy and share (R5, R7), and that a job can run under them (R13)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from headrace.contracts.documents.model import Policy, Profile, Tenant
from headrace.contracts.values.amounts import Amounts, format_amount
from headrace.domain.model.census import PolicyKey
from headrace.domain.model.jobs import PolicyState
from headrace.domain.model.requests import make_request
from headrace.domain.queueing.admissible import Rejection, models_that_fit, never_fits
from headrace.domain.state.gpu_shares import asked_by, most_of
from headrace.domain.state.state import State
from headrace.domain.state.supply import capacity_of
from headrace.governance.objects import ObjectName
from headrace.governance.validation.diagnostics import Diagnostics, listed
from headrace.governance.validation.supply import governed_in, pools_reached

Part = tuple[str | int, ...]


def check_reservations(name: ObjectName, document: Policy | Tenant, findings: Diagnostics) -> None:
    """R7: 0 ≤ reservation ≤ limit for each key in every scope; both scopes of a policy hold together."""
    for part, reservation, limits in _scopes(document):
        for key, reserved in sorted((reservation or {}).items()):
            ceiling = min((limit[key] for limit in limits if key in limit), default=None)
            if reserved < 0 or (ceiling is not None and reserved > ceiling):
                shown = format_amount(key, reserved)
                bound = "is below 0" if ceiling is None else f"is not between 0 and the limit of {format_amount(key, ceiling)}"
                findings.error(findings.where(name, *part, "reservation", key), f"the reservation of {shown} {bound} (R7)")


def _scopes(document: Policy | Tenant) -> Iterator[tuple[Part, Amounts | None, tuple[Amounts, ...]]]:
    """Position of each reservation, and the limits that hold there."""
    if isinstance(document, Tenant):
        for index, share in enumerate(document.shares):
            yield ("shares", index), share.reservation, (share.limit,)
        return
    yield (), document.reservation, (document.limit,)
    for pool, scope in document.per_pool.items():
        yield ("per_pool", pool), scope.reservation, (scope.limit, document.limit)


def check_share_limits(name: ObjectName, tenant: Tenant, after: State, findings: Diagnostics) -> None:
    """Warn of a share's limit above the pool's capacity."""
    for index, share in enumerate(tenant.shares):
        if share.pool in after.pools:
            _limits_above_capacity(name, ("shares", index), share.limit, (share.pool,), after, findings, None)


def check_policy(name: ObjectName, policy: PolicyState, after: State, findings: Diagnostics) -> None:
    """Warn of parts of a policy without effect: limits above the capacity, queues in which no job can run."""
    document = policy.document
    reached = pools_reached(after, document)
    if not reached:
        return
    _limits_above_capacity(name, (), document.limit, reached, after, findings, policy.key)
    _granularity(name, (), document.reservation, dict(_profiles(after, document)), after, findings)
    for pool, scope in document.per_pool.items():
        if pool in reached:
            part = ("per_pool", pool)
            leading_there = {link: profile for link, profile in _profiles(after, document) if pool in profile.pools}
            _limits_above_capacity(name, part, scope.limit, (pool,), after, findings, policy.key)
            _granularity(name, part, scope.reservation, leading_there, after, findings)
    _never_runs(name, policy, after, findings)


def _profiles(after: State, policy: Policy) -> Iterator[tuple[int, Profile]]:
    for index, link in enumerate(policy.profiles):
        profile = after.profile(policy.tenant, link.name)
        if profile is not None:
            yield index, profile


def _limits_above_capacity(
    name: ObjectName,
    part: Part,
    limit: Amounts,
    pools: tuple[str, ...],
    after: State,
    findings: Diagnostics,
    policy: PolicyKey | None,
) -> None:
    for key, ceiling in sorted(limit.items()):
        known = [capacity_of(after.pools[pool], key, policy) for pool in pools]
        has = sum(capacity for capacity in known if capacity is not None)
        if None not in known and ceiling > has and governed_in(after, pools, key):
            what = f"pool {pools[0]} has" if len(pools) == 1 else f"pools {listed(pools)} have"
            message = f"{what} {format_amount(key, has)}, so the limit of {format_amount(key, ceiling)} counts as that"
            findings.warn(findings.where(name, *part, "limit", key), "LIMIT_ABOVE_CAPACITY", message)


def _granularity(
    name: ObjectName,
    part: Part,
    reservation: Amounts | None,
    profiles: Mapping[int, Profile],
    after: State,
    findings: Diagnostics,
) -> None:
    """Warn of a reservation that is smaller than the smallest job it could serve (R8)."""
    for key, reserved in sorted((reservation or {}).items()):
        totals = [(_total(after, profile), profile.name) for profile in profiles.values()]
        sizes = [(total[key], profile) for total, profile in totals if total.get(key)]
        if reserved and sizes and reserved < min(sizes)[0]:
            size, profile = min(sizes)
            message = (
                f"the reservation of {format_amount(key, reserved)} is smaller than the smallest job it could serve, "
                f"one of profile {profile} with {format_amount(key, size)}"
            )
            findings.warn(findings.where(name, *part, "reservation", key), "GRANULARITY", message)


def _total(after: State, profile: Profile) -> Amounts:
    """Amounts of a job of the profile, all replicas together, including one `job` (R2)."""
    return make_request(asked_by(after, profile), profile.replicas, profile).total


def _never_runs(name: ObjectName, policy: PolicyState, after: State, findings: Diagnostics) -> None:
    """Warn of a queue whose jobs would all be rejected (R13)."""
    for index, profile in _profiles(after, policy.document):
        rejection = _never(after, policy, profile)
        if rejection is not None:
            queue = f"{policy.document.name}/{profile.name}"
            message = f"no whole job of queue {queue} could run: {rejection.reason}: {rejection.message}"
            findings.warn(findings.where(name, "profiles", index), "NEVER_RUNS", message)


def _never(after: State, policy: PolicyState, profile: Profile) -> Rejection | None:
    """Why no whole job of the profile could run; None if one could."""
    flags = {"preemptible": True, "beyond": False, "contained": False}
    found = models_that_fit(after, policy, profile, most_of(after, profile), **flags)
    if found is not None:
        return found if isinstance(found, Rejection) else None
    request = make_request(asked_by(after, profile), profile.replicas, profile, profile.mig)
    return never_fits(after, policy, profile, request, preemptible=True, beyond=False)
