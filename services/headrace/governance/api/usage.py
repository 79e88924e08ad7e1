"""The service of usage, which asks *accounting* (R17, R37)."""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from headrace.contracts.api import usage_pb2 as pb
from headrace.contracts.messages.queries import Answer
from headrace.contracts.messages.usage import UsageAnswer, UsageRequest, UsageRow
from headrace.contracts.transport import subjects
from headrace.contracts.transport.codec import decode, encode
from headrace.contracts.values.amounts import CPU, CPU_UNITS, GPU, GPU_UNITS, MEMORY
from headrace.contracts.values.durations import HOUR
from headrace.governance.api import names, paging
from headrace.governance.api.errors import invalid
from headrace.governance.api.messages import microseconds
from headrace.service.answering import Refused

if TYPE_CHECKING:
    from headrace.governance.api.context import CallContext

ANSWER_WITHIN = 10.0
BY_MAX = 9
_UNITS = {GPU: GPU_UNITS, CPU: CPU_UNITS, MEMORY: 1024}
_DIGITS = Decimal("0.0001")


async def get_usage(request: Any, call: CallContext) -> pb.UsageReport:
    """A tenant's usage in a period."""
    (tenant,) = names.parts_of(request.parent, "tenants/*", "parent")
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
    subject = subjects.query("accounting", "usage", tenant, call.caller.handle)
    said = await call.backend.connection.ask(subject, encode(question), within=min(ANSWER_WITHIN, call.within))
    answer = decode(said.data, Answer)
    if answer.error:
        raise Refused(answer.code or "REFUSED", answer.error)
    books = decode(bytes(answer.body), UsageAnswer)
    until = min(question.until or books.now, books.now)
    report = pb.UsageReport(lines=map(_line, books.rows), sequence=str(books.through))
    skip = question.skip + len(books.rows)
    if skip < books.lines and books.rows:
        report.next_page_token = page.token(f"{until} {skip} {question.after}")
    elif books.more:
        report.next_page_token = page.token(f"{until} 0 {books.more}")
    return report


def _after(question: UsageRequest, last: str) -> UsageRequest:
    """The rest of a question, as of the time of its first page."""
    until, skip, after = last.split(" ")
    return replace(question, until=int(until), skip=int(skip), after=after)


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
        cost=row.cost,
        lost_cost=row.lost_cost,
    )


def hours(key: str, unit_microseconds: str) -> str:
    """Exact integers of accounting as hours, rounded to four digits."""
    exact = Fraction(int(unit_microseconds), _UNITS.get(key, 1) * HOUR)
    return str((Decimal(exact.numerator) / Decimal(exact.denominator)).quantize(_DIGITS, ROUND_HALF_EVEN))
