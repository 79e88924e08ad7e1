"""Audit: the ledger as it was written, and the installation as it was; for the provider, who sees all."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec
from google.protobuf.json_format import ParseDict, ParseError
from google.protobuf.struct_pb2 import Struct

from headrace.contracts.amounts import GPU
from headrace.contracts.api import audit_pb2 as pb
from headrace.contracts.durations import DurationError, parse_time
from headrace.contracts.records import digest
from headrace.domain.state import State
from headrace.governance.api import nodes, paging, queues
from headrace.governance.api.faults import invalid
from headrace.governance.api.kinds import KINDS, everything, message_of
from headrace.governance.api.messages import moment, sequence_of, texts
from headrace.service.records import page
from headrace.views.roster import Roster
from headrace.views.shown import state_of
from headrace.views.visibility import EVERYBODY

if TYPE_CHECKING:
    from headrace.contracts.queries import StoredRecord
    from headrace.governance.api.office import Call

LEASES_MAX = 1_000


async def list_records(request: Any, call: Call) -> pb.ListRecordsResponse:
    """A page of the ledger."""
    asked = paging.page_of(request.page_size, request.page_token, call.method, request.after)
    after = sequence_of(asked.last or request.after, "after")
    found = await page(call.office.ledger, after)
    records = found.records[: asked.size]
    answer = pb.ListRecordsResponse(records=map(_record, records), sequence=str(found.tip))
    if records and records[-1].sequence < found.tip:
        answer.next_page_token = asked.token(str(records[-1].sequence))
    return answer


def _record(stored: StoredRecord) -> pb.LedgerRecord:
    message = pb.LedgerRecord(
        sequence=str(stored.sequence),
        subject=stored.subject,
        store_time=moment(stored.stamped),
        digest=digest(stored.payload),
    )
    try:
        ParseDict(_told(msgspec.json.decode(stored.payload)), message.record)
    except (msgspec.DecodeError, ParseError, RecursionError, ValueError):
        message.record.CopyFrom(Struct())
    return message


def _told(value: Any) -> Any:
    """JSON in which no number is rounded: those that are too large for a double are text."""
    if isinstance(value, dict):
        return {str(key): _told(element) for key, element in value.items()}
    if isinstance(value, list):
        return [_told(element) for element in value]
    return str(value) if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 2**53 else value


async def get_state(request: Any, call: Call) -> pb.PastState:
    """The installation behind a record, or at a moment."""
    sequence, at = _point(request.at)
    office = call.office
    state = office.state
    if 0 < sequence < state.sequence or (at and at < office.now()):
        state = await office.past.behind(sequence, at, state.sequence)
    elif sequence > state.sequence:
        raise invalid("at", f"the ledger ends with record {state.sequence}")
    return _state(state, at or max(state.now, 0))


def _point(text: str) -> tuple[int, int]:
    """(sequence, moment); both 0 for now."""
    if not text:
        return 0, 0
    if text.isascii() and text.isdecimal():
        return sequence_of(text, "at"), 0
    try:
        at = parse_time(text)
    except (DurationError, OverflowError):
        at = 0
    if at <= 0:
        raise invalid("at", "write a sequence such as 1234, or a moment such as 2026-11-21T08:00:00Z")
    return 0, at


class _Nothing(msgspec.Struct):
    facts: tuple[Any, ...] = ()


def _state(state: State, now: int) -> pb.PastState:
    roster = Roster(state)
    roster.note(_Nothing(), state.jobs)  # type: ignore[arg-type]  # it looks at the jobs, and at no fact
    (pool_kind,) = (kind for kind in KINDS if kind.kind == "pool")
    found = sorted(everything(state, pool_kind, EVERYBODY, None), key=lambda one: one.name)
    return pb.PastState(
        sequence=str(state.sequence),
        time=moment(state.now),
        pools=[message_of(state, pool_kind, one) for one in found],  # type: ignore[misc]
        nodes=[nodes.message_of(state, name, {}, EVERYBODY) for name in sorted(state.nodes)],
        queues=[
            message
            for tenant in sorted({owner for owner, _ in state.policies})
            for message in queues.messages(state, roster, tenant, now)
        ],
        jobs=Counter(state_of(job) for job in state.jobs.values()),
        leases=_leases(state),
    )


def _leases(state: State) -> list[pb.HeldLease]:
    found: list[pb.HeldLease] = []
    for name in sorted(state.nodes):
        for lease_id, lease in sorted(state.nodes[name].leases.items()):
            if len(found) == LEASES_MAX:
                return found
            devices = sorted({share.device for share in lease.devices})
            found.append(
                pb.HeldLease(
                    lease=str(lease_id), node=name, pool=lease.pool, devices=devices, amounts=texts(lease.amounts or {GPU: 0})
                )
            )
    return found
