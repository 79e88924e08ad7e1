"""The executor by itself: a real one with real processes, and a feed that is played here on a real bus.

Grant to exec: from the order's publication to the moment that the job's keeper writes down. Short jobs: `true`, all ordered at once, from
the first order to the last end in the ledger. Idle: resident memory and CPU with running jobs. Released: from the job's last act after
SIGTERM to the end of its lease. Restart: kill -9 of the executor with running jobs, from the start of the next one to its registration.
"""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import psutil

from bench.options import options
from headrace.bus.nats.streams import ensure_streams
from headrace.contracts.facts import LeaseEndedV1, LeaseStartedV1, NodeRegisteredV1
from headrace.contracts.facts.fact import Ladder
from headrace.node_executor.system import orphans
from tests.integration.conftest import NatsServer
from tests.integration.nodes import Executor, Feed, until

SETTLE = 1.0
IDLE_FOR = 10.0
LEAVE = Ladder(cause="cancelled", callback_grace=0, term_grace=10_000_000, then="cancel")
DATE = ("sh", "-c", "trap 'date +%s%N > left; exit 0' TERM; touch ready; while :; do sleep 0.01; done")


class Bench:
    """One node and its feed. `number` gives jobs their names."""

    def __init__(self, feed: Feed, node: Executor) -> None:
        self.feed, self.node, self.number = feed, node, 0

    async def start(self, *command: str) -> tuple[str, float]:
        """Order a job; its key, and when."""
        self.number += 1
        at = time.time() * 1e6
        return await self.feed.start(self.number, *command), at

    async def latency(self, samples: int) -> list[float]:
        """Milliseconds from order to exec, one job after the other."""
        taken = []
        for _ in range(samples):
            job, at = await self.start("true")
            await self.feed.ended(job)
            taken.append((self.feed.of(job, LeaseStartedV1)[0].at - at) / 1e3)
            await asyncio.sleep(0.02)
        return sorted(taken)

    async def throughput(self, jobs: int) -> float:
        """Short jobs/s."""
        before, began = self.feed.count(LeaseEndedV1), time.perf_counter()
        for _ in range(jobs):
            await self.start("true")
        while self.feed.count(LeaseEndedV1) < before + jobs:
            await asyncio.sleep(0.005)
        return jobs / (time.perf_counter() - began)

    async def idle(self, jobs: int) -> dict[str, float]:
        """MiB and percent of a core of the executor with this number of jobs, and the MiB of a keeper (private)."""
        for _ in range(jobs):
            await self.start("sleep", "1000")
        await until(lambda: len(self.running()) >= jobs)
        await asyncio.sleep(SETTLE)
        assert self.node.process is not None
        executor = psutil.Process(self.node.process.pid)
        before = sum(executor.cpu_times()[:2])
        await asyncio.sleep(IDLE_FOR)
        used = sum(executor.cpu_times()[:2]) - before
        keepers = [psutil.Process(int(path.read_text().split()[1])) for path in (self.node.data / "kept").iterdir()]
        each = sum(one.memory_full_info().uss for one in keepers) / max(1, len(keepers))
        whole = executor.memory_full_info()
        return {"rss_mb": whole.rss / 1e6, "cpu_percent": 100 * used / IDLE_FOR, "keeper_mb": each / 1e6}

    def running(self) -> list[int]:
        """The processes of jobs."""
        return self.node.jobs

    async def released(self, samples: int) -> list[float]:
        """Milliseconds from the moment a job leaves at SIGTERM until its lease has ended."""
        taken = []
        for _ in range(samples):
            job, _ = await self.start(*DATE)
            work = self.node.data / "leases" / f"{job}.1.0" / "work"
            await until((work / "ready").exists)
            await self.feed.stop(job, LEAVE)
            ended = await self.feed.ended(job)
            left = int((work / "left").read_text()) / 1e3
            taken.append((ended.at - left) / 1e3)
        return sorted(taken)

    async def restart(self) -> float:
        """Seconds."""
        before = self.feed.count(NodeRegisteredV1)
        await self.node.end(signal.SIGKILL)
        began = time.perf_counter()
        self.node.start(*ARGUMENTS)
        await until(lambda: self.feed.count(NodeRegisteredV1) > before)
        return time.perf_counter() - began


ARGUMENTS = ("--limits", os.environ.get("BENCH_LIMITS", "auto"), "--heartbeat", "5s", "--ask-every", "15s")


async def measure(jobs: int = 2_000, samples: int = 100) -> dict[str, Any]:
    """All of it, on one node."""
    with tempfile.TemporaryDirectory(prefix="headrace-bench-", ignore_cleanup_errors=True) as folder:
        os.chmod(folder, 0o755)
        (Path(folder) / "nats").mkdir()
        server = NatsServer(Path(folder) / "nats")
        server.start()
        async with AsyncExitStack() as stack:
            operator, mouth = await server.connect("operator"), await server.connect("feed")
            stack.push_async_callback(operator.close)
            stack.push_async_callback(mouth.close)
            await ensure_streams(operator)
            feed, node = Feed(mouth, operator), Executor(Path(folder), server)
            await feed.begin()
            reading = asyncio.create_task(feed.read())
            node.start(*ARGUMENTS)
            await until(lambda: feed.count(NodeRegisteredV1))
            bench = Bench(feed, node)
            figures: dict[str, Any] = {}
            try:
                await bench.latency(10)
                figures["exec_ms"] = await bench.latency(samples)
                figures["jobs_per_s"] = [await bench.throughput(jobs) for _ in range(3)]
                figures["released_ms"] = await bench.released(20)
                figures["idle"] = await bench.idle(100)
                for _ in range(100):
                    await bench.start("sleep", "1000")
                await until(lambda: len(bench.running()) >= 200)
                figures["restart_s"] = await bench.restart()
            finally:
                await node.end(signal.SIGQUIT)
                reading.cancel()
                orphans.sweep(f"{node.data}/leases")
                server.kill()
    return figures


def show(figures: dict[str, Any]) -> None:
    """One line for each figure, beside its goal."""
    exec_ms, released, idle = figures["exec_ms"], figures["released_ms"], figures["idle"]
    p50, p99 = exec_ms[len(exec_ms) // 2], exec_ms[len(exec_ms) * 99 // 100]
    print(f"    grant to exec on the node  p50 {p50:.1f} ms, p99 {p99:.1f} ms   (goal 5)")
    rates = sorted(figures["jobs_per_s"])
    print(f"    short jobs on one node  {rates[1]:,.0f} [{rates[0]:,.0f} - {rates[-1]:,.0f}] jobs/s   (goal 500)")
    print(f"    SIGTERM to released, beyond the job's own time  p50 {released[len(released) // 2]:.0f} ms   (goal 50)")
    print(
        f"    executor with 100 running jobs  {idle['rss_mb']:.0f} MB, {idle['cpu_percent']:.2f} % of a core; "
        f"a keeper {idle['keeper_mb']:.2f} MB   (goal 60, 1)"
    )
    print(f"    restart with 200 running jobs  {figures['restart_s']:.2f} s   (goal 2)", flush=True)


if __name__ == "__main__":
    options("bench.node", __doc__, "1 minute").parse_args()
    show(asyncio.run(measure()))
