"""MIG slices of 1g, 2g, 3g and 7g on 800 GPUs, through the product's own fold, placement and learnt mix (R4, R20).

Two questions for each mix of requests. *Fill*: requests arrive until 130 % of the GPUs have been asked for, none leaves, what fits nowhere
is dropped; how much of the GPUs is charged at 90, 100 and 130 % asked for. *Churn*: requests arrive at random so that as much is asked for
as there is, each lives for a random while, and what finds no place is refused; how much of the GPU time asked for is served, and how many
of the requests for a whole device. (A device may be charged more than one GPU: a half, which takes three of seven compute slices, beside
four sevenths.)

The policies: Headrace; Headrace before the rules were amended (release 0.1.0), which counted open placements; best fit, the fullest device,
at the start that leaves the most placements; first fit, the first device and start. The latter two look at every device, and are not timed.
"""

from __future__ import annotations

import heapq
import json
import random
import statistics
import sys
import time
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.options import options
from bench.results import machine
from headrace.allocator.demand_mix import DemandLearning
from headrace.contracts import facts as f
from headrace.contracts.documents.model import Policy, PolicyProfile, Pool, Profile, Tenant
from headrace.contracts.facts.fact import DeviceShare, Place
from headrace.contracts.facts.levels import LEVEL, RELEASES
from headrace.contracts.facts.nodes import Device
from headrace.contracts.facts.records import Record
from headrace.contracts.values.amounts import GPU, GPU_UNITS
from headrace.contracts.values.ids import job_key, make_job_id
from headrace.contracts.values.mig import best_start, charge, idle_of, open_starts
from headrace.domain.fold.apply import apply
from headrace.domain.placement.placement import find_places
from headrace.domain.state.state import State

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.contracts.values.mig import Layout

    Choice = Callable[[str, Layout, str], tuple[int, int] | None]
    """How good a device is for a slice, smaller is better, and the start; None: it does not fit."""

MODEL = "H100-80GB"
GPUS_OF_A_NODE = 8
SIZES = {"1g": "1g.10gb", "2g": "2g.20gb", "3g": "3g.40gb", "7g": "7g.80gb"}
MIXES = {
    "as many of each": {"1g": 1, "2g": 1, "3g": 1, "7g": 1},
    "as many units of each": {"1g": 56, "2g": 28, "3g": 16, "7g": 8},
    "mostly small": {"1g": 70, "2g": 20, "3g": 7, "7g": 3},
    "sevenths and whole": {"1g": 7, "7g": 1},
    "few whole": {"1g": 5, "2g": 20, "3g": 10, "7g": 1},
}
"""How often each size is asked for beside the others."""
MARKS = (90, 100, 130)


@dataclass
class Found:
    """What came of one policy and mix.

    Percent charged, by percent asked for; percent served, of the time and of the whole devices asked for; microseconds a placement.
    """

    charged: dict[int, float] = field(default_factory=dict)
    served: float = 0.0
    whole: float = 0.0
    each: float = 0.0


class Cluster:
    """The product's fold of nodes whose GPUs are all in MIG mode."""

    def __init__(self, nodes: int, choice: Choice | None, *, level: int = LEVEL) -> None:
        self.state, self.learning, self.choice = State(), DemandLearning(), choice
        self.number, self.spent = 0, 0.0
        self.append_facts(f.InstallationLevelV1(level=level, release=RELEASES[level - 1]))
        links = tuple(PolicyProfile(name=size) for size in SIZES)
        self.append_facts(
            f.PoolAppliedV1(author="bench", pool=Pool(name="pool", selector={})),
            f.TenantAppliedV1(author="bench", tenant=Tenant(name="t")),
            *(
                f.ProfileAppliedV1(author="bench", profile=Profile(name=size, mig=name, request={}, pools=("pool",)))
                for size, name in SIZES.items()
            ),
            f.PolicyAppliedV1(author="bench", policy=Policy(tenant="t", name="p", profiles=links)),
        )
        for number in range(nodes):
            devices = tuple(Device(device=f"g{gpu}", model=MODEL, memory=81_920, mig=True) for gpu in range(GPUS_OF_A_NODE))
            self.append_facts(
                f.NodeRegisteredV1(node=f"n{number:03}", labels={}, devices=devices, cpu=128_000, memory=1 << 20, at=1)
            )
        self.pool = self.state.pools["pool"]
        self.units = nodes * GPUS_OF_A_NODE * GPU_UNITS

    def append_facts(self, *facts: f.AnyFact) -> None:
        """One record."""
        sequence = self.state.sequence + 1
        apply(self.state, Record(by="bench", now=10**12 + sequence, engine="bench", as_of=sequence - 1, facts=facts), sequence)

    def ask(self, size: str) -> str | None:
        """A request arrives and takes its place; its job, or None if there is no place."""
        self.number += 1
        key = job_key("t", "u", make_job_id(1, self.number.to_bytes(10, "big")))
        units = charge(SIZES[size], (MODEL,))
        self.append_facts(
            f.JobAdmittedV1(job=key, policy="p", profile=size, request={GPU: units, "cpu": 1_000}, mig=SIZES[size])
        )
        news = tuple(self.learning.news(self.state))
        if news:
            self.append_facts(*news)
        began = time.perf_counter()
        place = self._place(key, SIZES[size], units)
        self.spent += time.perf_counter() - began
        if place is None:
            self.append_facts(f.JobDismissedV1(job=key, reason="NO_SUITABLE_NODE", message="dropped"))
            return None
        held = {"node": place.node, "devices": place.devices, "amounts": place.amounts}
        self.append_facts(f.LeaseGrantedV1(job=key, attempt=1, pool="pool", rule="R20", **held))
        return key

    def leave(self, key: str) -> None:
        """A job has ended."""
        self.append_facts(
            f.LeaseEndedV1(job=key, attempt=1, outcome="exited", exit_code=0, exited_at=1, at=1),
            f.JobEndedV1(job=key, attempt=1, state="succeeded", cause="exited"),
        )

    def _place(self, key: str, name: str, units: int) -> Place | None:
        if self.choice is None:
            places = find_places(self.state, self.state.jobs[key], self.pool)
            return places[0] if places else None
        offers = [
            (chosen[0], node.name, device.name, chosen[1])
            for node in self.state.nodes.values()
            for device in node.devices
            if device.layout is not None and (chosen := self.choice(device.family, device.layout, name)) is not None
        ]
        if not offers:
            return None
        _, node, device, start = min(offers)
        share = DeviceShare(device=device, units=units, mig=name, start=start)
        return Place(node=node, devices=(share,), amounts=self.state.jobs[key].request.lease_amounts(0))


@cache
def best_fit(family: str, layout: Layout, name: str) -> tuple[int, int] | None:
    """The fullest device."""
    start = best_start(family, layout, name)
    return None if start is None else (idle_of(family, layout), start)


@cache
def first_fit(family: str, layout: Layout, name: str) -> tuple[int, int] | None:
    """The first device on which there is room, and the first start."""
    starts = open_starts(family, layout, name)
    return (0, starts[0]) if starts else None


POLICIES: dict[str, tuple[Choice | None, int]] = {
    "Headrace": (None, LEVEL),
    "before (0.1.0)": (None, 1),
    "best fit": (best_fit, LEVEL),
    "first fit": (first_fit, LEVEL),
}


def fill(cluster: Cluster, mix: dict[str, int], chance: random.Random) -> dict[int, float]:
    """Percent of the GPUs that is charged when so much has been asked for."""
    asked = used = 0
    charged: dict[int, float] = {}
    while asked < max(MARKS) * cluster.units // 100:
        (size,) = chance.choices(list(mix), list(mix.values()))
        units = charge(SIZES[size], (MODEL,))
        asked += units
        if cluster.ask(size) is not None:
            used += units
        charged |= {mark: 100 * used / cluster.units for mark in MARKS if 100 * asked <= mark * cluster.units}
    return charged


def churn(cluster: Cluster, mix: dict[str, int], chance: random.Random, count: int) -> tuple[float, float]:
    """Percent served of the GPU time asked for, and of the requests for whole devices, after a quarter of the requests has come."""
    mean = sum(charge(SIZES[size], (MODEL,)) * often for size, often in mix.items()) / sum(mix.values())
    now = 0.0
    ends: list[tuple[float, str]] = []
    asked, served, whole = 0.0, 0.0, [0, 0]
    for number in range(count):
        now += chance.expovariate(cluster.units / mean)
        while ends and ends[0][0] <= now:
            cluster.leave(heapq.heappop(ends)[1])
        (size,) = chance.choices(list(mix), list(mix.values()))
        life = chance.expovariate(1)
        key = cluster.ask(size)
        if key is not None:
            heapq.heappush(ends, (now + life, key))
        if 4 * number >= count:
            work = life * charge(SIZES[size], (MODEL,))
            asked += work
            served += work * (key is not None)
            if size == "7g":
                whole[0] += 1
                whole[1] += key is not None
    return 100 * served / asked, 100 * whole[1] / max(1, whole[0])


def measure(policy: str, mix: dict[str, int], nodes: int, count: int, seeds: int) -> Found:
    """Means over seeds."""
    choice, level = POLICIES[policy]
    fills, churns, spent, placed = [], [], 0.0, 0
    for seed in range(seeds):
        cluster = Cluster(nodes, choice, level=level)
        fills.append(fill(cluster, mix, random.Random(seed)))
        again = Cluster(nodes, choice, level=level)
        churns.append(churn(again, mix, random.Random(seed), count))
        spent, placed = spent + cluster.spent + again.spent, placed + cluster.number + again.number
    charged = {mark: statistics.mean(one[mark] for one in fills) for mark in MARKS}
    served, whole = (statistics.mean(part) for part in zip(*churns, strict=True))
    return Found(charged, served, whole, 1e6 * spent / placed)


def main() -> int:
    """Print the tables."""
    parser = options("bench.slices", __doc__, "10 minutes")
    parser.add_argument("--policies", nargs="+", choices=list(POLICIES), default=list(POLICIES), help="ways to choose a place")
    parser.add_argument("--mixes", nargs="+", choices=list(MIXES), default=list(MIXES), help="of the sizes that are asked for")
    parser.add_argument("--nodes", type=int, default=100, help="of eight GPUs each")
    parser.add_argument("--requests", type=int, default=12_000, help="of the churn")
    parser.add_argument("--seeds", type=int, default=1, help="how many random orders")
    parser.add_argument("--json", type=Path, help="write the figures into this file as well")
    arguments = parser.parse_args()
    figures: dict[str, Any] = {"machine": machine()}
    print(json.dumps(figures["machine"]), flush=True)
    for name in arguments.mixes:
        often = ", ".join(f"{times} x {size}" for size, times in MIXES[name].items())
        print(f"{name} ({often}): charged %, at 90 / 100 / 130 % asked for; of the churn: served %, of time / of whole devices")
        for policy in arguments.policies:
            found = measure(policy, MIXES[name], arguments.nodes, arguments.requests, arguments.seeds)
            figures.setdefault(name, {})[policy] = found.__dict__
            marks = "".join(f"{found.charged[mark]:8.2f}" for mark in MARKS)
            print(
                f"  {policy:<16}{marks}   {found.served:8.2f}{found.whole:8.2f}   {found.each:6.0f} us a placement", flush=True
            )
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
