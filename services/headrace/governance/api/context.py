"""Dependencies of the API's services: the fold, the decider behind it, an index of jobs, and the bus."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from grpc import StatusCode
from msgspec import structs

from headrace.contracts.facts.writers import GOVERNANCE
from headrace.contracts.messages.queries import ApplyAnswer
from headrace.governance.api.errors import ApiError
from headrace.governance.claims import claiming
from headrace.governance.decide import applying
from headrace.identity.caller import Role
from headrace.identity.principals import is_stated
from headrace.service.answering import Refused
from headrace.views.visibility import ALL_TENANTS, hide_tenants

if TYPE_CHECKING:
    from headrace.bus.log import Log
    from headrace.bus.text_encryption import Keyring
    from headrace.contracts.documents.model import Documents
    from headrace.contracts.messages.tokens import Grant
    from headrace.domain.state.state import State
    from headrace.governance.api.admission_watermark import AdmissionWatermark
    from headrace.governance.calendars import TimeZones
    from headrace.governance.decide import Operation
    from headrace.identity.caller import Caller
    from headrace.nats_client.connection import Connection
    from headrace.service.recent_records import RecentRecords
    from headrace.views.history import History
    from headrace.views.job_index import JobIndex
    from headrace.views.past_queries import PastQueries
    from headrace.views.queries import Queries

CATCH_UP_WITHIN = 5.0
"""Maximum seconds for which a read waits for the record that it requires; the caller's own deadline may be earlier."""

_HINT = re.compile(r"; (?:did you mean|there (?:is|are)) [^;()]*")


class ApiContext(NamedTuple):
    """Dependencies of the API's services.

    `decide` queues an operation and returns its outcome; `clock`: microseconds since 1970. `sign` signs the token of a grant, `texts` has
    the keys of sealed texts; both are slow, and are used after the fact is durable. `watermark`: what admission has read. `until` waits for
    a condition on the state. `environment`: the service's. `alone`: reason why only the owner and administrators can log in.
    """

    state: State
    job_index: JobIndex
    history: History
    recent: RecentRecords
    queries: Queries
    past_queries: PastQueries
    ledger: Log
    submits: Log
    connection: Connection
    last_seen: Mapping[str, int]
    zones: TimeZones
    clock: Callable[[], int]
    decide: Callable[[Operation], Awaitable[ApplyAnswer]]
    sign: Callable[[Grant], str]
    texts: Keyring
    watermark: AdmissionWatermark
    until: Callable[[Callable[[], bool]], Awaitable[None]]
    environment: Mapping[str, str]
    alone: str = ""

    def now(self) -> int:
        """Log time, or this machine's time if that is later."""
        return max(self.state.now, self.clock())

    async def reach(self, sequence: int, within: float) -> None:
        """Wait until the fold has that record. Raises ApiError if the ledger ends before it, or on timeout."""
        if sequence <= self.state.sequence:
            return
        tip = await self.ledger.tip()
        if sequence > tip:
            raise ApiError(
                StatusCode.OUT_OF_RANGE,
                "NOT_THERE_YET",
                f"min_sequence: the ledger ends with record {tip}; {sequence} is to come",
            )
        try:
            async with asyncio.timeout(min(within, CATCH_UP_WITHIN)):
                await self.until(lambda: self.state.sequence >= sequence)
        except TimeoutError:
            message = f"record {sequence} has not been read yet; record {self.state.sequence} has; try again"
            raise ApiError(StatusCode.UNAVAILABLE, "BEHIND", message) from None


class CallContext(NamedTuple):
    """One call: the caller, the method, and the deadline (seconds from its start)."""

    caller: Caller
    method: str
    within: float
    backend: ApiContext

    @property
    def tenant(self) -> str:
        """Tenant whose view of the state the caller gets; for the provider, the view of all tenants."""
        return ALL_TENANTS if self.caller.is_provider else self.caller.tenant

    async def ready_to_submit(self) -> None:
        """Wait until admission knows the caller's rights: the groups claimed by their token, and all changes written before this call."""
        backend = self.backend
        if not is_stated(backend.state, self.caller):
            await backend.decide(claiming(self.caller))
        written, _ = backend.state.writers.get(GOVERNANCE, (0, ""))
        await backend.watermark.reach(written)

    async def applied(self, documents: Documents, reason: str, revisions: Mapping[str, int], *, dry_run: bool) -> ApplyAnswer:
        """Apply documents in the caller's name. Raises Refused."""
        operation = applying(
            documents,
            self.caller.author,
            zones=self.backend.zones,
            reason=reason,
            revisions=revisions,
            dry_run=dry_run,
            vouches=self.caller.role is Role.PROVIDER_ADMIN,
        )
        return await self.decided(operation)

    async def decided(self, operation: Operation, *, validate_only: bool = False) -> ApplyAnswer:
        """Outcome of an operation, in words that the caller may read. Raises Refused."""
        backend = self.backend
        try:
            if not validate_only:
                return self.projected(await backend.decide(operation))
            return self.projected(structs.replace(_judged(operation, backend), applied=False))
        except Refused as refusal:
            body = self.projected(refusal.body) if isinstance(refusal.body, ApplyAnswer) else None
            raise Refused(refusal.code, self.for_caller(str(refusal)), body) from None

    def projected(self, answer: ApplyAnswer) -> ApplyAnswer:
        """A plan without parts that the caller may not see."""
        if self.tenant == ALL_TENANTS:
            return answer
        changes = tuple(structs.replace(change, fields=tuple(map(self.for_caller, change.fields))) for change in answer.changes)
        return structs.replace(
            answer,
            changes=changes,
            warnings=tuple(map(self.for_caller, answer.warnings)),
            errors=tuple(map(self.for_caller, answer.errors)),
        )

    def for_caller(self, text: str) -> str:
        """A message as the caller may read it: without names of other tenants, and without hints that list names."""
        if self.tenant == ALL_TENANTS:
            return text
        return hide_tenants(_HINT.sub("", text), self.tenant, self.backend.state)


def _judged(operation: Operation, backend: ApiContext) -> ApplyAnswer:
    """Outcome of an operation without stating it."""
    decision = operation(backend.state, backend.now())
    if decision.code:
        raise Refused(decision.code, decision.error, decision.answer)
    return decision.answer
