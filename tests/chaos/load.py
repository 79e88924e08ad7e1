"""Jobs at a steady rate over NATS and over the API. A submit counts as acknowledged when its answer has come, and not before."""

from __future__ import annotations

import asyncio
import json
import random
import urllib.request
from typing import NamedTuple

from headrace.client import connect
from headrace.client.client import Client
from headrace.client.errors import HeadraceError
from headrace.client.wishing import make_wish
from tests.chaos.place import Place

WAITING_MOST = 150
"""Jobs that have not ended from which on none is submitted that only borrows."""
API_EVERY = 7
"""Of so many submits one goes over the API."""
WITHIN = 6.0


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
    """`acknowledged`: job key to the exit code it is to end with. `unanswered`: nobody knows."""

    def __init__(self, place: Place, chance: random.Random, rate: float) -> None:
        self.acknowledged: dict[str, int] = {}
        self.unanswered = 0
        self.over_api = 0
        self.open: set[str] = set()
        self._ended: set[str] = set()
        self._place = place
        self._chance = chance
        self._rate = rate
        self._clients: dict[str, Client] = {}

    def ended(self, job: str) -> None:
        """It has reached its final state, perhaps before the answer to its submit is heard: who carries that may be stopped."""
        self._ended.add(job)
        self.open.discard(job)

    async def run(self) -> None:
        """Until cancelled; each submit is its own task, so that one that hangs holds up nobody."""
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
        env = {"WITNESS": str(self._place.witness)}
        wish = {"command": command, "env": env}
        try:
            async with asyncio.timeout(WITHIN):
                if over_api:
                    job = await asyncio.to_thread(self._by_http, kind, wish)
                    self.over_api += 1
                else:
                    client = await self._client(kind.user)
                    job = (await client.submit_many(kind.queue, [make_wish(command, env=env)]))[0].key
        except (HeadraceError, OSError, TimeoutError, ValueError):
            self.unanswered += 1
        else:
            self.acknowledged[job] = exits
            if job not in self._ended:
                self.open.add(job)

    async def _client(self, user: str) -> Client:
        client = self._clients.get(user)
        if client is None:
            client = connect(data=self._place.data, user=user)
            await client.__aenter__()
            self._clients[user] = client
        return client

    def _by_http(self, kind: Kind, wish: dict[str, object]) -> str:
        body = json.dumps({"queue": kind.queue, "user": kind.user, "jobs": [wish]}).encode()
        head = {"Authorization": f"Bearer {self._place.token}", "Content-Type": "application/json"}
        request = urllib.request.Request(f"{self._place.api}/v1/tenants/default/jobs:submit", body, head)
        with urllib.request.urlopen(request, timeout=WITHIN - 1) as answer:
            said = json.loads(answer.read())
        (job,) = said["jobs"]
        name = str(job["name"] if isinstance(job, dict) else job).rpartition("/")[2]
        return name if name.count(".") == 2 else f"default.{kind.user}.{name}"
