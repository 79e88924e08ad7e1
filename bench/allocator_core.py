"""P1, P2, P3: the allocator's core in process: fold and decide, no log, no encoding (quality page, Speed).

One pool of nodes x 8 GPUs, 50 tenants with two policies each, reservations, limits, ranks. Steady state: a fixed number of jobs end
by chance (one time in fifty a whole node is emptied), a job like each of them is admitted, and the allocator decides until nothing is left;
so neither what runs nor what waits changes its mix. The clock is the process's own CPU time for fold and decide, submits included; what
makes up the load is outside of it.
"""

from __future__ import annotations

import gc
import random
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any

from bench.options import options
from headrace.allocator.decide import Allocator
from headrace.contracts import facts as f
from headrace.contracts.documents.model import Policy, PolicyProfile, Pool, Profile, Tenant
from headrace.contracts.facts.levels import LEVEL
from headrace.contracts.facts.nodes import Device
from headrace.contracts.facts.records import Record
from headrace.contracts.values.amounts import GPU, GPU_UNITS
from headrace.contracts.values.ids import job_key, make_job_id
from headrace.domain.fold.apply import apply
from headrace.domain.model.jobs import JobRecord
from headrace.domain.model.time_rules import TimeRules
from headrace.domain.state.state import State

GPUS = (GPU_UNITS // 4, GPU_UNITS // 2, GPU_UNITS, 4 * GPU_UNITS, 8 * GPU_UNITS)
CPU_MEMORY = ((1_000, 8_192), (2_000, 8_192), (4_000, 16_384), (1_000, 32_768))


@dataclass
class Core:
    """One world, and the seconds spent in fold and decide. `at_once`: ends between two looks of the allocator."""

    nodes: int
    pending: int
    shapes: int
    at_once: int
    seed: int

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.state = State(terms=TimeRules(level=LEVEL))
        self.allocator = Allocator(self.state)
        self.sequence = 0
        self.now = 1_000_000
        self.spent = 0.0
        self.grants = 0
        self.sizes: Counter[int] = Counter()
        self.decisions: list[float] = []
        self.made = 0
        self._build()

    def fold(self, by: str, facts: tuple[f.AnyFact, ...]) -> None:
        self.sequence += 1
        self.now += 1_000
        apply(self.state, Record(by=by, now=self.now, engine="bench", as_of=self.sequence - 1, facts=facts), self.sequence)

    def _build(self) -> None:
        hosts = [*CPU_MEMORY, *((500 * cores, 2_048 * gib) for cores in range(1, 5) for gib in range(1, 5))]
        self.requests = [{GPU: gpu, "cpu": cpu, "memory": memory} for gpu in GPUS for cpu, memory in hosts[: self.shapes // 5]]
        names = [f"p{number}" for number in range(len(self.requests))]
        facts: list[f.AnyFact] = [
            f.PoolAppliedV1(author="bench", pool=Pool(name="pool", selector={"site": "a"}, profile_order=tuple(names[:3])))
        ]
        for name, request in zip(names, self.requests, strict=True):
            facts.append(f.ProfileAppliedV1(author="bench", profile=Profile(name=name, request=request, pools=("pool",))))
        self.queues: list[tuple[str, str, str]] = []
        share = self.nodes * 8 * GPU_UNITS // 100
        for number in range(50):
            tenant = f"t{number}"
            facts.append(f.TenantAppliedV1(author="bench", tenant=Tenant(name=tenant)))
            for which in ("a", "b"):
                links = tuple(PolicyProfile(name=name) for name in self.random.sample(names, max(2, len(names) // 3)))
                policy = Policy(
                    tenant=tenant,
                    name=which,
                    profiles=links,
                    priority=self.random.randrange(3),
                    weight=self.random.randrange(1, 4),
                    reservation={GPU: share // GPU_UNITS * GPU_UNITS},
                    limit={GPU: 6 * share // GPU_UNITS * GPU_UNITS + 16 * GPU_UNITS},
                )
                facts.append(f.PolicyAppliedV1(author="bench", policy=policy))
                self.queues += [(tenant, which, link.name) for link in links]
        self.fold("governance", tuple(facts))
        for number in range(self.nodes):
            devices = tuple(Device(device=f"g{device}", model="H100-80GB", memory=81_920) for device in range(8))
            node = f.NodeRegisteredV1(
                node=f"n{number:05d}", labels={"site": "a"}, devices=devices, cpu=128_000, memory=1_048_576, at=self.now
            )
            self.fold(f"node.n{number:05d}", (node,))
        self._fill()

    def _fill(self) -> None:
        """Admit jobs until as many are pending as there should be, deciding in between, until nothing more fits."""
        while True:
            missing = self.pending - sum(policy.pending for policy in self.state.policies.values())
            if missing <= 0:
                return
            for _ in range(0, missing, 500):
                self.fold("admission", tuple(self._job() for _ in range(min(500, missing))))
            while facts := self.allocator.decide(self.now):
                self.fold("allocator", facts)
                for fact in facts:
                    if isinstance(fact, f.ReclaimOpenedV1):
                        self._answer(fact)

    def _job(self) -> f.JobAdmittedV1:
        self.made += 1
        tenant, policy, profile = self.random.choice(self.queues)
        return f.JobAdmittedV1(
            job=job_key(tenant, "u", make_job_id(1, self.made.to_bytes(10, "big"))),
            policy=policy,
            profile=profile,
            request=self.requests[int(profile[1:])],
            preemptible=self.random.random() > 0.2,
            priority=self.random.randrange(2),
        )

    def _timed(self, by: str, facts: tuple[f.AnyFact, ...]) -> None:
        began = time.process_time()
        self.fold(by, facts)
        self.spent += time.process_time() - began

    def _answer(self, opened: f.ReclaimOpenedV1) -> None:
        """Preemption finds no victims: reclaiming is not measured here."""
        search = f"{opened.job}@{self.sequence}"
        self.fold("preemption", (f.PreemptionNoneV1(preemption=search, job=opened.job, pool=opened.pool, why="not measured"),))

    def step(self) -> None:
        """Something ends, each on its node; jobs like those come; what that frees is granted."""
        again: list[f.JobAdmittedV1] = []
        for _ in range(self.at_once):
            node = self.state.nodes[f"n{self.random.randrange(self.nodes):05d}"]
            leases = list(node.leases.values())
            if not leases:
                continue
            leaving = leases if self.random.random() < 0.02 else [self.random.choice(leases)]
            again += [self._like(lease.job) for lease in leaving]
            ended = tuple(
                f.LeaseEndedV1(
                    job=lease.job.key, attempt=lease.attempt, outcome="exited", exit_code=0, exited_at=self.now, at=self.now
                )
                for lease in leaving
            )
            self._timed(f"node.{node.name}", ended)
        if again:
            self._timed("admission", tuple(again))
        while facts := self._decide():
            self._timed("allocator", facts)
            for fact in facts:
                if isinstance(fact, f.LeaseGrantedV1):
                    self.grants += 1
                    self.sizes[fact.amounts[GPU]] += 1
                elif isinstance(fact, f.ReclaimOpenedV1):
                    self._answer(fact)

    def _decide(self) -> tuple[f.AnyFact, ...]:
        began = time.process_time()
        facts = self.allocator.decide(self.now)
        took = time.process_time() - began
        self.spent += took
        self.decisions.append(took)
        return facts

    def _like(self, job: JobRecord) -> f.JobAdmittedV1:
        self.made += 1
        return f.JobAdmittedV1(
            job=job_key(job.tenant, "u", make_job_id(1, self.made.to_bytes(10, "big"))),
            policy=job.policy.document.name,
            profile=job.profile,
            request=job.request.amounts,
            preemptible=job.preemptible,
            priority=job.priority,
        )


def measure(
    nodes: int = 1_000, pending: int = 10_000, shapes: int = 20, at_once: int = 1, seconds: float = 3.0, seed: int = 1
) -> dict[str, Any]:
    """Grants per second of fold and decide, what sizes they had, and how long decisions took (milliseconds)."""
    core = Core(nodes, pending, shapes, at_once, seed)
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        for _ in range(50):
            core.step()
        core.spent, core.grants, core.decisions = 0.0, 0, []
        core.sizes.clear()
        while core.spent < seconds:
            core.step()
    finally:
        gc.enable()
        gc.unfreeze()
    sizes = {f"{size / GPU_UNITS:g}": round(count / max(1, core.grants), 2) for size, count in sorted(core.sizes.items())}
    took = sorted(core.decisions)
    return {
        "grants_per_s": core.grants / core.spent,
        "grants": core.grants,
        "sizes": sizes,
        "p50_ms": 1_000 * took[len(took) // 2],
        "p99_ms": 1_000 * took[len(took) * 99 // 100],
    }


if __name__ == "__main__":
    parser = options("bench.allocator_core", __doc__, "2 minutes")
    parser.add_argument(
        "--shapes", type=int, nargs="+", default=[5, 20, 100], help="of requests, a measurement for each number"
    )
    parser.add_argument("--nodes", type=int, default=1_000, help="of 8 GPUs each")
    parser.add_argument("--pending", type=int, default=10_000, help="jobs that wait")
    asked = parser.parse_args()
    for shapes in asked.shapes:
        print(shapes, measure(asked.nodes, asked.pending, shapes))
