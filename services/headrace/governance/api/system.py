"""What the API says of itself: its OpenAPI document, and who the caller is."""

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
    """The OpenAPI document, as it is checked in."""
    return files("headrace.contracts.api").joinpath("openapi.json").read_bytes()


async def get_open_api(_request: Any, _context: object) -> Any:
    """This API as an OpenAPI document; to everybody, who they may be."""
    return httpbody_pb2.HttpBody(content_type="application/json", data=document())


async def get_caller(_request: Any, call: CallContext) -> pb.CallerView:
    """Who the caller is here."""
    caller = call.caller
    return pb.CallerView(
        role=caller.role.value,
        tenant="" if caller.is_provider else caller.tenant,
        handle=caller.handle,
        groups=caller.groups,
        sequence=str(call.office.state.sequence),
    )
