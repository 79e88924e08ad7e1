"""Checks that all reservations can be honoured together (R8): within a tenant against its shares, tenants against pools.

Strategy: reservations become promises against supplies, key by key, and `domain.queueing.reservation_feasibility` finds sets of promises
that exceed their supplies. A reservation in a pool is a promise against that pool; the part of a policy-wide reservation beyond those may
lie in any other pool that the policy reaches. The part of a pool that a tenant's share reserves is a supply for that tenant's policies
alone; so are nodes dedicated to the tenant, or to one of its policies (R21).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from headrace.contracts.documents.model import Documents
from headrace.contracts.values.amounts import format_amount
from headrace.domain.model.dedication import COMMON, has_owners, reach_in
from headrace.domain.model.jobs import PolicyState
from headrace.domain.queueing.reservation_feasibility import Overbooked, Promise, overbooked
from headrace.domain.state.state import State
from headrace.domain.state.supply import capacity_of
from headrace.governance.objects import ObjectName, name_of, placed
from headrace.governance.validation.diagnostics import Diagnostics, listed
from headrace.governance.validation.supply import parts, pools_reached

WAY_OUT = "lower a reservation, add capacity, or set allow_overcommit on the pool (R8)"


class _Network(NamedTuple):
    """Promises against supplies of one key. `lenient`: the supplies that may be promised twice."""

    promises: tuple[Promise, ...]
    supplies: dict[str, int | None]
    lenient: frozenset[str]

    def broken(self, *, strictly: bool) -> tuple[Overbooked, ...]:
        """Sets of promises that exceed their supplies; unless `strictly`, only as far as `allow_overcommit` does not allow it."""
        return overbooked(self.promises, self.supplies if strictly else self._leniently())

    def short_of(self, parties: set[str]) -> int:
        """Units that these parties' promises alone are short of, as far as `allow_overcommit` does not allow it."""
        promises = [promise for promise in self.promises if promise.to in parties]
        return sum(found.short for found in overbooked(promises, self._leniently()))

    def _leniently(self) -> dict[str, int | None]:
        return self.supplies | dict.fromkeys(self.lenient)


def check_reservations_feasible(before: State, after: State, findings: Diagnostics) -> None:
    """Report violations of R8.

    A violation that existed before and is not made worse is a warning, so that it does not block other changes.
    """
    for key in sorted(_reserved_keys(after)):
        for level, network in _networks(after, key).items():
            refused = network.broken(strictly=False)
            for found in refused or network.broken(strictly=True):
                _report(after, key, found, findings, refused=bool(refused) and _is_worse(before, key, level, found))
    _warn_of_empty_pools(after, findings)


def infeasible_reservations(state: State, documents: Documents) -> tuple[str, ...]:
    """Violations of R8 by documents in force, with the nodes registered now; one line each."""
    findings = Diagnostics(placed(documents))
    check_reservations_feasible(State(), state, findings)
    return tuple(findings.errors)


def _is_worse(before: State, key: str, level: str, found: Overbooked) -> bool:
    """True if the same parties were short of fewer units before."""
    was = _networks(before, key).get(level)
    return was is None or was.short_of({promise.to for promise in found.promises}) < found.short


def _report(after: State, key: str, found: Overbooked, findings: Diagnostics, *, refused: bool) -> None:
    asked: dict[str, int] = {}
    for promise in found.promises:
        asked[promise.to] = asked.get(promise.to, 0) + promise.amount
    who = listed(f"{party} ({format_amount(key, amount)})" for party, amount in sorted(asked.items()))
    what = f"{listed(found.supplies)} {'has' if len(found.supplies) == 1 else 'have'} {format_amount(key, found.available)}"
    message = f"{who} cannot be honoured together: {format_amount(key, found.asked)} {key} reserved, {what}; {WAY_OUT}"
    where = _where(after, key, set(asked), found, findings)
    if refused:
        findings.error(where, message)
    else:
        findings.warn(where, "OVERCOMMITTED", message)


def _where(after: State, key: str, parties: set[str], found: Overbooked, findings: Diagnostics) -> str:
    """The place of the first party in the set; else of a pool or profile in the set; else the first party's name."""
    for name in findings.places:
        if str(name) in parties:
            return findings.where(name, "reservation", key) if name.kind == "policy" else findings.where(name, "shares")
    for name in findings.places:
        if name.kind == "pool" and any(supply.endswith(_part(name.name, COMMON)) for supply in found.supplies):
            return findings.where(name, *(("capacity", key) if key in after.pools[name.name].document.capacity else ()))
    profile = next((name for name in findings.places if name.kind == "profile"), None)
    return min(parties) if profile is None else findings.where(profile, "pools")


# ---- promises and supplies ----


def _reserved_keys(state: State) -> set[str]:
    keys: set[str] = set()
    for policy in state.policies.values():
        for block in (policy.document.reservation, *(scope.reservation for scope in policy.document.per_pool.values())):
            keys |= (block or {}).keys()
    for share in state.shares.values():
        keys |= (share.reservation or {}).keys()
    return keys


def _networks(state: State, key: str) -> dict[str, _Network]:
    """The promises and supplies of one key, by the name of their level."""
    has = {name: parts(pool, key) for name, pool in state.pools.items()}
    reserved = {place: share.reservation.get(key, 0) for place, share in state.shares.items() if share.reservation is not None}
    there = {place: amount for place, amount in reserved.items() if place[1] in has}
    hardware = {_part(pool, owner): amount for pool, owners in has.items() for owner, amount in owners.items()}
    shares = tuple(
        Promise(f"tenant {tenant}", amount, frozenset(_part(pool, owner) for owner in has[pool] if _serves(owner, tenant)))
        for (tenant, pool), amount in there.items()
    )
    supplies = hardware | {_part(pool, COMMON): _less(owners, pool, there) for pool, owners in has.items() if COMMON in owners}
    lenient = {pool for pool, written in state.pools.items() if written.document.allow_overcommit}
    of_pools = frozenset(_part(pool, owner) for pool in lenient for owner in has[pool])
    of_shares = frozenset(_share(*place) for place in there if place[1] in lenient)
    networks = {
        "shares": _Network(shares, hardware, of_pools),
        "policies": _Network(
            _all_promises(state, key),
            supplies | {_share(*place): amount for place, amount in there.items()},
            of_pools | of_shares,
        ),
    }
    if any(
        has_owners(state.pools[pool].document) for _, pool in there
    ):  # a share may depend on supplies that one of its policies cannot use
        networks["hardware"] = _Network(_all_promises(state, key, _parts_in_reach), hardware, of_pools)
    limited = {tenant for (tenant, _), share in state.shares.items() if share.reservation is None and key in share.limit}
    for tenant in sorted(limited):
        networks[f"limits of {tenant}"] = _under_limits(state, tenant, key, lenient)
    return networks


def _serves(owner: str, tenant: str) -> bool:
    """True if hardware dedicated to `owner` serves any policy of a tenant (R21)."""
    return owner.partition("/")[0] in (COMMON, tenant)


def _less(owners: dict[str, int | None], pool: str, reserved: dict[tuple[str, str], int]) -> int | None:
    """Common capacity of a pool, less the reservations of tenants' shares; these use hardware dedicated to them first."""
    whole = owners[COMMON]
    if whole is None:
        return None
    for (tenant, where), amount in reserved.items():
        own = [units for owner, units in owners.items() if owner != COMMON and _serves(owner, tenant)]
        if where == pool and None not in own:
            whole -= max(0, amount - sum(units or 0 for units in own))
    return max(0, whole)


def _under_limits(state: State, tenant: str, key: str, lenient: set[str]) -> _Network:
    """A tenant's policies against its shares that have a limit but no reservation: the limit bounds what they can hold there."""
    supplies: dict[str, int | None] = {}
    for pool in state.pools:
        share = state.shares.get((tenant, pool))
        is_bound = share is not None and share.reservation is None
        supplies[_part(pool, COMMON)] = share.limit.get(key) if share is not None and is_bound else None
    mine = [policy for policy in state.policies.values() if policy.document.tenant == tenant]
    promises = tuple(promise for policy in mine for promise in _promises(state, policy, key, _whole_pool))
    return _Network(promises, supplies, frozenset(_part(pool, COMMON) for pool in lenient))


Sources = Callable[[State, PolicyState, str], frozenset[str]]
"""Supplies that a policy uses in a pool."""


def _drawn_on(state: State, policy: PolicyState, pool: str) -> frozenset[str]:
    """The tenant's share if it reserves anything here, else the parts of the pool that the policy may use."""
    tenant = policy.document.tenant
    share = state.shares.get((tenant, pool))
    is_transparent = share is None or share.reservation is None
    return _parts_in_reach(state, policy, pool) if is_transparent else frozenset({_share(tenant, pool)})


def _parts_in_reach(state: State, policy: PolicyState, pool: str) -> frozenset[str]:
    return frozenset(_part(pool, owner) for owner in reach_in(state.pools[pool].document, policy.key))


def _whole_pool(_state: State, _policy: PolicyState, pool: str) -> frozenset[str]:
    return frozenset({_part(pool, COMMON)})


def _all_promises(state: State, key: str, sources: Sources = _drawn_on) -> tuple[Promise, ...]:
    return tuple(promise for policy in state.policies.values() for promise in _promises(state, policy, key, sources))


def _promises(state: State, policy: PolicyState, key: str, sources: Sources) -> Iterator[Promise]:
    """Promises to one policy: its reservation in each pool, and the rest of its policy-wide reservation in any other pool."""
    document = policy.document
    reached = pools_reached(state, document)
    whole = None if document.reservation is None else document.reservation.get(key, 0)
    pinned: dict[str, int] = {}
    for pool, scope in document.per_pool.items():
        if pool in reached and scope.reservation is not None:
            amount = scope.reservation.get(key, 0)
            pinned[pool] = amount if whole is None else min(amount, whole)
    for pool, amount in pinned.items():
        yield Promise(str(name_of(document)), amount, sources(state, policy, pool))
    unpinned = [pool for pool in reached if pool not in pinned]
    if whole is not None and unpinned:
        anywhere = frozenset[str]().union(*(sources(state, policy, pool) for pool in unpinned))
        yield Promise(str(name_of(document)), max(0, whole - sum(pinned.values())), anywhere)


def _part(pool: str, owner: str) -> str:
    return f"what is dedicated to {owner} in pool {pool}" if owner else f"pool {pool}"


def _share(tenant: str, pool: str) -> str:
    return f"tenant {tenant}'s share of pool {pool}"


# ---- warnings ----


def _warn_of_empty_pools(after: State, findings: Diagnostics) -> None:
    """NO_NODES_YET: warn of a reservation in a pool without any registered node (R6)."""
    reserved_in: dict[str, set[str]] = {}
    for policy in after.policies.values():
        for pool in pools_reached(after, policy.document):
            block = policy.document.per_pool.get(pool)
            keys = {*(policy.document.reservation or {}), *((block.reservation if block else None) or {})}
            reserved_in.setdefault(pool, set()).update(keys)
    for (_, pool), share in after.shares.items():
        reserved_in.setdefault(pool, set()).update(share.reservation or {})
    for name, keys in sorted(reserved_in.items()):
        if (
            name in after.pools
            and not after.pools[name].nodes
            and any(capacity_of(after.pools[name], key) is None for key in keys)
        ):
            labels = ", ".join(f"{label}={value}" for label, value in after.pools[name].document.selector.items())
            nodes = f"no node with the labels {labels}" if labels else "no node"
            message = f"{nodes} has registered yet, so whether the reservations here can be honoured is not known"
            findings.warn(findings.where(ObjectName("pool", "", name)), "NO_NODES_YET", message)


def warn_not_pinned(after: State, changed: Iterable[PolicyState], findings: Diagnostics) -> None:
    """NOT_PINNED: warn of a policy that may occupy, within its policy-wide reservation, a pool that another policy needs (R8)."""
    loose: dict[frozenset[str], list[PolicyState]] = {}
    for policy in after.policies.values():
        if _is_loose(policy):
            loose.setdefault(frozenset(pools_reached(after, policy.document)), []).append(policy)
    for policy in changed:
        reached = frozenset(pools_reached(after, policy.document))
        if not _is_loose(policy):
            continue
        others = sorted(
            str(name_of(other.document))
            for pools, members in loose.items()
            if not reached <= pools and not reached.isdisjoint(pools)
            for other in members
            if any(_meet(after, policy, other, pool) for pool in reached & pools)
        )
        if others:
            message = f"it may sit, inside its reservation, where {listed(others)} must go; reserve per pool to prevent it"
            findings.warn(findings.where(name_of(policy.document), "reservation"), "NOT_PINNED", message)


def _is_loose(policy: PolicyState) -> bool:
    document = policy.document
    return any((document.reservation or {}).values()) and all(scope.reservation is None for scope in document.per_pool.values())


def _meet(state: State, policy: PolicyState, other: PolicyState, pool: str) -> bool:
    """True if the two policies use the same supply in a pool."""
    return not _drawn_on(state, policy, pool).isdisjoint(_drawn_on(state, other, pool))
