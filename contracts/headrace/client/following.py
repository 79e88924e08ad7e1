"""A client follows a job to its end, over the feed if it hears it, else by asking; and sends again what was not stored."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Protocol

from headrace.client.errors import Busy, Refused, Unreachable
from headrace.client.feed import FeedFact, read_fact
from headrace.contracts.messages.queries import FINAL

if TYPE_CHECKING:
    from headrace.client.link import Link
    from headrace.client.submitted_job import SubmittedJob
    from headrace.contracts.messages.queries import JobView

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


class Follower(Protocol):
    """What following needs of a client."""

    @property
    def receives_feed(self) -> bool: ...

    def owner_of(self, job: str) -> tuple[str, str, str]: ...

    def watched(self, job: str) -> AsyncIterator[FeedFact]: ...

    async def linked(self) -> Link: ...

    async def job(self, job: str | SubmittedJob) -> JobView: ...


async def watch(client: Follower, job: str) -> AsyncIterator[FeedFact]:
    """The facts about a job until it has ended, over the feed, or as the API streams them."""
    poll = _JobPoll(client, job)
    if not client.receives_feed:
        while await poll.ended() is None:
            async for streamed in client.watched(job):
                yield streamed
                if streamed.is_end:
                    return
        return
    tenant, _, job_id = client.owner_of(job)
    async with (await client.linked()).listening(f"hr.feed.{tenant}.*.*.{job_id}") as received:
        while not received.empty() or await poll.ended() is None:
            async for subject, payload in _until_quiet(received):
                fact = read_fact(subject, payload)
                if fact is not None:
                    yield fact
                    if fact.is_end:
                        return


async def wait(client: Follower, job: str | SubmittedJob) -> JobView:
    """The job once it has ended: asked for after each fact about it, or every half second without the feed."""
    poll = _JobPoll(client, job)
    if not client.receives_feed:
        while True:
            view = await poll.ended()
            if view is not None:
                return view
            await asyncio.sleep(LOOK_AGAIN_OVER_API)
    tenant, _, job_id = client.owner_of(job if isinstance(job, str) else job.key)
    async with (await client.linked()).listening(f"hr.feed.{tenant}.job.*.{job_id}") as received:
        while (view := await poll.ended()) is None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_AGAIN):
                    await received.get()
        return view


async def judged(client: Follower, job: str | SubmittedJob, within: float) -> JobView | None:
    """The job once admission has judged it, asked for at growing intervals; None after `within` seconds."""
    poll = _JobPoll(client, job)
    pause = FIRST_LOOK
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(within):
            while (view := await poll.request()) is None:
                await asyncio.sleep(pause)
                pause = min(2 * pause, LAST_LOOK)
            return view
    return None


async def again(send: Callable[[], Awaitable[None]]) -> None:
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


class _JobPoll:
    """Polls one job that the services may not know yet; answers may be missing."""

    def __init__(self, client: Follower, job: str | SubmittedJob) -> None:
        self._client = client
        self._job = job
        self._unknown_until = time.monotonic() + UNKNOWN_FOR

    async def request(self) -> JobView | None:
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
        view = await self.request()
        return view if view is not None and view.state in FINAL else None


async def _until_quiet(received: asyncio.Queue[tuple[str, bytes]]) -> AsyncIterator[tuple[str, bytes]]:
    """Messages until none arrives for `LOOK_AGAIN` seconds."""
    while True:
        try:
            async with asyncio.timeout(LOOK_AGAIN):
                message = await received.get()
        except TimeoutError:
            return
        yield message
