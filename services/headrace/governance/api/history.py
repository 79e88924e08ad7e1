"""Audit: the ledger's records, for the provider; earlier states of the installation, as the caller may see them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from google.protobuf.json_format import ParseDict, ParseError
from google.protobuf.struct_pb2 import Struct

from headrace.bus.log import LogBroken
from headrace.contracts.api import audit_pb2 as pb
from headrace.contracts.facts.records import digest
from headrace.contracts.messages.history import DiffRequest, LedgerPoint
from headrace.contracts.values.durations import DurationError, parse_time
from headrace.governance.api import names, nodes, paging, queues
from headrace.governance.api.errors import invalid
from headrace.governance.api.messages import exact, moment, sequence_of, texts
from headrace.governance.api.resource_kinds import KINDS, count_jobs, everything, message_of
from headrace.service.answering import Refused
from headrace.service.records import page
from headrace.views.job_index import queue_counts
from headrace.views.replay import past_view
from headrace.views.visibility import ALL_TENANTS, sees_node

if TYPE_CHECKING:
    from headrace.contracts.messages.history import LeaseView, PastJob, PastView
    from headrace.contracts.messages.queries import StoredRecord
    from headrace.domain.state.state import State
    from headrace.governance.api.context import CallContext


async def list_records(request: Any, call: CallContext) -> pb.ListRecordsResponse:
    asked = paging.page_of(request.page_size, request.page_token, call.method, request.after)
    after = sequence_of(asked.last or request.after, "after")
    try:
        found = await page(call.backend.ledger, after)
    except LogBroken as error:
        raise Refused("REFUSED", f"the ledger is damaged: {error}") from None
    records = found.records[: asked.size]
    written = map(_exact_record if request.exact else _record, records)
    answer = pb.ListRecordsResponse(records=written, sequence=str(found.tip))
    if records and records[-1].sequence < found.tip:
        answer.next_page_token = asked.token(str(records[-1].sequence))
    return answer


def _exact_record(stored: StoredRecord) -> pb.LedgerRecord:
    return pb.LedgerRecord(
        sequence=str(stored.sequence),
        subject=stored.subject,
        store_time=moment(stored.stamped),
        digest=digest(stored.payload),
        payload=stored.payload,
    )


def _record(stored: StoredRecord) -> pb.LedgerRecord:
    message = pb.LedgerRecord(
        sequence=str(stored.sequence),
        subject=stored.subject,
        store_time=moment(stored.stamped),
        digest=digest(stored.payload),
    )
    try:
        ParseDict(exact(msgspec.json.decode(stored.payload)), message.record)
    except (msgspec.DecodeError, ParseError, RecursionError, ValueError):
        message.record.CopyFrom(Struct())
    return message


async def get_state(request: Any, call: CallContext) -> pb.PastState:
    """The state after a record, or at a time, as the caller may see it; jobs in pages."""
    viewer = _viewer(request, call)
    page = paging.page_of(request.page_size, request.page_token, call.method, request.at, request.parent)
    point = point_in(request.at, "at") if request.at else LedgerPoint(sequence=_sequence_in(page.last))
    backend = call.backend
    after = page.last.partition("/")[2]
    async with backend.past_queries.at(point, viewer) as (state, tip):
        view = await backend.past_queries.run(past_view, state, viewer, tip, point.at, after, page.size)
        answer = pb.PastState(
            sequence=str(view.sequence), time=moment(view.now), tip=str(tip), jobs=view.counts, active=map(_job, view.jobs)
        )
        if view.next:
            answer.next_page_token = page.token(f"{view.sequence}/{view.next}")
        if not after:
            await backend.past_queries.run(_fill_state, answer, state, viewer, max(state.now, point.at), view)
    return answer


def _viewer(request: Any, call: CallContext) -> str:
    """Tenant whose view is asked for; for others than the provider it is their own."""
    return names.parts_of(request.parent, "tenants/*", "parent")[0] if request.parent else call.tenant


def _sequence_in(last: str) -> int:
    """The record that the first page reflects, from a later page's token."""
    return int(last.partition("/")[0]) if last else 0


async def diff_states(request: Any, call: CallContext) -> pb.StateDifference:
    """Differences between two points of the ledger, as the caller may see them."""
    query = DiffRequest(before=point_in(request.before, "before"), after=point_in(request.after, "after"))
    found = await call.backend.past_queries.diff(_viewer(request, call), query)
    return pb.StateDifference(
        before=str(found.before),
        before_time=moment(found.before_now),
        after=str(found.after),
        after_time=moment(found.after_now),
        changes=[
            pb.StateChange(
                kind=change.kind,
                name=change.name,
                change=change.change,
                fields=[pb.FieldChange(field=name, before=was, after=now) for name, (was, now) in change.fields.items()],
            )
            for change in found.changes
        ],
        more=found.more,
    )


def point_in(text: str, field: str) -> LedgerPoint:
    """A point in the ledger; for an empty text, its end. Raises ApiError."""
    if not text:
        return LedgerPoint()
    if text.isascii() and text.isdecimal():
        sequence = sequence_of(text, field)
        if not sequence:
            raise invalid(field, "records are numbered from 1")
        return LedgerPoint(sequence=sequence)
    try:
        at = parse_time(text)
    except (DurationError, OverflowError):
        at = 0
    if at <= 0:
        raise invalid(field, "write a sequence such as 1234, or a moment such as 2026-11-21T08:00:00Z")
    return LedgerPoint(at=at)


def _fill_state(answer: pb.PastState, state: State, tenant: str, now: int, view: PastView) -> None:
    """Fill the answer with everything except jobs."""
    lines = queue_counts(state)
    (kind,) = (kind for kind in KINDS if kind.kind == "pool")
    found = sorted(everything(state, kind, tenant, None), key=lambda one: one.name)
    answer.pools.extend(message_of(state, kind, one) for one in found)  # type: ignore[misc]
    for pool in answer.pools:
        count_jobs(pool, state, lines, tenant)
    seen = (name for name in sorted(state.nodes) if sees_node(state, tenant, state.nodes[name]))
    answer.nodes.extend(nodes.message_of(state, name, {}, tenant) for name in seen)
    for owner in sorted({owner for owner, _ in state.policies}) if tenant == ALL_TENANTS else [tenant]:
        answer.queues.extend(queues.messages(state, lines, owner, now))
    for document in view.documents:
        message = answer.documents.add(
            kind=document.kind, name=document.name, revision=str(document.revision), closed=document.closed
        )
        ParseDict(exact(document.document), message.document)


def _job(job: PastJob) -> pb.PastJob:
    return pb.PastJob(
        job=job.job,
        display_name=job.name,
        queue=job.queue,
        state=job.state,
        since_time=moment(job.since),
        attempt=job.attempt,
        request=texts(job.request),
        replicas=job.replicas,
        leases=map(_lease, job.leases),
        reason=job.reason,
        message=job.message,
        kept_in=job.kept_in,
        yields_to=job.yields_to,
    )


def _lease(lease: LeaseView) -> pb.HeldLease:
    return pb.HeldLease(
        rank=lease.rank,
        node=lease.node,
        pool=lease.pool,
        devices=lease.devices,
        amounts=texts(lease.amounts),
        granted_time=moment(lease.granted_at),
        started_time=moment(lease.started_at),
        overdue=lease.overdue,
        suspended=lease.suspended,
    )
