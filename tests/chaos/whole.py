"""What a whole installation loses when it loses a part: any process, a node with all it had, the database, or everything."""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import psutil

from headrace.client import connect
from headrace.contracts.messages.usage import UsageRequest
from tests.chaos.judging import FIELDS, read_ledger
from tests.chaos.load import Load
from tests.chaos.place import EXECUTORS, PARTS, Place
from tests.chaos.watching import Watching

ROUNDS = 2
RATE = 4.0
PATIENCE = 180.0


async def losses(folder: Path) -> list[Any]:
    """(what, times, acknowledged, lost, note) of each."""
    place = Place(folder)
    place.prepare()
    await asyncio.to_thread(place.up)
    await asyncio.to_thread(place.govern)
    load = Load(place, random.Random("durability"), RATE)
    watching = Watching(place, load)
    following = asyncio.create_task(watching.follow())
    try:
        killed = await _kills(place, load, watching)
        node = await _node(place, load, watching)
        books = await _books(place)
        everything = await from_backup(place)
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        await watching.close()
        place.end(keep=False)
    return [killed, node, books, everything]


async def _kills(place: Place, load: Load, watching: Watching) -> Any:
    submits = asyncio.create_task(load.run())
    await asyncio.sleep(3.0)
    slowest = 0.0
    for part in PARTS * ROUNDS:
        began = asyncio.get_running_loop().time()
        while not place.signal(part, signal.SIGKILL) and asyncio.get_running_loop().time() - began < PATIENCE:
            await asyncio.sleep(0.1)
        took = await watching.until_back(part, _now(), PATIENCE)
        if took is None:
            raise RuntimeError(f"{part} is not back {PATIENCE:g} s after it was killed")
        slowest = max(slowest, took)
        await asyncio.sleep(0.5)
    submits.cancel()
    await asyncio.gather(submits, return_exceptions=True)
    await _until_ended(load)
    note = f"each of {len(PARTS)} processes {ROUNDS} times; at work again after {slowest:.1f} s at most"
    return ("kill -9", ROUNDS * len(PARTS), len(load.acknowledged), len(load.open), note)


async def _node(place: Place, load: Load, watching: Watching) -> Any:
    """Its executor, its jobs' processes and its directory are gone at once; what comes back under its name knows nothing."""
    before, moved = set(load.acknowledged), 0
    async with connect(data=place.data, user="ann") as client:
        for _ in range(18):
            job = await client.submit("batch/one", [str(place.job), "15", "0"], env={"WITNESS": str(place.witness)})
            load.acknowledged[job.key] = 0
            load.open.add(job.key)
        await asyncio.sleep(6.0)
        name = EXECUTORS[-1].removeprefix("node-")
        jobs = await client.jobs(states=("running",))
        moved = sum(name in job.attempts[-1].nodes for job in jobs)
    directory = place.data / "nodes" / name
    place.signal(EXECUTORS[-1], signal.SIGKILL)
    for process in psutil.process_iter():
        try:
            if str(directory) in " ".join(process.cmdline()) or process.environ().get("HEADRACE_CONTROL_DIR", "").startswith(
                str(directory)
            ):
                os.kill(process.pid, signal.SIGKILL)
        except (psutil.Error, ProcessLookupError):
            continue
    shutil.rmtree(directory, ignore_errors=True)
    await _until_ended(load)
    fresh = set(load.acknowledged) - before
    requeued = watching.counts["job.requeued.v1"]
    note = f"{moved} jobs ran there; {requeued} attempts were begun again in all"
    return ("a node, with its jobs and its directory", 1, len(fresh), len(load.open & fresh), note)


async def _books(place: Place) -> Any:
    """PostgreSQL's directory is removed; the books are made again from the ledger, and say the same."""
    messages = await read_ledger(place)
    until = max(json.loads(message.payload)["now"] for message in messages)
    before = await _usage(place, until)
    await asyncio.to_thread(place.down)
    shutil.rmtree(place.data / "postgres")
    await asyncio.to_thread(place.up)
    after = await _usage(place, until)
    differing = [name for name in before | after if before.get(name) != after.get(name)]
    note = f"lines of the books, from {len(messages)} records" + "".join(
        f"; {before.get(name)} became {after.get(name)}" for name in differing[:1]
    )
    return ("PostgreSQL, with its directory", 1, len(before), len(differing), note)


async def from_backup(place: Place) -> Any:
    """All NATS servers with their disks, and everything else, are gone; another directory is filled out of the last backup, and goes on."""
    file = place.folder / "backup.tar"
    through = json.loads(await asyncio.to_thread(place.headrace, "backup", str(file), "--json"))["through"]
    before = await read_ledger(place)
    await asyncio.to_thread(place.down)
    shutil.rmtree(place.data)
    again = Place(place.folder / "again")
    again.folder.mkdir(mode=0o711)
    try:
        await asyncio.to_thread(again.headrace, "restore", str(file))
        await asyncio.to_thread(again.up)
        async with connect(data=again.data, user="ann") as client:
            job = await client.submit("batch/one", ["true"])
            after = await read_ledger(again)
            state = (await client.wait(job.id)).state
    finally:
        again.end(keep=False)
    there = {message.sequence: message.payload for message in after}
    lost = sum(there.get(message.sequence) != message.payload for message in before if message.sequence <= through)
    return ("everything, with all disks: out of a backup", 1, through, lost, f"records of the ledger; the next job {state}")


async def _usage(place: Place, until: int) -> dict[Any, Any]:
    async with connect(data=place.data) as client:
        question = UsageRequest(since=until - 86_400_000_000, until=until, by=(*FIELDS, "job"))
        pages = [page async for page in client.usage(question)]
    return {(*sorted(row.group.items()), row.key): row for page in pages for row in page.rows}


async def _until_ended(load: Load) -> None:
    deadline = asyncio.get_running_loop().time() + PATIENCE
    while load.open and asyncio.get_running_loop().time() < deadline:
        await asyncio.sleep(0.2)


def _now() -> int:
    return time.time_ns() // 1_000
