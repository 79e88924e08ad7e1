"""`jobs:watch`: first the current jobs, then their changes as FEED publishes them to the tenant; a keep-alive line in quiet times."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from google.protobuf.json_format import ParseDict
from google.protobuf.struct_pb2 import Struct
from grpc import StatusCode

from headrace.client.feed import FeedFact, read_fact
from headrace.contracts.api import jobs_pb2 as pb
from headrace.contracts.transport.subjects import feed
from headrace.contracts.values.ids import is_job_id, is_token
from headrace.domain.model.job_states import FINAL
from headrace.governance.api import names
from headrace.governance.api.errors import ApiError, invalid
from headrace.governance.api.job_messages import job_message
from headrace.governance.api.jobs import view_of
from headrace.governance.api.messages import moment
from headrace.governance.api.watch_limits import WATCHERS_EACH, WATCHERS_MAX, WATCHERS_OF_A_TENANT, WatchLimits
from headrace.views import tenant_views
from headrace.views.job_index import Rejected

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from nats.aio.msg import Msg

    from headrace.governance.api.context import ApiContext, CallContext

UNSENT_MAX = 10_000
"""Maximum facts that wait for one reader; a slower reader has to begin again."""
UNSENT_ALL = 100_000
"""Maximum facts that wait for all readers together; beyond, each has an equal part."""
ALIVE_EVERY = 10.0
AT_ONCE = 200


class Watches:
    """All watches; each keeps a subscription and facts in memory."""

    def __init__(
        self,
        most: int = WATCHERS_MAX,
        each: int = WATCHERS_EACH,
        alive_every: float = ALIVE_EVERY,
        of_a_tenant: int = WATCHERS_OF_A_TENANT,
    ) -> None:
        self._alive_every = alive_every
        self._limits = WatchLimits(most, each, of_a_tenant)
        self.watchers: set[_Watcher] = set()

    async def watch_jobs(self, request: Any, call: CallContext) -> AsyncIterator[pb.JobEvent]:
        """Changes of a tenant's jobs, until the caller's deadline or the caller ends the call."""
        (tenant,) = names.parts_of(request.parent, "tenants/*", "parent")
        if request.job and not is_job_id(request.job):
            raise invalid("job", "write the id of a job, which is a lower-case ULID of 26 characters")
        if request.user and not is_token(request.user):
            raise invalid("user", "write a handle: 1 to 63 of a-z, 0-9 and '-'")
        with self._limits.one(call.caller):
            watcher = _Watcher(tenant, request.user, self)
            self.watchers.add(watcher)
            connection = call.backend.connection
            try:
                subscription = await connection.subscribe(feed(tenant, "*", "*", request.job or "*"), cb=watcher.receive)
                try:
                    await connection.flush()
                    async for event in self._events(tenant, request, call, watcher):
                        yield event
                finally:
                    await subscription.unsubscribe()
            finally:
                self.watchers.discard(watcher)

    def allowed(self) -> int:
        """Maximum facts that may wait for one reader now."""
        return min(UNSENT_MAX, UNSENT_ALL // max(1, len(self.watchers)))

    async def _events(self, tenant: str, request: Any, call: CallContext, watcher: _Watcher) -> AsyncIterator[pb.JobEvent]:
        backend, since = call.backend, call.backend.state.sequence
        async for event in _as_it_is(backend, tenant, request):
            yield event
        yield pb.JobEvent(type="alive", sequence=str(since), time=moment(backend.now()))
        while True:
            try:
                async with asyncio.timeout(self._alive_every):
                    fact = await watcher.next()
            except TimeoutError:
                yield pb.JobEvent(type="alive", sequence=str(backend.state.sequence), time=moment(backend.now()))
                continue
            if fact.sequence > since:
                yield _event(fact)


class _Watcher:
    """Facts from FEED for one watcher that have not been sent yet."""

    def __init__(self, tenant: str, user: str, watches: Watches) -> None:
        self._facts: asyncio.Queue[FeedFact | None] = asyncio.Queue()  # bounded by `receive`
        self._watches = watches
        self._whose = f"{tenant}.{user}." if user else ""
        self._overrun = False

    @property
    def unsent(self) -> int:
        """Number of facts that wait to be sent, with the mark that facts were lost."""
        return self._facts.qsize()

    async def receive(self, message: Msg) -> None:
        fact = read_fact(message.subject, message.data)
        if fact is None or self._overrun or (self._whose and not str(fact.fields.get("job", "")).startswith(self._whose)):
            return
        if self.unsent >= self._watches.allowed() - 1:
            self._overrun = True
            self._facts.put_nowait(None)
        else:
            self._facts.put_nowait(fact)

    async def next(self) -> FeedFact:
        """The next fact. Raises ApiError if facts were lost because the reader is slow."""
        fact = await self._facts.get()
        if fact is None:
            message = f"more than {self._watches.allowed()} facts wait to be read; read faster, or watch less; begin again"
            raise ApiError(StatusCode.RESOURCE_EXHAUSTED, "TOO_SLOW", message)
        return fact


async def _as_it_is(backend: ApiContext, tenant: str, request: Any) -> AsyncIterator[pb.JobEvent]:
    """The jobs that have not ended; a job asked for by its id in any case."""
    waits = tenant_views.WaitReasons(backend.state, backend.now())
    index = backend.job_index
    listed = index.of_id(tenant, request.job, request.user) if request.job else reversed(list(index.newest(tenant)))
    for number, (key, job) in enumerate(listed, 1):
        if not number % AT_ONCE:
            await asyncio.sleep(0)
        ended = isinstance(job, Rejected) or job.state in FINAL
        if (ended and not request.job) or request.user not in ("", key.split(".")[1]):
            continue
        message = job_message(view_of(job, backend, waits, whole=False), backend.state.sequence)
        yield pb.JobEvent(type="job", sequence=message.sequence, time=moment(backend.now()), job=message.name, snapshot=message)


def _event(fact: FeedFact) -> pb.JobEvent:
    key = fact.fields.get("job", "")
    fields = {name: value for name, value in fact.fields.items() if name not in {"type", "at", "sequence", "number"}}
    return pb.JobEvent(
        type=fact.type,
        sequence=str(fact.sequence),
        number=fact.number,
        time=moment(fact.at),
        job=names.job_name(key) if isinstance(key, str) and key.count(".") == 2 else "",
        fact=ParseDict(_safe(fields), Struct()),
    )


def _safe(value: object) -> Any:
    """JSON without numbers that other readers would round: those become text."""
    if isinstance(value, dict):
        return {str(key): _safe(element) for key, element in value.items()}
    if isinstance(value, list):
        return [_safe(element) for element in value]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 2**53:
        return str(value)
    return value
