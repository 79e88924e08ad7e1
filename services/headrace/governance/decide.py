"""Decides on waiting requests, one request per record (R9). Pure: a request is judged on the state at the tip.

Strategy: a request is stated in one round and answered in the next, when its record has been read back and its effect can be read.
Between the two no other request is judged, so within this service no writer comes between what a plan read and what it wrote; a second
instance that writes under the same name fences this one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import NamedTuple

from msgspec import structs

from headrace.contracts.documents.model import Documents
from headrace.contracts.facts import AnyFact
from headrace.contracts.facts.writers import GOVERNANCE
from headrace.contracts.messages.queries import ApplyAnswer, DeleteRequest
from headrace.domain.state.state import State
from headrace.governance.calendars import TimeZones, next_renewal, renewed
from headrace.governance.drain import DrainTracker
from headrace.governance.instances import logins_of_ended
from headrace.governance.plan import make_plan
from headrace.governance.removal import remove


class Decision(NamedTuple):
    """Outcome of a request: the answer and the facts that make it true; with a `code`, a refusal with its answer and `error`."""

    answer: ApplyAnswer
    facts: tuple[AnyFact, ...] = ()
    code: str = ""
    error: str = ""


Operation = Callable[[State, int], Decision]
"""A request, judged on the state at the tip, at log time `now`."""

Answered = Callable[[Decision | Exception], None]
"""Callback that takes the decision once it is durable, or the exception raised in judging the request."""


class Governance:
    """The waiting requests, over one state."""

    def __init__(self, state: State, zones: TimeZones) -> None:
        self.state = state
        self.zones = zones
        self._waiting: deque[tuple[Operation, Answered]] = deque()
        self._stated: tuple[Decision, Answered] | None = None
        self._ends = DrainTracker(state)

    def ask(self, operation: Operation, answered: Answered) -> None:
        """Append a request to the queue."""
        self._waiting.append((operation, answered))

    def decide(self, now: int) -> tuple[AnyFact, ...]:
        """Facts of the next request that changes something; those before it are answered.

        Without a request: the deletion of closed objects (R11), calendars that end soon (R33), logins of ended instances
        (R38). The caller has read back its last append.
        """
        self._answer_stated()
        while self._waiting:
            operation, answered = self._waiting.popleft()
            try:
                decision = operation(self.state, now)
            except Exception as error:  # noqa: BLE001  # an error in one request is its answer and does not end the service
                answered(error)
                continue
            if decision.facts:
                self._stated = decision, answered
                return decision.facts
            answered(decision)
        return self._ends.due() or tuple(renewed(self.state, self.zones, now)) or tuple(logins_of_ended(self.state))

    def next_wakeup(self) -> int | None:
        """Time at which a calendar has to be stated again; for everything else governance waits for requests."""
        return next_renewal(self.state)

    def _answer_stated(self) -> None:
        if self._stated is not None:
            (decision, answered), self._stated = self._stated, None
            revision, _ = self.state.writers[GOVERNANCE]
            answered(decision._replace(answer=structs.replace(decision.answer, revision=revision)))


def applying(
    documents: Documents,
    author: str,
    *,
    zones: TimeZones | None = None,
    reason: str = "",
    revisions: Mapping[str, int] | None = None,
    dry_run: bool = False,
    vouches: bool = False,
) -> Operation:
    """Operation that applies `documents`, all or none of them. `vouches`: the author is the provider (`plan`)."""

    def operation(state: State, now: int) -> Decision:
        plan = make_plan(state, documents, author, reason=reason, revisions=revisions, zones=zones, now=now, vouches=vouches)
        answer = ApplyAnswer(
            changes=plan.changes,
            warnings=plan.warnings,
            applied=not dry_run and not plan.errors,
            running=plan.running,
            pending=plan.pending,
            errors=plan.errors,
        )
        if plan.errors:
            return Decision(answer, code="STALE" if plan.stale else "INVALID", error=first_of(plan.errors))
        return Decision(answer, () if dry_run else plan.facts)

    return operation


def first_of(errors: tuple[str, ...]) -> str:
    """One line for several: the first, and the number of further ones."""
    return errors[0] + (f" (and {len(errors) - 1} more)" if len(errors) > 1 else "")


def deleting(request: DeleteRequest, author: str) -> Operation:
    """Operation that deletes an object."""

    def operation(state: State, _now: int) -> Decision:
        removal = remove(state, request, author)
        answer = ApplyAnswer(
            changes=removal.changes,
            applied=not removal.error,
            running=removal.running,
            pending=removal.pending,
            errors=(removal.error,) if removal.error else (),
        )
        return Decision(answer, removal.facts, removal.code, removal.error)

    return operation
