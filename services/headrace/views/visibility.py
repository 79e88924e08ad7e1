"""Visibility: a tenant sees itself, the pools it may use, and only totals of all others (R12, R21, R22)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.contracts.documents.model import Access, Document, Group, Owner, Pool, Profile, Tenant
from headrace.contracts.values.ids import DEFAULT_TENANT
from headrace.domain.queueing.access import may_act

if TYPE_CHECKING:
    from headrace.domain.model.jobs import JobRecord
    from headrace.domain.model.nodes import NodeState
    from headrace.domain.state.state import State

_JOB_KEY = re.compile(r"\b([a-z0-9-]{1,63})\.[a-z0-9-]{1,63}\.[0-7][0-9a-hjkmnp-tv-z]{25}\b")

OTHER_TENANT = "another tenant"
ALL_TENANTS = ""
"""The tenant of queries that see everything: the provider's."""


def tenants_of(state: State) -> tuple[str, ...]:
    """All tenants, for facts that all of them see."""
    return tuple(sorted({DEFAULT_TENANT, *state.tenants}))


def sees_pool(tenant: str, pool: Pool) -> bool:
    """True if the tenant, or a group of it, may use the pool (R12), and it is not dedicated to another (R21)."""
    access = pool.access
    if tenant == ALL_TENANTS:
        return True
    if tenant in access.deny or not (pool.dedicated_to is None or _is_own(tenant, pool.dedicated_to)):
        return False
    return not access.allow or any(entry.partition("/")[0] == tenant for entry in access.allow)


def reads_output(state: State, job: JobRecord, asker: str) -> bool:
    """True if a user of the job's tenant may read its output.

    These are its owner, the tenant's admins, and a service account that may act for the owner. For a handle that is in no document the bus
    accepts only administrators of the installation.
    """
    tenant, policy = job.tenant, job.policy.document
    written = state.tenants.get(tenant)
    if asker == job.user or (written is not None and isinstance(written.document, Tenant) and asker in written.document.admins):
        return True
    return may_act(state, tenant, policy.group, asker, job.user, state.now) or not is_known(state, tenant, asker)


def is_known(state: State, tenant: str, handle: str) -> bool:
    """True if documents, or a provider's token, have named this handle in a tenant."""
    named = (tenant, handle) in state.users or (tenant, handle) in state.tokens.claims
    return named or any(
        handle in written.document.members or handle in written.document.service_accounts
        for (owner, _), written in state.groups.items()
        if owner == tenant and isinstance(written.document, Group)
    )


def sees_node(state: State, tenant: str, node: NodeState) -> bool:
    """True if the tenant sees the node's pool; all tenants see a node without a pool."""
    pool = state.pool_of(node)
    return pool is None or sees_pool(tenant, pool.document)


def _is_own(tenant: str, owner: Owner) -> bool:
    return owner.tenant == tenant or owner.policy.startswith(f"{tenant}/")


def pool_seen_by(state: State, tenant: str, pool: Pool) -> Pool:
    """The pool without others' names: who else has access, what is dedicated to others, profiles of others."""
    if tenant == ALL_TENANTS:
        return pool
    return msgspec.structs.replace(
        pool,
        access=Access(),
        profile_order=tuple(name for name in pool.profile_order if state.profile(tenant, name) is not None),
        dedicated=tuple(part for part in pool.dedicated if _is_own(tenant, part.to)),
    )


def pool_for(state: State, tenant: str, pool: Pool) -> dict[str, Any]:
    """The pool as FEED shows it."""
    seen = pool_seen_by(state, tenant, pool)
    shown: dict[str, Any] = msgspec.to_builtins(seen)
    shown.pop("access", None)
    shown["profile_order"] = list(seen.profile_order)
    shown["dedicated"] = [msgspec.to_builtins(part) for part in seen.dedicated]
    return shown


def profile_seen_by(state: State, tenant: str, profile: Profile) -> Profile:
    """The profile without the names of others' policies."""
    if tenant == ALL_TENANTS:
        return profile
    own = (name.removeprefix(f"{tenant}/") for name in profile.policy_order)
    return msgspec.structs.replace(profile, policy_order=tuple(name for name in own if (tenant, name) in state.policies))


def document_seen_by(state: State, tenant: str, document: Document) -> Document | None:
    """Any document as the tenant sees it; None if it may not see it."""
    if tenant == ALL_TENANTS:
        return document
    match document:
        case Tenant():
            return document if document.name == tenant else None
        case Pool():
            return pool_seen_by(state, tenant, document) if sees_pool(tenant, document) else None
        case Profile():
            return profile_seen_by(state, tenant, document) if document.tenant in ("", tenant) else None
    return document if getattr(document, "tenant", "") == tenant else None


def profile_for(state: State, tenant: str, profile: Profile) -> dict[str, Any]:
    """The profile as FEED shows it."""
    seen = profile_seen_by(state, tenant, profile)
    shown: dict[str, Any] = msgspec.to_builtins(seen)
    shown["policy_order"] = list(seen.policy_order)
    return shown


def hide_others(text: str, tenant: str) -> str:
    """The text as `tenant` may read it: without the names of other tenants' jobs."""
    if tenant == ALL_TENANTS:
        return text
    return _JOB_KEY.sub(lambda match: match[0] if match[1] == tenant else f"a job of {OTHER_TENANT}", text)


def hide_tenants(text: str, tenant: str, state: State) -> str:
    """The text as `tenant` may read it: without the names of other tenants and of what is theirs."""
    if tenant == ALL_TENANTS:
        return text
    others = sorted(({*state.tenants, DEFAULT_TENANT} | {owner for owner, _ in state.policies}) - {tenant})
    if not others:
        return hide_others(text, tenant)
    names = "|".join(map(re.escape, others))
    hidden = re.sub(rf"(?<![\w-])(?:{names})/[a-z0-9-]+", f"one of {OTHER_TENANT}", hide_others(text, tenant))
    return re.sub(rf"\btenant (?:{names})(?![\w-])", OTHER_TENANT, hidden)
