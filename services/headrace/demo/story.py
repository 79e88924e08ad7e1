"""The acts and their expected results. Exit code 0 only if the results are those of the vectors."""

from __future__ import annotations

import argparse
import asyncio
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from headrace.client import HeadraceError, connect
from headrace.client.client import Client
from headrace.contracts.messages.queries import JobView
from headrace.contracts.messages.usage import UsageRequest, UsageRow
from headrace.contracts.values.amounts import GPU_UNITS
from headrace.demo.narration import Timeline, books, headline, remark

CHECKOUT = Path(__file__).resolve().parents[3]
EXAMPLES = (CHECKOUT if (CHECKOUT / "deploy").is_dir() else Path.cwd()) / "deploy" / "examples"
"""Beside the source; if Headrace is installed apart from it, in the current directory."""
"""The demo uses the examples that everyone can read, so it needs a checkout."""

GPUS = 10
PATIENCE = 30.0
"""Timeout of an act in seconds."""
PAUSE = 1.5
"""Seconds between the acts, in which jobs do work that is worth saving."""
REST = 3.0
"""Seconds for which the state must not change after V3."""
POLL_EVERY = 0.2

Check = Callable[[], Awaitable[list[str]]]


class Unexpected(Exception):
    """The results differ from the vectors."""


class Story:
    """One run of the demo. `jobs` maps the names of the story to job keys."""

    def __init__(self, client: Client, data: Path) -> None:
        self.client = client
        self.data = data
        self.jobs: dict[str, str] = {}
        self.timeline = Timeline()
        self.timeline.names[f"{data}/"] = ""

    async def play(self) -> None:
        """Play all acts. Raises `Unexpected`."""
        await self._first_act()
        await self._second_act()
        await self._third_act()
        await self._ending()
        await self._books()
        await self._cloud()

    async def _first_act(self) -> None:
        headline("V1: R&D submits five jobs of 3 GPUs. Reservation 5, limit 9, and 10 GPUs are there")
        for number in range(1, 6):
            await self._submit("rnd", f"r-{number}", "three", 100)
        states = {"r-1": "running", "r-2": "running", "r-3": "running", "r-4": "pending", "r-5": "pending"}
        await self._until(lambda: self._differences(states, {"rnd": (9, 5, 4)}, used=9))
        await self._explain("r-4", "AT_POLICY_LIMIT")
        await self._until(lambda: self._not_at_work("r-1", "r-2", "r-3"))
        remark("R&D holds 9 GPUs: 5 reserved, 4 borrowed. One GPU idles: R&D may not have it, and no other team asks for it.")
        await asyncio.sleep(PAUSE)

    async def _second_act(self) -> None:
        headline("V2: DevOps submits a job of 3. It is inside its reservation of 5, so it gets GPUs back")
        await self._submit("devops", "d", "three", 80)
        states = {"r-1": "running", "r-2": "running", "r-3": "pending", "r-4": "pending", "d": "running"}
        await self._until(lambda: self._differences(states, {"rnd": (6, 5, 1), "devops": (3, 3, 0)}, used=9))
        remark("One R&D job has yielded, the one that would lose least. It has saved its work and waits with its checkpoint.")
        await asyncio.sleep(PAUSE)

    async def _third_act(self) -> None:
        headline("V3: DevOps submits a job of 2 and rises to its reservation")
        await self._submit("devops", "e", "two", 60)
        states = {"r-1": "running", "r-2": "pending", "r-3": "pending", "d": "running", "e": "running"}
        holds = {"rnd": (3, 3, 0), "devops": (5, 5, 0)}
        await self._until(lambda: self._differences(states, holds, used=8))
        remark(f"R&D holds 3, DevOps 5. From now on nothing may move; watching for {REST:g} seconds.")
        quiet_until = time.monotonic() + REST
        while time.monotonic() < quiet_until:
            await asyncio.sleep(POLL_EVERY)
            if wrong := await self._differences(states, holds, used=8):
                raise Unexpected("V3 did not stay: " + "; ".join(wrong))

    async def _ending(self) -> None:
        headline("The jobs end, and those that yielded go on where they left off")
        await self._until(lambda: self._differences(dict.fromkeys(self.jobs, "succeeded"), {}, used=0))
        views = {name: await self.client.job(key) for name, key in self.jobs.items()}
        preempted = sorted(name for name, view in views.items() if view.preemptions)
        if preempted != ["r-2", "r-3"] or sum(view.preemptions for view in views.values()) != 2:
            raise Unexpected(f"r-2 and r-3 should have been preempted once each, it was {preempted}")
        for name in preempted:
            await self._went_on(name, views[name])

    async def _went_on(self, name: str, view: JobView) -> None:
        """Check that the second attempt of a preempted job began at the step that the first had saved."""
        resumed = view.attempts[-1].resume_from
        if len(view.attempts) != 2 or not resumed or resumed != view.checkpoint:
            raise Unexpected(f"{name} has {len(view.attempts)} attempts and went on from {resumed or 'nothing'}")
        first, second = [(await self.client.logs(view.job, attempt=attempt)).data.strip().splitlines() for attempt in (1, 2)]
        saved = first[-1].rpartition("saved at step ")[2]
        if not saved.isdecimal() or f"begins at step {saved} of" not in second[0]:
            raise Unexpected(f"{name} saved at step {saved!r}, but said {second[0]!r} when it went on")
        remark(f"{name}: attempt 1 saved at step {saved}, attempt 2 began there.")

    async def _books(self) -> None:
        headline("The books")
        rows: dict[str, UsageRow] = {}

        async def closed() -> list[str]:
            request = UsageRequest(by=("group",))
            async for page in self.client.usage(request):
                rows.update({row.group["group"]: row for row in page.rows if row.key == "gpu" and row.jobs})
            missing = {"rnd", "devops"} - set(rows)
            return [f"the books do not know {', '.join(sorted(missing))} yet"] if missing else []

        await self._until(closed)
        books(rows[name] for name in sorted(rows))
        for name, row in rows.items():
            if int(row.reserved) + int(row.borrowed) != int(row.total):
                raise Unexpected(f"reserved and borrowed of {name} do not add up to the unit")
        if int(rows["devops"].borrowed) or not int(rows["rnd"].borrowed):
            raise Unexpected("R&D should have borrowed, DevOps not")

    async def _cloud(self) -> None:
        headline("Overflow: the hall is full, so a node comes from the cloud, and leaves again")
        await self._apply("overflow.yaml")
        await self._submit("night", "n-1", "all", 600)
        await self._until(lambda: self._not_in({"n-1": "running"}))
        await self._submit("night", "n-2", "all", 20)
        await self._until(lambda: self._not_in({"n-2": "succeeded"}))
        (instance,) = [one for one in await self.client.instances() if one.provider_id]
        nodes = (await self.client.job(self.jobs["n-2"])).attempts[-1].nodes
        if nodes != (instance.instance,):
            raise Unexpected(f"n-2 ran on {', '.join(nodes)}, expected {instance.instance}")
        remark(f"n-2 ran on {instance.instance}, ordered by offer {instance.offer} at {instance.price} an hour.")
        await self.client.cancel(self.jobs["n-1"])
        await self._until(self._cloud_differences)
        remark("It has left: two seconds idle, cordoned, ended, and no longer a node.")

    async def _cloud_differences(self) -> list[str]:
        """What is left of the cloud."""
        there = [f"node {node.name} is there" for node in await self.client.nodes() if node.pool == "cloud"]
        left = [f"{one.instance} is {one.stage}" for one in await self.client.instances() if not one.ended_at]
        return there + left + await self._not_in({"n-1": "cancelled"})

    async def _not_in(self, states: dict[str, str]) -> list[str]:
        """Jobs that are not in the states expected of them."""
        found = {name: (await self.client.job(self.jobs[name])).state for name in states}
        return [f"{name} is {found[name]}, expected {wanted}" for name, wanted in states.items() if found[name] != wanted]

    async def _apply(self, example: str) -> None:
        command = [sys.executable, "-m", "headrace.cli.main", "apply", "--data", str(self.data), "-f", str(EXAMPLES / example)]
        process = await asyncio.create_subprocess_exec(*command)
        if await process.wait():
            raise Unexpected(f"{example} could not be applied")

    async def _submit(self, group: str, name: str, profile: str, steps: int) -> None:
        user = {"rnd": "alice", "devops": "carol", "night": "erin"}[group]
        async with connect(data=self.data, user=user) as owner:
            command = [sys.executable, str(EXAMPLES / "train.py"), str(steps), "0.1"]
            job = await owner.submit(f"{group}/{profile}", command, name=name)
            await owner.judged(job.id)
        self.jobs[name] = job.key
        self.timeline.names[job.id] = name

    async def _until(self, differences: Check) -> None:
        """Print events until the state is as expected; raises `Unexpected` after PATIENCE."""
        deadline = time.monotonic() + PATIENCE
        while True:
            wrong = await differences()
            self.timeline.print_new({name: await self.client.facts(key) for name, key in self.jobs.items()})
            if not wrong:
                return
            if time.monotonic() > deadline:
                raise Unexpected("; ".join(wrong))
            await asyncio.sleep(POLL_EVERY)

    async def _differences(self, states: dict[str, str], holds: dict[str, tuple[int, int, int]], used: int) -> list[str]:
        wrong = []
        for name, wanted in states.items():
            try:
                found = (await self.client.job(self.jobs[name])).state
            except HeadraceError as error:
                found = str(error)
            if found != wanted:
                wrong.append(f"{name} is {found}, expected {wanted}")
        for queue in await self.client.queues():
            scope = next((scope for scope in queue.scopes if scope.key == "gpu"), None)
            if queue.policy in holds and scope is not None:
                found_amounts = tuple(amount // GPU_UNITS for amount in (scope.used, scope.reserved, scope.borrowed))
                if found_amounts != holds[queue.policy]:
                    wrong.append(f"{queue.policy} holds {found_amounts}, expected {holds[queue.policy]}")
        for pool in await self.client.pools():
            in_use = next((key.used // GPU_UNITS for key in pool.keys if key.key == "gpu"), 0)
            if in_use != used:
                wrong.append(f"{in_use} GPUs are in use, expected {used}")
        return wrong

    async def _not_at_work(self, *names: str) -> list[str]:
        """Jobs whose program has not begun yet: a preempted one would have nothing to save."""
        outputs = {name: (await self.client.logs(self.jobs[name])).data for name in names}
        return [f"{name} has not begun" for name, output in outputs.items() if "begins" not in output]

    async def _explain(self, name: str, reason: str) -> None:
        why = await self.client.why(self.jobs[name])
        if why.reason != reason:
            raise Unexpected(f"{name} waits because of {why.reason or 'nothing'}, expected {reason}")
        remark(f"why {name} waits: {why.reason}: {why.message}")


def main(argv: list[str] | None = None) -> int:
    """Run `headrace demo`; returns 0 if the results are those of the vectors."""
    parser = argparse.ArgumentParser(
        prog="headrace demo", description="Play V1-V3, and an overflow to a cloud, with real processes."
    )
    parser.add_argument("--keep", action="store_true", help="keep the installation's folder, and say where it is")
    arguments = parser.parse_args(argv)
    began = time.monotonic()
    folder = tempfile.mkdtemp(prefix="headrace-demo-")
    try:
        return _play_in(Path(folder), began)
    finally:
        if arguments.keep:
            print(f"The installation's folder is {folder}")
        else:
            _remove(Path(folder))


def _play_in(folder: Path, began: float) -> int:
    command = [sys.executable, "-m", "headrace.cli.main"]
    data = ["--data", str(folder)]
    headline(f"Starting NATS, PostgreSQL, the services and a node with {GPUS} simulated GPUs")
    up = [*command, "up", *data, "--nodes", "1", "--gpus", str(GPUS), "--detach"]
    if subprocess.run(up, check=False).returncode:
        return 1
    try:
        apply = [*command, "apply", *data, "-f", str(EXAMPLES / "two-teams.yaml")]
        if subprocess.run(apply, check=False).returncode:
            return 1
        asyncio.run(_play(folder))
    except (Unexpected, HeadraceError) as error:
        print(f"\nThis is not what the vectors say: {error}", file=sys.stderr)
        return 1
    else:
        headline("All of it is what the vectors say")
        remark(f"{time.monotonic() - began:.0f} seconds, starting and stopping included.")
        return 0
    finally:
        subprocess.run([*command, "down", *data], check=False)


async def _play(folder: Path) -> None:
    async with connect(data=folder) as client:
        await Story(client, folder).play()


def _remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
