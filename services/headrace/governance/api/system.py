"""The API's own description: its OpenAPI document, and the caller's identity."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from google.api import httpbody_pb2

from headrace.contracts.api import system_pb2 as pb

if TYPE_CHECKING:
    from headrace.governance.api.context import CallContext


@cache
def document() -> bytes:
    """The OpenAPI document in the package."""
    return files("headrace.contracts.api").joinpath("openapi.json").read_bytes()


async def get_open_api(_request: Any, _context: object) -> Any:
    """This API as an OpenAPI document; needs no token."""
    return httpbody_pb2.HttpBody(content_type="application/json", data=document())


async def get_caller(_request: Any, call: CallContext) -> pb.CallerView:
    """Identity of the caller."""
    caller = call.caller
    return pb.CallerView(
        role=caller.role.value,
        tenant="" if caller.is_provider else caller.tenant,
        handle=caller.handle,
        groups=caller.groups,
        sequence=str(call.backend.state.sequence),
    )
