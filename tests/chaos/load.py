"""Jobs at a steady rate over NATS and over the API. A submit counts as acknowledged when its answer has come, and not before.

A caller who hears nothing asks again, with the same ids and the other way; and some requests repeat a job of before beside a new one.
"""

from __future__ import annotations

import asyncio
import json
import random
import urllib.request
from collections import deque
from typing import NamedTuple

from headrace.client import connect
from headrace.client.client import Client
from headrace.client.errors import HeadraceError
from headrace.client.submissions import make_submission
from headrace.contracts.messages.submissions import JobSubmission
from tests.chaos.place import Place

WAITING_MOST = 150
"""Jobs that have not ended from which on none is submitted that only borrows."""
API_EVERY = 7
"""One in this number of submits goes over the API."""
WITHIN = 6.0
TRIES = 3
AGAIN = 0.3
"""How many of the requests name one of the last `RECENT` jobs of the same caller and queue as well, before or behind the new one."""
RECENT = 8


class Kind(NamedTuple):
    """One kind of job: who submits it where, how often, and how long it lasts at most (seconds)."""

    user: str
    queue: str
    weight: int
    longest: float


KINDS = (
    Kind("ann", "batch/one", 8, 12.0),
    Kind("ann", "batch/four", 2, 12.0),
    Kind("bob", "prod/one", 4, 5.0),
    Kind("bob", "prod/four", 2, 5.0),
    Kind("eve", "lab/half", 3, 5.0),
    Kind("eve", "lab/one", 2, 5.0),
)
FAILS = 0.04
EXIT = 3


class Load:
    """`acknowledged`: job key to the exit code it is to end with. `unanswered`: requests with an unknown outcome.

    `repeated`: requests with a job that had been asked for before. `wrong`: answers about other jobs than were asked for.
    """

    def __init__(self, place: Place, chance: random.Random, rate: float) -> None:
        self.acknowledged: dict[str, int] = {}
        self.unanswered = 0
        self.over_api = 0
        self.repeated = 0
        self.wrong: list[str] = []
        self._exits: dict[str, int] = {}
        self._recent: dict[Kind, deque[JobSubmission]] = {kind: deque(maxlen=RECENT) for kind in KINDS}
        self.open: set[str] = set()
        self._ended: set[str] = set()
        self._place = place
        self._chance = chance
        self._rate = rate
        self._clients: dict[str, Client] = {}

    def admitted(self, job: str) -> None:
        """It is there, whether or not its caller has heard so: it will run, and is waited for."""
        if job not in self._ended:
            self.open.add(job)

    def ended(self, job: str) -> None:
        """It has reached its final state, perhaps before the answer to its submit is heard: who carries that may be stopped."""
        self._ended.add(job)
        self.open.discard(job)

    async def run(self) -> None:
        """Until cancelled; each submit is its own task, so that one that hangs delays no other."""
        number, pending = 0, set[asyncio.Task[None]]()
        loop = asyncio.get_running_loop()
        due = loop.time()
        try:
            while True:
                due = max(due + 1 / self._rate, loop.time() - 1.0)
                await asyncio.sleep(max(0.0, due - loop.time()))
                kind = self._chance.choices(KINDS, [kind.weight for kind in KINDS])[0]
                if kind.user == "ann" and len(self.open) > WAITING_MOST:
                    continue
                number += 1
                exits = EXIT if self._chance.random() < FAILS else 0
                seconds = self._chance.uniform(0.2, kind.longest)
                task = asyncio.create_task(self._submit(kind, seconds, exits, over_api=number % API_EVERY == 0))
                pending.add(task)
                task.add_done_callback(pending.discard)
        finally:
            for task in pending:
                task.cancel()
            await asyncio.gather(*pending, return_exceptions=True)
            for client in self._clients.values():
                await client.__aexit__()

    async def _submit(self, kind: Kind, seconds: float, exits: int, *, over_api: bool) -> None:
        command = [str(self._place.job), f"{seconds:.2f}", str(exits)]
        new, recent = make_submission(command, env={"WITNESS": str(self._place.witness)}), self._recent[kind]
        submissions = [new]
        if recent and self._chance.random() < AGAIN:
            submissions.insert(self._chance.randrange(2), self._chance.choice(recent))
        self._exits[_key(kind, new)] = exits
        for attempt in range(TRIES):
            self.repeated += attempt > 0 or len(submissions) > 1
            try:
                async with asyncio.timeout(WITHIN):
                    await self._ask(kind, submissions, over_api=over_api)
            except (HeadraceError, OSError, TimeoutError, ValueError):
                self.unanswered += 1
                over_api = not over_api
                continue
            for key in (_key(kind, submission) for submission in submissions):
                self.acknowledged[key] = self._exits[key]
                self.admitted(key)
            break
        recent.append(new)

    async def _ask(self, kind: Kind, submissions: list[JobSubmission], *, over_api: bool) -> None:
        """Returns when the answer has come that these are submitted."""
        if over_api:
            answered = await asyncio.to_thread(self._by_http, kind, submissions)
            self.over_api += 1
        else:
            answered = {job.id for job in await (await self._client(kind.user)).submit_many(kind.queue, submissions)}
        if answered != {submission.id for submission in submissions}:
            self.wrong.append(
                f"asked to submit {sorted(submission.id for submission in submissions)}, answered about {sorted(answered)}"
            )

    async def _client(self, user: str) -> Client:
        client = self._clients.get(user)
        if client is None:
            client = connect(data=self._place.data, user=user)
            await client.__aenter__()
            self._clients[user] = client
        return client

    def _by_http(self, kind: Kind, submissions: list[JobSubmission]) -> set[str]:
        jobs = [{"id": submission.id, "command": submission.command, "env": submission.env} for submission in submissions]
        body = json.dumps({"queue": kind.queue, "user": kind.user, "jobs": jobs}).encode()
        head = {"Authorization": f"Bearer {self._place.token}", "Content-Type": "application/json"}
        request = urllib.request.Request(f"{self._place.api}/v1/tenants/default/jobs:submit", body, head)
        with urllib.request.urlopen(request, timeout=WITHIN - 1) as answer:
            return {job["name"].rpartition("/")[2] for job in json.loads(answer.read())["jobs"]}


def _key(kind: Kind, submission: JobSubmission) -> str:
    return f"default.{kind.user}.{submission.id}"
