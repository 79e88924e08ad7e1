"""Who may use a queue and enter a pool, whatever profiles say (R12)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.domain.state.pools import PoolState
    from headrace.domain.state.state import State


def is_member(state: State, tenant: str, group: str, user: str, now: int) -> bool:
    """Whether a user or service account is in a group at log time `now`: by a provider's word while that holds, else by the document."""
    document = state.group(tenant, group)
    if document is None:
        return False
    claims = state.tokens.claims.get((tenant, user))
    if claims is not None and now < claims.until:
        return group in claims.groups
    return user in document.members or user in document.service_accounts


def may_act(state: State, tenant: str, group: str, account: str, user: str, now: int) -> bool:
    """Whether the group trusts a service account of its own to act for a member of it."""
    document = state.group(tenant, group)
    trusted = document is not None and account in document.on_behalf and user not in document.service_accounts
    return trusted and is_member(state, tenant, group, user, now)


def may_enter(pool: PoolState, tenant: str, group: str) -> bool:
    """Whether the pool's `access` lets a tenant's group in; deny beats allow."""
    access = pool.document.access
    if not access.allow and not access.deny:
        return True
    parties = {tenant, f"{tenant}/{group}"}
    return parties.isdisjoint(access.deny) and (not access.allow or not parties.isdisjoint(access.allow))
