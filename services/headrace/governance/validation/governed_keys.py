"""Checks that reservations, limits and budgets name keys that a pool in their reach governs (R5); otherwise they have no effect.

Amounts without effect in the set are refused, with the way out; so is a change of a pool or profile that removes the effect of existing
amounts. Amounts that were stored without effect earlier cause only warnings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from headrace.contracts.documents.model import Policy, Tenant
from headrace.contracts.values.amounts import JOB
from headrace.domain.state.state import State
from headrace.governance.objects import ObjectName, name_of
from headrace.governance.validation.diagnostics import Diagnostics, listed
from headrace.governance.validation.supply import governed_in, pools_reached


class Claim(NamedTuple):
    """One amount in a document: its object, position, kind (limit, reservation, budget), key, and the existing pools in reach."""

    name: ObjectName
    part: tuple[str | int, ...]
    what: str
    key: str
    pools: tuple[str, ...]

    @property
    def identity(self) -> tuple[ObjectName, tuple[str | int, ...], str]:
        """Identity of the amount across states."""
        return self.name, self.part, self.key


def check_governed(before: State, after: State, changed: Iterable[ObjectName], findings: Diagnostics) -> None:
    """Refuse amounts whose effect the set lacks or removes; `changed`: the objects that the set changes."""
    objects = tuple(changed)
    was = {claim.identity: claim for claim in _claims(before)}
    for claim in _claims(after):
        if not claim.pools:
            if claim.name in objects:
                message = f"no profile leads to a pool that exists, so this {claim.what} holds nowhere yet"
                findings.warn(findings.where(claim.name, *claim.part), "NO_POOL_YET", message)
            continue
        governing = governed_in(after, claim.pools, claim.key)
        if governing:
            if claim.name in objects and len(governing) < len(claim.pools):
                others = listed(pool for pool in claim.pools if pool not in governing)
                message = (
                    f"{claim.key} is governed in {_pools(governing)}, so this {claim.what} holds there and not in {others} (R5)"
                )
                findings.warn(findings.where(claim.name, *claim.part), "NOT_GOVERNED", message)
            continue
        earlier = was.get(claim.identity)
        if earlier is not None and not governed_in(before, earlier.pools, claim.key):
            if claim.name in objects:
                findings.warn(findings.where(claim.name, *claim.part), "NOT_GOVERNED", _without_effect(claim))
        elif claim.name in objects or earlier is None:
            findings.error(findings.where(claim.name, *claim.part), _without_effect(claim))
        else:
            _effect_taken(claim, earlier, before, objects, findings)


def _without_effect(claim: Claim) -> str:
    none = (
        f"{_pools(claim.pools)} does not govern {claim.key}"
        if len(claim.pools) == 1
        else f"none of {_pools(claim.pools)} governs {claim.key}"
    )
    return (
        f"{none}, so this {claim.what} has no effect; name {claim.key} in the capacity of the pool, or leave it out here (R5)"
    )


def _effect_taken(claim: Claim, earlier: Claim, before: State, changed: tuple[ObjectName, ...], findings: Diagnostics) -> None:
    """Report an amount of an unchanged document that loses its effect by changes of pools or profiles in the set."""
    lost = set(governed_in(before, earlier.pools, claim.key))
    pool = next((name for name in changed if name.kind == "pool" and name.name in lost), None)
    spoken_of = f"the {claim.what} of {claim.name} speaks of {claim.key}, which no pool in its reach would govern any more"
    if pool is not None:
        message = f"{spoken_of}; keep {claim.key} here, or take it out of that document first (R5)"
        findings.error(findings.where(pool, "capacity"), message)
        return
    profile = next((name for name in changed if name.kind == "profile"), claim.name)
    message = f"{spoken_of}; keep {_pools(sorted(lost))} in the profile, or take {claim.key} out of that document first (R5)"
    findings.error(findings.where(profile, "pools"), message)


def _pools(names: Iterable[str]) -> str:
    pools = list(names)
    return f"pool{'s' if len(pools) > 1 else ''} {listed(pools)}"


def _claims(state: State) -> Iterator[Claim]:
    for policy in state.policies.values():
        yield from _of_policy(state, policy.document)
    for tenant in state.tenants.values():
        if isinstance(tenant.document, Tenant):
            yield from _of_tenant(state, tenant.document)


def _of_policy(state: State, document: Policy) -> Iterator[Claim]:
    name, reached = name_of(document), pools_reached(state, document)
    yield from _of_scope(name, (), document.reservation, document.limit, reached)
    for pool, scope in document.per_pool.items():
        if pool in reached:
            yield from _of_scope(name, ("per_pool", pool), scope.reservation, scope.limit, (pool,))
    if document.per_user is not None:
        yield from _of_scope(name, ("per_user",), None, document.per_user.limit, reached)
    for index, budget in enumerate(document.budgets):
        if budget.key != JOB:  # every job takes one, governed or not
            yield Claim(name, ("budgets", index, "key"), "budget", budget.key, reached)


def _of_tenant(state: State, document: Tenant) -> Iterator[Claim]:
    for index, share in enumerate(document.shares):
        if share.pool in state.pools:
            yield from _of_scope(name_of(document), ("shares", index), share.reservation, share.limit, (share.pool,))


def _of_scope(
    name: ObjectName,
    part: tuple[str | int, ...],
    reservation: dict[str, int] | None,
    limit: dict[str, int],
    pools: tuple[str, ...],
) -> Iterator[Claim]:
    for key in sorted(reservation or {}):
        yield Claim(name, (*part, "reservation", key), "reservation", key, pools)
    for key in sorted(limit):
        if key != JOB:  # a limit on the number of jobs always holds
            yield Claim(name, (*part, "limit", key), "limit", key, pools)
