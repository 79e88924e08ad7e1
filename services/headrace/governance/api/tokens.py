"""The service of tokens of the embedded issuer: list, create, revoke. The token's text is returned once and not stored.

Strategy: callers outside the provider see and change only the tokens of the tenant's own people and service accounts. Tokens of the
provider's people, whom facts name in the tenant `default`, and of nodes are hidden from them.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING, Any

from headrace.contracts.api import tokens_pb2 as pb
from headrace.contracts.messages.tokens import NODE_TENANT, Grant, RevokeRequest, TokenRequest, TokenRole, TokensRequest
from headrace.contracts.values.durations import SECOND, DurationError, parse_duration
from headrace.contracts.values.ids import ENTROPY_BYTES, make_job_id
from headrace.governance.api import filters, names, paging
from headrace.governance.api.apply import plan_message
from headrace.governance.api.errors import invalid, not_found
from headrace.governance.api.filter_fields import field_lookup
from headrace.governance.api.messages import moment
from headrace.governance.api.nodes import claims_of
from headrace.governance.tokens import grant_of, granting, revoking, tokens_of
from headrace.identity.caller import Role
from headrace.identity.principals import is_known
from headrace.identity.roles import GRANTED_BY_TENANTS, authorize_grant

if TYPE_CHECKING:
    from headrace.contracts.messages.tokens import TokenView
    from headrace.governance.api.context import CallContext
    from headrace.governance.decide import Operation

_OWN, _PROVIDERS = "tenants/*/tokens/*", "tokens/*"


async def list_tokens(request: Any, call: CallContext) -> pb.ListTokensResponse:
    """A page of the tokens of a tenant, or of all tenants."""
    tenant = _tenant(request.parent)
    page = paging.page_of(request.page_size, request.page_token, call.method, request.parent, request.filter)
    passes = filters.parse(request.filter, pb.Token.DESCRIPTOR.fields_by_name)
    found = {
        one.id: one for one in tokens_of(call.backend.state, TokensRequest()).tokens if not tenant or _owner(one) == tenant
    }
    answer = pb.ListTokensResponse(sequence=str(call.backend.state.sequence))
    for name in paging.after(sorted(found), page.last):
        message = _message(found[name], call)
        if passes is not None and not passes(field_lookup(message)):
            continue
        if len(answer.tokens) == page.size:
            answer.next_page_token = page.token(answer.tokens[-1].name.rpartition("/")[2])
            break
        answer.tokens.append(message)
    return answer


async def get_token(request: Any, call: CallContext) -> pb.Token:
    return _message(_found(request.name, call), call)


async def create_token(request: Any, call: CallContext) -> pb.Token:
    """State the grant, and sign the token once that is durable."""
    backend, wanted, tenant = call.backend, request.token, _tenant(request.parent)
    authorize_grant(call.caller, wanted.role, tenant)
    if wanted.role == TokenRole.INSTANCE:
        raise invalid(
            "token.role", "codes of instances are made for orders of the provisioner only; create a token of role node"
        )
    claims = claims_of(wanted.claims) if wanted.HasField("claims") else None
    asked = TokenRequest(
        role=wanted.role, handle=wanted.handle, tenant=tenant, lifetime=_lifetime(wanted.lifetime), claims=claims
    )
    now = backend.clock()
    grant = grant_of(asked, make_job_id(now // 1_000, secrets.token_bytes(ENTROPY_BYTES)), now)
    if isinstance(grant, str):
        field, _, message = grant.partition(": ")
        field = {"expires": "lifetime", "labels": "claims.labels", "gpus": "claims.gpus", "isolation": "claims.isolation"}.get(
            field, field
        )
        raise invalid(f"token.{field}", message)
    _check_place(grant, tenant)
    by_provider = call.caller.role is Role.PROVIDER_ADMIN
    operation = granting(grant, call.caller.author, request.reason, by_provider=by_provider, alone=backend.alone, claims=claims)
    await call.decided(operation, validate_only=request.validate_only)
    made = pb.Token(
        name=_name(grant.id, tenant),
        role=grant.role,
        handle=grant.handle,
        author=call.caller.author,
        create_time=moment(grant.issued_at * SECOND),
        expire_time=moment(grant.expires_at * SECOND),
        sequence=str(backend.state.sequence),
    )
    if not request.validate_only:
        made.bearer = await asyncio.to_thread(backend.sign, grant)
    return made


async def revoke_token(request: Any, call: CallContext) -> Any:
    found = _found(request.name, call)
    return await _revoke(revoking(RevokeRequest(token=found.id, reason=request.reason), call.caller.author), request, call)


async def revoke_bearer(request: Any, call: CallContext) -> Any:
    """Revoke all tokens of a bearer."""
    tenant, handle = _tenant(request.parent), names.check_id(request.handle, "handle")
    if not call.caller.is_provider and not _is_tenants_own(tenant, handle, call):
        raise not_found("bearer", handle)
    operation = revoking(
        RevokeRequest(tenant=tenant or NODE_TENANT, handle=handle, reason=request.reason), call.caller.author, within=tenant
    )
    return await _revoke(operation, request, call)


async def _revoke(operation: Operation, request: Any, call: CallContext) -> Any:
    answer = await call.decided(operation, validate_only=request.validate_only)
    return plan_message(answer, call.backend.state.sequence)


def _tenant(parent: str) -> str:
    """Tenant of a parent; empty for none."""
    return names.parts_of(parent, "tenants/*", "parent")[0] if parent else ""


def _lifetime(text: str) -> int:
    try:
        return parse_duration(text) if text else 0
    except DurationError as error:
        raise invalid("token.lifetime", str(error)) from None


def _check_place(grant: Grant, tenant: str) -> None:
    """Check that a token is created under the parent of its bearer. Raises ApiError."""
    if bool(tenant) != (grant.role in GRANTED_BY_TENANTS):
        where = f"/v1/{_name('', 'acme').rstrip('/')}" if not tenant else "/v1/tokens"
        raise invalid("token.role", f"tokens of this role are made under {where}")


def _is_tenants_own(tenant: str, handle: str, call: CallContext) -> bool:
    """True if a bearer is one of the tenant's people or service accounts, and not one of the provider's."""
    state = call.backend.state
    if any(
        _owner(one) != tenant and (one.tenant, one.handle) == (tenant, handle)
        for one in tokens_of(state, TokensRequest()).tokens
    ):
        return False
    return is_known(state, TokenRole.USER, tenant, handle) or is_known(state, TokenRole.SERVICE_ACCOUNT, tenant, handle)


def _found(name: str, call: CallContext) -> TokenView:
    tenant, token = (
        names.parts_of(name, _OWN) if name.startswith(f"{names.TENANTS}/") else ("", *names.parts_of(name, _PROVIDERS))
    )
    found = next((one for one in tokens_of(call.backend.state, TokensRequest()).tokens if one.id == token), None)
    if found is None or (_owner(found) != tenant and not (call.caller.is_provider and not tenant)):
        raise not_found("token", name)
    return found


def _owner(view: TokenView) -> str:
    """Tenant of a token; empty for the provider's."""
    return view.tenant if view.role in GRANTED_BY_TENANTS else ""


def _name(token: str, tenant: str) -> str:
    return f"tenants/{tenant}/tokens/{token}" if tenant else f"tokens/{token}"


def _message(view: TokenView, call: CallContext) -> pb.Token:
    return pb.Token(
        name=_name(view.id, _owner(view)),
        role=view.role,
        handle=view.handle,
        author=call.for_caller(view.author),
        create_time=moment(view.created_at),
        expire_time=moment(view.expires_at),
        revoke_time=moment(view.revoked_at),
        sequence=str(call.backend.state.sequence),
    )
