"""Every part started again, one after the other, while jobs are submitted over NATS and HTTP and others run: nothing is lost.

A second allocator and a second preemption stand by, ten jobs run from before the first restart until after the last. Then PostgreSQL and
NATS are started again too. Counted from the ledger: every job that was acknowledged has ended once, those that ran have had one
attempt, and an auditor who knows nothing but bytes finds nothing wrong.

`python -m bench.load.rolling [--rounds 1] [--json FILE]`, or `make rolling`.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from bench.load.installed import Count, counted, headrace, is_verified, show_progress, site, until, violations
from bench.options import options
from headrace.client import HeadraceError, connect
from headrace.client.client import Client
from headrace.client.submissions import make_submission, new_job_id

RATE = 10
"""Jobs a second, by either way."""
RUNNING = 10
DOCUMENTS = """
groups: [{name: bench, members: [bench]}]
pools: [{name: onprem, selector: {site: hq}}]
profiles: [{name: one, request: {gpu: 1}, pools: [onprem]}]
policies: [{name: bench, group: bench, profiles: [one], max_pending: 1000000}]
"""


class Load:
    """Submits all the while; what is acknowledged is remembered, what is not is counted by what was said."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.acknowledged: list[str] = []
        self.failed: Counter[str] = Counter()

    async def over_nats(self, client: Client) -> None:
        """Until cancelled."""
        while True:
            began = time.monotonic()
            try:
                self.acknowledged += [job.key for job in await client.submit_many("bench/one", [make_submission(["true"])])]
            except HeadraceError as error:
                self.failed[f"NATS: {type(error).__name__}"] += 1
            await asyncio.sleep(max(0.0, 1 / RATE - (time.monotonic() - began)))

    async def over_http(self) -> None:
        """Until cancelled; each request repeats the job before it, and what is not answered is asked for again with the same id."""
        from urllib.parse import urlsplit

        from bench.api import Http
        from headrace.supervisor.installation import Installation

        words = ("token", "create", "--admin", "--data", str(self._folder))
        token = (await asyncio.to_thread(headrace, *words)).stdout.split()[-1]
        url = urlsplit(json.loads(Installation(self._folder).endpoint.read_text("utf-8"))["api"])
        jobs = [new_job_id()]
        while True:
            http = Http((str(url.hostname), int(url.port or 80)), token)
            try:
                async with asyncio.timeout(30):
                    await http.open()
                    while True:
                        specs = [{"id": job, "command": ["true"]} for job in jobs]
                        body = json.dumps({"queue": "bench/one", "user": "bench", "jobs": specs}).encode()
                        status, _ = await http.ask("POST", "/v1/tenants/default/jobs:submit", body)
                        if status == 200:
                            self.acknowledged.append(f"default.bench.{jobs[-1]}")
                            jobs = [jobs[-1], new_job_id()]
                        else:
                            self.failed[f"HTTP: {status}"] += 1
                        await asyncio.sleep(1 / RATE)
            except (OSError, TimeoutError, asyncio.IncompleteReadError):
                self.failed["HTTP: the connection broke"] += 1
                await asyncio.sleep(0.2)
            finally:
                http.close()


def restart(folder: Path, *names: str) -> list[tuple[str, float]]:
    """`headrace restart`: each part, and the seconds until it was back."""
    done = headrace("restart", "--data", str(folder), *names)
    return [(part, float(seconds)) for part, seconds in re.findall(r"\d+/\d+ (\S+) +back after ([0-9.]+) s", done.stdout)]


async def measure(folder: Path, rounds: int) -> dict[str, Any]:
    """Everything, counted."""
    load, parts = Load(folder), list[tuple[str, float]]()
    gate = folder / "gate"
    async with counted(folder) as (count, _), connect(data=folder, user="bench") as client:
        wait = ["sh", "-c", f"while [ ! -e {gate} ]; do sleep 0.2; done"]
        held = await client.submit_many("bench/one", [make_submission(wait) for _ in range(RUNNING)])
        await until(lambda: all(job.key in count.granted for job in held), lambda: "ten jobs are being started")
        work = [asyncio.create_task(load.over_nats(client)), asyncio.create_task(load.over_http())]
        await asyncio.sleep(2.0)
        for number in range(rounds):
            show_progress(f"round {number + 1} of {rounds}: all parts of ours, one after the other")
            parts += await asyncio.to_thread(restart, folder)
            parts += await asyncio.to_thread(restart, folder, "postgres")
            parts += await asyncio.to_thread(restart, folder, "nats-server")
        await asyncio.sleep(2.0)
        for task in work:
            task.cancel()
        await asyncio.gather(*work, return_exceptions=True)
        gate.touch()
        keys = [*load.acknowledged, *(job.key for job in held)]
        await until(lambda: all(key in count.ended for key in keys), lambda: f"{_left(count, keys)} jobs left")
        found = _judged(count, load, keys, [job.key for job in held])
    return {"parts": parts, **found, "audit_verify": await asyncio.to_thread(is_verified, folder)}


def _left(count: Count, keys: list[str]) -> int:
    return sum(key not in count.ended for key in keys)


def _judged(count: Count, load: Load, keys: list[str], held: list[str]) -> dict[str, Any]:
    return {
        "acknowledged": len(keys),
        "not_acknowledged": dict(load.failed),
        "lost": _left(count, keys),
        "ended_twice": count.twice,
        "states": dict(count.states),
        "running_jobs_broken": sum(count.granted[key] != 1 for key in held),
        "nodes_lost": len(count.lost),
        "violations": violations(count.records)[:10],
    }


def main() -> None:
    """The table."""
    parser = options("bench.load.rolling", __doc__, "2 minutes a round")
    parser.add_argument("--rounds", type=int, default=1, help="how often every part is started again")
    parser.add_argument("--json", metavar="FILE", help="write the figures into this file as well")
    args = parser.parse_args()
    with site(DOCUMENTS, "--nodes", "2", "--gpus", "32", "--standby") as folder:
        found = asyncio.run(measure(folder, args.rounds))
    print(f"rolling restart under load, {args.rounds} rounds; {os.cpu_count()} cores")
    for part, seconds in found.pop("parts"):
        print(f"  {part:<24} back after {seconds:.1f} s")
    for name, value in found.items():
        print(f"  {name:<24} {value}")
    if args.json:
        Path(args.json).write_text(json.dumps(found, indent=2), encoding="utf-8")
    bad = (
        found["lost"]
        or found["ended_twice"]
        or found["running_jobs_broken"]
        or found["violations"]
        or not found["audit_verify"]
    )
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
