"""Callers who submit, over the bus and through the gateway, and repeat what they have submitted: alone, together, in other portions.

What the gateway makes of many callers at once (`headrace.governance.api.submit_batcher`) is the product's own code. A caller believes
that a job is submitted once an answer to a request of their own says so, and never before: `acknowledged` is what callers believe.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.bus.log import LogError
from headrace.bus.nats.jetstream import JetStreamLog
from headrace.client.submissions import pack
from headrace.contracts.messages.submissions import JobSubmission
from headrace.contracts.transport.subjects import SUBMIT_STREAM, submit
from headrace.contracts.values.durations import format_duration
from headrace.contracts.values.ids import job_key, make_job_id
from headrace.governance.api.submit_batcher import SubmitBatcher
from tests.simulation.network import SimulatedConnection
from tests.simulation.plan import Again, Job

if TYPE_CHECKING:
    from tests.simulation.world import World

TRIES = 60
STORED_WITHIN = 10.0
"""Seconds for which the gateway tries."""
PATIENCE = 4.0
"""Seconds after which a caller of the gateway asks again, whatever has become of the last request."""


class Submitting:
    """`acknowledged`: keys of jobs, and where in SUBMIT they are at the latest; `keys`: of those with a request, by name."""

    def __init__(
        self,
        world: World,
        connected: Callable[[], Awaitable[SimulatedConnection]],
        do: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self.acknowledged: dict[str, int] = {}
        self.keys: dict[str, str] = {}
        self._world = world
        self._connected = connected
        self._do = do
        self._submissions: dict[str, JobSubmission] = {}
        self._jobs = {job.submission.name: job for job in world.plan.jobs}
        self._gathering = SubmitBatcher()

    def begin(self) -> None:
        """Submit everything in its time."""
        loop, plan = self._world.loop, self._world.plan
        for job in plan.jobs:
            loop.call_at(job.at / 1_000_000, self._submit, job)
        for again in plan.again:
            loop.call_at(again.at / 1_000_000, self._repeat, again)

    def _submit(self, job: Job) -> None:
        if job.submission.name not in self.keys:  # else a request that repeats others has brought it already
            self._request([job], job.gateway)

    def _repeat(self, again: Again) -> None:
        jobs = [
            self._jobs[name] for name in again.jobs if name in self._jobs
        ]  # some of a plan's jobs are left out to make it small
        if jobs:
            self._world.counts["request repeated"] += 1
            self._request(jobs, again.gateway)

    def _request(self, jobs: list[Job], gateway: bool) -> None:
        """One request of one caller for jobs of one queue."""
        submissions = {self._key(job): self._submissions[job.submission.name] for job in jobs}
        row = jobs[0].submission
        subject = submit(row.tenant, row.user, *row.queue.split("/"))
        self._do(self._insist(self._by_gateway if gateway else self._by_bus, subject, submissions))

    def _key(self, job: Job) -> str:
        """The job's key; its id is made when it is submitted for the first time."""
        row = job.submission
        if row.name not in self.keys:
            job_id = make_job_id(self._world.network.clock() // 1_000, (len(self.keys) + 1).to_bytes(10, "big"))
            self.keys[row.name] = job_key(row.tenant, row.user, job_id)
            self._submissions[row.name] = _submission(job_id, job)
        return self.keys[row.name]

    async def _insist(
        self, ask: Callable[[str, list[JobSubmission]], Awaitable[int]], subject: str, submissions: dict[str, JobSubmission]
    ) -> None:
        """Ask until it is acknowledged."""
        for _ in range(TRIES):
            try:
                place = await ask(subject, list(submissions.values()))
            except (LogError, TimeoutError):
                await asyncio.sleep(1.0)
                continue
            for key in submissions:
                self.acknowledged.setdefault(key, place)
            return

    async def _by_bus(self, subject: str, submissions: list[JobSubmission]) -> int:
        log = JetStreamLog(await self._connected(), SUBMIT_STREAM)
        ((_, payload),) = pack(submissions)
        return await log.append(subject, payload, None)

    async def _by_gateway(self, subject: str, submissions: list[JobSubmission]) -> int:
        log = JetStreamLog(await self._connected(), SUBMIT_STREAM)
        async with asyncio.timeout(PATIENCE):
            return await self._gathering.store(log, subject, submissions, STORED_WITHIN)


def _submission(job_id: str, job: Job) -> JobSubmission:
    row = job.submission
    return JobSubmission(
        id=job_id,
        command=("run", msgspec.json.encode(job.behaviour).decode()),
        name=row.name,
        preemptible=row.preemptible,
        priority=row.priority,
        retries=row.max_retries,
        time_limit="" if row.time_limit is None else format_duration(row.time_limit),
        on_abort=("save",) if job.on_abort else (),
    )
