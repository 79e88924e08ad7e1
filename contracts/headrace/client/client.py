"""`Client`: acts as one user of one tenant. Questions and changes go to the API; jobs are submitted and followed over NATS if it is known.

A client that knows only the API submits and follows over the API.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self, Unpack

from headrace.client.api import Api
from headrace.client.api_writes import Writes
from headrace.client.contexts import Chosen, find_targets
from headrace.client.errors import Busy, Refused, Unreachable
from headrace.client.feed import FeedFact, read_fact
from headrace.client.submissions import SubmissionOptions, make_submission, pack, parse_queue
from headrace.contracts.documents.model import DEFAULT_TENANT
from headrace.contracts.messages.submissions import CANCELS_MAX, CancelManyRequest, CancelRequest, JobSubmission, RequeueRequest
from headrace.contracts.transport import subjects
from headrace.contracts.transport.codec import encode
from headrace.contracts.values.digests import submission_digest
from headrace.contracts.values.ids import JobKey, is_token, job_key

if TYPE_CHECKING:
    from headrace.client.link import Link
    from headrace.contracts.messages.queries import JobView

FINAL = frozenset({"succeeded", "failed", "cancelled", "rejected"})
"""The final states of a job."""

ASK_WITHIN = 5.0

STORED_WITHIN = 15.0
"""Seconds for which a submit, cancel or requeue is repeated while NATS, or one of its servers, is away."""
TRY_AGAIN = 0.25
LOOK_AGAIN = 2.0
"""Seconds after which `wait` asks for the state although it received no fact; the feed may lose facts."""

LOOK_AGAIN_OVER_API = 0.5
"""The same for a client that does not hear the feed."""

FIRST_LOOK, LAST_LOOK = 0.01, 0.25
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
    server: str = "",
    context: str = "",
) -> Client:
    """A client, to be used with `async with`.

    Which installation: `server` (the API's address) or `context`, else as `headrace.client.contexts` says: by the environment, the
    current context, or the installation on this machine. `tenant` and `user` are whom to act as, if the login may (an administrator's
    may act as any user).
    """
    return Client(url, credentials, tenant=tenant, user=user, data=data, server=server, context=context)


class Client(Writes):
    """See `connect`. Every method raises Refused if the request is refused, and Unreachable without an answer."""

    def __init__(
        self,
        url: str | None = None,
        credentials: str | Path | None = None,
        *,
        tenant: str = "",
        user: str = "",
        data: str | Path | None = None,
        server: str = "",
        context: str = "",
    ) -> None:
        targets = find_targets(Chosen(server, context, data, url, credentials))
        self.tenant = tenant or targets.tenant or ("" if targets.nats is None else DEFAULT_TENANT)
        self.user = user or targets.user
        for field, name in (("tenant", self.tenant), ("user", self.user)):
            if name and not is_token(name):
                raise Refused("INVALID", f"{field}: invalid name {name!r}: use 1-63 of a-z, 0-9, '-'")
        self.api = None if targets.api is None else Api(targets.api)
        self._nats = targets.nats
        self._link: Link | None = None
        self._opening = asyncio.Lock()

    async def __aenter__(self) -> Self:
        await self.identify()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._link is not None:
            await self._link.close()
        if self.api is not None:
            await self.api.close()

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
            if self._nats is None:
                await _again(partial(self._submit_over_api, queue, jobs))
            else:
                await self._publish(subject, payload)
            for submission in jobs:
                key = job_key(self.tenant, submission.on_behalf_of or self.user, submission.id)
                submitted.append(SubmittedJob(submission.id, key, submission_digest(policy, profile, submission)))
        return tuple(submitted)

    async def _submit_over_api(self, queue: str, jobs: Sequence[JobSubmission]) -> None:
        owners: dict[str, list[JobSubmission]] = {}
        for submission in jobs:
            owners.setdefault(submission.on_behalf_of, []).append(submission)
        for some in owners.values():
            await self.submit_over_api(queue, some)

    async def cancel(self, job: str, reason: str = "", *, on_behalf_of: str = "") -> None:
        """Ask to end a job; returns once the request is durable. `job` is the id of a job of this user, or the key of any job.

        `on_behalf_of`: the owner of the job, if this is a service account that acts for the owner.
        """
        if self._nats is None:
            await self.cancel_many([job], reason)
            return
        tenant, user, job_id = self._owner_of(job, on_behalf_of)
        await self._publish(
            subjects.cancel(tenant, user, job_id), _encode(CancelRequest(reason=reason, on_behalf_of=on_behalf_of))
        )

    async def cancel_many(self, jobs: Iterable[str], reason: str = "", *, on_behalf_of: str = "") -> None:
        """Ask to end jobs, otherwise as `cancel`: one message for up to 900 jobs of one user; none of these starts meanwhile."""
        if self._nats is None:
            await self._cancel_over_api(list(jobs), reason)
            return
        found: dict[tuple[str, str], list[str]] = {}
        for job in jobs:
            tenant, user, job_id = self._owner_of(job, on_behalf_of)
            found.setdefault((tenant, user), []).append(job_id)
        for (tenant, user), ids in found.items():
            for start in range(0, len(ids), CANCELS_MAX):
                some = tuple(ids[start : start + CANCELS_MAX])
                request = CancelManyRequest(jobs=some, reason=reason, on_behalf_of=on_behalf_of)
                await self._publish(subjects.cancel_many(tenant, user), _encode(request))

    async def _cancel_over_api(self, jobs: Sequence[str], reason: str) -> None:
        found: dict[str, list[str]] = {}
        for job in jobs:
            found.setdefault(self.owner_of(job)[0], []).append(self.job_path(job).removeprefix("/v1/"))
        for tenant, names in found.items():
            for start in range(0, len(names), CANCELS_MAX):
                await self.cancel_over_api(tenant, names[start : start + CANCELS_MAX], reason)

    async def requeue(self, job: str, reason: str = "", *, on_behalf_of: str = "") -> None:
        """Ask that a job releases its resources and waits again (R29), otherwise as `cancel`.

        Refused later if the job waits or has ended.
        """
        if self._nats is None:
            await self.requeue_over_api(job, reason)
            return
        tenant, user, job_id = self._owner_of(job, on_behalf_of)
        await self._publish(
            subjects.requeue(tenant, user, job_id), _encode(RequeueRequest(reason=reason, on_behalf_of=on_behalf_of))
        )

    async def job(self, job: str | SubmittedJob) -> JobView:
        """One job with all its attempts, by its id or key.

        For a `SubmittedJob`, raises Refused (`ID_REUSED`) if the id is another job's.
        """
        return await (self.job_of(job) if isinstance(job, str) else self.job_of(job.key, job.digest))

    async def watch(self, job: str) -> AsyncIterator[FeedFact]:
        """The facts about a job from now on, until it has ended (at once if it has ended already)."""
        if self._nats is None:
            async for streamed in self._watch_over_api(job):
                yield streamed
            return
        tenant, _, job_id = self._owner_of(job)
        async with (await self._linked()).listening(f"hr.feed.{tenant}.*.*.{job_id}") as heard:
            poll = _JobPoll(self, job)
            while not heard.empty() or await poll.ended() is None:
                async for subject, payload in _until_quiet(heard):
                    fact = read_fact(subject, payload)
                    if fact is not None:
                        yield fact
                        if fact.is_end:
                            return

    async def _watch_over_api(self, job: str) -> AsyncIterator[FeedFact]:
        poll = _JobPoll(self, job)
        while await poll.ended() is None:
            async for fact in self.watched(job):
                yield fact
                if fact.is_end:
                    return

    async def wait(self, job: str | SubmittedJob) -> JobView:
        """The job, once it has ended; raises as `job` does."""
        poll = _JobPoll(self, job)
        if self._nats is None:
            while True:
                view = await poll.ended()
                if view is not None:
                    return view
                await asyncio.sleep(LOOK_AGAIN_OVER_API)
        tenant, _, job_id = self._owner_of(job if isinstance(job, str) else job.key)
        async with (await self._linked()).listening(f"hr.feed.{tenant}.job.*.{job_id}") as heard:
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

    async def ask(self, subject: str, payload: bytes = b"", within: float = ASK_WITHIN) -> bytes:
        """The raw answer on any subject of NATS that this login may use."""
        return await (await self._linked()).ask(subject, payload, within=within)

    async def _linked(self) -> Link:
        """The connection to NATS, opened on first use."""
        from headrace.client.link import Link  # noqa: PLC0415 - most commands need no NATS, whose import takes long

        if self._nats is None:
            raise Unreachable("the address of NATS is unknown here: set HEADRACE_URL")
        async with self._opening:
            if self._link is None:
                link = Link(self._nats)
                await link.open()
                self._link = link
        return self._link

    async def _publish(self, subject: str, payload: bytes) -> None:
        """Publish until the message is stored. Repeating is harmless: the same id is the same job, and two cancels are one.

        Sent without a message id, because the server would drop a message with a known id although it may hold other jobs (R14).
        """
        from headrace.client.link import check_stored  # noqa: PLC0415 - as in `_linked`

        async def publish() -> None:
            check_stored(await (await self._linked()).ask(subject, payload))

        await _again(publish)

    def _owner_of(self, job: str, on_behalf_of: str = "") -> tuple[str, str, str]:
        """(tenant, user, job id) of the subject for a job: the owner's, or this user's if it acts for the owner."""
        tenant, user, job_id = self.owner_of(job)
        return (self.tenant, self.user, job_id) if on_behalf_of else (tenant, user, job_id)


async def _again(send: Callable[[], Awaitable[None]]) -> None:
    """Send until it is stored, for `STORED_WITHIN` seconds; what is sent has to be the same if it is sent twice."""
    until = time.monotonic() + STORED_WITHIN
    while True:
        try:
            await send()
        except (Unreachable, Busy):
            if time.monotonic() + TRY_AGAIN > until:
                raise
        else:
            return
        await asyncio.sleep(TRY_AGAIN)


def _encode(request: object) -> bytes:
    """The encoded request. Raises Refused if one of its texts is not UTF-8."""
    try:
        return encode(request)
    except UnicodeEncodeError as error:
        raise Refused("INVALID", f"invalid text {error.object[:80]!r}: use UTF-8") from None


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
