"""How long a preemption plan takes (R23-R26): one search over some 8,000 running leases on 1,000 nodes of 8 GPUs.

Every node is full. Fifty policies of 25 tenants lend: some tenants have shares, some policies a reservation that they exceed, started at
random times in the last three days, some with checkpoints. One policy, whose reservation is the whole pool, asks.
"""

from __future__ import annotations

import gc
import random
import time

from bench.options import options
from headrace.contracts import facts as f
from headrace.contracts.documents import model as d
from headrace.contracts.facts.fact import DeviceShare
from headrace.contracts.facts.levels import LEVEL
from headrace.contracts.facts.nodes import Device
from headrace.contracts.facts.records import Record
from headrace.contracts.values.amounts import CPU, GPU, GPU_UNITS, JOB
from headrace.contracts.values.durations import HOUR, MINUTE
from headrace.contracts.values.ids import job_key, make_job_id
from headrace.domain.fold.apply import apply
from headrace.domain.model.time_rules import TimeRules
from headrace.domain.preemption.victims import NoPlan, VictimPlan, search
from headrace.domain.state.state import State

TENANTS = 25
SPAN = 72 * HOUR
SIZES = (GPU_UNITS // 4, GPU_UNITS // 2, GPU_UNITS, 4 * GPU_UNITS, 8 * GPU_UNITS)
WEIGHTS = (16, 20, 44, 14, 6)
LARGE = 4 * GPU_UNITS
ASKS = (
    ("0.25 GPU", GPU_UNITS // 4, 1),
    ("1 GPU", GPU_UNITS, 1),
    ("4 GPUs", 4 * GPU_UNITS, 1),
    ("8 GPUs", 8 * GPU_UNITS, 1),
    ("30 x 8 GPUs", 8 * GPU_UNITS, 30),
    ("62 x 8 GPUs", 8 * GPU_UNITS, 62),
    ("125 x 8 GPUs", 8 * GPU_UNITS, 125),
    ("250 x 8 GPUs", 8 * GPU_UNITS, 250),
)


class Lent:
    """A full pool, and a policy that may take it back. `large`: the minimum run time of jobs of four GPUs and more."""

    def __init__(self, nodes: int, seed: int, large: int = 0) -> None:
        self.random = random.Random(seed)
        self.nodes = nodes
        self.state = State(terms=TimeRules(level=LEVEL))
        self.now = 1_000_000_000_000
        self.made = 0
        self._law(large)
        for number in range(nodes):
            devices = tuple(Device(device=f"g{device}", model="H100-80GB", memory=81_920) for device in range(8))
            node = f.NodeRegisteredV1(
                node=f"n{number:05d}", labels={"site": "a"}, devices=devices, cpu=128_000, memory=1_048_576, at=self.now
            )
            self._fold(f"node.n{number:05d}", node)
        self._fill()

    def _fold(self, by: str, *facts: f.AnyFact) -> None:
        sequence = self.state.sequence + 1
        apply(self.state, Record(by=by, now=self.now, engine="bench", as_of=sequence - 1, facts=facts), sequence)

    def _law(self, large: int) -> None:
        whole = {GPU: self.nodes * 8 * GPU_UNITS}
        facts: list[f.AnyFact] = [f.PoolAppliedV1(author="bench", pool=d.Pool(name="a", selector={"site": "a"}))]
        for number, size in enumerate(SIZES):
            request = {GPU: size, CPU: 1_000}
            facts.append(
                f.ProfileAppliedV1(author="bench", profile=d.Profile(name=f"s{number}", request=request, pools=("a",)))
            )
        for name, size, replicas in ASKS:
            profile = d.Profile(name=name, request={GPU: size, CPU: 1_000}, replicas=replicas, pools=("a",))
            facts.append(f.ProfileAppliedV1(author="bench", profile=profile))
        for number in range(TENANTS):
            share = d.Share(pool="a", reservation={GPU: self.nodes * GPU_UNITS // 8}, limit={GPU: whole[GPU]})
            shares = (share,) if number % 2 else ()
            facts.append(f.TenantAppliedV1(author="bench", tenant=d.Tenant(name=f"t{number}", shares=shares)))
            for name, links, least in (("small", range(3), 0), ("large", range(3, len(SIZES)), large)):
                policy = d.Policy(
                    tenant=f"t{number}",
                    name=name,
                    priority=number % 3,
                    profiles=tuple(d.PolicyProfile(name=f"s{link}") for link in links),
                    reservation={GPU: self.nodes * GPU_UNITS // 16},
                    preemption=d.PreemptionTerms(min_runtime=least),
                )
                facts.append(f.PolicyAppliedV1(author="bench", policy=policy))
        asks = tuple(d.PolicyProfile(name=name) for name, _, _ in ASKS)
        facts.append(
            f.PolicyAppliedV1(author="bench", policy=d.Policy(name="owner", profiles=asks, reservation=whole, priority=1))
        )
        self._fold("governance", *facts)

    def _fill(self) -> None:
        """Put jobs on each node until it is full; then grant and start them in the order of their random times."""
        waiting = []
        for number in range(self.nodes):
            left = [GPU_UNITS] * 8
            while any(left):
                size = self.random.choices(SIZES, WEIGHTS)[0]
                devices = self._pick(left, size)
                if devices:
                    waiting.append((self.random.randrange(SPAN), number, size, devices))
        began = self.now
        for after, number, size, devices in sorted(waiting):
            self.now = began + after
            self._run(number, size, devices)
        self.now = began + SPAN + MINUTE

    @staticmethod
    def _pick(left: list[int], size: int) -> list[tuple[int, int]]:
        """(device, units) on a node that has so much left of each device; empty where it does not fit."""
        each = min(size, GPU_UNITS)
        fitting = [device for device, units in enumerate(left) if (units >= each if size < GPU_UNITS else units == GPU_UNITS)]
        wanted = max(1, size // GPU_UNITS)
        if len(fitting) < wanted:
            return []
        taken = sorted(fitting, key=lambda device: (left[device], device))[:wanted]
        for device in taken:
            left[device] -= each
        return [(device, each) for device in taken]

    def _run(self, number: int, size: int, devices: list[tuple[int, int]]) -> None:
        self.made += 1
        tenant = f"t{self.random.randrange(TENANTS)}"
        key = job_key(tenant, "u", make_job_id(1, self.made.to_bytes(10, "big")))
        profile, request = f"s{SIZES.index(size)}", {GPU: size, CPU: 1_000}
        policy = "large" if size >= LARGE else "small"
        shares = tuple(DeviceShare(device=f"g{device}", units=units) for device, units in devices)
        node = f"n{number:05d}"
        self._fold("admission", f.JobAdmittedV1(job=key, policy=policy, profile=profile, request=request))
        granted = f.LeaseGrantedV1(job=key, attempt=1, node=node, pool="a", devices=shares, amounts=request | {JOB: 1})
        self._fold("allocator", granted)
        facts: list[f.AnyFact] = [f.LeaseStartedV1(job=key, attempt=1, at=self.now)]
        if self.random.random() < 0.2:
            facts.append(f.CheckpointRegisteredV1(job=key, attempt=1, uri="file:/c", at=self.now))
        self._fold(f"node.{node}", *facts)

    def ask(self, name: str) -> tuple[float, VictimPlan | NoPlan]:
        """CPU-milliseconds of one search for a job of that profile, and what it found."""
        self.made += 1
        _, size, replicas = next(row for row in ASKS if row[0] == name)
        key = job_key("default", "u", make_job_id(1, self.made.to_bytes(10, "big")))
        request = {GPU: size, CPU: 1_000}
        self._fold("admission", f.JobAdmittedV1(job=key, policy="owner", profile=name, request=request, replicas=replicas))
        gc.collect()
        gc.disable()
        try:
            began = time.process_time()
            found = search(self.state, self.state.jobs[key], self.state.pools["a"], self.now)
            return (time.process_time() - began) * 1_000, found
        finally:
            gc.enable()


def measure(nodes: int = 1_000, runs: int = 7) -> list[dict[str, object]]:
    """A row for each request and world: milliseconds of each run, and how many victims the last one found."""
    rows = []
    for world, large in (("all may yield", 0), ("large ones protected", 2 * SPAN)):
        lent = [Lent(nodes, seed, large) for seed in range(1, runs + 1)]
        for name, _, _ in ASKS:
            found = [one.ask(name) for one in lent]
            plans = [plan for _, plan in found if isinstance(plan, VictimPlan)]
            victims = sorted(len(plan.victims) for plan in plans)
            rows.append(
                {
                    "world": world,
                    "asks": name,
                    "leases": sum(len(policy.jobs) for policy in lent[0].state.policies.values()),
                    "ms": sorted(round(spent, 1) for spent, _ in found),
                    "found": len(plans),
                    "victims": victims,
                    "why": next((plan.why for _, plan in found if isinstance(plan, NoPlan)), ""),
                }
            )
    return rows


def show(rows: list[dict[str, object]]) -> None:
    """The table."""
    for row in rows:
        spent, victims = row["ms"], row["victims"]
        many = f"{victims[0]}-{victims[-1]} victims" if victims else row["why"]
        print(
            f"plan over {row['leases']} leases, {row['world']:<21}{row['asks']:>13}  "
            f"{spent[len(spent) // 2]:>7.1f} ms, greatest {spent[-1]:>7.1f}   found in {row['found']} of {len(spent)}: {many}",
            flush=True,
        )


if __name__ == "__main__":
    options("bench.reclaim", __doc__, "1 minute").parse_args()
    show(measure())
