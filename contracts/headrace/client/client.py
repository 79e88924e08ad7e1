"""`Client`: one connection that acts as one user of one tenant."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Self, TypeVar, Unpack

import msgspec

from headrace.client.endpoint import find
from headrace.client.errors import HeadraceError, Refused, Unreachable
from headrace.client.feed import FeedFact, read_fact
from headrace.client.link import ANSWER_WITHIN, Link
from headrace.client.submissions import SubmissionOptions, make_submission, pack, parse_queue
from headrace.contracts.documents.model import DEFAULT_TENANT
from headrace.contracts.messages.explanation import WhyView
from headrace.contracts.messages.orders import LogsAnswer
from headrace.contracts.messages.queries import (
    Answer,
    FactView,
    JobRequest,
    JobsRequest,
    JobView,
    NodeView,
    PoolView,
    QueueView,
)
from headrace.contracts.messages.submissions import CANCELS_MAX, CancelManyRequest, CancelRequest, JobSubmission, RequeueRequest
from headrace.contracts.transport import subjects
from headrace.contracts.transport.codec import Malformed, decode, encode
from headrace.contracts.values.digests import submission_digest
from headrace.contracts.values.ids import IdError, JobKey, is_job_id, is_token, job_key, split_job_key
from headrace.nats_client.acknowledgement import (
    DUPLICATE,
    TOO_MANY_AT_ONCE,
    TOO_MANY_SUBMISSIONS,
    TRY_AGAIN_AFTER,
    Acknowledgement,
)

T = TypeVar("T")

FINAL = frozenset({"succeeded", "failed", "cancelled", "rejected"})
"""The final states of a job."""

STORED_WITHIN = 15.0
"""Seconds for which a submit, cancel or requeue is repeated while NATS, or one of its servers, is away."""
TRY_AGAIN = 0.25
LOOK_AGAIN = 2.0
"""Seconds after which `wait` asks for the state although it received no fact; the feed may lose facts."""

FIRST_LOOK, LAST_LOOK = 0.01, 0.25
PAST_WITHIN = 120.0
"""Maximum duration of a query that reads the ledger again, in seconds."""
UNKNOWN_FOR = 10.0
"""Seconds for which a job may be unknown to the services before it counts as missing."""


class SubmittedJob(NamedTuple):
    """A job that is durably submitted. `id` is its ULID, `key` its full name, `<tenant>.<user>.<id>`.

    `digest` identifies the submitted content: a query with it tells whether the id belongs to another job (R14).
    """

    id: str
    key: JobKey
    digest: str = ""


def connect(
    url: str | None = None,
    credentials: str | Path | None = None,
    *,
    tenant: str = "",
    user: str = "",
    data: str | Path | None = None,
) -> Client:
    """A client, to be used with `async with`.

    Without arguments: the installation in `HEADRACE_URL` and `HEADRACE_CREDENTIALS`, else the one on this machine (`HEADRACE_DATA`).
    `tenant` and
    `user` are whom to act as, if the login may (an administrator's may act as any user).
    """
    return Client(url, credentials, tenant=tenant, user=user, data=data)


class Client:
    """See `connect`. Every method raises Refused if the request is refused, and Unreachable without an answer."""

    def __init__(
        self,
        url: str | None = None,
        credentials: str | Path | None = None,
        *,
        tenant: str = "",
        user: str = "",
        data: str | Path | None = None,
    ) -> None:
        target = find(url, credentials, data)
        self.tenant = tenant or target.login.tenant or DEFAULT_TENANT
        self.user = user or target.login.user or target.login.name
        for field, name in (("tenant", self.tenant), ("user", self.user)):
            if not is_token(name):
                raise Refused("INVALID", f"{field}: invalid name {name!r}: use 1-63 of a-z, 0-9, '-'")
        self._link = Link(target)

    async def __aenter__(self) -> Self:
        await self._link.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._link.close()

    async def submit(self, queue: str, command: Sequence[str], **options: Unpack[SubmissionOptions]) -> SubmittedJob:
        """Submit one job; returns once it is durable. `options`: fields of `SubmissionOptions`. The job may still be rejected."""
        return (await self.submit_many(queue, [make_submission(command, **options)]))[0]

    async def submit_many(self, queue: str, submissions: Iterable[JobSubmission]) -> tuple[SubmittedJob, ...]:
        """Submit any number of jobs (`submissions.make_submission`) to one queue, up to 1,000 per message; returns once all are durable.

        All of them may be submitted again with the same ids, also in other groups: the same id is the same job.
        """
        policy, profile = parse_queue(queue)
        subject = subjects.submit(self.tenant, self.user, policy, profile)
        submitted: list[SubmittedJob] = []
        for jobs, payload in pack(submissions):
            await self._publish(subject, payload)
            for submission in jobs:
                key = job_key(self.tenant, submission.on_behalf_of or self.user, submission.id)
                submitted.append(SubmittedJob(submission.id, key, submission_digest(policy, profile, submission)))
        return tuple(submitted)

    async def cancel(self, job: str, reason: str = "", *, on_behalf_of: str = "") -> None:
        """Ask to end a job; returns once the request is durable. `job` is the id of a job of this user, or the key of any job.

        `on_behalf_of`: the owner of the job, if this is a service account that acts for the owner.
        """
        tenant, user, job_id = self._owner_of(job, on_behalf_of)
        await self._publish(
            subjects.cancel(tenant, user, job_id), _encode(CancelRequest(reason=reason, on_behalf_of=on_behalf_of))
        )

    async def cancel_many(self, jobs: Iterable[str], reason: str = "", *, on_behalf_of: str = "") -> None:
        """Ask to end jobs, otherwise as `cancel`: one message for up to 900 jobs of one user; none of these starts meanwhile."""
        found: dict[tuple[str, str], list[str]] = {}
        for job in jobs:
            tenant, user, job_id = self._owner_of(job, on_behalf_of)
            found.setdefault((tenant, user), []).append(job_id)
        for (tenant, user), ids in found.items():
            for start in range(0, len(ids), CANCELS_MAX):
                some = tuple(ids[start : start + CANCELS_MAX])
                request = CancelManyRequest(jobs=some, reason=reason, on_behalf_of=on_behalf_of)
                await self._publish(subjects.cancel_many(tenant, user), _encode(request))

    async def requeue(self, job: str, reason: str = "", *, on_behalf_of: str = "") -> None:
        """Ask that a job releases its resources and waits again (R29), otherwise as `cancel`.

        Refused later if the job waits or has ended.
        """
        tenant, user, job_id = self._owner_of(job, on_behalf_of)
        await self._publish(
            subjects.requeue(tenant, user, job_id), _encode(RequeueRequest(reason=reason, on_behalf_of=on_behalf_of))
        )

    async def job(self, job: str | SubmittedJob) -> JobView:
        """One job with all its attempts, by its id or key.

        For a `SubmittedJob`, raises Refused (`ID_REUSED`) if the id is another job's.
        """
        request = JobRequest(job=job) if isinstance(job, str) else JobRequest(job=job.key, digest=job.digest)
        return await self.query("feed", "job", request, JobView)

    async def jobs(
        self,
        *,
        states: Sequence[str] = (),
        queue: str = "",
        user: str = "",
        limit: int = 1_000,
        name: str = "",
        labels: Mapping[str, str] | None = None,
    ) -> tuple[JobView, ...]:
        """The tenant's jobs, newest first, at most `limit`; empty arguments do not filter. `name` is a pattern with `*` and `?`."""
        request = JobsRequest(states=tuple(states), queue=queue, user=user, limit=limit, name=name, labels=dict(labels or {}))
        return await self.query("feed", "jobs", request, tuple[JobView, ...])

    async def why(self, job: str, *, sequence: int = 0, at: int = 0) -> WhyView:
        """Why a job waits, or how it ended (R22); optionally as of ledger record `sequence`, or at a time `at` (microseconds)."""
        request = JobRequest(job=job, sequence=sequence, at=at)
        within = PAST_WITHIN if sequence or at else ANSWER_WITHIN
        return await self.query("feed", "why", request, WhyView, within)

    async def facts(self, job: str) -> tuple[FactView, ...]:
        """The facts about a job, one line each."""
        return await self.query("feed", "facts", JobRequest(job=job), tuple[FactView, ...])

    async def logs(self, job: str, *, offset: int = 0, attempt: int = 0, rank: int = 0) -> LogsAnswer:
        """A part of an attempt's output (0: the latest attempt) from `offset` (bytes) on, as stored on its node."""
        return await self.query("feed", "logs", JobRequest(job=job, offset=offset, attempt=attempt, rank=rank), LogsAnswer)

    async def queues(self) -> tuple[QueueView, ...]:
        """The tenant's queues, and the usage of their policies."""
        return await self.query("feed", "queues", None, tuple[QueueView, ...])

    async def pools(self) -> tuple[PoolView, ...]:
        """The pools the tenant sees, and their free amounts."""
        return await self.query("feed", "pools", None, tuple[PoolView, ...])

    async def nodes(self) -> tuple[NodeView, ...]:
        """The nodes that the tenant sees."""
        return await self.query("feed", "nodes", None, tuple[NodeView, ...])

    async def watch(self, job: str) -> AsyncIterator[FeedFact]:
        """The facts about a job from now on, until it has ended (at once if it has ended already)."""
        tenant, _, job_id = self._owner_of(job)
        async with self._link.listening(f"hr.feed.{tenant}.*.*.{job_id}") as heard:
            poll = _JobPoll(self, job)
            while not heard.empty() or await poll.ended() is None:
                async for subject, payload in _until_quiet(heard):
                    fact = read_fact(subject, payload)
                    if fact is not None:
                        yield fact
                        if fact.is_end:
                            return

    async def wait(self, job: str | SubmittedJob) -> JobView:
        """The job, once it has ended; raises as `job` does."""
        tenant, _, job_id = self._owner_of(job if isinstance(job, str) else job.key)
        async with self._link.listening(f"hr.feed.{tenant}.job.*.{job_id}") as heard:
            poll = _JobPoll(self, job)
            while (view := await poll.ended()) is None:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_AGAIN):
                        await heard.get()
            return view

    async def judged(self, job: str | SubmittedJob, within: float = 2.0) -> JobView | None:
        """The job just submitted, once admission has judged it (`rejected`, or any other state); None after `within` seconds.

        Raises as `job` does.
        """
        poll = _JobPoll(self, job)
        pause = FIRST_LOOK
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within):
                while (view := await poll.look()) is None:
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, LAST_LOOK)
                return view
        return None

    async def query(
        self, service: str, what: str, request: object = None, kind: type[T] | None = None, within: float = ANSWER_WITHIN
    ) -> T:
        """The body of the answer to `hr.query.<service>.<what>`, decoded as `kind` (None: any JSON value)."""
        return (await self.question(service, what, request, kind, within))[0]

    async def question(
        self, service: str, what: str, request: object = None, kind: type[T] | None = None, within: float = ANSWER_WITHIN
    ) -> tuple[T, int]:
        """The body of the answer, and the ledger sequence that it reflects."""
        subject = subjects.query(service, what, self.tenant, self.user)
        try:
            payload = await self._link.ask(subject, b"" if request is None else _encode(request), within=within)
            answer = decode(payload, Answer)
            if answer.error:
                raise Refused(answer.code or "REFUSED", answer.error, bytes(answer.body))
            return decode(bytes(answer.body), kind or object), answer.sequence  # type: ignore[return-value]
        except Unreachable as error:
            raise Unreachable(f"{service} does not answer {what!r}: {error}") from None
        except Malformed as error:
            raise HeadraceError(f"{service} gave an answer of another version: {error}") from None

    async def ask(self, subject: str, payload: bytes = b"", within: float = ANSWER_WITHIN) -> bytes:
        """The raw answer on any subject that this login may use."""
        return await self._link.ask(subject, payload, within=within)

    async def _publish(self, subject: str, payload: bytes) -> None:
        """Publish until the message is stored. Repeating is harmless: the same id is the same job, and two cancels are one.

        Sent without a message id, because the server would drop a message with a known id although it may hold other jobs (R14).
        """
        until = time.monotonic() + STORED_WITHIN
        while True:
            try:
                answer = msgspec.json.decode(await self._link.ask(subject, payload), type=Acknowledgement)
            except Unreachable:
                if time.monotonic() + TRY_AGAIN > until:
                    raise
            else:
                if not answer.is_busy or time.monotonic() + TRY_AGAIN > until:
                    return _check_stored(answer)
            await asyncio.sleep(TRY_AGAIN)

    def _owner_of(self, job: str, on_behalf_of: str = "") -> tuple[str, str, str]:
        """(tenant, user, job id) of the subject for a job: the owner's, or this user's if it acts for the owner."""
        if is_job_id(job):
            return self.tenant, self.user, job
        try:
            tenant, user, job_id = split_job_key(job)
        except IdError:
            raise Refused("INVALID", f"job: invalid job id {job!r}: use a lower-case ULID of 26 characters") from None
        return (self.tenant, self.user, job_id) if on_behalf_of else (tenant, user, job_id)


def _encode(request: object) -> bytes:
    """The encoded request. Raises Refused if one of its texts is not UTF-8."""
    try:
        return encode(request)
    except UnicodeEncodeError as error:
        raise Refused("INVALID", f"invalid text {error.object[:80]!r}: use UTF-8") from None


def _check_stored(acknowledgement: Acknowledgement) -> None:
    """Raises Refused unless the server has stored the message."""
    fault = acknowledgement.error
    if fault is None:
        if acknowledgement.duplicate:
            raise Refused("UNAVAILABLE", f"{DUPLICATE}; submit it again")
        return
    if fault.is_full:
        raise Refused("TOO_FAST", TOO_MANY_SUBMISSIONS, retry_after=TRY_AGAIN_AFTER)
    if acknowledgement.is_busy:
        raise Refused("TOO_FAST", TOO_MANY_AT_ONCE, retry_after=TRY_AGAIN_AFTER)
    if fault.disk_error:
        text = f"{fault.disk_error}; try again in {TRY_AGAIN_AFTER} s"
        raise Refused("DISK_FULL", text, retry_after=TRY_AGAIN_AFTER)
    raise Refused("UNAVAILABLE", f"NATS does not store it: {fault.description}; try again in a while")


class _JobPoll:
    """Polls one job that the services may not know yet; answers may be missing."""

    def __init__(self, client: Client, job: str | SubmittedJob) -> None:
        self._client = client
        self._job = job
        self._unknown_until = time.monotonic() + UNKNOWN_FOR

    async def look(self) -> JobView | None:
        """The job; None without an answer. Raises Refused once it has been unknown for `UNKNOWN_FOR` seconds."""
        try:
            view = await self._client.job(self._job)
        except Unreachable:
            return None
        except Refused as refusal:
            if refusal.code == "NOT_FOUND" and time.monotonic() < self._unknown_until:
                return None
            raise
        self._unknown_until = 0.0
        return view

    async def ended(self) -> JobView | None:
        """The job if it has ended, else None."""
        view = await self.look()
        return view if view is not None and view.state in FINAL else None


async def _until_quiet(heard: asyncio.Queue[tuple[str, bytes]]) -> AsyncIterator[tuple[str, bytes]]:
    """Messages until none arrives for `LOOK_AGAIN` seconds."""
    while True:
        try:
            async with asyncio.timeout(LOOK_AGAIN):
                message = await heard.get()
        except TimeoutError:
            return
        yield message
