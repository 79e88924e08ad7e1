"""Who may use a queue and enter a pool, whatever profiles say (R12)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.contracts.documents import Group
    from headrace.domain.state import PoolState


def is_member(group: Group | None, user: str) -> bool:
    """Whether a user or service account is in the group."""
    return group is not None and (user in group.members or user in group.service_accounts)


def may_act(group: Group | None, account: str, user: str) -> bool:
    """Whether the group trusts a service account of its own to act for a member of it."""
    return group is not None and account in group.on_behalf and user in group.members


def may_enter(pool: PoolState, tenant: str, group: str) -> bool:
    """Whether the pool's `access` lets a tenant's group in; deny beats allow."""
    access = pool.document.access
    if not access.allow and not access.deny:
        return True
    parties = {tenant, f"{tenant}/{group}"}
    return parties.isdisjoint(access.deny) and (not access.allow or not parties.isdisjoint(access.allow))
