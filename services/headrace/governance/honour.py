"""Whether all reservations can be honoured together (R8): within a tenant against its shares, tenants against pools.

Strategy: what is reserved becomes promises against supplies, key by key, and `domain.honourable` looks for sets that ask for too
much. A reservation in a pool is a promise against that pool; what a policy-wide one says beyond those may lie in any other pool that
the policy reaches. The part of a pool that a tenant's share reserves is a supply for that tenant's policies alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from headrace.contracts.amounts import format_amount
from headrace.domain.honourable import Overbooked, Promise, overbooked
from headrace.domain.state import PolicyState, State
from headrace.governance.findings import Findings, listed
from headrace.governance.objects import Name, name_of
from headrace.governance.supply import most, pools_reached

WAY_OUT = "lower a reservation, add capacity, or set allow_overcommit on the pool (R8)"


class _Network(NamedTuple):
    """One question: can these promises be kept from these supplies? `lenient`: the supplies that may be promised twice."""

    promises: tuple[Promise, ...]
    supplies: dict[str, int | None]
    lenient: frozenset[str]

    def broken(self, *, strictly: bool) -> tuple[Overbooked, ...]:
        """The sets that are promised too much; not strictly: as far as `allow_overcommit` does not allow it."""
        return overbooked(self.promises, self.supplies if strictly else self._leniently())

    def short_of(self, parties: set[str]) -> int:
        """Units that these parties' promises alone are short of, as far as `allow_overcommit` does not allow it."""
        promises = [promise for promise in self.promises if promise.to in parties]
        return sum(found.short for found in overbooked(promises, self._leniently()))

    def _leniently(self) -> dict[str, int | None]:
        return self.supplies | dict.fromkeys(self.lenient)


def check_honourable(before: State, after: State, findings: Findings) -> None:
    """Note what R8 refuses. What was broken before, and is not made worse, only warns: no edit is blocked by what others did."""
    for key in sorted(_reserved_keys(after)):
        for level, network in _networks(after, key).items():
            refused = network.broken(strictly=False)
            for found in refused or network.broken(strictly=True):
                _tell(after, key, found, findings, refused=bool(refused) and _is_worse(before, key, level, found))
    _warn_of_empty_pools(after, findings)


def _is_worse(before: State, key: str, level: str, found: Overbooked) -> bool:
    """Whether the same parties were short of less before."""
    was = _networks(before, key).get(level)
    return was is None or was.short_of({promise.to for promise in found.promises}) < found.short


def _tell(after: State, key: str, found: Overbooked, findings: Findings, *, refused: bool) -> None:
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


def _where(after: State, key: str, parties: set[str], found: Overbooked, findings: Findings) -> str:
    """The place of the first party that stands in the set, else of a pool or a profile that does, else the first party's name."""
    for name in findings.places:
        if str(name) in parties:
            return findings.where(name, "reservation", key) if name.kind == "policy" else findings.where(name, "shares")
    for name in findings.places:
        if name.kind == "pool" and any(supply.endswith(_pool(name.name)) for supply in found.supplies):
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
    """The questions about one key, by a name of their level."""
    has = {name: most(pool, key) for name, pool in state.pools.items()}
    reserved = {place: share.reservation.get(key, 0) for place, share in state.shares.items() if share.reservation is not None}
    shares = tuple(
        Promise(f"tenant {tenant}", amount, frozenset({_pool(pool)}))
        for (tenant, pool), amount in reserved.items()
        if pool in has
    )
    rest = {pool: None if amount is None else _less(amount, pool, reserved) for pool, amount in has.items()}
    supplies = {_pool(pool): amount for pool, amount in rest.items()} | {
        _share(*place): amount for place, amount in reserved.items() if place[1] in has
    }
    lenient = {pool for pool, written in state.pools.items() if written.document.allow_overcommit}
    of_shares = {_share(*place) for place in reserved if place[1] in lenient}
    promises = tuple(promise for policy in state.policies.values() for promise in _promises(state, policy, key))
    networks = {
        "shares": _Network(shares, {_pool(pool): amount for pool, amount in has.items()}, frozenset(map(_pool, lenient))),
        "policies": _Network(promises, supplies, frozenset({*map(_pool, lenient), *of_shares})),
    }
    limited = {tenant for (tenant, _), share in state.shares.items() if share.reservation is None and key in share.limit}
    for tenant in sorted(limited):
        networks[f"limits of {tenant}"] = _under_limits(state, tenant, key, lenient)
    return networks


def _less(amount: int, pool: str, reserved: dict[tuple[str, str], int]) -> int:
    return max(0, amount - sum(taken for (_, where), taken in reserved.items() if where == pool))


def _under_limits(state: State, tenant: str, key: str, lenient: set[str]) -> _Network:
    """A tenant's policies against its shares that have a limit but reserve nothing: the limit is all they can ever hold there."""
    supplies: dict[str, int | None] = {}
    for pool in state.pools:
        share = state.shares.get((tenant, pool))
        if share is None or share.reservation is not None or key not in share.limit:
            supplies[_pool(pool)] = None
            supplies[_share(tenant, pool)] = None
        else:
            supplies[_pool(pool)] = share.limit[key]
    mine = (policy for policy in state.policies.values() if policy.document.tenant == tenant)
    promises = tuple(promise for policy in mine for promise in _promises(state, policy, key))
    return _Network(promises, supplies, frozenset(map(_pool, lenient)))


def _promises(state: State, policy: PolicyState, key: str) -> Iterator[Promise]:
    """What one policy is promised: in each pool for which it reserves, and the rest of its policy-wide reservation anywhere else."""
    document = policy.document
    reached = pools_reached(state, document)
    whole = None if document.reservation is None else document.reservation.get(key, 0)
    pinned: dict[str, int] = {}
    for pool, scope in document.per_pool.items():
        if pool in reached and scope.reservation is not None:
            amount = scope.reservation.get(key, 0)
            pinned[pool] = amount if whole is None else min(amount, whole)
    for pool, amount in pinned.items():
        yield Promise(str(name_of(document)), amount, frozenset({_source(state, document.tenant, pool)}))
    elsewhere = [pool for pool in reached if pool not in pinned]
    if whole is not None and elsewhere:
        sources = frozenset(_source(state, document.tenant, pool) for pool in elsewhere)
        yield Promise(str(name_of(document)), max(0, whole - sum(pinned.values())), sources)


def _source(state: State, tenant: str, pool: str) -> str:
    """Where a tenant's policies draw on in a pool: its share, if that reserves anything, else the pool itself."""
    share = state.shares.get((tenant, pool))
    return _pool(pool) if share is None or share.reservation is None else _share(tenant, pool)


def _pool(pool: str) -> str:
    return f"pool {pool}"


def _share(tenant: str, pool: str) -> str:
    return f"tenant {tenant}'s share of pool {pool}"


# ---- warnings ----


def _warn_of_empty_pools(after: State, findings: Findings) -> None:
    """NO_NODES_YET: somebody reserves in a pool of which no node has ever registered (R6)."""
    reserved_in: dict[str, set[str]] = {}
    for policy in after.policies.values():
        for pool in pools_reached(after, policy.document):
            block = policy.document.per_pool.get(pool)
            keys = {*(policy.document.reservation or {}), *((block.reservation if block else None) or {})}
            reserved_in.setdefault(pool, set()).update(keys)
    for (_, pool), share in after.shares.items():
        reserved_in.setdefault(pool, set()).update(share.reservation or {})
    for name, keys in sorted(reserved_in.items()):
        if name in after.pools and not after.pools[name].nodes and any(most(after.pools[name], key) is None for key in keys):
            labels = ", ".join(f"{label}={value}" for label, value in after.pools[name].document.selector.items())
            nodes = f"no node with the labels {labels}" if labels else "no node"
            message = f"{nodes} has registered yet, so whether the reservations here can be honoured is not known"
            findings.warn(findings.where(Name("pool", "", name)), "NO_NODES_YET", message)


def warn_not_pinned(after: State, changed: Iterable[PolicyState], findings: Findings) -> None:
    """NOT_PINNED: a policy may sit, inside its policy-wide reservation, in a pool where another one must go (R8)."""
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
    """Whether the two draw on the same supply in a pool."""
    return _source(state, policy.document.tenant, pool) == _source(state, other.document.tenant, pool)
