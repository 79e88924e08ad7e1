"""`Client`: acts as one user of one tenant. Questions and changes go to the API; jobs are submitted and followed over NATS if it is known.

A client that knows only the API submits and follows over the API.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Self, Unpack

from headrace.client.api import ANSWER_WITHIN, Api
from headrace.client.api_writes import Writes
from headrace.client.contexts import Chosen, find_targets
from headrace.client.errors import Refused, Unreachable
from headrace.client.submitted_job import SubmittedJob
from headrace.contracts.transport import subjects
from headrace.contracts.transport.encoding import encode
from headrace.contracts.values.ids import DEFAULT_TENANT, is_token, job_key

if TYPE_CHECKING:
    import asyncio

    from headrace.client.feed import FeedFact
    from headrace.client.link import Link
    from headrace.client.submissions import SubmissionOptions
    from headrace.contracts.messages.queries import JobView
    from headrace.contracts.messages.submissions import JobSubmission

ASK_WITHIN = 5.0
PREFERRED_WITHIN = 15.0
"""Seconds for a submit, cancel or requeue over the API before it goes over NATS."""


def connect(
    url: str | None = None,
    credentials: str | Path | None = None,
    *,
    tenant: str = "",
    user: str = "",
    data: str | Path | None = None,
    server: str = "",
    context: str = "",
    prefers_api: bool = False,
    answer_within: float | None = None,
) -> Client:
    """A client, to be used with `async with`.

    Which installation: `server` (the API's address) or `context`, else as `headrace.client.contexts` says: by the environment, the
    current context, or the installation on this machine. `tenant` and `user` are whom to act as, if the login may (an administrator's
    may act as any user). `prefers_api`: submit, cancel and requeue over the API, and over NATS only while that is away.
    `answer_within`: timeout of a call of the API in seconds, by default a little more than the API's own.
    """
    return Client(
        url,
        credentials,
        tenant=tenant,
        user=user,
        data=data,
        server=server,
        context=context,
        prefers_api=prefers_api,
        answer_within=answer_within,
    )


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
        prefers_api: bool = False,
        answer_within: float | None = None,
    ) -> None:
        targets = find_targets(Chosen(server, context, data, url, credentials))
        self.tenant = tenant or targets.tenant or ("" if targets.nats is None else DEFAULT_TENANT)
        self.user = user or targets.user
        for field, name in (("tenant", self.tenant), ("user", self.user)):
            if name and not is_token(name):
                raise Refused("INVALID", f"{field}: invalid name {name!r}: use 1-63 of a-z, 0-9, '-'")
        self.api = None if targets.api is None else Api(targets.api, answer_within or ANSWER_WITHIN)
        self.without_api = targets.without_api
        self._nats = targets.nats
        self._prefers_api = prefers_api and self.api is not None
        self._link: Link | None = None
        self._opening: asyncio.Lock | None = None

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
        from headrace.client.submissions import make_submission  # noqa: PLC0415 - a question needs none of it

        return (await self.submit_many(queue, [make_submission(command, **options)]))[0]

    async def submit_many(self, queue: str, submissions: Iterable[JobSubmission]) -> tuple[SubmittedJob, ...]:
        """Submit any number of jobs (`submissions.make_submission`) to one queue, up to 1,000 per message; returns once all are durable.

        All of them may be submitted again with the same ids, also in other groups: the same id is the same job.
        """
        from headrace.client.following import again  # noqa: PLC0415 - a question needs none of these
        from headrace.client.submissions import pack, parse_queue  # noqa: PLC0415
        from headrace.contracts.transport.digests import submission_digest  # noqa: PLC0415

        policy, profile = parse_queue(queue)
        subject = subjects.submit(self.tenant, self.user, policy, profile)
        submitted: list[SubmittedJob] = []
        for jobs, payload in pack(submissions):
            if self._nats is None:
                await again(partial(self._submit_over_api, queue, jobs))
            elif not await self._done_over_api(partial(self._submit_over_api, queue, jobs)):
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

    async def cancel(self, job: str, reason: str = "", *, on_behalf_of: str = "", elements: str = "") -> None:
        """Ask to end a job; returns once the request is durable. `job` is the id of a job of this user, or the key of any job.

        `on_behalf_of`: the owner of the job, if this is a service account that acts for the owner. `elements`: of an array, the indices
        that are meant, such as `0-9,20`; empty: all.
        """
        if self._nats is None or (self._prefers_api and not on_behalf_of):
            if elements:
                await self.cancel_part_over_api(job, elements, reason)
            else:
                await self.cancel_many([job], reason)
            return
        from headrace.contracts.messages.submissions import CancelRequest  # noqa: PLC0415 - as in `submit_many`

        tenant, user, job_id = self._owner_of(job, on_behalf_of)
        await self._publish(
            subjects.cancel(tenant, user, job_id),
            _encode(CancelRequest(reason=reason, on_behalf_of=on_behalf_of, elements=elements)),
        )

    async def cancel_many(self, jobs: Iterable[str], reason: str = "", *, on_behalf_of: str = "") -> None:
        """Ask to end jobs, otherwise as `cancel`: one message for up to 900 jobs of one user; none of these starts meanwhile."""
        jobs = list(jobs)
        if self._nats is None:
            await self._cancel_over_api(jobs, reason)
            return
        if not on_behalf_of and await self._done_over_api(partial(self._cancel_over_api, jobs, reason)):
            return
        from headrace.contracts.messages.submissions import CANCELS_MAX, CancelManyRequest  # noqa: PLC0415 - as in `submit_many`

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
        from headrace.contracts.messages.submissions import CANCELS_MAX  # noqa: PLC0415 - as in `submit_many`

        found: dict[str, list[str]] = {}
        for job in jobs:
            found.setdefault(self.owner_of(job)[0], []).append(self.job_path(job).removeprefix("/v1/"))
        for tenant, names in found.items():
            for start in range(0, len(names), CANCELS_MAX):
                await self.cancel_over_api(tenant, names[start : start + CANCELS_MAX], reason)

    async def requeue(self, job: str, reason: str = "", *, on_behalf_of: str = "", elements: str = "") -> None:
        """Ask that a job releases its resources and waits again (R29), otherwise as `cancel`.

        Refused later if the job waits or has ended.
        """
        if self._nats is None:
            await self.requeue_over_api(job, reason, elements)
            return
        if not on_behalf_of and await self._done_over_api(partial(self.requeue_over_api, job, reason, elements)):
            return
        from headrace.contracts.messages.submissions import RequeueRequest  # noqa: PLC0415 - as in `submit_many`

        tenant, user, job_id = self._owner_of(job, on_behalf_of)
        await self._publish(
            subjects.requeue(tenant, user, job_id),
            _encode(RequeueRequest(reason=reason, on_behalf_of=on_behalf_of, elements=elements)),
        )

    async def job(self, job: str | SubmittedJob) -> JobView:
        """One job with all its attempts, by its id or key.

        For a `SubmittedJob`, raises Refused (`ID_REUSED`) if the id is another job's.
        """
        return await (self.job_of(job) if isinstance(job, str) else self.job_of(job.key, job.digest))

    async def watch(self, job: str) -> AsyncIterator[FeedFact]:
        """The facts about a job from now on, until it has ended (at once if it has ended already)."""
        from headrace.client import following  # noqa: PLC0415 - a question needs no event loop

        async for fact in following.watch(self, job):
            yield fact

    async def wait(self, job: str | SubmittedJob) -> JobView:
        """The job, once it has ended; raises as `job` does."""
        from headrace.client import following  # noqa: PLC0415 - as in `watch`

        return await following.wait(self, job)

    async def judged(self, job: str | SubmittedJob, within: float = 2.0) -> JobView | None:
        """The job just submitted, once admission has judged it (`rejected`, or any other state); None after `within` seconds.

        Raises as `job` does.
        """
        from headrace.client import following  # noqa: PLC0415 - as in `watch`

        return await following.judged(self, job, within)

    async def ask(self, subject: str, payload: bytes = b"", within: float = ASK_WITHIN) -> bytes:
        """The raw answer on any subject of NATS that this login may use."""
        return await (await self.linked()).ask(subject, payload, within=within)

    @property
    def receives_feed(self) -> bool:
        """True if the address of NATS is known."""
        return self._nats is not None

    async def linked(self) -> Link:
        """The connection to NATS, opened on first use. Raises Unreachable, Refused."""
        import asyncio  # noqa: PLC0415 - most commands need no NATS and no event loop, whose import takes long

        from headrace.client.link import Link  # noqa: PLC0415

        if self._nats is None:
            raise Unreachable("the address of NATS is unknown here: set HEADRACE_URL")
        self._opening = self._opening or asyncio.Lock()
        async with self._opening:
            if self._link is None:
                link = Link(self._nats)
                await link.open()
                self._link = link
        return self._link

    async def _done_over_api(self, send: Callable[[], Awaitable[None]]) -> bool:
        """Whether it was done over the API; False if that is away or not preferred."""
        if not self._prefers_api:
            return False
        import asyncio  # noqa: PLC0415 - as in `linked`

        try:
            async with asyncio.timeout(PREFERRED_WITHIN):
                await send()
        except (Unreachable, TimeoutError):  # a gateway that hangs must not delay it; the same id counts once
            return False
        return True

    async def _publish(self, subject: str, payload: bytes) -> None:
        """Publish until the message is stored. Repeating is harmless: the same id is the same job, and two cancels are one.

        Sent without a message id, because the server would drop a message with a known id although it may hold other jobs (R14).
        """
        from headrace.client.following import again  # noqa: PLC0415 - as in `linked`
        from headrace.client.link import check_stored  # noqa: PLC0415

        async def publish() -> None:
            check_stored(await (await self.linked()).ask(subject, payload))

        await again(publish)

    def _owner_of(self, job: str, on_behalf_of: str = "") -> tuple[str, str, str]:
        """(tenant, user, job id) of the subject for a job: the owner's, or this user's if it acts for the owner."""
        tenant, user, job_id = self.owner_of(job)
        return (self.tenant, self.user, job_id) if on_behalf_of else (tenant, user, job_id)


def _encode(request: object) -> bytes:
    """The encoded request. Raises Refused if one of its texts is not UTF-8."""
    try:
        return encode(request)
    except UnicodeEncodeError as error:
        raise Refused("INVALID", f"invalid text {error.object[:80]!r}: use UTF-8") from None
