"""A burst of submits: taken up to the caps, refused beyond them with word when to try again, and worked off; memory of every process
beside it.

100,000 jobs, a message each, over NATS by twenty users of four tenants, as fast as the server takes them; one of the users sends as many
as all others together. Then a thousand requests over HTTP at once, and every third of them repeats a job of another one beside its own.
Each job that a caller was told is submitted has become a job in the ledger, or a refusal that is stated or counted.

`python -m bench.load.burst [--jobs 100000] [--http 1000] [--json FILE]`, or `make load`.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bench.load.installed import Memory, bus, counted, headrace, show_progress, site, until
from bench.options import options
from headrace.contracts.values.ids import ENTROPY_BYTES, make_job_id
from headrace.nats_client.connection import Connection
from headrace.supervisor.installation import Installation

TENANTS, USERS = 4, 5
WINDOW = 500
"""Messages of one user on their way at once."""
MAX_PENDING = 1_500


def documents() -> str:
    """Four tenants with a queue each."""
    lines = [
        "pools: [{name: onprem, selector: {site: hq}}]",
        "profiles: [{name: one, request: {gpu: 1}, pools: [onprem]}]",
        "tenants:",
    ]
    lines += [f"  - {{name: t{t}}}" for t in range(TENANTS)]
    lines += ["groups:"]
    lines += [f"  - {{tenant: t{t}, name: all, members: [{', '.join(f'u{u}' for u in range(USERS))}]}}" for t in range(TENANTS)]
    lines += ["policies:"]
    lines += [f"  - {{tenant: t{t}, name: p, group: all, profiles: [one], max_pending: {MAX_PENDING}}}" for t in range(TENANTS)]
    return "\n".join(lines) + "\n"


class Sent:
    """What callers were told: jobs that are submitted, and what the server refused, with its words."""

    def __init__(self) -> None:
        self.acknowledged: set[str] = set()
        self.refused: Counter[str] = Counter()


async def flood(owner: Connection, tenant: str, user: str, messages: int, sent: Sent) -> None:
    """One user's part, with this number on their way at once; what is refused is not tried again."""
    subject, slots = f"hr.submit.{tenant}.{user}.p.one", asyncio.Semaphore(WINDOW)

    async def one() -> None:
        async with slots:
            job = make_job_id(time.time_ns() // 1_000_000, secrets.token_bytes(ENTROPY_BYTES))
            body = json.dumps({"id": job, "command": ["true"]}).encode()
            answer = await owner.ask(subject, body, within=60.0)
            reply = json.loads(answer.data)
            if "error" in reply:
                sent.refused[reply["error"]["description"]] += 1
            else:
                sent.acknowledged.add(f"{tenant}.{user}.{job}")

    for start in range(0, messages, WINDOW):
        await asyncio.gather(*(one() for _ in range(min(WINDOW, messages - start))))


async def over_nats(folder: Path, jobs: int) -> tuple[Sent, float]:
    """All users at once; every user has a connection of their own."""
    sent, began = Sent(), time.monotonic()
    whose = [(f"t{t}", f"u{u}") for t in range(TENANTS) for u in range(USERS)]
    each = jobs // 2 // (len(whose) - 1)
    shares = [jobs - each * (len(whose) - 1)] + [each] * (len(whose) - 1)
    connections = [await bus(folder, "owner") for _ in whose]

    async def progress() -> None:
        while True:
            show_progress(
                f"{len(sent.acknowledged)} stored, {sent.refused.total()} refused by the server, {time.monotonic() - began:.0f} s"
            )
            await asyncio.sleep(0.5)

    telling = asyncio.create_task(progress())
    await asyncio.gather(
        *(
            flood(connection, tenant, user, share, sent)
            for connection, (tenant, user), share in zip(connections, whose, shares, strict=True)
        )
    )
    telling.cancel()
    for connection in connections:
        await connection.close()
    return sent, time.monotonic() - began


async def over_http(folder: Path, requests: int, acknowledged: set[str]) -> tuple[Counter[str], float]:
    """A number of requests at once, a connection each; statuses with their reasons. Every third is about a job of another one as well."""
    from bench.api import Http

    token = headrace("token", "create", "--admin", "--data", str(folder)).stdout.split()[-1]
    url = urlsplit(json.loads(Installation(folder).endpoint.read_text("utf-8"))["api"])
    address = (str(url.hostname), int(url.port or 80))
    jobs = [make_job_id(time.time_ns() // 1_000_000, secrets.token_bytes(ENTROPY_BYTES)) for _ in range(requests)]
    answers: Counter[str] = Counter()
    began = time.monotonic()

    async def one(place: int) -> None:
        named = [jobs[place // 2], jobs[place]] if place % 3 == 1 else [jobs[place]]
        body = json.dumps(
            {"queue": "p/one", "user": "u0", "jobs": [{"id": job, "command": ["true"]} for job in named]}
        ).encode()
        http = Http(address, token)
        try:
            await http.open()
            status, answer = await http.ask("POST", "/v1/tenants/t1/jobs:submit", body)
            if status == 200:
                acknowledged.update(f"t1.u0.{job}" for job in named)
            detail = json.loads(answer).get("details", [{}]) if status != 200 else [{}]
            answers[f"{status} {next((one['reason'] for one in detail if 'reason' in one), '')}".strip()] += 1
        except (OSError, asyncio.IncompleteReadError) as error:
            answers[type(error).__name__] += 1
        finally:
            http.close()

    await asyncio.gather(*map(one, range(requests)))
    return answers, time.monotonic() - began


async def measure(folder: Path, jobs: int, requests: int) -> dict[str, Any]:
    """Everything, counted."""
    memory = Memory(folder)
    looking = asyncio.create_task(memory.keep_looking())
    async with counted(folder) as (count, operator):
        sent, took = await over_nats(folder, jobs)

        async def left() -> int:
            answer = await operator.ask("$JS.API.STREAM.INFO.SUBMIT")
            return int(json.loads(answer.data)["state"]["last_seq"]) - count.judged

        async def judged() -> bool:
            return await left() <= 0

        judging = await until(judged, lambda: f"{count.judged} judged")
        answers, http_took = await over_http(folder, requests, sent.acknowledged)
        await until(judged, lambda: f"{count.judged} judged")
        draining = await until(lambda: count.open == 0, lambda: f"{count.open} of {len(count.admitted)} jobs left")
        await asyncio.sleep(2.0)
        memory.note()
    looking.cancel()
    return {
        "published": jobs,
        "stored": len(sent.acknowledged),
        "refused_by_server": dict(sent.refused),
        "publishing_s": round(took, 1),
        "judged_after_s": round(judging, 1),
        "http": dict(answers),
        "http_s": round(http_took, 1),
        "admitted": len(count.admitted),
        "rejected_with_a_fact": dict(count.rejected),
        "of_these_with_retry_after": dict(count.hints),
        "rejected_and_counted": dict(count.counted),
        "acknowledged_and_unknown": count.unknown(sent.acknowledged),
        "drained_after_s": round(draining, 1),
        "states": dict(count.states),
        "twice": count.twice,
        "messages": count.messages,
        "memory_mib": memory.table(),
    }


def main() -> None:
    """The table."""
    parser = options("bench.load.burst", __doc__, "8 minutes")
    parser.add_argument("--jobs", type=int, default=100_000, help="over NATS")
    parser.add_argument("--http", type=int, default=1_000, help="requests over HTTP")
    parser.add_argument("--json", metavar="FILE", help="write the figures into this file as well")
    args = parser.parse_args()
    with site(documents(), "--nodes", "1", "--gpus", "64") as folder:
        found = asyncio.run(measure(folder, args.jobs, args.http))
    print(
        f"burst of {args.jobs} submits over NATS by {TENANTS * USERS} users, {args.http} over HTTP at once; {os.cpu_count()} cores"
    )
    for name, value in found.items():
        if name != "memory_mib":
            print(f"  {name:<28} {value}")
    print(f"  {'resident MiB':<28} {'before':>8} {'peak':>8} {'after':>8}")
    for row in found["memory_mib"]:
        print(f"  {row['part']:<28} {row['before']:>8} {row['peak']:>8} {row['after']:>8}")
    if args.json:
        Path(args.json).write_text(json.dumps(found, indent=2), encoding="utf-8")
    sys.exit(bool(found["acknowledged_and_unknown"] or found["twice"]))


if __name__ == "__main__":
    main()
