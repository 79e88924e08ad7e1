"""What a submit over NATS costs: the time of 300, with pauses and one behind the other, and how many a second 32 clients get stored.

Without pauses everything that follows from a submit (judging, placing, folding) competes for the processors with the next one.

`python -m bench.load.submits [--asks 300] [--clients 32] [--each 100]`.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import statistics
import time
from pathlib import Path

from bench.load.burst import documents
from bench.load.installed import bus, site
from bench.options import options
from headrace.contracts.values.ids import ENTROPY_BYTES, make_job_id
from headrace.nats_client.connection import Connection

PAUSE = 0.05
"""Seconds between two submits, so that the installation has done with the first."""


async def submitted(client: Connection, user: str) -> float:
    """The seconds until one submit is acknowledged."""
    job = make_job_id(time.time_ns() // 1_000_000, secrets.token_bytes(ENTROPY_BYTES))
    body = json.dumps({"id": job, "command": ["true"]}).encode()
    began = time.perf_counter()
    answer = json.loads((await client.ask(f"hr.submit.t0.{user}.p.one", body, within=60.0)).data)
    if answer.get("stream") != "SUBMIT" or "error" in answer:
        raise SystemExit(f"not stored: {answer}")
    return time.perf_counter() - began


async def measure(folder: Path, asks: int, clients: int, each: int) -> None:
    """Print both figures."""
    alone = await bus(folder, "owner")
    for _ in range(20):
        await submitted(alone, "u0")
    for pause, how in ((PAUSE, f"{PAUSE * 1e3:.0f} ms apart"), (0.0, "one behind the other")):
        took = []
        for _ in range(asks):
            await asyncio.sleep(pause)
            took.append(await submitted(alone, "u0") * 1e3)
        took.sort()
        p10, p90 = took[asks // 10], took[asks * 9 // 10]
        print(f"  {asks} submits, {how}: p10 {p10:.2f} ms, median {statistics.median(took):.2f} ms, p90 {p90:.2f} ms")
    crowd = [await bus(folder, "owner") for _ in range(clients)]

    async def many(client: Connection) -> None:
        for _ in range(each):
            await submitted(client, "u1")

    began = time.perf_counter()
    await asyncio.gather(*map(many, crowd))
    print(f"  {clients} clients, {each} submits each: {clients * each / (time.perf_counter() - began):.0f} a second")
    for client in (alone, *crowd):
        await client.close()


def main() -> None:
    """Both figures."""
    parser = options("bench.load.submits", __doc__, "1 minute")
    parser.add_argument("--asks", type=int, default=300, help="submits that are timed one by one")
    parser.add_argument("--clients", type=int, default=32, help="that submit at once")
    parser.add_argument("--each", type=int, default=100, help="submits of each client")
    args = parser.parse_args()
    with site(documents(), "--nodes", "1", "--gpus", "1") as folder:
        print(f"submits over NATS, {os.cpu_count()} cores")
        asyncio.run(measure(folder, args.asks, args.clients, args.each))


if __name__ == "__main__":
    main()
