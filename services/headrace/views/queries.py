"""Questions about one job that take more than the fold: why it waits, now or earlier (R22), its history, and its output.

The API asks; a user sees their tenant only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

import msgspec

from headrace.bus.log import LogError, LogUnavailable
from headrace.contracts.messages.orders import LogsRequest
from headrace.contracts.messages.queries import Answer, FactView, JobRequest, LogsAnswer
from headrace.contracts.transport.codec import Malformed, decode, decode_record, encode
from headrace.contracts.transport.subjects import node_logs
from headrace.contracts.values.arrays import format_array
from headrace.contracts.values.ids import IdError, array_of, element_name, index_of, is_job_id, job_key, split_job_key, written
from headrace.contracts.values.reasons import REJECT_SENTENCES, RejectReason
from headrace.domain.fold.arrays import job_of
from headrace.domain.model.job_states import JobState
from headrace.domain.model.jobs import JobRecord
from headrace.service.answering import Refused
from headrace.views import tenant_views
from headrace.views.job_index import Rejected
from headrace.views.job_lines import lines_of
from headrace.views.pseudonyms import seen
from headrace.views.shown_states import is_whole_array
from headrace.views.state_at import PastStates
from headrace.views.visibility import is_known, reads_output

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from headrace.bus.log import Log
    from headrace.domain.model.attempts import Attempt
    from headrace.domain.state.state import State
    from headrace.service.snapshots import Snapshots
    from headrace.views.history import History
    from headrace.views.job_index import JobIndex

T = TypeVar("T")

LOGS_TIMEOUT = 2.0


class BusAnswer(Protocol):
    """An answer from the bus."""

    @property
    def data(self) -> bytes:
        """Payload of the answer."""


class BusConnection(Protocol):
    """The part of a connection that is needed (`headrace.nats_client.connection`)."""

    async def ask(
        self, subject: str, payload: bytes = b"", headers: Mapping[str, str] | None = None, within: float = LOGS_TIMEOUT
    ) -> BusAnswer:
        """Send, and wait `within` seconds for the answer. Raises `LogUnavailable`, `LogRefused`."""


class Sources(NamedTuple):
    """Sources of the answers. `clock`: microseconds since 1970; `last_seen`: time of each node's last heartbeat."""

    state: State
    job_index: JobIndex
    history: History
    ledger: Log
    wire: BusConnection
    last_seen: Mapping[str, int]
    clock: Callable[[], int]
    snapshots: Snapshots | None = None


class Queries:
    """One method for each query. Each raises `Refused` if it is refused."""

    def __init__(self, sources: Sources) -> None:
        self._from = sources
        self._past = PastStates(sources.ledger, sources.snapshots, erased=sources.state.tokens.erased)

    def why(self, tenant: str, user: str, payload: bytes) -> object:
        """Why one job waits, or its outcome; now, or after a record or at a time."""
        request = _read(payload, JobRequest)
        if request.sequence < 0 or request.at < 0:
            raise Refused("INVALID", "sequence, at: neither is less than 0")
        state, now = self._from.state, self._now()
        if 0 < request.sequence < state.sequence or 0 < request.at < now:
            return self._why_then(tenant, user, request)
        job = self.find(tenant, user, request.job)
        return seen(
            state,
            tenant_views.rejected_why(job) if isinstance(job, Rejected) else tenant_views.why_view(state, job, now),
            tenant,
        )

    async def _why_then(self, tenant: str, user: str, request: JobRequest) -> Answer:
        """The answer for a past state, with its own sequence."""
        keys = self._candidates(tenant, user, request.job)
        state = await self._past.behind(request.sequence, request.at, self._from.state.sequence)
        job = next((past for key in keys if (past := job_of(state, key)) is not None), None)
        if job is not None:
            view = tenant_views.why_view(state, job, max(state.now, request.at))
        else:
            rejected = next((found for key in keys if isinstance(found := self._from.job_index.find(key), Rejected)), None)
            if rejected is None or rejected.at > max(state.now, request.at):
                raise Refused("NOT_FOUND", f"tenant {tenant} had no job {request.job} behind record {state.sequence}")
            view = tenant_views.rejected_why(rejected)
        return Answer(sequence=state.sequence, body=msgspec.Raw(encode(seen(self._from.state, view, tenant))))

    async def facts(self, tenant: str, user: str, payload: bytes) -> list[FactView]:
        """History of one job; the middle of a very long one is left out."""
        job = self.find(tenant, user, _read(payload, JobRequest).job)
        key = job.fact.job if isinstance(job, Rejected) else job.key
        lines: list[FactView] = []
        for sequence in self._from.history.of(key):
            try:
                message = await self._from.ledger.get(sequence)
            except LogError as error:
                raise Refused("UNAVAILABLE", f"the ledger cannot be read now: {error}") from None
            if message is not None:
                lines += lines_of(decode_record(message.payload), sequence, key, self._from.state)
        return lines

    async def logs(self, tenant: str, user: str, payload: bytes) -> LogsAnswer:
        """Output of an attempt (0: the latest) of one job, from its node."""
        request = _read(payload, JobRequest)
        job = self.find(tenant, user, request.job)
        if not isinstance(job, Rejected) and is_whole_array(job):
            raise Refused(
                "INVALID", f"job: {request.job} is an array; name one of its elements, such as {element_of_array(job)}"
            )
        if isinstance(job, Rejected):
            raise Refused("NOT_FOUND", f"job {request.job} was rejected ({job.fact.reason}): it has no output")
        if not reads_output(self._from.state, job, user):
            raise Refused("NOT_ALLOWED", f"what {request.job} printed is for {job.user} and who runs the tenant to read")
        attempt = _attempt(job, request.attempt)
        if not 0 <= request.rank < len(attempt.nodes):
            raise Refused(
                "INVALID", f"rank: attempt {attempt.number} has replicas 0 to {len(attempt.nodes) - 1}, not {request.rank}"
            )
        node = attempt.nodes[request.rank]
        query = LogsRequest(job=job.key, attempt=attempt.number, rank=request.rank, offset=max(0, request.offset))
        try:
            answer = decode((await self._from.wire.ask(node_logs(node), encode(query), within=LOGS_TIMEOUT)).data, LogsAnswer)
        except LogUnavailable:
            raise Refused(
                "UNAVAILABLE", f"node {node}, which has the output, is away ({self._status(node)}); try again later"
            ) from None
        except (LogError, Malformed) as error:
            raise Refused("UNAVAILABLE", f"node {node} gives no output: {error}") from None
        if answer.error:
            raise Refused("NOT_FOUND", f"node {node}: {answer.error}")
        return answer

    def check_content(self, job: JobRecord | Rejected, tenant: str, user: str, digest: str) -> None:
        """Raise `Refused` (`ID_REUSED`) if the job has another digest than what the user has submitted, as far as they may know (R14)."""
        if self._knows_content(job, tenant, user):
            _see_same(job, digest)

    def _knows_content(self, job: JobRecord | Rejected, tenant: str, user: str) -> bool:
        """True if the user may learn that a job differs from what they submitted; others could guess its content that way."""
        if isinstance(job, Rejected):
            return user == job.fact.job.split(".")[1] or not is_known(self._from.state, tenant, user)
        return reads_output(self._from.state, job, user)

    def _status(self, node: str) -> str:
        found = self._from.state.nodes.get(node)
        return found.status if found is not None else "unknown"

    def _now(self) -> int:
        return max(self._from.state.now, self._from.clock())

    def find(self, tenant: str, user: str, text: str) -> JobRecord | Rejected:
        """A job of the tenant by its id, the user's own first, or by its whole key."""
        keys = self._candidates(tenant, user, text)
        for key in keys:
            job = self._from.job_index.find(key)
            if job is not None:
                return job
        for key in keys:
            answered = self._from.state.answered.get(key)
            if answered is not None:
                raise Refused(
                    "NOT_FOUND", f"job {text} has left: it {_ended(answered.state)}; see `headrace usage` for what it used"
                )
        whole = self.find(tenant, user, array_of(text)) if array_of(text) else None  # raises if there is no such array either
        if isinstance(whole, JobRecord) and whole.array is not None:
            indices = format_array(whole.array.range, bound=False)
            raise Refused("NOT_FOUND", f"array {array_of(text)} has no element {index_of(text)}; its indices are {indices}")
        raise Refused("NOT_FOUND", f"tenant {tenant} has no job {written(text)}; `headrace jobs` lists them")

    def _candidates(self, tenant: str, user: str, text: str) -> list[str]:
        if is_job_id(text):
            jobs = self._from.job_index.tenants.get(tenant)
            users = {user: None} | (jobs.users if jobs is not None else {})
            return [job_key(tenant, name, text) for name in users]
        try:
            split_job_key(text)
        except IdError:
            raise Refused(
                "INVALID", f"job: {text[:80]!r} is not a job id, which is a lower-case ULID of 26 characters"
            ) from None
        return [text] if text.startswith(f"{tenant}.") else []


def _read(payload: bytes, kind: type[T]) -> T:
    """The decoded request; an empty payload is a request without fields."""
    return decode(payload if payload.strip() else b"{}", kind)


def element_of_array(job: JobRecord) -> str:
    """The id of the first element of an array."""
    return element_name(job.key.rpartition(".")[2], job.array.range.first if job.array is not None else 0)


def _ended(state: JobState) -> str:
    return f"was {state}" if state in (JobState.CANCELLED, JobState.REJECTED) else state.value


def _see_same(job: JobRecord | Rejected, digest: str) -> None:
    """Raise `Refused` if the id is that of a job with other content (R14)."""
    key, first = (job.fact.job, job.fact.digest) if isinstance(job, Rejected) else (job.key, job.digest)
    if first != digest:
        job_id = key.rpartition(".")[2]
        raise Refused(RejectReason.ID_REUSED, f"id: {job_id}: {REJECT_SENTENCES[RejectReason.ID_REUSED]}")


def _attempt(job: JobRecord, number: int) -> Attempt:
    if not job.attempts:
        raise Refused("NOT_FOUND", f"job {written(job.key)} has not started yet; `headrace why` says what it waits for")
    found = next((attempt for attempt in job.attempts if attempt.number == number), None) if number else job.attempts[-1]
    if found is None:
        raise Refused("NOT_FOUND", f"attempt: job {job.key} has attempts 1 to {job.attempts[-1].number}, not {number}")
    return found
