"""What a step of a handle costs on the page's screen *What if*: question after question about another limit, with jobs that wait.

A real NATS server with the ledger, which the engine itself wrote, and the process that *governance* starts, asked as the API asks it: both
plays go seven days on. CPU-seconds are those of that process and its copies; they hold on a busy machine too, where it comes last (niced).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import statistics
import time
from pathlib import Path
from typing import Any

from google.protobuf.json_format import ParseDict

from bench.options import options
from bench.stored_history import ledger_server
from headrace.bus.variables import PASSWORD, URL, USER
from headrace.contracts.api import audit_pb2 as pb
from headrace.contracts.documents.yaml_text import read_tree
from headrace.contracts.values.durations import SECOND
from headrace.domain.state.state import State
from headrace.governance.api.context import ApiContext, CallContext
from headrace.governance.api.whatif_service import WhatIfService
from headrace.identity.caller import Caller, Role
from headrace.simulate.scenario import read_scenario
from headrace.simulate.world import World

POLICY = {"name": "dev", "group": "dev", "profiles": ["half"], "reservation": {"gpu": 2}, "max_pending": 1_000_000}
SITE = """
groups: [{name: dev, members: [ann]}]
pools: [{name: hall, selector: {site: a}, price: {gpu: 2.5}}]
profiles: [{name: half, request: {gpu: 0.5}, pools: [hall]}]
nodes: [{name: n, count: 2, labels: {site: a}, gpus: 8}]
policies: [{name: dev, group: dev, profiles: [half], reservation: {gpu: 2}, limit: {gpu: 4}, max_pending: 1000000}]
timeline:
  - {at: 1s, submit: {name: runs, count: 8, queue: dev/half}}
"""
WITHIN = 600.0


def installation(waiting: int) -> World:
    """Eight jobs run, and that many wait at the limit of their policy."""
    late = f"  - {{at: 2s, submit: {{name: waits, count: {waiting}, queue: dev/half, time_limit: 10m, duration: 10m}}}}\n"
    world = World(read_scenario(read_tree(SITE + late)))
    for _ in world.run():
        pass
    return world


async def measure(waiting: int, steps: int) -> dict[str, Any]:
    """Seconds of the first question, which starts the process, and of the steps behind it; CPU-seconds of one step."""
    async with ledger_server() as (server, operator):
        for message in installation(waiting).log.messages_after(0):
            await operator.ask(message.subject, message.payload)
        login = server.credentials["governance"]
        environment = os.environ | {URL: server.url, USER: login.name, PASSWORD: login.password}
        known = {"state": State(), "clock": lambda: 7 * SECOND, "environment": environment}
        backend = ApiContext(*map(known.get, ApiContext._fields))  # type: ignore[arg-type]  # the rest is not needed
        call = CallContext(Caller(Role.PROVIDER_ADMIN, "default", "root"), "WhatIf", WITHIN, backend)
        service = WhatIfService()
        began = time.perf_counter()
        await service.what_if(step(0), call)
        first, used, taken = time.perf_counter() - began, spent(), []
        for number in range(1, steps + 1):
            began = time.perf_counter()
            await service.what_if(step(number), call)
            taken.append(time.perf_counter() - began)
        used = spent() - used
        await service.close()
    return {
        "waiting": waiting,
        "first_s": round(first, 2),
        "median_s": round(statistics.median(taken), 2),
        "best_s": round(min(taken), 2),
        "cpu_s": round(used / steps, 2),
    }


def step(number: int) -> pb.WhatIfRequest:
    """The question whether a limit of another half of a GPU more would help."""
    policy = POLICY | {"limit": {"gpu": 4.5 + number % 8 / 2}}
    return ParseDict({"changes": {"policies": [policy]}}, pb.WhatIfRequest())


def spent() -> float:
    """CPU-seconds of the processes that answered so far, and their copies."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = ended.ru_utime + ended.ru_stime
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            parts = (process / "stat").read_text().rpartition(")")[2].split()
            if int(parts[1]) == os.getpid() and b"headrace.simulate" in (process / "cmdline").read_bytes():
                used += sum(map(int, parts[11:15])) / os.sysconf("SC_CLK_TCK")
    return used


def main() -> None:
    """The figures as a line of JSON."""
    parser = options("bench.whatif_steps", __doc__, "half a minute")
    parser.add_argument("--waiting", type=int, default=1_000, help="jobs")
    parser.add_argument("--steps", type=int, default=20, help="of the handle")
    arguments = parser.parse_args()
    load = os.getloadavg()[0]
    print(json.dumps(asyncio.run(measure(arguments.waiting, arguments.steps)) | {"load_before": round(load, 1)}))


if __name__ == "__main__":
    main()
