"""What a cloud behind a full hall brings and costs, and what it takes to keep it: `python -m bench.bursting philly|reconcile|order`.

`philly`: the six Philly weeks on 80 nodes of one's own, which cost 1 for each GPU and hour whether used or not, and behind them no
cloud, clouds of some nodes at three times that price, and one that always has enough. The engine is the whole of it, with the provisioner:
instances boot for five minutes and leave after ten idle ones. Jobs save their work when they are told to stop.
`reconcile`: processor time of one comparison of a list of instances with the ledger, and of the rounds of a minute.
`order`: from a submit that no node can take to the call of the provider, in a real installation on this machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from msgspec import structs

from bench import philly, trace
from bench.options import options
from headrace.contracts import facts as f
from headrace.contracts.documents.model import Burst, BurstNode, Offer, Pool
from headrace.contracts.facts.writers import PROVISIONER
from headrace.contracts.transport.subjects import node_writer
from headrace.contracts.values.durations import HOUR, MINUTE, SECOND
from headrace.provisioner.decide import PAUSE_EACH, Provisioner
from headrace.provisioner.providers import Listed
from headrace.provisioner.reconcile import compare
from headrace.simulate.scenario import Nodes, Scenario
from headrace.simulate.world import World

HALL = 80
MODEL = "H100-80GB"
CLOUDS = {"no cloud": 0, "10 nodes": 10, "40 nodes": 40, "always enough": 1_000}
TIMES = 3
"""The cloud's price for a GPU and hour, as a multiple of the hall's."""
BOOT, IDLE = 5 * MINUTE, 10 * MINUTE
INSTANCES = 1_000
ROUNDS_A_MINUTE = MINUTE // (PAUSE_EACH * INSTANCES)
"""With so many instances a round is made so often at most, however much is written."""
SUBMITS = 20


class Cloud:
    """The provisioner, and a provider that always has what is asked for. `booting`: when the node of an instance comes."""

    def __init__(self, world: World) -> None:
        self.rules = Provisioner(world.state)
        self.booting: dict[str, int] = {}
        self.made: dict[str, int] = {}
        self.ended: dict[str, int] = {}

    def decide(self, now: int) -> tuple[f.AnyFact, ...]:
        """What it states; calls are answered at once."""
        facts = self.rules.decide(now)
        if facts or not self.rules.calls:
            return facts
        for what, name in self.rules.calls:
            if what == "create":
                self.made[name], self.booting[name] = now, now + BOOT
                self.rules.add_facts(f.InstanceCreatedV1(instance=name, provider_id=name, at=now))
            else:
                self.ended[name] = now
                self.booting.pop(name, None)
                self.rules.add_facts(f.InstanceEndedV1(instance=name, provider_id=name, cause="idle", at=now))
        return self.rules.decide(now)

    def next_wakeup(self) -> int | None:
        """When something is due by itself."""
        due = [*self.booting.values(), *([moment] if (moment := self.rules.next_wakeup()) is not None else [])]
        return min(due, default=None)


class Overflowing(World):
    """A world in which instances become nodes once they have booted."""

    def __init__(self, scenario: Scenario) -> None:
        super().__init__(scenario, judged=False)
        self.cloud = Cloud(self)
        self.deciders[PROVISIONER] = self.cloud

    def run_until_stable(self) -> None:
        """First, nodes that have come."""
        for name in [name for name, at in self.cloud.booting.items() if at <= self.now]:
            del self.cloud.booting[name]
            row = Nodes(name=name, labels={"site": "cloud"}, gpus=philly.GPUS_PER_NODE, gpu_model=MODEL)
            self.append(node_writer(name), [self.machines.register(row, name, self.now)])
        super().run_until_stable()


def weeks(jobs: list[philly.Job], nodes: int) -> dict[str, Any]:
    """One row of the table: `nodes` that the cloud has at most."""
    scenario = trace.scenario(jobs, HALL, saves=True, min_runtime=0)
    if nodes:
        documents = scenario.documents
        node = BurstNode(gpus=philly.GPUS_PER_NODE, gpu_model=MODEL)
        burst = Burst(provider="local", node=node, max_nodes=nodes, boot=BOOT, idle=IDLE, offers=(Offer(name="any"),))
        pools = (*documents.pools, Pool(name="cloud", selector={"site": "cloud"}, burst=burst))
        profiles = tuple(structs.replace(profile, pools=(*profile.pools, "cloud")) for profile in documents.profiles)
        scenario = structs.replace(scenario, documents=structs.replace(documents, pools=pools, profiles=profiles))
    world, began = Overflowing(scenario), time.process_time()
    for _ in world.run():
        pass
    found = trace.outcome(world, jobs, saves=True)
    row = trace.figures(jobs, HALL, found, time.process_time() - began)
    hours = sum((world.cloud.ended.get(name, world.now) - at) / HOUR for name, at in world.cloud.made.items())
    owned = HALL * philly.GPUS_PER_NODE * (jobs[-1].submitted - jobs[0].submitted) / 3_600
    return row | {
        "instances": len(world.cloud.made),
        "cloud_gpu_hours": round(hours * philly.GPUS_PER_NODE),
        "hall_cost": round(owned),
        "cloud_cost": round(hours * philly.GPUS_PER_NODE * TIMES),
    }


def show_weeks(limit: int | None, clouds: list[str]) -> dict[str, Any]:
    """The table."""
    print(
        f"{'':<14} {'wait mean':>9} {'p50':>8} {'p95':>8} {'completed':>9} {'instances':>9} {'cloud GPU-h':>11} {'cost':>10} {'+':>6}"
    )
    rows, jobs = {}, philly.read(limit)
    for name in clouds:
        row = rows[name] = weeks(jobs, CLOUDS[name])
        more = 100 * row["cloud_cost"] / row["hall_cost"]
        print(
            f"{name:<14} {row['wait_mean_s']:>9,.0f} {row['wait_p50_s']:>8,.0f} {row['wait_p95_s']:>8,.0f} "
            f"{row['completion_mean_s']:>9,.0f} {row['instances']:>9,} {row['cloud_gpu_hours']:>11,} "
            f"{row['hall_cost'] + row['cloud_cost']:>10,} {more:>5.0f}%  ({row['seconds']:.0f} s of CPU)",
            flush=True,
        )
    return rows


def reconcile() -> dict[str, float]:
    """Milliseconds of processor time: of one comparison, one round with the look for when the next is due, and of both in a minute."""
    from tests.unit.provisioner.cloud import Cloud as Site

    site = Site(max_nodes=INSTANCES)
    names: list[str] = []
    while len(site.state.instances) < INSTANCES:
        site.wait(SECOND)
        names += site.joined(INSTANCES - len(site.state.instances))
    listed = [Listed(name, f"p/{name}", site.now) for name in names]
    compared = _cpu(lambda: compare(site.state, "local", listed, {}, site.now), 20)
    rules = Provisioner(site.state)
    now = iter(range(site.now, site.now + 10**9, SECOND))
    round_ = _cpu(lambda: (rules.decide(next(now)), rules.next_wakeup()), 200)
    return {
        "instances": len(names),
        "comparison_ms": compared,
        "round_ms": round_,
        "minute_ms": compared + ROUNDS_A_MINUTE * round_,
    }


def _cpu(what: Any, times: int) -> float:
    began = time.process_time()
    for _ in range(times):
        what()
    return 1_000 * (time.process_time() - began) / times


async def order(folder: Path) -> dict[str, float]:
    """Milliseconds from a submit to the call of the provider."""
    from headrace.client import connect
    from headrace.client.submissions import make_submission
    from tests.chaos.burst import BurstPlace

    place = BurstPlace(folder)
    place.prepare()
    try:
        place.up()
        while json.loads(place.tried("status", "--json").stdout or "{}").get("level", {}).get("stated", 0) < 3:
            await asyncio.sleep(0.5)
        place.apply(near=SUBMITS, idle=3_600)
        took = []
        async with connect(data=place.data, user="ann") as client:
            for _ in range(SUBMITS):
                before, began = _orders(place), time.time_ns()
                await client.submit_many("p/whole", [make_submission(["sleep", "600"])])
                while not (new := _orders(place).keys() - before.keys()):
                    await asyncio.sleep(0.005)
                took.append((_orders(place)[new.pop()] * 1_000 - began) / 1e6)
                while any(job.state == "pending" for job in await client.jobs()):
                    await asyncio.sleep(0.5)
    finally:
        place.end(keep=True)
    took.sort()
    return {"submits": len(took), "median_ms": statistics.median(took), "least_ms": took[0], "greatest_ms": took[-1]}


def _orders(place: Any) -> dict[str, int]:
    """When the provider began to make each instance, microseconds."""
    found = {}
    for path in (place.data / "burst/local").glob("*/order.json"):
        found[path.parent.name] = int(json.loads(path.read_bytes())["created_at"])
    return found


def main() -> int:
    """Print what is asked for."""
    parser = options("bench.bursting", __doc__, "an hour for philly, a minute for the others")
    parser.add_argument("what", choices=("philly", "reconcile", "order"), help="what to measure")
    parser.add_argument("--jobs", type=int, help="only so many of the first jobs")
    parser.add_argument("--clouds", nargs="*", choices=[*CLOUDS], default=[*CLOUDS], help="rows of the table")
    parser.add_argument("--json", type=Path, help="write the figures into this file as well")
    asked = parser.parse_args()
    found = _measure(asked)
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    return 0


def _measure(asked: argparse.Namespace) -> dict[str, Any]:
    if asked.what == "philly":
        return show_weeks(asked.jobs, asked.clouds)
    if asked.what == "reconcile":
        found = reconcile()
    else:
        with tempfile.TemporaryDirectory(prefix="headrace-order-", ignore_cleanup_errors=True) as folder:
            Path(folder).chmod(0o711)
            found = asyncio.run(order(Path(folder)))
    print(json.dumps({key: round(value, 2) for key, value in found.items()}, indent=1))
    return found


if __name__ == "__main__":
    raise SystemExit(main())
