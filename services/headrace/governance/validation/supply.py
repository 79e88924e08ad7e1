"""Capacity and reach of pools: reached pools, known capacity (R6, R21), and that a node belongs to one pool."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from headrace.contracts.documents.model import KEEP_FOR, REQUEUE_LAST, Burst, BurstNode, Policy, Pool, Profile, Tenant
from headrace.contracts.facts.levels import AMENDED, PROVISIONING, release_of
from headrace.contracts.values.amounts import model_of
from headrace.domain.model.census import is_hardware
from headrace.domain.model.dedication import COMMON, has_owners, owner_of_new
from headrace.domain.state.pools import PoolState
from headrace.domain.state.state import State
from headrace.domain.state.supply import by_owner, capacity_of
from headrace.governance.objects import ObjectName, PlacedDocument
from headrace.governance.validation.diagnostics import Diagnostics

_TIME_LIMITS = ("default_time_limit", "max_time_limit")
_NOT_YET = (
    "it may be set when every service and node runs {} or newer, which a new installation knows a few seconds after its start; "
    "`headrace status` says what it waits for; leave it out until then"
)


def pools_reached(after: State, policy: Policy) -> tuple[str, ...]:
    """The existing pools that the policy's profiles lead to, without duplicates."""
    reached: dict[str, None] = {}
    for link in policy.profiles:
        profile = after.profile(policy.tenant, link.name)
        reached |= dict.fromkeys(name for name in (profile.pools if profile else ()) if name in after.pools)
    return tuple(reached)


def governed_in(state: State, pools: Iterable[str], key: str) -> list[str]:
    """The pools that govern a key (R5)."""
    return [pool for pool in pools if key in state.pools[pool].governed]


def parts(pool: PoolState, key: str) -> dict[str, int | None]:
    """Known capacity of a key (R6) by owner: hardware dedicated to each owner (R21), and under COMMON the rest.

    None: the capacity is unbounded. The owners of dedicated nodes may fill them first, so of a declared ceiling the rest is common; before
    the first node has registered all of it may be common.
    """
    whole, document = capacity_of(pool, key), pool.document
    owner_of_rest = owner_of_new(document)
    if whole is None or not pool.nodes or not has_owners(document) or (not is_hardware(key) and not document.dedicated):
        return {owner_of_rest: whole}
    if not is_hardware(key):
        return {COMMON: whole}
    brought = {owner: amounts.get(key) for owner, amounts in by_owner(pool).items()}
    given = {owner: units if units is None else min(units, whole) for owner, units in brought.items() if owner != COMMON}
    rest = max(0, whole - sum(units or 0 for units in given.values()))
    common = brought.get(COMMON, 0)
    return {**given, COMMON: rest if common is None else min(common, rest)}


def check_selectors(state: State, after: State, changed: Iterable[PlacedDocument], findings: Diagnostics) -> None:
    """A node belongs to one pool: a new or changed selector must not select nodes that another pool's selector selects as well."""
    new = {name.name for name, _, _ in changed if name.kind == "pool" and _selector_changed(state, after, name.name)}
    if not new:
        return
    warned: set[frozenset[str]] = set()
    for pool in sorted(new):
        mine = after.pools[pool].document.selector
        for other, theirs in after.pools.items():
            selector = theirs.document.selector
            if other == pool or not (mine.items() <= selector.items() or selector.items() <= mine.items()):
                continue
            if frozenset((pool, other)) not in warned:
                warned.add(frozenset((pool, other)))
                inner = other if mine.items() <= selector.items() else pool
                _report(findings, pool, other, f"every node of pool {inner}")
    for node in sorted(after.nodes.values(), key=lambda node: node.name):
        picked = [name for name, pool in after.pools.items() if pool.document.selector.items() <= node.labels.items()]
        for pool in new.intersection(picked):
            for other in picked:
                if other != pool and frozenset((pool, other)) not in warned:
                    warned.add(frozenset((pool, other)))
                    _report(findings, pool, other, f"node {node.name}")


def check_level(state: State, changed: Iterable[PlacedDocument], findings: Diagnostics) -> None:
    """Refuse fields that releases below the amended level cannot read until the installation is at that level; they would stop."""
    message = _NOT_YET.format(release_of(PROVISIONING))
    for name, document, _ in changed:
        if isinstance(document, Pool) and document.keep_for != KEEP_FOR and not state.terms.amended:
            findings.error(findings.where(name, "keep_for"), _NOT_YET.format(release_of(AMENDED)))
        if state.terms.level < PROVISIONING:
            for part in _newer_parts(document):
                findings.error(findings.where(name, *part), message)


def _newer_parts(document: object) -> Iterator[tuple[str | int, ...]]:
    """Parts of a document that releases below level 3 cannot read."""
    if isinstance(document, Pool):
        yield from ((f"burst.{key}",) for key in (_newer_keys(document.burst) if document.burst is not None else ()))
        yield from ((key,) for key in ("topology", "maintenance") if getattr(document, key))
        yield from (("capacity", key) for key in document.capacity if model_of(key))
    elif isinstance(document, Tenant):
        yield from (("shares", index, "cap") for index, share in enumerate(document.shares) if share.cap)
    elif isinstance(document, Profile):
        yield from (("spot",),) if document.spot else ()
        yield from ((key,) for key in (*_TIME_LIMITS, "topology", "network") if getattr(document, key) is not None)
    elif isinstance(document, Policy):
        yield from ((key,) for key in _newer_policy_keys(document))
        yield from (("preemption", "on_preempt"),) if document.preemption.on_preempt == REQUEUE_LAST else ()


def _newer_policy_keys(policy: Policy) -> Iterator[str]:
    """Keys of a policy that releases below level 3 cannot read."""
    known = Policy(name=policy.name, profiles=())
    keys = ("fair_among", "per_user", *_TIME_LIMITS, "idle_after", "idle")
    yield from (key for key in keys if getattr(policy, key) != getattr(known, key))


def _newer_keys(burst: Burst) -> Iterator[str]:
    """Keys that are written down and that releases below the level of provisioning cannot read."""
    known = Burst(provider=burst.provider, node=burst.node)
    newer = (
        "offers",
        "order",
        "min_life",
        "max_life",
        "orphan_after",
        "cap",
        "image",
        "template",
        "network",
        "firewalls",
        "disk",
    )
    yield from (key for key in newer if getattr(burst, key) != getattr(known, key))
    node = BurstNode(gpus=burst.node.gpus, gpu_model=burst.node.gpu_model)
    yield from (f"node.{key}" for key in ("mig", "isolation", "containers") if getattr(burst.node, key) != getattr(node, key))


def _selector_changed(state: State, after: State, pool: str) -> bool:
    before = state.pools.get(pool)
    return before is None or before.document.selector != after.pools[pool].document.selector


def _report(findings: Diagnostics, pool: str, other: str, what: str) -> None:
    message = f"{what} would belong to pools {pool} and {other}; a node belongs to one: add a label that tells them apart"
    findings.error(findings.where(ObjectName("pool", "", pool), "selector"), message)
