"""`audit:whatif`: asked of a process of its own, which reads the ledger and plays (`headrace.simulate`).

Strategy: nothing of it runs here, so that a long question takes memory and time from nobody who decides. One is worked out at a time. The
process ends with its question, and is ended with whoever asked.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from google.protobuf.json_format import ParseDict
from grpc import StatusCode
from msgspec import structs, to_builtins

from headrace.contracts.api import audit_pb2 as pb
from headrace.contracts.codec import Malformed, decode, encode
from headrace.contracts.document_reader import read_documents
from headrace.contracts.document_tree import DocumentErrors, tree_of
from headrace.contracts.documents import Documents, Tenant
from headrace.contracts.durations import SECOND, format_duration
from headrace.contracts.whatif import Difference, Moved, WhatIfAnswer, WhatIfQuestion
from headrace.governance.api import names
from headrace.governance.api.faults import Fault, Violation, invalid
from headrace.governance.api.messages import moment, plain
from headrace.governance.objects import full_name, placed
from headrace.identity.roles import authorize
from headrace.service.answering import Refused

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.governance.api.office import Call

PLAYER = (sys.executable, "-m", "headrace.simulate")
LINES_MAX = 20


class Supposing:
    """One installation's what-ifs. `player`: the command that answers a question on its standard input."""

    def __init__(self, player: Sequence[str] = PLAYER) -> None:
        self._player = player
        self._busy = False

    async def what_if(self, request: Any, call: Call) -> pb.WhatIfReport:
        """Play a time twice."""
        tenant = names.parts_of(request.parent, "tenants/*", "parent")[0] if request.parent else ""
        changes = plain(request.changes)
        if not isinstance(changes, dict) or not changes:
            raise invalid("changes", "nothing is changed; write documents, submit, nodes or delete")
        if tenant:
            changes = _own(changes, call, tenant)
        question = WhatIfQuestion(changes=changes, since=request.since, until=request.until, span=request.span, tenant=tenant)
        if self._busy:
            raise Refused("UNAVAILABLE", "another what-if is being worked out; try again in a minute")
        self._busy = True
        try:
            answer = await _ask(self._player, question, call.within)
        finally:
            self._busy = False
        if answer.found is None:
            lines = [call.told(line) for line in (answer.lines or (answer.error,))]
            raise _fault(answer.code, lines)
        return _report(answer, answer.found)


def _own(changes: dict[str, Any], call: Call, tenant: str) -> dict[str, Any]:
    """The changes, where all of them are about what is the tenant's; raises `Denied`, and `Fault` where they cannot be read."""
    written = {key: value for key, value in changes.items() if key in Documents.__struct_fields__}
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


def _rows(changes: dict[str, Any], key: str) -> list[dict[str, Any]]:
    rows = changes.get(key, [])
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def _in(whose: str, tenant: str) -> None:
    if whose != tenant:
        raise invalid("changes", f"only what is of tenant {tenant} can be changed with that parent", "NOT_ALLOWED")


async def _ask(player: Sequence[str], question: WhatIfQuestion, within: float) -> WhatIfAnswer:
    """Let a process answer; it ends with this call, and so does what it has started."""
    process = _started(player)
    try:
        async with asyncio.timeout(within):
            said, _ = await asyncio.to_thread(process.communicate, encode(question))
        return decode(said, WhatIfAnswer)
    except TimeoutError:
        raise Fault(
            StatusCode.DEADLINE_EXCEEDED, "TOO_LONG", f"it takes longer than {within:g} s; ask for a shorter time of the ledger"
        ) from None
    except Malformed:
        raise Fault(
            StatusCode.RESOURCE_EXHAUSTED,
            "NO_ANSWER",
            "it ended without an answer, for want of memory most likely; ask for less",
        ) from None
    finally:
        if process.returncode is None:  # the thread that waits for it takes notice
            os.killpg(process.pid, signal.SIGKILL)


def _started(player: Sequence[str]) -> subprocess.Popen[bytes]:
    pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
    try:
        return subprocess.Popen(player, stdin=pipe, stdout=pipe, stderr=nowhere, start_new_session=True)  # noqa: S603 - ours
    except OSError as error:
        raise Refused("UNAVAILABLE", f"no process can be started for it now: {error}; try again in a while") from None


def _fault(code: str, lines: Sequence[str]) -> Fault:
    violations = [
        Violation(field, message) for line in lines[:LINES_MAX] for field, colon, message in (line.partition(": "),) if colon
    ]
    more = f" (and {len(lines) - 1} more)" if len(lines) > 1 else ""
    status = {"INVALID": StatusCode.INVALID_ARGUMENT, "UNAVAILABLE": StatusCode.UNAVAILABLE}
    return Fault(status.get(code, StatusCode.FAILED_PRECONDITION), code, lines[0] + more, *violations)


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
    """The numbers, those of time and use as text; what is not there is left out."""
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
