"""Authentication and authorization of every call: methods that are missing in the table of roles are refused.

Strategy: the caller is determined from the token; the table is asked with the method's name and the owner of the resource, which the
request's resource name contains; only then is the service called. A method whose reach is the caller's own work has to check again once it
knows the owner (`owned`); an answer without that check is withheld.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

import grpc
import structlog
from google.protobuf.message import Message
from grpc import StatusCode

from headrace.contracts.schemas import protocol
from headrace.governance.api.call_metrics import CallInProgress as Counting
from headrace.governance.api.call_metrics import Calls
from headrace.governance.api.context import ApiContext, CallContext
from headrace.governance.api.errors import ApiError, invalid, not_found
from headrace.governance.api.messages import sequence_of
from headrace.governance.api.names import tenant_in
from headrace.governance.api.statuses import DETAILS, of_error, status_of
from headrace.identity.owner import LOCAL, OwnerLogin
from headrace.identity.roles import authorize
from headrace.identity.verifier import bearer
from headrace.service.concurrency_limit import ConcurrencyLimit, LimitReached

if TYPE_CHECKING:
    from headrace.domain.state.state import State
    from headrace.identity.caller import Caller

SEQUENCE = "headrace-sequence"
"""Header of every answer: the ledger sequence that it reflects."""

RETRY_AFTER = "retry-after"
"""Header of a refusal that waiting can resolve: the number of seconds."""

OPEN = frozenset(
    {
        "/grpc.health.v1.Health/Check",
        "/grpc.health.v1.Health/Watch",
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
        "/headrace.v1.System/GetOpenApi",
        "/headrace.v1.Pages/GetPage",
        "/headrace.v1.Logins/RedeemLoginCode",
    }
)
"""Methods that need no token: health and reflection, the API's description, the files of the page, and codes, which count once."""

PLACED_INSIDE = frozenset({"ApplyDocuments", "DeleteDocument"})
"""Methods whose request contains several owners: the service checks the table for each of them."""

LISTING = ("List", "Watch")
"""Prefixes of methods that list a tenant's resources; only the provider can name an unknown tenant there."""

CALLS_MAX = 2_000
"""Maximum concurrent calls; further ones are refused at once."""
CALLS_OF_TENANTS, CALLS_OF_A_TENANT, CALLS_OF_A_CALLER = 1_800, 1_500, 1_000
"""Maximum concurrent calls of all tenants together, of one tenant, and of one caller, so that others and the provider get through."""

CALLS_RETRY = 1
"""Seconds after which a refused call may be repeated."""

WITHIN = 60.0
"""Maximum seconds of a call without a deadline."""

LONG = {"WhatIf": 600.0, **dict.fromkeys(("GetState", "DiffStates", "ExplainJob", "GetUsage", "GetStatement"), 120.0)}
"""The same for methods that may take longer."""

Unary = Callable[[Any, CallContext], Awaitable[Message]]
Stream = Callable[[Any, CallContext], AsyncIterator[Message]]

_log = structlog.get_logger("headrace.api")


class Authenticate(Protocol):
    """Maps tokens to callers (`headrace.identity.verifier`)."""

    async def caller(self, state: State, token: str) -> Caller:
        """The current bearer of a token. Raises Unauthenticated."""


class AuthInterceptor:
    """Wraps every method of the server; the wrappers are made once, so that calls cost no lookup."""

    def __init__(
        self, backend: ApiContext, verifier: Authenticate, calls: Calls | None = None, owner: OwnerLogin | None = None
    ) -> None:
        self._owner = owner
        self._backend = backend
        self._verifier = verifier
        self._calls = calls or Calls()
        self._of_tenants = ConcurrencyLimit(CALLS_OF_TENANTS, CALLS_OF_A_TENANT)
        self._of_callers = ConcurrencyLimit(CALLS_OF_TENANTS, CALLS_OF_A_CALLER)

    def unary(self, name: str, serve: Unary) -> Any:
        """Handler of a method with one answer, with authentication and errors."""

        async def intercepted(request: Message, context: Any) -> Message | None:
            with self._calls.under(name) as counted:
                try:
                    call = await self._admit(name, request, context)
                    with self._slot(call):
                        await self._reach(request, call)
                        answer = await serve(request, call)
                    await context.send_initial_metadata(((SEQUENCE, str(self._backend.state.sequence)),))
                except Exception as error:  # noqa: BLE001 - one bad call must not end the server
                    await _fail(context, name, error, counted)
                    return None
                return answer

        return intercepted

    def stream(self, name: str, serve: Stream) -> Any:
        """Handler of a method with a stream of answers, with authentication and errors."""

        async def intercepted(request: Message, context: Any) -> AsyncIterator[Message]:
            with self._calls.under(name) as counted:
                try:
                    call = await self._admit(name, request, context)
                    with self._slot(call):
                        await self._reach(request, call)
                        await context.send_initial_metadata(((SEQUENCE, str(self._backend.state.sequence)),))
                        async for answer in serve(request, call):
                            yield answer
                            await self._authenticate(context)  # a bearer whose token was revoked gets no further answers
                except Exception as error:  # noqa: BLE001 - as above
                    await _fail(context, name, error, counted)

        return intercepted

    @contextmanager
    def _slot(self, call: CallContext) -> Iterator[None]:
        """One of the concurrent calls of a caller and a tenant; the provider has no limit of its own. Raises ApiError."""
        if call.caller.is_provider:
            yield
            return
        whose = ("you have", self._of_callers, call.caller.bearer)
        with _counted(*whose), _counted("your tenant has", self._of_tenants, call.caller.tenant):
            yield

    async def _admit(self, name: str, request: Any, context: Any) -> CallContext:
        caller = await self._authenticate(context)
        if request is None:
            raise ApiError(StatusCode.INVALID_ARGUMENT, "MALFORMED", f"{name}: the request cannot be decoded")
        tenant = caller.tenant if name in PLACED_INSIDE else tenant_of(request)
        authorize(caller, name, tenant, caller.handle)
        within = context.time_remaining()
        check_required(request)
        return CallContext(caller, name, LONG.get(name, WITHIN) if within is None else within, self._backend)

    async def _reach(self, request: Any, call: CallContext) -> None:
        """Wait for the sequence that the request names, and check that a tenant listed by the provider exists."""
        wanted = getattr(request, "min_sequence", "")
        if wanted:
            await self._backend.reach(sequence_of(wanted, "min_sequence"), call.within)
        if call.caller.is_provider and call.method.startswith(LISTING) and (tenant := tenant_of(request)):
            self._check_tenant(tenant)

    def _check_tenant(self, tenant: str) -> None:
        """Raise ApiError for an unknown tenant, which an empty list would hide. A deleted tenant still has its jobs."""
        if not self._backend.state.has_tenant(tenant) and tenant not in self._backend.job_index.tenants:
            raise not_found("tenant", tenant, "parent")

    async def _authenticate(self, context: Any) -> Caller:
        shown = [value for key, value in context.invocation_metadata() or () if key == "authorization"]
        if len(shown) > 1:
            raise ApiError(StatusCode.UNAUTHENTICATED, "UNAUTHENTICATED", "several tokens were shown; show one")
        token = bearer(shown[0] if shown else "")
        is_local = any(key == LOCAL for key, _ in context.invocation_metadata() or ())
        owner = self._owner.caller(token) if is_local and self._owner is not None else None
        return owner or await self._verifier.caller(self._backend.state, token)


@contextmanager
def _counted(whose: str, slots: ConcurrencyLimit, who: str) -> Iterator[None]:
    """Hold one slot while the block runs. Raises ApiError; `whose` begins the message if the limit is that of `who`."""
    try:
        slots.take(who)
    except LimitReached as full:
        message = f"{whose if full.own else 'there are'} too many calls under way; end some, or try again in {CALLS_RETRY} s"
        raise ApiError(StatusCode.RESOURCE_EXHAUSTED, "TOO_MANY_CALLS", message, retry_after=CALLS_RETRY) from None
    try:
        yield
    finally:
        slots.leave(who)


@cache
def _required(message: Any) -> tuple[Any, ...]:
    return protocol.required(message)


def check_required(request: Any) -> None:
    """Check the required fields of a request; nested documents and submissions check their own."""
    for field in _required(request.DESCRIPTOR):
        is_there = request.HasField(field.name) if field.has_presence else bool(getattr(request, field.name))
        if not is_there:
            raise invalid(field.name, "it is missing", "MISSING")


def tenant_of(request: Any) -> str:
    """Owner of the resource in a request, from its `parent`, its `name`, or the name of the resource in it; empty for the provider."""
    fields = request.DESCRIPTOR.fields_by_name
    for name in ("parent", "name"):
        if name in fields:
            return tenant_in(getattr(request, name))
    for field in request.DESCRIPTOR.fields:
        if field.message_type is not None and not field.is_repeated and "name" in field.message_type.fields_by_name:
            return tenant_in(getattr(request, field.name).name)
    return ""


async def _fail(context: Any, name: str, error: Exception, counted: Counting) -> None:
    """End a call with the status of what was raised; a defect's details go only to the log."""
    fault = of_error(error)
    if fault is None:
        if isinstance(error, grpc.aio.AbortError | asyncio.CancelledError):
            counted.code = StatusCode.CANCELLED.name
            raise error
        _log.error("call_failed", method=name, exc_info=error)
        fault = ApiError(StatusCode.INTERNAL, "INTERNAL", f"{name} failed; the log of governance has the reason")
    counted.code = fault.code.name
    waits = () if fault.retry_after is None else ((RETRY_AFTER, str(fault.retry_after)),)
    context.set_trailing_metadata(((DETAILS, status_of(fault)), *waits))
    await context.abort(fault.code, fault.message[:1_000])
