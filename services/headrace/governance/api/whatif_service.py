"""`audit:whatif`: answered by a separate process, which reads the ledger and simulates (`headrace.simulate`).

Strategy: the simulation is a separate process, so that it takes neither memory nor time from the deciding one. Few run at a time, in the
order of `slots`, each in a copy of that process, which is killed when the caller goes away or the deadline passes; its memory is limited
(`headrace.simulate.whatif_process`).
"""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any

from google.protobuf.json_format import ParseDict
from grpc import StatusCode
from msgspec import structs, to_builtins

from headrace.contracts.api import audit_pb2 as pb
from headrace.contracts.documents.model import Documents, Tenant
from headrace.contracts.documents.reader import read_documents
from headrace.contracts.documents.tree import DocumentErrors, tree_of
from headrace.contracts.messages.whatif import NO_ANSWER, TOO_LARGE, Difference, Moved, WhatIfAnswer, WhatIfQuestion
from headrace.contracts.values.durations import SECOND, format_duration
from headrace.governance.api import names
from headrace.governance.api.errors import ApiError, Violation, invalid
from headrace.governance.api.messages import moment, plain
from headrace.governance.api.slots import QueueFull, Slots
from headrace.governance.api.whatif_answering import Answering
from headrace.governance.objects import full_name, placed, with_tenant
from headrace.identity.caller import Denied, Role
from headrace.identity.roles import Reach, authorize, reach

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.governance.api.context import CallContext
    from headrace.identity.caller import Caller

PLAYER = (sys.executable, "-m", "headrace.simulate")
LINES_MAX = 20
WITHIN_MAX = 600.0
"""Maximum seconds from the question to its answer, even if the caller's own deadline is later."""
RETRY_AFTER = 30
_RANKS = {role: rank for rank, role in enumerate(Role)}
"""Roles in the order in which they are served: the provider's administrators, its viewers, then tenants' roles."""


class WhatIfService:
    """What-ifs of one installation. `player`: the command that answers questions on its standard input."""

    def __init__(self, player: Sequence[str] = PLAYER, slots: Slots | None = None) -> None:
        self._answering = Answering(player)
        self._slots = slots or Slots()

    async def close(self) -> None:
        """End the process that answers."""
        await self._answering.close()

    async def what_if(self, request: Any, call: CallContext) -> pb.WhatIfReport:
        """Simulate a period twice, with and without the changes."""
        tenant = names.parts_of(request.parent, "tenants/*", "parent")[0] if request.parent else ""
        changes = plain(request.changes)
        if not isinstance(changes, dict) or not changes:
            raise invalid("changes", "nothing is changed; write documents, submit, nodes or delete")
        if tenant:
            changes = _own(changes, call, tenant)
        question = WhatIfQuestion(changes=changes, since=request.since, until=request.until, span=request.span, tenant=tenant)
        answer = await self._answer(question, call)
        if answer.found is None:
            lines = [call.for_caller(line) for line in (answer.lines or (answer.error,))]
            raise _fault(answer.code, lines)
        return _report(answer, answer.found)

    async def get_what_if_queue(self, request: Any, _call: CallContext) -> pb.WhatIfQueue:
        """Running and waiting what-ifs: of all accounts, or of one tenant."""
        tenant = names.parts_of(request.parent, "tenants/*", "parent")[0] if request.parent else ""
        found = [place for place in self._slots.places() if not tenant or place.account == tenant]
        return pb.WhatIfQueue(
            questions=[
                pb.WhatIfPlace(
                    tenant=f"tenants/{place.account}" if place.account else "",
                    caller=place.caller,
                    position=place.position,
                    since_time=moment(place.since),
                )
                for place in found
            ]
        )

    async def _answer(self, question: WhatIfQuestion, call: CallContext) -> WhatIfAnswer:
        """The answer of the process, once a slot is free. Raises ApiError."""
        account = "" if call.caller.is_provider else call.caller.tenant
        within = min(call.within, WITHIN_MAX)
        has_begun = False
        try:
            async with asyncio.timeout(within):
                async with self._slots.one(account, call.caller.author, _RANKS[call.caller.role], call.backend.clock()):
                    has_begun = True
                    return await self._answering.ask(question, call.backend.environment)
        except QueueFull as full:
            raise _full(account, full, self._slots) from None
        except TimeoutError:
            if not has_begun:
                message = f"{within:g} s were over before it was its turn: others are worked out; name a later deadline, or ask again later"
                raise ApiError(StatusCode.DEADLINE_EXCEEDED, "TOO_LONG", message, retry_after=RETRY_AFTER) from None
            message = f"it takes longer than {within:g} s, waiting included; ask for a shorter time of the ledger"
            raise ApiError(StatusCode.DEADLINE_EXCEEDED, "TOO_LONG", message) from None


def _full(account: str, full: QueueFull, slots: Slots) -> ApiError:
    """Error of a full queue, with the limit that was reached."""
    if full.own:
        whose = f"tenant {account} has" if account else "the provider's people have"
        way_out = "end one by closing its request, or ask again when one is answered"
        message = f"{whose} {slots.waiting_each} what-ifs waiting already: {way_out}"
    else:
        message = f"{slots.waiting_max} what-ifs of all tenants wait already; try again in {RETRY_AFTER} s"
    return ApiError(StatusCode.RESOURCE_EXHAUSTED, "TOO_MANY_WHATIFS", message, retry_after=RETRY_AFTER)


def _own(changes: dict[str, Any], call: CallContext, tenant: str) -> dict[str, Any]:
    """The changes, if all of them concern the tenant, and those of a member only jobs of their own.

    Raises Denied, and ApiError if they are malformed.
    """
    if reach(call.caller.role, call.method) is Reach.SELF:
        _check_own_jobs(changes, call.caller)
    written = with_tenant({key: value for key, value in changes.items() if key in Documents.__struct_fields__}, tenant)
    changes |= written
    try:
        documents = read_documents(tree_of(written))
    except DocumentErrors as wrong:
        raise _fault("INVALID", [f"changes.{one}" for one in wrong.errors]) from None
    for one in placed(documents):
        whose = one.name.name if isinstance(one.document, Tenant) else one.name.tenant
        _in(whose, tenant)
        authorize(call.caller, f"Update{one.name.kind.title()}", whose)
    if "nodes" in changes:
        raise invalid("changes.nodes", "nodes are the provider's; leave them out, or ask without parent", "NOT_ALLOWED")
    for row in _rows(changes, "delete"):
        name = full_name(str(row.get("kind", "")), str(row.get("name", "")), tenant)
        _in(name.tenant, tenant)
        row["tenant"] = tenant
    for row in _rows(changes, "submit"):
        _in(str(row.setdefault("tenant", tenant)), tenant)
    return changes


def _check_own_jobs(changes: dict[str, Any], caller: Caller) -> None:
    """Raise Denied for anything but jobs of the caller; a job without a user is the caller's from here on."""
    if others := changes.keys() - {"submit"}:
        raise Denied(f"changes.{min(others)}: a {caller.role} may try jobs of their own only; leave it out")
    for row in _rows(changes, "submit"):
        if row.setdefault("user", caller.handle) != caller.handle:
            raise Denied(f"changes.submit: a {caller.role} may try jobs of their own only; leave out the user")


def _rows(changes: dict[str, Any], key: str) -> list[dict[str, Any]]:
    rows = changes.get(key, [])
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def _in(whose: str, tenant: str) -> None:
    if whose != tenant:
        raise invalid("changes", f"only what is of tenant {tenant} can be changed with that parent", "NOT_ALLOWED")


def _fault(code: str, lines: Sequence[str]) -> ApiError:
    violations = [
        Violation(field, message) for line in lines[:LINES_MAX] for field, colon, message in (line.partition(": "),) if colon
    ]
    more = f" (and {len(lines) - 1} more)" if len(lines) > 1 else ""
    status = {
        "INVALID": StatusCode.INVALID_ARGUMENT,
        "UNAVAILABLE": StatusCode.UNAVAILABLE,
        TOO_LARGE: StatusCode.RESOURCE_EXHAUSTED,
        NO_ANSWER: StatusCode.RESOURCE_EXHAUSTED,
    }
    return ApiError(status.get(code, StatusCode.FAILED_PRECONDITION), code, lines[0] + more, *violations)


def _report(answer: WhatIfAnswer, found: Difference) -> pb.WhatIfReport:
    report = pb.WhatIfReport(
        sequence=str(answer.sequence),
        time=moment(answer.since),
        span=format_duration(found.span),
        assumptions=found.assumptions,
        moved=map(_move, found.moved),
        moved_in_all=found.moved_in_all,
    )
    ParseDict(_texts(to_builtins(structs.asdict(found)), ("total", "recorded", "groups", "policies", "pools")), report)
    return report


def _texts(found: dict[str, Any], fields: Sequence[str]) -> dict[str, Any]:
    """Values as text for numbers of time and use; unset fields are left out."""
    return {name: _text(found[name]) for name in fields if found[name]}


_COUNTS = frozenset({"starts", "waiting", "refused", "preemptions"})


def _text(value: Any) -> Any:
    return {
        name: _text(part) if isinstance(part, dict) else part if name in _COUNTS else str(part) for name, part in value.items()
    }


def _move(row: Moved) -> pb.WhatIfMove:
    return pb.WhatIfMove(
        job=row.job,
        queue=row.queue,
        before=_seconds(row.before),
        after=_seconds(row.after),
        before_is=row.before_is,
        after_is=row.after_is,
    )


def _seconds(microseconds: int | None) -> str:
    return "" if microseconds is None else str(microseconds // SECOND)
