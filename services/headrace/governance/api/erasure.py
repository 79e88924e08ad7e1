"""`:erase` of a tenant and of a person: the texts of their jobs, or their identity, become unreadable for ever.

The fact is stated first, then the key is deleted. A repeated request repeats the deletion.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING, Any

from headrace.bus.text_encryption import is_owner
from headrace.contracts.messages.queries import EraseRequest
from headrace.governance.api import names
from headrace.governance.api.apply import plan_message
from headrace.governance.api.errors import invalid
from headrace.governance.erasure import erasing, owner_of, pseudonym

if TYPE_CHECKING:
    from headrace.governance.api.context import CallContext

ANY_PSEUDONYM = "a pseudonym"
"""Text in a plan for a pseudonym that is not chosen yet."""


async def erase_tenant(request: Any, call: CallContext) -> Any:
    """Delete the key of a tenant's texts."""
    (tenant,) = names.parts_of(request.name, "tenants/*")
    wanted = EraseRequest(tenant=tenant, reason=request.reason)
    return await _erase(wanted, f"what the jobs of {tenant} ran", request, call)


async def erase_user(request: Any, call: CallContext) -> Any:
    """Delete a person's key."""
    tenant, user = names.parts_of(request.name, "tenants/*/users/*")
    wanted = EraseRequest(tenant=tenant, user=user, reason=request.reason)
    return await _erase(wanted, f"who {user} of {tenant} was, and what their jobs ran,", request, call)


async def _erase(wanted: EraseRequest, what: str, request: Any, call: CallContext) -> Any:
    if not request.force and not request.validate_only:
        raise invalid("force", f"{what} can never be read again; write true to go on")
    called = ANY_PSEUDONYM if request.validate_only else pseudonym(secrets.token_hex(4))
    texts, owner = call.backend.texts, owner_of(wanted)
    operation = erasing(
        wanted, call.caller.author, called, has_key=is_owner(owner) and await asyncio.to_thread(texts.has, owner)
    )
    answer = await call.decided(operation, validate_only=request.validate_only)
    if not request.validate_only:
        await asyncio.to_thread(texts.destroy, owner)
    return plan_message(answer, call.backend.state.sequence)
