"""Kills what creates nodes again and again, and judges by the providers' own records: `make chaos-burst KILLS=500 [SEED=7]`.

A real installation without nodes of its own: every job runs on an instance, of provider `local` or of EC2 as moto plays it behind a proxy
with faults. Provisioner, allocator and NATS are killed (-9) at random moments, the provisioner also in the middle of calls. Afterwards no
instance may be left or have been made twice, none may have been ended under a job, and the books have to name the times that the
providers bill. Then spot notices, a cap, and the end of the whole control plane. Exit code 1 where a promise was broken.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import asyncpg
import psutil
import structlog

from headrace.client import connect
from headrace.client.client import Client
from headrace.client.errors import HeadraceError
from headrace.client.submissions import make_submission
from headrace.supervisor.installation import Installation
from headrace.supervisor.processes.postgres import address
from tests.chaos.clouds import JOB, Bill, Ec2Cloud, LocalCloud, now
from tests.chaos.judging import Verdict, read_ledger, see_books, see_jobs, see_rules
from tests.chaos.place import Place

PARTS = ("provisioner", "allocator", "nats-server")
STARTS, WORKS = (0.0, 5.0), (5.0, 20.0)
"""Ages in seconds at which a process is killed: while it starts, one time of four, or later."""
LASTS = (5.0, 20.0)
"""Seconds of a job: longer than a node takes to come, so that one that was ordered is still needed then, and its pool stays open."""
REST_WITHIN = 600.0
"""Seconds until nothing runs any more that costs money, if no job waits for a pool that is closed."""
ORPHAN_AFTER = 60
NOTICE = 90
"""Seconds from a notice to its deadline."""
SPARE = 20.0
AT_A_TIME = 4
CAP, PRICE = 5.0, 60.0
"""Of the pool with a cap: its cap, and the price of an hour of an instance."""
EC2_SAYS_SECONDS = 1_000_000
"""EC2 notes begin and end of an instance in whole seconds."""
EC2_ANSWERS_WITHIN = 5_000_000
"""The books have the moment at which EC2 answered the call that ended an instance; a busy machine may take this long for a call."""
SETTLE = 20.0

DOCUMENTS = """
groups: [{{name: all, members: [ann]}}]
pools:
  - name: near
    selector: {{site: near}}
    burst: {{provider: local, max_nodes: {near}, boot: 60s, idle: {idle}s, orphan_after: {orphan_after}s,
            offers: [{{name: first, price: "1"}}, {{name: second, price: "2"}}],
            node: {{gpus: 2, gpu_model: H100-80GB, cpus: 8, memory: 16GiB}}}}
  - name: far
    selector: {{site: far}}
    burst: {{provider: ec2, max_nodes: 3, boot: 60s, idle: {idle}s, orphan_after: {orphan_after}s, image: ami-12c6146b,
            offers: [{{name: b, type: p4d.24xlarge, region: us-east-1, zone: us-east-1b, price: "1"}},
                     {{name: c, type: p4d.24xlarge, region: us-east-1, zone: us-east-1c, price: "2"}}],
            node: {{gpus: 2, gpu_model: H100-80GB, cpus: 8, memory: 16GiB}}}}
  - name: capped
    selector: {{site: capped}}
    burst: {{provider: local, max_nodes: 2, boot: 30s, idle: 2s, orphan_after: {orphan_after}s, cap: "{cap}",
            offers: [{{name: dear, price: "{price}"}}], node: {{gpus: 2, gpu_model: H100-80GB, cpus: 8, memory: 16GiB}}}}
profiles:
  - {{name: near, request: {{gpu: 1}}, pools: [near]}}
  - {{name: far, request: {{gpu: 1}}, pools: [far]}}
  - {{name: whole, request: {{gpu: 2}}, pools: [near]}}
  - {{name: capped, request: {{gpu: 2}}, pools: [capped]}}
policies:
  - {{name: p, group: all, profiles: [near, far, whole, capped], preemption: {{callback_grace: 30s, term_grace: 2s}}}}
"""

SCRIPT = """#!/bin/bash
# A job of SECONDS. It says if an attempt runs twice, and if it is told to stop.
mkdir "$WITNESS/ran/$HEADRACE_JOB_ID.$HEADRACE_ATTEMPT" 2>/dev/null || echo "$HEADRACE_JOB_ID $HEADRACE_ATTEMPT" >> "$WITNESS/ran-twice"
trap 'echo "$HEADRACE_JOB_ID $HEADRACE_ATTEMPT" >> "$WITNESS/stopped"; kill %1; exit 143' TERM
sleep "$1" & wait
"""

SAVE = 'date > "$HEADRACE_CHECKPOINT_DIR/step.tmp" && mv "$HEADRACE_CHECKPOINT_DIR/step.tmp" "$HEADRACE_CHECKPOINT_DIR/step"'


class BurstPlace(Place):
    """The installation. `environment`: variables by which boto3 finds the other cloud."""

    def prepare(self) -> None:
        super().prepare()
        self.job = self.folder / JOB
        self.job.write_text(SCRIPT)
        self.job.chmod(0o755)

    def up(self, *more: str) -> None:
        self.headrace("up", "--detach", "--nodes", "0", "--layout", "apart", "--jobs-are-trusted", *more)

    def apply(self, **changed: object) -> None:
        """The documents, with what is changed in them."""
        fields = {"near": 3, "idle": 20, "orphan_after": ORPHAN_AFTER, "cap": f"{CAP:g}", "price": f"{PRICE:g}", **changed}
        documents = self.folder / "documents.yaml"
        documents.write_text(DOCUMENTS.format(**fields))
        self.headrace("apply", "-f", str(documents))

    def dsn(self) -> str:
        """Where the books are."""
        installation = Installation(self.data)
        return address(installation.postgres, installation.postgres_password())


class Campaign:
    """One run."""

    def __init__(self, place: BurstPlace, options: argparse.Namespace) -> None:
        self.place = place
        self.options = options
        self.chance = random.Random(f"burst {options.seed}")
        self.near = LocalCloud(place.data)
        self.far = Ec2Cloud(place.folder / "machines", random.Random(f"ec2 {options.seed}"), self._kill_provisioner)
        self.acknowledged: dict[str, int] = {}
        self.kills: Counter[str] = Counter()
        self.twice: set[str] = set()
        self.found: dict[str, Any] = {"seed": options.seed}
        self.verdict = Verdict()
        self._client: Client | None = None

    # Jobs

    async def submit(self, queue: str, seconds: float, **options: Any) -> str:
        """One job; its key. Asked again until there is an answer."""
        witness = {"WITNESS": str(self.place.witness)}
        submission = make_submission([str(self.place.job), f"{seconds:.1f}"], env=witness, **options)
        await self.ask(lambda hr: hr.submit_many(f"p/{queue}", [submission]))
        key = f"default.ann.{submission.id}"
        self.acknowledged[key] = 0
        return key

    async def cancel(self, jobs: list[str]) -> None:
        """End them; where they run they exit with 143."""
        for job in jobs:
            self.acknowledged[job] = 143
            await self.ask(lambda hr, job=job: hr.cancel(job))

    async def ask(self, question: Callable[[Client], Awaitable[Any]]) -> Any:
        """The answer, however long everything is away."""
        while True:
            try:
                async with asyncio.timeout(8):
                    if self._client is None:
                        self._client = await connect(data=self.place.data, user="ann").__aenter__()
                    return await question(self._client)
            except (HeadraceError, OSError, TimeoutError, ValueError):
                if self._client is not None:
                    with suppress(Exception):
                        await self._client.__aexit__()
                    self._client = None
                await asyncio.sleep(0.3)

    async def load(self) -> None:
        """Until cancelled: a few jobs for each pool at a time, and then nothing, so that nodes come and go."""
        while True:
            for queue in ("near", "far"):
                for _ in range(self.chance.randrange(7)):
                    await self.submit(queue, self.chance.uniform(*LASTS))
            await asyncio.sleep(self.chance.uniform(10.0, 60.0))

    # Kills

    def _kill_provisioner(self) -> bool:
        """From the proxy: its answer does not arrive any more."""
        if self.place.signal("provisioner", signal.SIGKILL):
            self.kills["provisioner in a call"] += 1
            return True
        return False

    async def kill(self, part: str) -> None:
        """Again and again, whenever it has run for a random while."""
        while True:
            age = self.chance.uniform(*(STARTS if self.chance.random() < 0.25 else WORKS))
            while _age(pid := self.place.pid(part)) < age:
                await asyncio.sleep(0.05)
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                self.kills[part] += 1
            while self.place.pid(part) == pid:
                await asyncio.sleep(0.05)

    async def count_executors(self) -> None:
        """Until cancelled: no instance has two executors."""
        while True:
            found = await asyncio.to_thread(self.near.processes)
            self.twice |= {name for name, count in found.items() if count > 1}
            await asyncio.sleep(2.0)

    async def run_kills(self) -> None:
        """Kill until it was enough, then wait until nothing runs that costs money."""
        began = time.monotonic()
        self.far.faulty = True
        work = [asyncio.create_task(one) for one in (self.load(), self.count_executors(), *map(self.kill, PARTS))]
        while self.kills.total() < self.options.kills and time.monotonic() - began < self.options.minutes * 60:
            await asyncio.sleep(1.0)
            for task in work:
                if task.done():
                    task.result()
            if int(time.monotonic() - began) % 20 == 0:
                self._say(began)
        self.far.faulty = False
        for task in work:
            task.cancel()
        await asyncio.gather(*work, return_exceptions=True)
        broke = time.monotonic() - began
        await asyncio.sleep(SETTLE)
        pending = await self.ask(lambda hr: hr.jobs(states=("pending",)))
        for job in pending if self.options.cancel else ():
            await self.ask(lambda hr, job=job: hr.cancel(job.id))
        await self.until_rest("after the kills", REST_WITHIN + 60 * self.options.opening)
        self.found |= {
            "kills": dict(self.kills),
            "seconds": round(broke),
            "waited_for_closed_pools": len(pending),
            "rest_after_s": round(time.monotonic() - began - broke),
        }

    def _say(self, began: float) -> None:
        print(
            f"{time.monotonic() - began:5.0f} s  {self.kills.total()} kills, {len(self.acknowledged)} jobs, "
            f"{len(self.near.bills())} + {len(self.far.bills())} instances, {len(self.near.running())} + "
            f"{len(self.far.running())} of them run",
            flush=True,
        )

    async def until_rest(self, when: str, within: float = REST_WITHIN) -> None:
        """Until every job has ended, and no instance lives, by the ledger and by the providers."""
        deadline, living, left = time.monotonic() + within, ["?"], {"?"}
        while time.monotonic() < deadline:
            views = await self.ask(lambda hr: hr.instances())
            living = [f"{one.instance} {one.stage}" for one in views if not one.ended_at]
            left = self.near.running() | self.far.running()
            if not living and not left and not await self.waiting():
                return
            await asyncio.sleep(1.0)
        pending = [job.id for job in await self.ask(lambda hr: hr.jobs(states=("pending",)))]
        what = f"{len(left)} instances run, {len(living)} live in the ledger, {len(pending)} jobs wait"
        self.verdict.wrong(f"{when}: {what}", [*left, *living, *pending])

    async def waiting(self) -> int:
        """Jobs that have not ended."""
        return len(await self.ask(lambda hr: hr.jobs(states=("pending", "starting", "running", "suspended", "stopping"))))

    # Notices

    async def run_notices(self) -> None:
        """As many spot notices as asked for: each job has saved its work, and that is registered before the deadline."""
        wanted = self.options.notices
        if not wanted:
            return
        await asyncio.to_thread(self.place.apply, near=AT_A_TIME)
        jobs = [await self.submit("whole", 36_000, on_abort=["sh", "-c", SAVE]) for _ in range(min(AT_A_TIME, wanted))]
        deadlines: dict[tuple[str, int], int] = {}
        began = time.monotonic()
        while len(deadlines) < wanted and time.monotonic() - began < self.options.minutes * 60:
            for job in jobs:
                view = await self.ask(lambda hr, job=job: hr.job(job))
                attempt = view.attempts[-1] if view.attempts else None
                if (
                    view.state != "running"
                    or attempt is None
                    or (job, attempt.attempt) in deadlines
                    or len(deadlines) == wanted
                ):
                    continue
                await asyncio.sleep(0.3)  # so that there is something to save
                deadlines[job, attempt.attempt] = now() + NOTICE * 1_000_000
                self.near.take_back(attempt.nodes[0], deadlines[job, attempt.attempt])
            await asyncio.sleep(0.3)
        await asyncio.sleep(SETTLE)
        await self.cancel(jobs)
        await self.until_rest("after the notices")
        saved = await self._saved()
        late = [f"{key}" for key, deadline in deadlines.items() if saved.get(key, deadline) >= deadline]
        self.found["notices"] = {
            "sent": len(deadlines),
            "saved_before_the_deadline": len(deadlines) - len(late),
            "least_left_s": round(min(((d - saved.get(key, d)) / 1e6 for key, d in deadlines.items()), default=0), 1),
        }
        if late or len(deadlines) < wanted:
            self.verdict.wrong(f"{len(deadlines)} notices of {wanted}, {len(late)} without a checkpoint in time", late)

    async def _saved(self) -> dict[tuple[str, int], int]:
        """When the ledger had the first checkpoint of an attempt."""
        saved: dict[tuple[str, int], int] = {}
        for message in await read_ledger(self.place):
            for fact in json.loads(message.payload)["facts"]:
                if fact["type"] == "checkpoint.registered.v1":
                    saved.setdefault((fact["job"], fact["attempt"]), message.stamped)
        return saved

    # A cap

    async def run_cap(self) -> None:
        """A pool spends its cap while the provisioner is killed: by its provider's record, how far it is overrun."""
        if not self.options.cap:
            return
        jobs = [await self.submit("capped", 36_000) for _ in range(2)]
        began, ended = time.monotonic(), False
        while not ended and time.monotonic() - began < 600:
            await asyncio.sleep(self.chance.uniform(*WORKS))
            self.kills["provisioner"] += bool(self.place.signal("provisioner", signal.SIGKILL))
            bills = self._capped()
            ended = bool(bills) and all(bill.ended for bill in bills) and _cost(bills) >= CAP / 2
        await self.cancel(jobs)
        await self.until_rest("after the cap")
        cost = _cost(self._capped())
        self.found["cap"] = {
            "cap": CAP,
            "cost": round(cost, 3),
            "overrun_node_s": round(max(0.0, cost - CAP) * 3_600 / PRICE, 1),
        }
        if not ended or (cost - CAP) * 60 > PRICE:
            self.verdict.wrong(f"a cap of {CAP:g} was overrun by more than a node-minute, or never reached: {cost:g}")

    def _capped(self) -> list[Bill]:
        return [bill for bill in self.near.bills() if bill.name.startswith("capped-")]

    # Judgement

    async def judge(self) -> None:
        """What the ledger, the books and the providers say."""
        verdict = self.verdict
        verdict.violations += self.far.wrong
        bills = {"local": self.near.bills(), "ec2": self.far.bills()}
        for provider, there in bills.items():
            again = [name for name, count in Counter(bill.name for bill in there).items() if count > 1]
            if again:
                verdict.wrong(f"made twice by {provider}", again)
        if self.twice:
            verdict.wrong("instances with two executors", self.twice)
        if (self.place.witness / "ran-twice").exists():
            verdict.wrong("attempts ran twice", (self.place.witness / "ran-twice").read_text().splitlines())
        messages = await read_ledger(self.place)
        see_jobs(verdict, messages, self)  # type: ignore[arg-type]
        see_rules(verdict, messages)
        await see_books(verdict, messages, self.place)
        under = ended_under_leases(messages)
        if under:
            verdict.wrong("instances that were ended under a lease", under)
        self._see_stops(messages)
        await self._see_bills(bills)

    def _see_stops(self, messages: list[Any]) -> None:
        """The ledger has an order for every job that was stopped."""
        path = self.place.witness / "stopped"
        stopped = set(path.read_text().splitlines()) if path.exists() else set()
        ordered = set()
        for message in messages:
            for fact in json.loads(message.payload)["facts"]:
                if fact["type"] == "stop.ordered.v1":
                    ordered.add(f"{fact['job'].rpartition('.')[2]} {fact['attempt']}")
        if stopped - ordered:
            self.verdict.wrong("jobs that were stopped without an order", stopped - ordered)

    async def _see_bills(self, bills: dict[str, list[Bill]]) -> None:
        """The books name the same instances with the same times as the providers."""
        connection = await asyncpg.connect(self.place.dsn())
        try:
            rows = await connection.fetch("SELECT instance, provider, created_at, ended_at FROM headrace.instances")
        finally:
            await connection.close()
        booked = {row["instance"]: row for row in rows if row["created_at"] is not None}
        differing, sums = [], {"local": [0.0, 0.0], "ec2": [0.0, 0.0]}
        for provider, there in bills.items():
            within, later = (EC2_SAYS_SECONDS, EC2_ANSWERS_WITHIN) if provider == "ec2" else (2_000, 0)
            for bill in there:
                row = booked.pop(bill.name, None)
                if row is None:
                    differing.append(f"{bill.name} is not in the books")
                    continue
                times = [round(row[name].timestamp() * 1e6) for name in ("created_at", "ended_at")]
                ended_well = bill.ended <= 1 or -within <= times[1] - bill.ended <= within + later
                if abs(times[0] - bill.began) > within or not ended_well:
                    differing.append(f"{bill.name}: books {times}, provider {[bill.began, bill.ended]}")
                sums[provider][0] += (times[1] - times[0]) / 1e6
                sums[provider][1] += (max(bill.ended, bill.began) - bill.began) / 1e6 if bill.ended > 1 else 0.0
        differing += [f"{name} is in the books only" for name in booked]
        if differing:
            self.verdict.wrong(f"{len(differing)} instances are billed otherwise than the books have them", differing)
        self.found |= {"instances": {name: len(there) for name, there in bills.items()}}
        self.found |= {"node_seconds_books_and_bills": {name: [round(one, 1) for one in both] for name, both in sums.items()}}

    # The end of the control plane

    async def run_end(self) -> None:
        """Everything but the instances is killed: how long until the last one has ended by itself."""
        if not self.options.end:
            return
        await asyncio.to_thread(self.place.apply, idle=3_600)
        for queue in ("near", "far"):
            for _ in range(2):
                await self.submit(queue, 5.0)
        deadline = time.monotonic() + 240
        while time.monotonic() < deadline and (await self.waiting() or not self.near.running() or not self.far.running()):
            await asyncio.sleep(0.5)
        there = self.near.running() | self.far.running()
        running = self.place.running()
        began = time.monotonic()
        for pid in [running.pid, *(child.pid for child in running.children if child.pid)] if running is not None else []:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        while (left := self.near.running() | self.far.running()) and time.monotonic() - began < 3 * ORPHAN_AFTER + 60:
            await asyncio.sleep(0.5)
        took = time.monotonic() - began
        self.found["control_plane_deleted"] = {
            "instances": len(there),
            "gone_after_s": round(took, 1),
            "orphan_after_s": ORPHAN_AFTER,
        }
        if left or not there or took > ORPHAN_AFTER + SPARE:
            self.verdict.wrong(f"of {len(there)} instances {len(left)} were left {took:.0f} s after the control plane", left)

    async def run(self) -> dict[str, Any]:
        """All of it."""
        await self.run_kills()
        await self.run_notices()
        await self.run_cap()
        await self.judge()
        await self.run_end()
        if self._client is not None:
            with suppress(Exception):
                await self._client.__aexit__()
        return self.found | {"jobs": len(self.acknowledged), "violations": self.verdict.violations}


def _age(pid: int) -> float:
    """Seconds since a process began; -1 without one."""
    try:
        return time.time() - psutil.Process(pid).create_time() if pid else -1.0
    except psutil.NoSuchProcess:
        return -1.0


def _cost(bills: list[Bill]) -> float:
    return sum(((bill.ended if bill.ended > 1 else now()) - bill.began) / 3.6e9 * PRICE for bill in bills)


def ended_under_leases(messages: list[Any]) -> list[str]:
    """Instances whose end was stated while their node held a lease and was there."""
    held: dict[tuple[str, int, int], str] = {}
    away: set[str] = set()
    released: set[str] = set()
    gone: set[str] = set()
    found = []
    for message in messages:
        for fact in json.loads(message.payload)["facts"]:
            kind, node = fact["type"], fact.get("node", "")
            lease = fact.get("job", ""), fact.get("attempt", 0), fact.get("rank", 0)
            if kind == "lease.granted.v1" and node not in released | gone:
                held[lease] = node
            elif kind in ("lease.ended.v1", "lease.revoked.v1"):
                held.pop(lease, None)
            elif kind in ("node.lost.v1", "node.stopped.v1"):
                away.add(node)
            elif kind == "node.registered.v1":
                away.discard(node)
            elif kind == "instance.released.v1":
                if fact["cause"] not in ("idle", "unused") or fact["instance"] not in held.values():
                    released.add(fact["instance"])
            elif kind == "instance.ended.v1":
                gone.add(fact["instance"])
                if fact["instance"] not in away and fact["instance"] in held.values():
                    found.append(f"{fact['instance']} at {message.sequence}: {fact['cause']}")
    return found


def main(arguments: list[str] | None = None) -> int:
    """0: nothing leaked, nothing was made twice, nothing was ended under a lease, and the books are right."""
    parser = argparse.ArgumentParser(prog="make chaos-burst", description=__doc__)
    parser.add_argument("--kills", type=int, default=500, help="kills of provisioner, allocator and NATS (default: 500)")
    parser.add_argument("--notices", type=int, default=100, help="spot notices (default: 100)")
    parser.add_argument("--minutes", type=float, default=120.0, help="at most so long for the kills (default: 120)")
    parser.add_argument("--seed", default=str(random.SystemRandom().randrange(10_000)), help="default: by chance")
    parser.add_argument(
        "--cancel",
        action="store_true",
        help="cancel what waits after the kills for pools and offers that are closed for a time",
    )
    parser.add_argument(
        "--opening", type=float, default=70.0, metavar="MINUTES", help="how long they may take to open (default: 70)"
    )
    parser.add_argument("--no-cap", dest="cap", action="store_false", help="without the pool with a cap")
    parser.add_argument("--no-end", dest="end", action="store_false", help="without the end of the control plane")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    parser.add_argument("--keep", action="store_true", help="leave the installation's files where they are")
    options = parser.parse_args(arguments)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    folder = Path(tempfile.mkdtemp(prefix="headrace-burst-"))
    folder.chmod(0o711)
    place = BurstPlace(folder)
    place.prepare()
    campaign = Campaign(place, options)
    os.environ.update(campaign.far.environment)
    print(f"seed {options.seed}, {folder}", flush=True)
    try:
        place.up()
        while json.loads(place.tried("status", "--json").stdout or "{}").get("level", {}).get("stated", 0) < 3:
            time.sleep(0.5)
        place.apply()
        found = asyncio.run(campaign.run())
    finally:
        place.end(keep=True)
        campaign.far.close()
        for name in campaign.near.running():
            with suppress(ProcessLookupError):
                os.kill(_executor(place, name), signal.SIGKILL)
        if not options.keep:
            shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps(found, indent=1), flush=True)
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    return 1 if found["violations"] else 0


def _executor(place: BurstPlace, name: str) -> int:
    return int((place.data / "burst/local" / name / "pid").read_text().split()[0])


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        sys.exit(main())
    sys.exit(130)
