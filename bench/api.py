"""The API under load: submits over HTTP through the gateway, as fast as closed-loop clients get answers and at a steady rate; reads beside
them, and batched publishes on the bus.

One job holds the whole pool, so that what is submitted waits: it is the way in that is measured, not the processes of jobs.

`python -m bench.api [--clients 32] [--seconds 10]`, or `make bench-api`. The load generator shares the machine with everything else.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import time
from pathlib import Path
from urllib.parse import urlsplit

from bench.installation import cpu_seconds, headrace, installation
from bench.options import options
from headrace.client import connect
from headrace.client.submissions import make_submission

BATCHES, BATCH = 20, 1_000
RATE = 500
"""Submits a second, one by one, that are to be answered within 10 ms as a rule."""


class Http:
    """One kept-alive connection, with as little around it as can be."""

    def __init__(self, place: tuple[str, int], token: str) -> None:
        self._place = place
        self._head = f"Host: {place[0]}\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n"

    async def open(self) -> None:
        self._reader, self._writer = await asyncio.open_connection(*self._place)

    async def ask(self, verb: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        """(status, body) of one request."""
        head = f"{verb} {path} HTTP/1.1\r\n{self._head}Content-Length: {len(body)}\r\n\r\n"
        self._writer.write(head.encode() + body)
        header = await self._reader.readuntil(b"\r\n\r\n")
        length = int(header.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
        return int(header.split(b" ", 2)[1]), await self._reader.readexactly(length)

    def close(self) -> None:
        self._writer.close()


async def closed_loop(
    place: tuple[str, int], token: str, clients: int, seconds: float, verb: str, path: str, body: bytes
) -> list[float]:
    """The seconds that each answer took; every client asks again as soon as it has been answered."""
    took: list[float] = []
    ends = time.monotonic() + seconds

    async def client() -> None:
        http = Http(place, token)
        await http.open()
        while time.monotonic() < ends:
            began = time.perf_counter()
            status, answer = await http.ask(verb, path, body)
            if status != 200:
                raise RuntimeError(f"{status}: {answer.decode()[:500]}")
            took.append(time.perf_counter() - began)
        http.close()

    await asyncio.gather(*(client() for _ in range(clients)))
    return took


async def steady(place: tuple[str, int], token: str, rate: int, seconds: float, path: str, body: bytes) -> list[float]:
    """The seconds from the moment at which each submit was due to its answer: a client that falls behind counts that, too."""
    took: list[float] = []
    idle: list[Http] = []
    asking: set[asyncio.Task[None]] = set()
    began = time.perf_counter()

    async def submit(due: float) -> None:
        http = idle.pop() if idle else Http(place, token)
        if not hasattr(http, "_reader"):
            await http.open()
        status, answer = await http.ask("POST", path, body)
        if status != 200:
            raise RuntimeError(f"{status}: {answer.decode()[:500]}")
        took.append(time.perf_counter() - due)
        idle.append(http)

    for number in range(int(rate * seconds)):
        due = began + number / rate
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        asking.add(task := asyncio.create_task(submit(due)))
        task.add_done_callback(asking.discard)
    await asyncio.gather(*asking)
    for http in idle:
        http.close()
    return took


def figures(took: list[float], seconds: float) -> dict[str, float]:
    """What people ask of latencies."""
    cuts = statistics.quantiles(took, n=100)
    return {"per_second": round(len(took) / seconds), "p50_ms": round(cuts[49] * 1e3, 2), "p99_ms": round(cuts[98] * 1e3, 2)}


async def batched(folder: Path) -> float:
    """Jobs a second that are durable, sent a thousand in a message, one message behind the other."""
    async with connect(data=folder, user="bench") as hr:
        submissions = [[make_submission(["true"]) for _ in range(BATCH)] for _ in range(BATCHES)]
        began = time.perf_counter()
        for batch in submissions:
            await hr.submit_many("bench/one", batch)
        return BATCHES * BATCH / (time.perf_counter() - began)


async def measure(folder: Path, clients: int, seconds: float) -> dict[str, object]:
    """All of it against one installation."""
    api = json.loads(headrace("status", "--data", str(folder), "--json").stdout)["api"]
    token = headrace("token", "create", "--data", str(folder), "--admin", "bench").stdout.split()[0]
    place = (str(urlsplit(api).hostname), int(urlsplit(api).port or 80))
    submit = json.dumps({"queue": "bench/one", "user": "bench", "jobs": [{"command": ["true"]}]}).encode()
    jobs = "/v1/tenants/default/jobs"
    found: dict[str, object] = {}
    headrace("submit", "--data", str(folder), "--user", "bench", "--queue", "bench/all", "--", "sleep", "3600")
    await closed_loop(place, token, clients, 1.0, "GET", "/v1/pools", b"")
    for name, many, verb, path, body in (
        ("read, 1 client", 1, "GET", "/v1/pools/onprem", b""),
        ("list of 100 jobs, 1 client", 1, "GET", f"{jobs}?page_size=100", b""),
        ("submit, 1 client", 1, "POST", f"{jobs}:submit", submit),
        (f"submit, {clients} clients", clients, "POST", f"{jobs}:submit", submit),
        (f"read, {clients} clients", clients, "GET", "/v1/pools/onprem", b""),
    ):
        before = cpu_seconds(folder)
        took = await closed_loop(place, token, many, seconds, verb, path, body)
        spent = {part: cpu - before.get(part, 0.0) for part, cpu in cpu_seconds(folder).items()}
        busy = {part: round(cpu * 1e3 / len(took), 3) for part, cpu in spent.items() if cpu > 0.02 * seconds}
        found[name] = figures(took, seconds) | {"cpu_ms_each": busy}
        print(f"{name:<28} {found[name]}", flush=True)
    for rate in (100, RATE):
        name = f"submit, {rate} a second"
        began = time.monotonic()
        took = await steady(place, token, rate, seconds, f"{jobs}:submit", submit)
        found[name] = figures(took, time.monotonic() - began)
        print(f"{name:<28} {found[name]}", flush=True)
    found["batched publish, jobs/s"] = round(await batched(folder))
    print(f"{'batched publish, jobs/s':<28} {found['batched publish, jobs/s']}", flush=True)
    return found


def main() -> None:
    parser = options("bench.api", __doc__, "about 3 minutes, most of it for starting an installation")
    parser.add_argument("--clients", type=int, default=32, help="that send submits, each the next one when it has its answer")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each measurement")
    arguments = parser.parse_args()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} before")
    with installation(gpus=8) as folder:
        asyncio.run(measure(folder, arguments.clients, arguments.seconds))


if __name__ == "__main__":
    main()
