"""The bearer of a token as the fold knows it. Pure: the same state and the same claims give the same caller."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from headrace.contracts.documents.model import Group, Tenant, User
from headrace.contracts.messages.tokens import NODE_TENANT, PROVIDER_TENANT, TokenRole
from headrace.contracts.values.ids import is_token
from headrace.domain.queueing.access import is_member, may_act
from headrace.identity.caller import Caller, Denied, Role, Unauthenticated

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.domain.model.tokens import Token
    from headrace.domain.state.state import State

REVOKED = "the token has been revoked; ask an administrator for another"
UNVOUCHED = (
    "the document of this token's user is in a tenant that the token does not name; the provider has to apply that document"
)
UNKNOWN = "the user of this token is unknown here; ask an administrator to add the user to a group"


class IssuedToken(NamedTuple):
    """A verified token of the embedded issuer: its id. The ledger has everything else. Times in microseconds."""

    token: str
    expires_at: int


class ProviderToken(NamedTuple):
    """A verified token of a provider, interpreted by its settings (`providers.TokenProvider`).

    `subjects`: the forms in which users' documents may name the bearer. `role`: the role given by the provider's groups, if any. `groups`
    None:
    stored membership decides; else the claims do.
    """

    subjects: tuple[str, ...]
    tenant: str
    handle: str
    role: Role | None
    groups: tuple[str, ...] | None
    token: str
    issued_at: int
    expires_at: int


def resolve(state: State, claims: IssuedToken | ProviderToken) -> Caller:
    """The caller identified by a verified token. Raises Unauthenticated if it is revoked, or its bearer is unknown."""
    return _ours(state, claims) if isinstance(claims, IssuedToken) else _theirs(state, claims)


def act_for(state: State, caller: Caller, group: str, handle: str) -> Caller:
    """The caller, acting for a user in the queues of a group: a service account that the group trusts with that (`on_behalf`).

    Raises Denied.
    """
    is_account = caller.role is Role.SERVICE_ACCOUNT
    if not is_account or not may_act(state, caller.tenant, group, caller.handle, handle, state.now):
        raise Denied("on_behalf_of: you may not act for this user here; the group of the queue has to name you in on_behalf")
    return replace(caller, acting_for=handle)


def groups_of(state: State, tenant: str, handle: str) -> tuple[str, ...]:
    """The groups of a tenant that a user is in, sorted."""
    return tuple(
        sorted(group.name for group in _groups(state, tenant) if is_member(state, tenant, group.name, handle, state.now))
    )


def is_known(state: State, role: TokenRole, tenant: str, handle: str) -> bool:
    """True if documents name this bearer, so that a token for it is useful."""
    if role in (TokenRole.ADMIN, TokenRole.VIEWER, TokenRole.NODE, TokenRole.INSTANCE):
        return True
    if not state.has_tenant(tenant):
        return False
    if role is TokenRole.SERVICE_ACCOUNT:
        return _is_service_account(state, tenant, handle)
    return _is_person(state, tenant, handle)


def is_admin(state: State, tenant: str, handle: str) -> bool:
    """True if a user administers a tenant."""
    written = state.tenants.get(tenant)
    return written is not None and isinstance(written.document, Tenant) and handle in written.document.admins


def _ours(state: State, claims: IssuedToken) -> Caller:
    """The caller of a token of our own. The ledger decides, not the token: a signed token that was never stated is invalid."""
    token = state.tokens.known.get(claims.token)
    if token is None or token.revoked_at:
        raise Unauthenticated(REVOKED)
    return _caller(state, token, claims)


def _caller(state: State, token: Token, claims: IssuedToken) -> Caller:
    tenant, handle, ends = token.tenant, token.handle, min(claims.expires_at, token.expires_at)
    role = TokenRole(token.role)
    if not is_known(state, role, tenant, handle):
        raise Unauthenticated(UNKNOWN)
    if role is TokenRole.INSTANCE:
        return Caller(Role.INSTANCE, NODE_TENANT, handle, token=claims.token, expires_at=ends)
    if role is TokenRole.NODE:
        if handle in state.excluded:
            raise Unauthenticated(f"node {handle} is excluded: {state.excluded[handle]}")
        return Caller(Role.NODE, NODE_TENANT, handle, token=claims.token, expires_at=ends)
    if role in (TokenRole.ADMIN, TokenRole.VIEWER):
        provider = Role.PROVIDER_ADMIN if role is TokenRole.ADMIN else Role.PROVIDER_VIEWER
        return Caller(provider, PROVIDER_TENANT, handle, token=claims.token, expires_at=ends)
    groups = groups_of(state, tenant, handle)
    if role is TokenRole.SERVICE_ACCOUNT:
        return Caller(Role.SERVICE_ACCOUNT, tenant, handle, groups, token=claims.token, expires_at=ends)
    return Caller(_person(state, tenant, handle), tenant, handle, groups, token=claims.token, expires_at=ends)


def _theirs(state: State, claims: ProviderToken) -> Caller:
    if claims.token in state.tokens.revoked:
        raise Unauthenticated(REVOKED)
    tenant, handle = _named(state, claims)
    if state.tokens.is_outdated((tenant, handle), 0, claims.issued_at):
        raise Unauthenticated(REVOKED)
    if claims.role in (Role.PROVIDER_ADMIN, Role.PROVIDER_VIEWER):
        return Caller(claims.role, PROVIDER_TENANT, handle, token=claims.token, expires_at=claims.expires_at)
    stored = groups_of(state, tenant, handle)
    is_account = _is_service_account(state, tenant, handle) and not _is_member_by_name(state, tenant, handle)
    if is_account:
        return Caller(Role.SERVICE_ACCOUNT, tenant, handle, stored, token=claims.token, expires_at=claims.expires_at)
    role = claims.role or _person(state, tenant, handle)
    caller = Caller(role, tenant, handle, stored, token=claims.token, expires_at=claims.expires_at)
    if claims.groups is not None:
        caller = _by_claims(state, caller, claims.groups, claims.issued_at)
    if not (claims.groups is not None and caller.groups) and claims.role is None and not _is_person(state, tenant, handle):
        raise Unauthenticated(UNKNOWN)
    return caller


def _by_claims(state: State, caller: Caller, named: tuple[str, ...], issued_at: int) -> Caller:
    """The caller in the groups that the token names, or in those of a newer token, which are in the ledger."""
    newer = state.tokens.claims.get((caller.tenant, caller.handle))
    if newer is not None and newer.issued_at > issued_at and newer.until > state.now:
        return replace(caller, groups=newer.groups)
    groups = set(named) & {group.name for group in _groups(state, caller.tenant)}
    return replace(caller, groups=tuple(sorted(groups)), claimed_at=issued_at)


def is_stated(state: State, caller: Caller) -> bool:
    """True if the ledger has the groups that the caller's token claims, or if it claims none that count."""
    known = state.tokens.claims.get((caller.tenant, caller.handle))
    if known is None or known.issued_at < caller.claimed_at:
        return not caller.claimed_at
    return known.issued_at > caller.claimed_at or (known.groups == caller.groups and known.until >= caller.expires_at)


def _named(state: State, claims: ProviderToken) -> tuple[str, str]:
    """(tenant, handle) of a provider's bearer: the user whose document names it, else what the claims say.

    An administrator of a tenant may write any subject into a user's document. So the document counts only if the provider vouches for
    it, or
    if the token itself names that tenant; and it cannot rename the provider's own users.
    """
    if claims.role in (Role.PROVIDER_ADMIN, Role.PROVIDER_VIEWER):
        return _providers_person(state, claims)
    bound = [bearer for bearer, user in _users(state) if user.subject in claims.subjects]
    counting = [bearer for bearer in bound if bearer in state.tokens.vouched] or [
        bearer for bearer in bound if bearer[0] == claims.tenant
    ]
    if counting:
        return counting[0]
    tenant, handle = claims.tenant, claims.handle
    if not is_token(tenant) or not is_token(handle) or not state.has_tenant(tenant):
        raise Unauthenticated(UNVOUCHED if bound else UNKNOWN)
    user = state.users.get((tenant, handle))
    if user is not None and isinstance(user.document, User) and user.document.subject:
        raise Unauthenticated(UNKNOWN)  # the handle belongs to another person
    return (tenant, handle)


def _providers_person(state: State, claims: ProviderToken) -> tuple[str, str]:
    """The name in the claims; without one, the user in the provider's tenant whose document the provider vouches for."""
    vouched = {
        bearer[1]: user for bearer, user in _users(state) if bearer[0] == PROVIDER_TENANT and bearer in state.tokens.vouched
    }
    if not is_token(claims.handle):
        for handle, user in vouched.items():
            if user.subject in claims.subjects:
                return (PROVIDER_TENANT, handle)
        raise Unauthenticated(UNKNOWN)
    other = vouched.get(claims.handle)
    if other is not None and other.subject and other.subject not in claims.subjects:
        raise Unauthenticated(UNKNOWN)  # the handle belongs to another person
    return (PROVIDER_TENANT, claims.handle)


def _users(state: State) -> Iterator[tuple[tuple[str, str], User]]:
    for bearer, written in state.users.items():
        if isinstance(written.document, User):
            yield bearer, written.document


def _person(state: State, tenant: str, handle: str) -> Role:
    return Role.TENANT_ADMIN if is_admin(state, tenant, handle) else Role.TENANT_MEMBER


def _is_person(state: State, tenant: str, handle: str) -> bool:
    return (tenant, handle) in state.users or is_admin(state, tenant, handle) or _is_member_by_name(state, tenant, handle)


def _is_member_by_name(state: State, tenant: str, handle: str) -> bool:
    return any(handle in group.members for group in _groups(state, tenant))


def _is_service_account(state: State, tenant: str, handle: str) -> bool:
    return any(handle in group.service_accounts for group in _groups(state, tenant))


def _groups(state: State, tenant: str) -> Iterator[Group]:
    for (owner, _), written in state.groups.items():
        if owner == tenant and isinstance(written.document, Group):
            yield written.document
