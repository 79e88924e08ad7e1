"""Processes that are stopped (SIGSTOP) while another process does their work, and then go on as if nothing had been: they do no harm.

Allocator, preemption and feed have standbys that take over. For admission, governance and audit a second process with the same login is
started meanwhile, as a cluster would on another machine. A node is stopped for so long that it is given up, and its job runs elsewhere.

All the time jobs are submitted. Afterwards every acknowledged job has ended once, every deposed process has been started again, the node's
own process of the job that was taken from it is gone, and an auditor who knows nothing but bytes finds nothing wrong.

`python -m bench.load.zombies [--seconds 60] [--json FILE]`, or `make rolling`.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from bench.load.installed import Count, counted, headrace, is_verified, pid, restarts, show_progress, site, until, violations
from bench.load.rolling import DOCUMENTS, Load
from bench.options import options
from headrace.bus.variables import DEPOSED
from headrace.client import connect
from headrace.client.submissions import make_submission
from headrace.contracts.facts.writers import ADMISSION, ALLOCATOR, AUDIT, GOVERNANCE, PREEMPTION
from headrace.supervisor.installation import Installation
from headrace.supervisor.processes.pidfile import read_running
from headrace.supervisor.processes.process_specs import services
from headrace.supervisor.service_query import ask_service, operator_client

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.client.client import Client

TURNS = (ALLOCATOR, PREEMPTION, "feed")
ALONE = (ADMISSION, GOVERNANCE, AUDIT)


@contextmanager
def second(folder: Path, service: str) -> Iterator[subprocess.Popen[bytes]]:
    """Another process of the service, started as the first was."""
    installation = Installation(folder)
    running = read_running(installation)
    assert running is not None
    (program,) = (one for one in services(installation, running.url, "") if service in (one.parts or (one.name,)))
    with (folder / f"{service}-second.log").open("ab") as output:
        other = subprocess.Popen(program.argv, env=dict(program.env), stdout=output, stderr=output, cwd=program.directory)
    try:
        yield other
    finally:
        other.kill()
        other.wait()


async def decides(client: Client, service: str) -> str:
    """The instance whose turn it is, asked with the operator's login; empty without an answer."""
    for name in (service, f"{service}-standby"):
        view = await ask_service(client, name, 1.0)
        if view is not None and view.detail.get("decides") == 1:
            return name
    return ""


async def in_turns(folder: Path, client: Client, service: str, seconds: float, count: Count) -> dict[str, Any]:
    """The one that decides is stopped until the other decides, and a little longer."""
    active = await decides(client, service)
    process, lives, granted = pid(folder, active), restarts(folder)[active], len(count.granted)
    os.kill(process, signal.SIGSTOP)
    try:

        async def other() -> bool:
            return await decides(client, service) not in ("", active)

        taken = await until(other, lambda: f"{service}: nobody takes over yet", 60)
        await asyncio.sleep(seconds)
        meanwhile = len(count.granted) - granted
    finally:
        os.kill(process, signal.SIGCONT)
    back = await until(lambda: restarts(folder)[active] > lives, lambda: f"{active} has woken up", 60)
    return {"what": service, "taken_over_s": round(taken, 2), "grants_meanwhile": meanwhile, "deposed_after_s": round(back, 2)}


async def doubled(folder: Path, client: Client, service: str, seconds: float, count: Count) -> dict[str, Any]:
    """A second instance works while the first is stopped; then there are two, until one has lost a race."""
    process, lives, granted = pid(folder, service), restarts(folder)[service], len(count.granted)
    os.kill(process, signal.SIGSTOP)
    try:
        with second(folder, service) as other:

            async def answers() -> bool:
                return await ask_service(client, service, 1.0) is not None

            taken = await until(answers, lambda: f"a second {service} starts", 60)
            await _speak(folder, service)
            await asyncio.sleep(seconds)
            meanwhile = len(count.granted) - granted
            os.kill(process, signal.SIGCONT)
            deposed = await until(
                lambda: restarts(folder)[service] > lives or other.poll() == DEPOSED, lambda: f"there are two of {service}", 150
            )
            who = "the first" if restarts(folder)[service] > lives else "the second"
    finally:
        os.kill(process, signal.SIGCONT) if psutil.pid_exists(process) else None
    await until(lambda: pid(folder, service) > 0, lambda: f"{service} is being started", 60)
    return {
        "what": service,
        "taken_over_s": round(taken, 2),
        "grants_meanwhile": meanwhile,
        "deposed_after_s": round(deposed, 2),
        "who": who,
    }


async def _speak(folder: Path, service: str) -> None:
    """Give the second instance something to write."""
    if service == GOVERNANCE:
        await asyncio.to_thread(headrace, "apply", "--data", str(folder), "-f", str(folder / "more.yaml"))


async def node(folder: Path, client: Client, count: Count) -> dict[str, Any]:
    """A node that sleeps for so long that its job is given to another, and wakes up with it."""
    pids = folder / "pids"
    command = ["sh", "-c", f"echo $$ >> {pids}; while [ ! -e {folder / 'gate'} ]; do sleep 0.2; done"]
    (job,) = await client.submit_many("bench/one", [make_submission(command, retries=3)])
    await until(lambda: pids.exists() and bool(pids.read_text().strip()), lambda: "a job is being started")
    where = (await client.job(job.id)).attempts[-1].nodes[0]
    process = pid(folder, f"node-{where}")
    os.kill(process, signal.SIGSTOP)
    try:
        taken = await until(lambda: count.granted[job.key] > 1, lambda: f"{where} is silent", 120)
        await until(lambda: len(pids.read_text().split()) > 1, lambda: "the job starts elsewhere")
    finally:
        os.kill(process, signal.SIGCONT)
    first, *later = [int(number) for number in pids.read_text().split()]
    gone = await until(
        lambda: not psutil.pid_exists(first), lambda: f"{where} has woken up with a job that is not its any more", 60
    )
    alive = sum(psutil.pid_exists(number) for number in later)
    (folder / "gate").touch()
    await until(lambda: job.key in count.ended, lambda: "the job ends")
    return {
        "what": "node",
        "taken_over_s": round(taken, 2),
        "grants_meanwhile": count.granted[job.key],
        "deposed_after_s": round(gone, 2),
        "who": f"{len(later)} started elsewhere, {alive} of them alive",
    }


async def measure(folder: Path, seconds: float) -> dict[str, Any]:
    """Everything, counted."""
    load, rows = Load(folder), list[dict[str, Any]]()
    (folder / "more.yaml").write_text("users: [{handle: zoe}]\n", encoding="utf-8")
    asking = operator_client(Installation(folder))
    async with counted(folder) as (count, _), connect(data=folder, user="bench") as client, asking as operator:
        work = asyncio.create_task(load.over_nats(client))
        for service in TURNS:
            show_progress(f"{service} is stopped")
            rows.append(await in_turns(folder, operator, service, seconds, count))
        for service in ALONE:
            show_progress(f"{service} is stopped")
            rows.append(await doubled(folder, operator, service, seconds, count))
        rows.append(await node(folder, client, count))
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
        keys = load.acknowledged
        await until(
            lambda: all(key in count.ended for key in keys), lambda: f"{sum(key not in count.ended for key in keys)} jobs left"
        )
        found = {
            "acknowledged": len(keys),
            "not_acknowledged": dict(load.failed),
            "lost": sum(key not in count.ended for key in keys),
            "ended_twice": count.twice,
            "states": dict(count.states),
            "violations": violations(count.records)[:10],
        }
    return {"rows": rows, **found, "audit_verify": await asyncio.to_thread(is_verified, folder)}


def main() -> None:
    """The table."""
    parser = options("bench.load.zombies", __doc__, "8 minutes with --seconds 60")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long each sleeps after somebody has taken over")
    parser.add_argument("--json", metavar="FILE", help="write the figures into this file as well")
    args = parser.parse_args()
    began = time.monotonic()
    with site(DOCUMENTS, "--nodes", "2", "--gpus", "32", "--standby") as folder:
        found = asyncio.run(measure(folder, args.seconds))
    if args.json:
        Path(args.json).write_text(json.dumps(found, indent=2), encoding="utf-8")
    print(f"stopped and let go on, in {time.monotonic() - began:.0f} s; {os.cpu_count()} cores")
    for row in found.pop("rows"):
        print(f"  {row.pop('what'):<12} " + ", ".join(f"{name} {value}" for name, value in row.items()))
    for name, value in found.items():
        print(f"  {name:<20} {value}")
    sys.exit(bool(found["lost"] or found["ended_twice"] or found["violations"] or not found["audit_verify"]))


if __name__ == "__main__":
    main()
