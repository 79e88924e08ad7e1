"""Hardware that is given to one policy or one tenant, and never lent (R21): whose a node is, and who may use it.

This is the one place that knows. An owner is `tenant/policy`, or `tenant`, or "": then the node is common.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from headrace.contracts.documents.model import Owner, Pool
    from headrace.domain.model.nodes import NodeState

COMMON = ""
"""The owner of nodes that are not dedicated."""


def owner_of(pool: Pool, labels: Mapping[str, str]) -> str:
    """Whose a node with these labels is: the first dedication by label that picks it, else the pool's own."""
    for dedication in pool.dedicated:
        if dedication.selector.items() <= labels.items():
            return _name(dedication.to)
    return _name(pool.dedicated_to) if pool.dedicated_to is not None else COMMON


def owner_of_new(pool: Pool) -> str:
    """Whose a node is that the pool may create (R38), or that is still to register: it bears the labels by which the pool selects."""
    return owner_of(pool, pool.selector)


def has_owners(pool: Pool) -> bool:
    """Whether anything here is dedicated."""
    return bool(pool.dedicated) or pool.dedicated_to is not None


def reach(tenant: str, policy: str) -> tuple[str, str, str]:
    """The owners whose nodes a policy's jobs may use, in the order in which they go there: its own first."""
    return f"{tenant}/{policy}", tenant, COMMON


def owners_named(pools: Iterable[Pool]) -> frozenset[str]:
    """All owners to whom anything is dedicated in these pools."""
    return frozenset(
        _name(owner)
        for pool in pools
        for owner in (*([pool.dedicated_to] if pool.dedicated_to is not None else ()), *(given.to for given in pool.dedicated))
    )


def reach_in(pool: Pool, policy: tuple[str, str]) -> tuple[str, ...]:
    """The same of a policy (tenant, name) in one pool: without owners that have nothing here."""
    if not has_owners(pool):
        return (COMMON,)
    here = {_name(dedication.to) for dedication in pool.dedicated} | {owner_of_new(pool), COMMON}
    return tuple(owner for owner in reach(*policy) if owner in here)


def may_use(pool: Pool, node: NodeState, policy: tuple[str, str]) -> bool:
    """Whether jobs of a policy (tenant, name) may go to a node of the pool."""
    return not has_owners(pool) or owner_of(pool, node.labels) in reach(*policy)


def _name(owner: Owner) -> str:
    return owner.policy or owner.tenant
