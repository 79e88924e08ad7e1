"""Deletion of an object (R11): refused while jobs are under it or documents refer to it, naming which and how many; or by a mode. Pure."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import structs

from headrace.contracts import facts as f
from headrace.contracts.documents.model import KINDS
from headrace.contracts.facts import AnyFact
from headrace.contracts.messages.queries import Change, DeleteRequest
from headrace.domain.model.time_rules import Closing
from headrace.domain.queueing.freeze_drain import holding_under, waiting_under
from headrace.domain.state.state import State
from headrace.governance.dependents import jobs_under, referring
from headrace.governance.drain import NO_CASCADE, cascade
from headrace.governance.objects import REASON_MAX, ObjectName, current, deleted, full_name, names
from headrace.governance.validation.diagnostics import listed, unknown

MODES = ("freeze", "drain", "cancel")


class Removal(NamedTuple):
    """Outcome of a deletion: the fact, or a stable code and one line with the reason."""

    changes: tuple[Change, ...] = ()
    facts: tuple[AnyFact, ...] = ()
    code: str = ""
    error: str = ""
    running: int = 0
    pending: int = 0


def remove(state: State, request: DeleteRequest, author: str) -> Removal:
    """The deletion of one object, requested by `author`."""
    wrong = _wrong_request(request)
    if wrong:
        return Removal(code="INVALID", error=wrong)
    name = full_name(request.kind, request.name, request.tenant)
    there = current(state, name)
    if there is None:
        return Removal(code="NOT_FOUND", error=unknown(name.kind, name.full, (known.full for known in names(state, name.kind))))
    revision = there[1]
    if request.revision not in (0, revision):
        message = f"{name} is at revision {revision}, the deletion is based on {request.revision}: get it again"
        return Removal(code="STALE", error=message)
    running, pending = jobs_under(state, name)
    if request.mode:
        return _by_mode(
            state, name, request, author, Change(kind=name.kind, name=name.full, action="update", revision=revision)
        )
    in_the_way = _in_the_way(name, running, pending, list(referring(state, name)))
    if in_the_way:
        return Removal(code="REFUSED", error=in_the_way, running=running, pending=pending)
    change = Change(kind=name.kind, name=name.full, action="delete", revision=revision)
    return Removal((change,), (deleted(name, author, request.reason),))


def _wrong_request(request: DeleteRequest) -> str:
    if request.kind not in KINDS:
        return f"kind: {unknown('kind', request.kind, KINDS)}"
    if request.mode and request.mode not in MODES:
        return f"mode: {unknown('mode', request.mode, MODES)}"
    if request.mode and request.kind == "user":
        return "mode: a user has none; take the user out of its groups and cancel the jobs, then delete without a mode"
    return ""


def _in_the_way(name: ObjectName, running: int, pending: int, referring: list[str]) -> str:
    """Reason why the object cannot be deleted; empty if it can."""
    in_use = f"in use (pending={pending} running={running})" if running or pending else ""
    named = f"named by {listed(referring)}" if referring else ""
    if not in_use and not named:
        return ""
    ways_out = [
        (
            f"cancel its jobs or let them end{'' if name.kind == 'user' else ', or choose a mode: ' + ', '.join(MODES)}"
            if in_use
            else ""
        ),
        ("change or delete those first" if named else ""),
    ]
    return f"{name} is {' and '.join(filter(None, (in_use, named)))}: {', and '.join(filter(None, ways_out))} (R11)"


def _by_mode(state: State, name: ObjectName, request: DeleteRequest, author: str, change: Change) -> Removal:
    """Close the object now; a drained or cancelled object is deleted once it is unused, with the objects that depend on it."""
    closing = Closing(name.kind, name.tenant, name.name, request.mode, author, state.now)
    running, pending = len(holding_under(state, closing)), len(waiting_under(state, closing))
    found = NO_CASCADE if request.mode == "freeze" else cascade(state, name, author)
    if found.in_the_way:
        line = f"{name} cannot be deleted: {listed(found.in_the_way)}: change or delete those first (R11)"
        return Removal(code="REFUSED", error=line, running=running, pending=pending)
    before = state.terms.closings.get((name.kind, name.tenant, name.name))
    if before is not None and before.mode == request.mode:
        return Removal((structs.replace(change, action="keep"),), running=running, pending=pending)
    was = before.mode if before is not None else "no"
    fields = (f"closed: {was} -> {request.mode}", *(f"with it: {line}" for line in found.lines))
    fact = f.ObjectClosedV1(
        author=author,
        reason=request.reason[:REASON_MAX],
        kind=name.kind,
        tenant=name.tenant,
        name=name.name,
        mode=request.mode,
    )
    return Removal((structs.replace(change, fields=fields),), (fact,), running=running, pending=pending)
