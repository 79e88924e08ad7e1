"""How far one installation goes: memory of every process, bytes of ledger, what binds first, and how long each restart takes.

`line` starts an installation with a fleet of nodes (`bench.fleet`), fills every GPU, lets jobs wait, lets some run through, and kills each
service once. `fold` is one process without NATS: the state of many nodes, running and waiting jobs, as every service holds it; its
snapshot, and the first decisions on it. `make bench-scale` is both, the line at a tenth of the scale of the fold.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from bench import calibrate
from bench.fleet import Group
from bench.installation import FLEET, cpu_seconds
from bench.layouts import memory, processes
from bench.memory import ADMITTED_AT_ONCE, DEVICES, GPUS, Stored, Tape, _resident
from bench.options import options
from bench.stage import Stage, progress, stage
from headrace.allocator.decide import Allocator
from headrace.client import Client, connect
from headrace.client.errors import Unreachable
from headrace.client.submissions import make_submission
from headrace.contracts import facts as f
from headrace.contracts.facts.fact import DeviceShare
from headrace.contracts.facts.nodes import Device
from headrace.contracts.transport.subjects import LEDGER_STREAM
from headrace.contracts.values.amounts import GPU_UNITS, JOB
from headrace.domain.fold.ledger import FoldedLedger
from headrace.domain.snapshots.snapshot import dump, load
from headrace.health.addresses import read_targets
from headrace.health.query import ask
from headrace.supervisor.installation import Installation
from headrace.supervisor.processes.pidfile import read_running
from headrace.supervisor.service_query import operator_client

TENANTS = 50
USER = "bench"
LONG = "86400"
AT_ONCE = 1_000
IDLE_SECONDS = 20.0
THROUGH_SECONDS = 20.0
BACK_WITHIN = 90.0
MIB = 2**20
KILLED = ("admission", "allocator", "preemption", "governance", "accounting", "audit")
"""Services that are killed one after the other; *feed* and *provisioner* share the process of one of them, or are as large."""


def documents(tenants: int) -> str:
    """One pool, one profile, and a policy for each tenant; no tenant has a reservation."""
    names = [f"t{number}" for number in range(tenants)]
    return msgspec.json.encode(
        {
            "tenants": [{"name": name} for name in names],
            "groups": [{"tenant": name, "name": "all", "members": [USER]} for name in names],
            "pools": [{"name": "hall", "selector": {"site": "hq"}}],
            "profiles": [{"name": "one", "request": {"gpu": 1}, "pools": ["hall"]}],
            "policies": [
                {"tenant": name, "name": "p", "group": "all", "profiles": ["one"], "max_pending": 1_000_000} for name in names
            ],
        }
    ).decode()


async def _submit(folder: Path, tenants: int, jobs: int, lasts: str) -> int:
    """Submit jobs, evenly among the tenants, until all are durable; how often the client gave up and the same jobs were sent again."""
    again = 0
    clients = [connect(data=folder, tenant=f"t{number}", user=USER) for number in range(tenants)]
    try:
        for client in clients:
            await client.__aenter__()
        for start in range(0, jobs, AT_ONCE):
            client = clients[start // AT_ONCE % tenants]
            size = min(AT_ONCE, jobs - start)
            batch = [make_submission(["sleep", lasts], trace="") for _ in range(size)]
            while True:
                try:
                    await client.submit_many("p/one", batch)
                    break
                except Unreachable as error:
                    again += 1
                    progress(f"{start:,} of {jobs:,} jobs are submitted; {error}")
            progress(f"{start + size:,} of {jobs:,} jobs are submitted")
    finally:
        for client in clients:
            await client.__aexit__()
    return again


async def _counts(client: Client) -> tuple[int, int]:
    """(pending, running) of all tenants, as governance has folded; zeros if it does not answer in time."""
    try:
        view = (await client.status()).services["governance"]
    except Unreachable:
        return 0, 0
    return (0, 0) if view is None else (view.detail["pending"], view.detail["running"])


async def _until(client: Client, pending: int, running: int, within: float) -> float:
    """Wait until this number of jobs run, and these and the pending ones are known; seconds. Raises RuntimeError."""
    began = time.monotonic()
    while True:
        found = await _counts(client)
        if found[1] >= running and found[0] + found[1] >= pending + running:
            return time.monotonic() - began
        if time.monotonic() - began > within:
            raise RuntimeError(
                f"{found[0]:,} wait and {found[1]:,} run after {within:.0f} s; it was to be {pending:,} and {running:,}"
            )
        progress(f"{found[0]:,} wait, {found[1]:,} run")
        await asyncio.sleep(1.0)


async def _stream(folder: Path) -> tuple[int, int]:
    """Messages and bytes of the ledger, as NATS stores them."""
    async with operator_client(Installation(folder)) as operator:
        state = json.loads(await operator.ask(f"$JS.API.STREAM.INFO.{LEDGER_STREAM}"))["state"]
    return int(state["messages"]), int(state["bytes"])


def _restart(folder: Path, name: str) -> float | None:
    """Seconds from the kill of a service until its health page says that it is ready again; None if it was not in `BACK_WITHIN`."""
    home = Installation(folder)
    running = read_running(home)
    child = None if running is None else running.child(name)
    if child is None:
        return None
    began = time.monotonic()
    os.kill(child.pid, signal.SIGKILL)
    while time.monotonic() - began < BACK_WITHIN:
        running = read_running(home)
        now = None if running is None else running.child(name)
        address = read_targets(home.metrics).get(name, "")
        if now is not None and now.pid not in (0, child.pid) and address:
            health = ask({address}).get(address)
            if health is not None and health.ready and health.name == name:
                return time.monotonic() - began
        time.sleep(0.1)
    return None


def _percent(before: dict[str, float], after: dict[str, float], seconds: float) -> dict[str, float]:
    found = {name: round(100 * (after[name] - before.get(name, 0.0)) / seconds, 1) for name in after}
    return dict(sorted(found.items(), key=lambda each: -each[1]))


def _rate(jobs: int, seconds: float, before: dict[str, float], after: dict[str, float]) -> dict[str, Any]:
    return {"jobs": jobs, "seconds": seconds, "per_s": jobs / seconds, "cpu_percent": _percent(before, after, seconds)}


async def line(nodes: int, pending: int, tenants: int, within: float) -> dict[str, Any]:
    """An installation with this number of nodes of eight GPUs, all of them in use, and jobs that wait."""
    began = time.monotonic()
    async with stage([Group("hq", nodes, DEVICES)], documents(tenants)) as here:
        folder, found = here.folder, dict[str, Any]()
        found["started_s"] = time.monotonic() - began
        gpus = nodes * DEVICES
        before = cpu_seconds(folder)
        filled = time.monotonic()
        found["submits_given_up"] = await _submit(folder, tenants, gpus, LONG)
        await _until(here.client, 0, gpus, within)
        took = time.monotonic() - filled
        found["fill"] = _rate(gpus, took, before, cpu_seconds(folder))
        _, size = await _stream(folder)
        before = cpu_seconds(folder)
        queued = time.monotonic()
        found["submits_given_up"] += await _submit(folder, tenants, pending, LONG)
        await _until(here.client, pending, gpus, within)
        took = time.monotonic() - queued
        found["queue"] = _rate(pending, took, before, cpu_seconds(folder))
        after_messages, after_size = await _stream(folder)
        found["ledger"] = {
            "messages": after_messages,
            "bytes": after_size,
            "bytes_of_a_running_job": size / gpus,
            "bytes_of_a_waiting_job": (after_size - size) / max(1, pending),
        }
        progress("idle: heartbeats only")
        before, began = cpu_seconds(folder), time.monotonic()
        await asyncio.sleep(IDLE_SECONDS)
        found["idle_cpu_percent"] = _percent(before, cpu_seconds(folder), time.monotonic() - began)
        _, idle = await _stream(folder)
        found["ledger"]["bytes_while_idle_a_day"] = (idle - after_size) * 86_400 / IDLE_SECONDS
        found["mib"] = {name: round(value) for name, value in sorted(_memory(here).items(), key=lambda each: -each[1])}
        found["restart_s"] = {}
        for name in KILLED:
            progress(f"{name} is killed")
            found["restart_s"][name] = await asyncio.to_thread(_restart, folder, name)
        return found


def _memory(here: Stage) -> dict[str, float]:
    """MiB of each process, proportional, with the fleet, which stands for the nodes."""
    found = memory(processes(here.folder))
    pages = (Path("/proc") / (here.folder / FLEET).read_text("utf-8") / "statm").read_text("ascii").split()[1]
    return found | {"(fleet)": int(pages) * os.sysconf("SC_PAGE_SIZE") / MIB}


def _hall(tape: Tape, nodes: int) -> Iterator[Stored]:
    """Registrations of nodes like the first one."""
    devices = tuple(Device(device=f"gpu{number}", model="H100-80GB", memory=81_920) for number in range(DEVICES))
    for number in range(2, nodes + 1):
        resources = {"cpu": 16_000 * DEVICES, "memory": 131_072 * DEVICES}
        fact = f.NodeRegisteredV1(node=f"n{number}", labels={"site": "a"}, devices=devices, at=tape.now, **resources)
        yield tape.write(f"node.n{number}", (fact,))


def _running(tape: Tape, nodes: int) -> Iterator[Stored]:
    """A job of one GPU on every device, granted and started."""
    for first in range(1, nodes + 1, ADMITTED_AT_ONCE // DEVICES):
        some = range(first, min(nodes + 1, first + ADMITTED_AT_ONCE // DEVICES))
        places = [(node, device) for node in some for device in range(DEVICES)]
        jobs = [tape.admitted(GPUS.index(GPU_UNITS)) for _ in places]
        yield tape.write("admission", tuple(jobs))
        yield tape.write(
            "allocator",
            tuple(
                f.LeaseGrantedV1(
                    job=job.job,
                    attempt=1,
                    node=f"n{node}",
                    pool="pool",
                    devices=(DeviceShare(device=f"gpu{device}", units=GPU_UNITS),),
                    amounts={**job.request, JOB: 1},
                )
                for job, (node, device) in zip(jobs, places, strict=True)
            ),
        )
        for node in some:
            facts = tuple(
                f.LeaseStartedV1(job=job.job, attempt=1, at=tape.now, isolation="none")
                for job, (at, _) in zip(jobs, places, strict=True)
                if at == node
            )
            yield tape.write(f"node.n{node}", facts)


def fold(nodes: int, pending: int) -> dict[str, Any]:
    """The state of a number of nodes, with a job on each device and jobs that wait, in this process."""
    tape, reader, size, records = Tape(), FoldedLedger(), 0, 0
    gc.disable()
    began = time.process_time()
    for what, messages in (
        ("law", tape.law()),
        ("nodes", _hall(tape, nodes)),
        ("running", _running(tape, nodes)),
        ("pending", tape.pending(pending)),
    ):
        progress(f"the fold: {what}")
        for message in messages:
            reader.read(message)
            size += len(message.payload)
            records += 1
    folded = time.process_time() - began
    gc.collect()
    resident = _resident()
    progress("the fold: snapshot")
    began = time.process_time()
    data = dump(reader.state)
    dumped = time.process_time() - began
    began = time.process_time()
    state = load(data)
    loaded = time.process_time() - began
    allocator = Allocator(state)
    decisions = []
    for _ in range(3):
        began = time.process_time()
        allocator.decide(tape.now)
        decisions.append(time.process_time() - began)
    return {
        "nodes": nodes,
        "gpus": nodes * DEVICES,
        "running": nodes * DEVICES,
        "pending": pending,
        "records": records,
        "ledger_bytes": size,
        "made_and_folded_s": folded,
        "resident_mib": resident / MIB,
        "snapshot_bytes": len(data),
        "dump_s": dumped,
        "load_s": loaded,
        "decide_s": decisions,
    }


def show(found: dict[str, Any]) -> str:
    """The figures, for people."""
    lines = [f"this machine: {calibrate.known()}, load {os.getloadavg()[0]:.1f}"]
    if "line" in found:
        lines += _shown_line(found["line"])
    if "fold" in found:
        lines += _shown_fold(found["fold"])
    return "\n".join(lines)


def _shown_line(one: dict[str, Any]) -> Sequence[str]:
    def few(percents: dict[str, float]) -> str:
        return ", ".join(f"{name} {value:.0f} %" for name, value in list(percents.items())[:6])

    def rate(name: str) -> str:
        part = one[name]
        return f"{part['jobs']:,} jobs in {part['seconds']:.0f} s, {part['per_s']:.0f}/s; CPU: {few(part['cpu_percent'])}"

    ledger, mib = one["ledger"], one["mib"]
    parts = {
        "started in": f"{one['started_s']:.0f} s, with every node registered",
        "fill": rate("fill"),
        "queue": rate("queue"),
        "given up": f"{one['submits_given_up']} times by the client, then sent again",
        "idle": f"CPU: {few(one['idle_cpu_percent'])}",
        "memory": f"{sum(mib.values()):,} MiB: " + ", ".join(f"{name} {value:,}" for name, value in mib.items()),
        "ledger": f"{ledger['bytes'] / MIB:.0f} MiB in {ledger['messages']:,} records",
        "bytes": f"{ledger['bytes_of_a_running_job']:.0f} of a job until it runs, {ledger['bytes_of_a_waiting_job']:.0f} of one that waits",
        "idle ledger": f"{ledger['bytes_while_idle_a_day'] / MIB:.0f} MiB a day",
        "ready again": ", ".join(
            f"{name} {'more than ' if value is None else ''}{value or BACK_WITHIN:.1f} s"
            for name, value in one["restart_s"].items()
        ),
    }
    title = f"line: {one['nodes']:,} nodes of {DEVICES} GPUs, {one['pending']:,} jobs that wait, {one['tenants']} tenants"
    return ("", title, *(f"  {name:<18}{text}" for name, text in parts.items()))


def _shown_fold(one: dict[str, Any]) -> Sequence[str]:
    decided = ", ".join(f"{1_000 * value:.0f}" for value in one["decide_s"])
    return (
        "",
        f"fold: {one['nodes']:,} nodes, {one['gpus']:,} GPUs in use, {one['pending']:,} jobs that wait, in one process",
        f"  memory            {one['resident_mib']:,.0f} MiB",
        f"  ledger            {one['ledger_bytes'] / MIB:,.0f} MiB in {one['records']:,} records",
        f"  made and folded   {one['made_and_folded_s']:.0f} s of CPU",
        f"  snapshot          {one['snapshot_bytes'] / MIB:,.0f} MiB, written in {one['dump_s']:.1f} s, read in {one['load_s']:.1f} s",
        f"  decisions         {decided} ms, the first three on a full hall",
    )


def main() -> None:
    parser = options("bench.scale", __doc__, "10 to 15 minutes")
    parser.add_argument("parts", nargs="*", metavar="PART", help="`line`, `fold` (default: both)")
    parser.add_argument("--nodes", type=int, default=1_000, help="of the line")
    parser.add_argument("--pending", type=int, default=100_000, help="jobs that wait in the line")
    parser.add_argument("--tenants", type=int, default=TENANTS, help="of the line")
    parser.add_argument("--fold-nodes", type=int, default=10_000, help="of the fold")
    parser.add_argument("--fold-pending", type=int, default=1_000_000, help="jobs that wait in the fold")
    parser.add_argument("--within", type=float, default=600.0, metavar="SECONDS", help="for each of filling and queueing")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    asked = parser.parse_args()
    parts, found = asked.parts or ["line", "fold"], dict[str, Any]()
    if "line" in parts:
        about = {"nodes": asked.nodes, "pending": asked.pending, "tenants": asked.tenants}
        found["line"] = about | asyncio.run(line(asked.nodes, asked.pending, asked.tenants, asked.within))
    if "fold" in parts:
        found["fold"] = fold(asked.fold_nodes, asked.fold_pending)
    print(show(found))
    if asked.json:
        speed = msgspec.to_builtins(calibrate.known())
        asked.json.write_bytes(msgspec.json.format(msgspec.json.encode({"speed": speed, **found})) + b"\n")


if __name__ == "__main__":
    main()
