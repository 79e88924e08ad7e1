"""The service of usage and statements, which asks *accounting* (R17, R37)."""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeVar

from grpc import StatusCode
from msgspec.structs import replace

from headrace.contracts.api import usage_pb2 as pb
from headrace.contracts.messages.queries import Answer
from headrace.contracts.messages.usage import StatementAnswer, StatementRequest, UsageAnswer, UsageRequest, UsageRow
from headrace.contracts.transport import subjects
from headrace.contracts.transport.codec import decode, encode
from headrace.contracts.values.amounts import CPU, CPU_UNITS, GPU, GPU_UNITS, MEMORY
from headrace.contracts.values.durations import HOUR
from headrace.governance.api import names, paging
from headrace.governance.api.errors import ApiError, invalid
from headrace.governance.api.messages import microseconds, moment
from headrace.identity.caller import Denied
from headrace.service.answering import Refused
from headrace.views.visibility import ALL_TENANTS

if TYPE_CHECKING:
    from headrace.governance.api.context import CallContext

ANSWER_WITHIN = 120.0
"""Maximum seconds until *accounting* answers; a question about years takes long."""
BY_MAX = 9
PROVIDER, ACCOUNTING = "provider", "accounting"
_UNITS = {GPU: GPU_UNITS, CPU: CPU_UNITS, MEMORY: 1024}
_DIGITS = Decimal("0.0001")
_MEASURES = ("total", "reserved", "borrowed", "lost", "idle", "suspended", "waiting", "kept", "provider_lost")
_LOADS = ("measured", "busy", "idle_held")

T = TypeVar("T")


async def get_usage(request: Any, call: CallContext) -> pb.UsageReport:
    """Usage of a tenant, or of all tenants, in a period."""
    tenant = tenant_asked(request, call)
    if len(request.by) > BY_MAX:
        raise invalid("by", f"at most {BY_MAX} words")
    asked = UsageRequest(
        since=microseconds(request.since, "since"),
        until=microseconds(request.until, "until"),
        by=tuple(request.by) or ("group",),
        per=request.per,
        timezone=request.timezone or "UTC",
    )
    page = paging.page_of(0, request.page_token, call.method, tenant, encode(asked).decode())
    question = _after(asked, page.last) if page.last else asked
    books = await ask_books("usage", tenant, question, UsageAnswer, call)
    if question.skip and (not books.rows or books.lines != _lines_in(page.last)):
        message = "the books of that time have just changed: something became known late; ask again"
        raise ApiError(StatusCode.ABORTED, "STALE", message)
    until = min(question.until or books.now, books.now)
    report = pb.UsageReport(
        lines=map(_line, books.rows),
        sequence=str(books.through),
        time=moment(books.now),
        currency=books.currency,
        warnings=books.warnings,
    )
    skip = question.skip + len(books.rows)
    if skip < books.lines and books.rows:
        report.next_page_token = page.token(f"{until} {skip} {books.lines} {question.after}")
    elif books.more:
        report.next_page_token = page.token(f"{until} 0 0 {books.more}")
    return report


def _after(question: UsageRequest, last: str) -> UsageRequest:
    """The rest of a question, as of the time of its first page."""
    until, skip, _, after = last.split(" ")
    return replace(question, until=int(until), skip=int(skip), after=after)


def _lines_in(last: str) -> int:
    """Number of all lines at the time of the previous page."""
    return int(last.split(" ")[2])


async def get_statement(request: Any, call: CallContext) -> pb.Statement:
    """A piece of the statement of a tenant's month, or of what instances cost the provider."""
    tenant = tenant_asked(request, call)
    asked = StatementRequest(month=request.month, timezone=request.timezone or "UTC", form=request.form or "json")
    page = paging.page_of(0, request.page_token, call.method, tenant, encode(asked).decode())
    digest, _, offset = page.last.partition(" ")
    question = replace(asked, digest=digest, offset=int(offset or 0))
    reply = await ask_books("statement", tenant, question, StatementAnswer, call)
    answer = pb.Statement(text=reply.text, final=reply.final, sequence=str(reply.through))
    end = question.offset + len(reply.text)
    if end < reply.length and reply.text:
        answer.next_page_token = page.token(f"{reply.digest} {end}")
    return answer


def tenant_asked(request: Any, call: CallContext) -> str:
    """Tenant in `parent`; `ALL_TENANTS` for none, which requires a provider. Raises Denied."""
    if request.parent:
        return names.parts_of(request.parent, "tenants/*", "parent")[0]
    if not call.caller.is_provider:
        raise Denied(f"parent: {call.method} of all tenants is for the provider; write tenants/{call.caller.tenant}")
    return ALL_TENANTS


async def ask_books(what: str, tenant: str, question: object, kind: type[T], call: CallContext) -> T:
    """Answer of *accounting* for a tenant, or for all. Raises Refused, LogError."""
    service = ACCOUNTING if tenant else PROVIDER
    subject = subjects.query(service, what, tenant or call.caller.tenant, call.caller.handle)
    reply = await call.backend.connection.ask(subject, encode(question), within=min(ANSWER_WITHIN, call.within))
    answer = decode(reply.data, Answer)
    if answer.error:
        raise Refused(answer.code or "REFUSED", answer.error)
    return decode(bytes(answer.body), kind)


def _line(row: UsageRow) -> pb.UsageLine:
    return pb.UsageLine(
        group=row.group,
        key=row.key,
        hours=hours(row.key, row.total),
        reserved_hours=hours(row.key, row.reserved),
        borrowed_hours=hours(row.key, row.borrowed),
        lost_hours=hours(row.key, row.lost),
        jobs=row.jobs,
        exact=row.total,
        idle_hours=hours(row.key, row.idle),
        suspended_hours=hours(row.key, row.suspended),
        waiting_hours=hours(row.key, row.waiting),
        kept_hours=hours(row.key, row.kept),
        provider_lost_hours=hours(row.key, row.provider_lost),
        exact_amounts={name: getattr(row, name) for name in (*_MEASURES, *(_LOADS if row.key == GPU else ()))},
        cost=row.cost,
        lost_cost=row.lost_cost,
        measured_hours=hours(row.key, row.measured),
        busy_hours=hours(row.key, row.busy),
        idle_held_hours=hours(row.key, row.idle_held),
    )


def hours(key: str, unit_microseconds: str) -> str:
    """Exact integers of accounting as hours, rounded to four digits."""
    exact = Fraction(int(unit_microseconds), _UNITS.get(key, 1) * HOUR)
    return str((Decimal(exact.numerator) / Decimal(exact.denominator)).quantize(_DIGITS, ROUND_HALF_EVEN))
