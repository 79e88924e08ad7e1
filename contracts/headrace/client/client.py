"""What a caller holds: `Client`, one connection that speaks as one user of one tenant."""

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
from headrace.client.submissions import Wish, make_wish, packed, parse_queue
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
from headrace.contracts.messages.submissions import CANCELS_MAX, CancelManyWish, CancelWish, JobWish, RequeueWish
from headrace.contracts.transport import subjects
from headrace.contracts.transport.codec import Malformed, decode, encode
from headrace.contracts.values.digests import submission_digest
from headrace.contracts.values.ids import IdError, JobKey, is_job_id, is_token, job_key, split_job_key
from headrace.nats_client.acknowledgement import DUPLICATE, TOO_MANY_AT_ONCE, TOO_MANY_WISHES, TRY_AGAIN_AFTER, Acknowledgement

T = TypeVar("T")

FINAL = frozenset({"succeeded", "failed", "cancelled", "rejected"})
"""The states a job does not leave."""

STORED_WITHIN = 15.0
"""Seconds for which a submit, cancel or requeue is tried again while NATS, or one of its servers, is away."""
TRY_AGAIN = 0.25
LOOK_AGAIN = 2.0
"""Seconds after which `wait` asks although it heard nothing: FEED keeps no promise, the fold does."""

FIRST_LOOK, LAST_LOOK = 0.01, 0.25
PAST_WITHIN = 120.0
"""Seconds for an answer for which the ledger has to be read again."""
UNKNOWN_FOR = 10.0
"""Seconds for which a job may be unknown to those who answer before it is taken to be none."""


class SubmittedJob(NamedTuple):
    """A job that is durably submitted. `id` is its ULID, `key` its whole name, `<tenant>.<user>.<id>`.

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

    Without arguments: the installation that `HEADRACE_URL` and `HEADRACE_CREDENTIALS` name, else the one of this machine
    (`HEADRACE_DATA`). `tenant` and `user` are whom to speak as, where the login may (an admin's may speak as anybody).
    """
    return Client(url, credentials, tenant=tenant, user=user, data=data)


class Client:
    """See `connect`. Every method raises `Refused` where the answer is no and `Unreachable` where there is none."""

    def __init__(
        self,
        url: str | None = None,
        credentials: str | Path | None = None,
        *,
        tenant: str = "",
        user: str = "",
        data: str | Path | None = None,
    ) -> None:
        door = find(url, credentials, data)
        self.tenant = tenant or door.login.tenant or DEFAULT_TENANT
        self.user = user or door.login.user or door.login.name
        for field, name in (("tenant", self.tenant), ("user", self.user)):
            if not is_token(name):
                raise Refused("INVALID", f"{field}: {name!r} is no name; it is 1 to 63 of a-z, 0-9 and '-'")
        self._link = Link(door)

    async def __aenter__(self) -> Self:
        await self._link.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._link.close()

    async def submit(self, queue: str, command: Sequence[str], **said: Unpack[Wish]) -> SubmittedJob:
        """Submit one job; returns once it is durable. What may be said besides is in `wishing.Wish`. It may still be rejected."""
        return (await self.submit_many(queue, [make_wish(command, **said)]))[0]

    async def submit_many(self, queue: str, wishes: Iterable[JobWish]) -> tuple[SubmittedJob, ...]:
        """Submit any number of jobs (`wishing.make_wish`) to one queue, up to 1,000 in a message; returns once all are durable.

        All of it may be repeated with the same ids, also in other portions: the same id is the same job.
        """
        policy, profile = parse_queue(queue)
        subject = subjects.submit(self.tenant, self.user, policy, profile)
        submitted: list[SubmittedJob] = []
        for jobs, payload in packed(wishes):
            await self._publish(subject, payload)
            for wish in jobs:
                key = job_key(self.tenant, wish.on_behalf_of or self.user, wish.id)
                submitted.append(SubmittedJob(wish.id, key, submission_digest(policy, profile, wish)))
        return tuple(submitted)

    async def cancel(self, job: str, reason: str = "", *, on_behalf_of: str = "") -> None:
        """Wish that a job ends; returns once the wish is durable. An id is one of this user's, a key may name another's.

        `on_behalf_of`: whose job it is, where this is a service account that acts for them.
        """
        tenant, user, job_id = self._whose(job, on_behalf_of)
        await self._publish(
            subjects.cancel(tenant, user, job_id), _written(CancelWish(reason=reason, on_behalf_of=on_behalf_of))
        )

    async def cancel_many(self, jobs: Iterable[str], reason: str = "", *, on_behalf_of: str = "") -> None:
        """Wish that jobs end, otherwise as `cancel`: one message for up to 900 of one user's, and of them none starts meanwhile."""
        found: dict[tuple[str, str], list[str]] = {}
        for job in jobs:
            tenant, user, job_id = self._whose(job, on_behalf_of)
            found.setdefault((tenant, user), []).append(job_id)
        for (tenant, user), ids in found.items():
            for start in range(0, len(ids), CANCELS_MAX):
                some = tuple(ids[start : start + CANCELS_MAX])
                wish = CancelManyWish(jobs=some, reason=reason, on_behalf_of=on_behalf_of)
                await self._publish(subjects.cancel_many(tenant, user), _written(wish))

    async def requeue(self, job: str, reason: str = "", *, on_behalf_of: str = "") -> None:
        """Wish that a job leaves where it is and waits again (R29); otherwise as `cancel`. What waits or has ended is refused later."""
        tenant, user, job_id = self._whose(job, on_behalf_of)
        await self._publish(
            subjects.requeue(tenant, user, job_id), _written(RequeueWish(reason=reason, on_behalf_of=on_behalf_of))
        )

    async def job(self, job: str | SubmittedJob) -> JobView:
        """One job with all its attempts, by its id or key; of a `SubmittedJob`, `Refused` (`ID_REUSED`) if its id is another's."""
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
        """The tenant's jobs, newest first, at most `limit`; what is not given does not filter. `name` is a pattern with `*` and `?`."""
        request = JobsRequest(states=tuple(states), queue=queue, user=user, limit=limit, name=name, labels=dict(labels or {}))
        return await self.query("feed", "jobs", request, tuple[JobView, ...])

    async def why(self, job: str, *, sequence: int = 0, at: int = 0) -> WhyView:
        """Why a job waits, or what became of it (R22); as it was behind ledger record `sequence`, or at a moment (microseconds)."""
        request = JobRequest(job=job, sequence=sequence, at=at)
        within = PAST_WITHIN if sequence or at else ANSWER_WITHIN
        return await self.query("feed", "why", request, WhyView, within)

    async def facts(self, job: str) -> tuple[FactView, ...]:
        """The story of a job, one line for each fact."""
        return await self.query("feed", "facts", JobRequest(job=job), tuple[FactView, ...])

    async def logs(self, job: str, *, offset: int = 0, attempt: int = 0, rank: int = 0) -> LogsAnswer:
        """A piece of an attempt's output (0: the latest) from `offset` (bytes) on, as its node has it."""
        return await self.query("feed", "logs", JobRequest(job=job, offset=offset, attempt=attempt, rank=rank), LogsAnswer)

    async def queues(self) -> tuple[QueueView, ...]:
        """The tenant's queues, and what their policies hold."""
        return await self.query("feed", "queues", None, tuple[QueueView, ...])

    async def pools(self) -> tuple[PoolView, ...]:
        """The pools the tenant sees, and what is free in them."""
        return await self.query("feed", "pools", None, tuple[PoolView, ...])

    async def nodes(self) -> tuple[NodeView, ...]:
        """The nodes the tenant sees."""
        return await self.query("feed", "nodes", None, tuple[NodeView, ...])

    async def watch(self, job: str) -> AsyncIterator[FeedFact]:
        """What happens to a job from now on, as it happens, until it has ended (at once, where it has ended already)."""
        tenant, _, job_id = self._whose(job)
        async with self._link.listening(f"hr.feed.{tenant}.*.*.{job_id}") as heard:
            seen = _Seen(self, job)
            while not heard.empty() or await seen.ended() is None:
                async for subject, payload in _until_silence(heard):
                    fact = read_fact(subject, payload)
                    if fact is not None:
                        yield fact
                        if fact.is_end:
                            return

    async def wait(self, job: str | SubmittedJob) -> JobView:
        """The job, once it has ended; see `job`."""
        tenant, _, job_id = self._whose(job if isinstance(job, str) else job.key)
        async with self._link.listening(f"hr.feed.{tenant}.job.*.{job_id}") as heard:
            seen = _Seen(self, job)
            while (view := await seen.ended()) is None:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_AGAIN):
                        await heard.get()
            return view

    async def judged(self, job: str | SubmittedJob, within: float = 2.0) -> JobView | None:
        """A job just submitted, once admission has judged it (`rejected`, or any other state); None if not `within` seconds.

        See `job`.
        """
        seen = _Seen(self, job)
        pause = FIRST_LOOK
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within):
                while (view := await seen.look()) is None:
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, LAST_LOOK)
                return view
        return None

    async def query(
        self, service: str, what: str, request: object = None, kind: type[T] | None = None, within: float = ANSWER_WITHIN
    ) -> T:
        """What a service answers to `hr.query.<service>.<what>`, as `kind` (None: whatever JSON it is)."""
        return (await self.question(service, what, request, kind, within))[0]

    async def question(
        self, service: str, what: str, request: object = None, kind: type[T] | None = None, within: float = ANSWER_WITHIN
    ) -> tuple[T, int]:
        """The answer and the ledger sequence that it reflects."""
        subject = subjects.query(service, what, self.tenant, self.user)
        try:
            payload = await self._link.ask(subject, b"" if request is None else _written(request), within=within)
            answer = decode(payload, Answer)
            if answer.error:
                raise Refused(answer.code or "REFUSED", answer.error, bytes(answer.body))
            return decode(bytes(answer.body), kind or object), answer.sequence  # type: ignore[return-value]
        except Unreachable as error:
            raise Unreachable(f"{service} does not answer {what!r}: {error}") from None
        except Malformed as error:
            raise HeadraceError(f"{service} gave an answer of another version: {error}") from None

    async def ask(self, subject: str, payload: bytes = b"", within: float = ANSWER_WITHIN) -> bytes:
        """The bare answer on any subject that this login may use."""
        return await self._link.ask(subject, payload, within=within)

    async def _publish(self, subject: str, payload: bytes) -> None:
        """Store durably, and retry until there is an answer. Retries are harmless: the same id is the same job, and two cancels are one.

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
                    return _see_stored(answer)
            await asyncio.sleep(TRY_AGAIN)

    def _whose(self, job: str, on_behalf_of: str = "") -> tuple[str, str, str]:
        """In whose name it is spoken of a job: its owner's, or this user's where that acts for the owner."""
        if is_job_id(job):
            return self.tenant, self.user, job
        try:
            tenant, user, job_id = split_job_key(job)
        except IdError:
            raise Refused("INVALID", f"job: {job!r} is no job id, which is a lower-case ULID of 26 characters") from None
        return (self.tenant, self.user, job_id) if on_behalf_of else (tenant, user, job_id)


def _written(request: object) -> bytes:
    """A request as it travels; `Refused` where a text of it is not UTF-8."""
    try:
        return encode(request)
    except UnicodeEncodeError as error:
        raise Refused("INVALID", f"{error.object[:80]!r} is not UTF-8; names and texts are written in UTF-8") from None


def _see_stored(acknowledgement: Acknowledgement) -> None:
    """Raise `Refused` where the server's answer does not say that it has stored the message."""
    fault = acknowledgement.error
    if fault is None:
        if acknowledgement.duplicate:
            raise Refused("UNAVAILABLE", f"{DUPLICATE}; submit it again")
        return
    if fault.is_full:
        raise Refused("TOO_FAST", TOO_MANY_WISHES, retry_after=TRY_AGAIN_AFTER)
    if acknowledgement.is_busy:
        raise Refused("TOO_FAST", TOO_MANY_AT_ONCE, retry_after=TRY_AGAIN_AFTER)
    if fault.disk_error:
        text = f"{fault.disk_error}; try again in {TRY_AGAIN_AFTER} s"
        raise Refused("DISK_FULL", text, retry_after=TRY_AGAIN_AFTER)
    raise Refused("UNAVAILABLE", f"NATS does not store it: {fault.description}; try again in a while")


class _Seen:
    """Looks at one job that may not be known yet, through answers that may not come."""

    def __init__(self, client: Client, job: str | SubmittedJob) -> None:
        self._client = client
        self._job = job
        self._unknown_until = time.monotonic() + UNKNOWN_FOR

    async def look(self) -> JobView | None:
        """The job; None where nobody says. Raises `Refused` once it has been unknown for too long to be merely new."""
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
        """The job, if it is known to have ended."""
        view = await self.look()
        return view if view is not None and view.state in FINAL else None


async def _until_silence(heard: asyncio.Queue[tuple[str, bytes]]) -> AsyncIterator[tuple[str, bytes]]:
    """What is heard, until nothing more is for `LOOK_AGAIN` seconds."""
    while True:
        try:
            async with asyncio.timeout(LOOK_AGAIN):
                message = await heard.get()
        except TimeoutError:
            return
        yield message
