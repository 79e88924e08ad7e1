"""Grants and revocations of tokens, as facts. Pure; the token itself is signed by the service once the fact is durable."""

from __future__ import annotations

from headrace.contracts import facts as f
from headrace.contracts.messages.queries import ApplyAnswer, Change
from headrace.contracts.messages.tokens import (
    LIFETIME,
    LIFETIME_MAX,
    NODE_TENANT,
    PROVIDER_TENANT,
    Grant,
    NodeClaims,
    RevokeRequest,
    TokenRequest,
    TokenRole,
    TokensAnswer,
    TokensRequest,
    TokenView,
)
from headrace.contracts.values.durations import SECOND, format_duration
from headrace.contracts.values.ids import is_token
from headrace.domain.state.state import State
from headrace.governance.approvals import (
    claims_error,
    claims_or_none,
    not_yet_possible,
    with_token,
)
from headrace.governance.decide import Decision, Operation
from headrace.governance.objects import REASON_MAX
from headrace.governance.validation.diagnostics import unknown
from headrace.identity.caller import only_the_owner
from headrace.identity.principals import is_known


def grant_of(request: TokenRequest, name: str, now: int) -> Grant | str:
    """The grant to sign, or the error in the request, in one line. `name`: the token's id; `now` in microseconds."""
    if request.role not in TokenRole.__members__.values():
        return f"role: {unknown('role', request.role, TokenRole)}"
    role = TokenRole(request.role)
    if not is_token(request.handle):
        return f"handle: {request.handle[:80]!r} is not a name; use 1-63 of a-z, 0-9, '-'"
    lifetime = request.lifetime or LIFETIME
    if not SECOND <= lifetime <= LIFETIME_MAX:
        return f"expires: a token lives for 1s to {format_duration(LIFETIME_MAX)}"
    claims = claims_or_none(request.claims)
    if claims is not None and role is not TokenRole.NODE:
        return "claims: labels, GPUs and isolation belong to tokens of nodes only"
    if claims is not None and (wrong := claims_error(claims)):
        return wrong
    begins = now // SECOND
    tenant = {
        TokenRole.NODE: NODE_TENANT,
        TokenRole.INSTANCE: NODE_TENANT,
        TokenRole.ADMIN: PROVIDER_TENANT,
        TokenRole.VIEWER: PROVIDER_TENANT,
    }.get(role, request.tenant or PROVIDER_TENANT)
    return Grant(name, role, tenant, request.handle, begins, begins + lifetime // SECOND)


def granting(
    grant: Grant, author: str, reason: str, *, by_provider: bool, alone: str = "", claims: NodeClaims | None = None
) -> Operation:
    """Operation that grants a token; refused if no document names the bearer.

    `alone`: reason why only the owner and administrators can log in here (`identity.verifier`); then only administrators and nodes get one.
    `claims`: what a node may claim (`approvals`). A token is also refused if facts would confuse its bearer with one of the provider's
    people: only the provider may give one person both.
    """

    def operation(state: State, _now: int) -> Decision:
        if alone and grant.role not in (TokenRole.ADMIN, TokenRole.NODE, TokenRole.INSTANCE):
            return _refused("NOT_ALLOWED", only_the_owner(alone))
        node_claims = claims_or_none(claims)
        if node_claims is not None and (early := not_yet_possible(state)):
            return _refused("REFUSED", f"{early}; without claims the token can be made now, and they can be approved later")
        if not by_provider and _is_providers(state, grant):
            error = f"handle: {grant.handle} is already the handle of a provider administrator or viewer; choose another"
            return _refused("NOT_ALLOWED", error)
        if not is_known(state, grant.role, grant.tenant, grant.handle):
            where = "the service_accounts of a group" if grant.role is TokenRole.SERVICE_ACCOUNT else "a group, or into users"
            error = (
                f"handle: there is no {grant.role} {grant.tenant}/{grant.handle}; write them into {where}, and apply that first"
            )
            return Decision(ApplyAnswer(changes=()), code="NOT_FOUND", error=error)
        fact = f.TokenCreatedV1(
            author=author,
            reason=reason[:REASON_MAX],
            token=grant.id,
            role=grant.role,
            tenant=grant.tenant,
            handle=grant.handle,
            expires_at=grant.expires_at * SECOND,
        )
        approved = with_token(state, grant.handle, node_claims, author, reason) if grant.role is TokenRole.NODE else ()
        return Decision(_changed(grant.id, "create"), (fact, *approved))

    return operation


def revoking(request: RevokeRequest, author: str, within: str = "") -> Operation:
    """Operation that revokes a token, or all of a bearer. `within`: only those of this tenant may be named."""

    def operation(state: State, _now: int) -> Decision:
        known = state.tokens.known.get(request.token)
        if bool(request.token) == bool(request.handle):
            return _refused(
                "INVALID", "token: name one by its id, or a bearer by tenant and handle; `headrace token list` shows them"
            )
        if len(request.token) > 200 or (request.handle and not is_token(request.handle)):
            return _refused("INVALID", "token: no token has this name; `headrace token list` shows them")
        if within and (known.tenant if known is not None else request.tenant) != within:
            return _refused("NOT_FOUND", f"no token of this name belongs to {within}")
        if known is not None and known.revoked_at:
            return Decision(_changed(request.token, "keep"))
        fact = f.TokenRevokedV1(
            author=author,
            reason=request.reason[:REASON_MAX],
            token=request.token,
            tenant=request.tenant,
            handle=request.handle,
        )
        return Decision(_changed(request.token or f"{request.tenant}/{request.handle}", "delete"), (fact,))

    return operation


def tokens_of(state: State, request: TokensRequest) -> TokensAnswer:
    """The tokens of the embedded issuer that have not expired, newest first."""
    views = [
        TokenView(
            id=name,
            role=token.role,
            tenant=token.tenant,
            handle=token.handle,
            author=token.author,
            created_at=token.created_at,
            expires_at=token.expires_at,
            revoked_at=token.revoked_at,
        )
        for name, token in state.tokens.known.items()
        if token.expires_at > state.now and request.tenant in ("", token.tenant)
    ]
    return TokensAnswer(tokens=tuple(reversed(views)))


def _is_providers(state: State, grant: Grant) -> bool:
    """True if a provider administrator or viewer, whom facts name in the same tenant, has that handle."""
    return any(
        token.role in (TokenRole.ADMIN, TokenRole.VIEWER)
        and (token.tenant, token.handle) == (grant.tenant, grant.handle)
        and not token.revoked_at
        and token.expires_at > state.now
        for token in state.tokens.known.values()
    )


def _changed(name: str, action: str) -> ApplyAnswer:
    return ApplyAnswer(changes=(Change(kind="token", name=name, action=action),), applied=True)


def _refused(code: str, error: str) -> Decision:
    return Decision(ApplyAnswer(changes=()), code=code, error=error)
