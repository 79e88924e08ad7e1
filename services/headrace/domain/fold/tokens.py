"""The fold of who was given a token, and whose counts no more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.contracts import facts as f
from headrace.domain.model.tokens import REVOCATION_KEPT, GroupClaims, Token
from headrace.domain.state.account_numbers import retire

if TYPE_CHECKING:
    from headrace.domain.state.state import State


def _created(state: State, fact: f.TokenCreatedV1, sequence: int, _place: int) -> None:
    tokens = state.tokens
    for expired in [name for name, token in tokens.known.items() if token.expires_at <= state.now]:
        del tokens.known[expired]
    token = Token(fact.role, fact.tenant, fact.handle, fact.author, state.now, fact.expires_at, sequence)
    tokens.known.setdefault(fact.token, token)


def _revoked(state: State, fact: f.TokenRevokedV1, sequence: int, _place: int) -> None:
    if not fact.token:
        outdate(state, fact.tenant, fact.handle, sequence)
        return
    tokens = state.tokens
    for old in [name for name, at in tokens.revoked.items() if at + REVOCATION_KEPT <= state.now]:
        del tokens.revoked[old]
    known = tokens.known.get(fact.token)
    if known is None:
        tokens.revoked[fact.token] = state.now
    else:
        known.revoked_at = known.revoked_at or state.now


def _claimed(state: State, fact: f.MembershipClaimedV1, _sequence: int, _place: int) -> None:
    claims, bearer = state.tokens.claims, (fact.tenant, fact.handle)
    for ended in [name for name, one in claims.items() if one.until <= state.now]:
        del claims[ended]
    known = claims.get(bearer)
    if known is None or known.issued_at <= fact.issued_at:
        claims[bearer] = GroupClaims(fact.groups, fact.issued_at, fact.until)


PROVIDERS = ("admin", "viewer")
"""Roles of tokens whose bearers are the provider's people, although facts name them in the tenant `default`."""


def outdate(state: State, tenant: str, handle: str, sequence: int, *, but_providers: bool = False) -> None:
    """End all tokens given so far to this bearer or, without a handle, to all users of the tenant.

    `but_providers`: keep the tokens of a provider administrator or viewer with the same handle.
    """
    tokens = state.tokens
    tokens.outdated[tenant, handle] = (sequence, state.now)
    for bearer in [bearer for bearer in tokens.claims if bearer[0] == tenant and handle in ("", bearer[1])]:
        del tokens.claims[bearer]
    for token in state.tokens.known.values():
        if token.tenant == tenant and handle in ("", token.handle) and not (but_providers and token.role in PROVIDERS):
            token.revoked_at = token.revoked_at or state.now


def _erased(_state: State, _fact: f.TenantErasedV1, _sequence: int, _place: int) -> None:
    """The fold keeps no text."""


def _user_erased(state: State, fact: f.UserErasedV1, sequence: int, _place: int) -> None:
    """The first name in the place of theirs stays it."""
    outdate(state, fact.tenant, fact.handle, sequence)
    retire(state, fact.tenant, fact.handle)
    state.users.pop((fact.tenant, fact.handle), None)
    state.tokens.vouched.discard((fact.tenant, fact.handle))
    state.tokens.erased.setdefault((fact.tenant, fact.handle), fact.pseudonym)


HANDLERS: dict[type, Any] = {
    f.MembershipClaimedV1: _claimed,
    f.TokenCreatedV1: _created,
    f.TokenRevokedV1: _revoked,
    f.TenantErasedV1: _erased,
    f.UserErasedV1: _user_erased,
}
