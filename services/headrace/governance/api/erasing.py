"""`tenants/*:erase`: what a tenant's jobs ran is made unreadable for ever: on record first, then the key goes; asked again, again."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from headrace.contracts.queries import EraseRequest
from headrace.governance.api import names
from headrace.governance.api.applying import plan_message
from headrace.governance.api.faults import invalid
from headrace.governance.erasing import erasing

if TYPE_CHECKING:
    from headrace.governance.api.office import Call


async def erase_tenant(request: Any, call: Call) -> Any:
    """Destroy the key of a tenant's texts."""
    (tenant,) = names.parts_of(request.name, "tenants/*")
    if not request.force and not request.validate_only:
        raise invalid("force", f"what the jobs of {tenant} ran can never be read again; write true to go on")
    answer = await call.decided(
        erasing(EraseRequest(tenant=tenant, reason=request.reason), call.caller.author), validate_only=request.validate_only
    )
    if not request.validate_only:
        await asyncio.to_thread(call.office.destroy, tenant)
    return plan_message(answer, call.office.state.sequence)
