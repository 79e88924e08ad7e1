"""Gangs and racks (R40): how many gangs stand in one rack and what a grant costs, without topology, preferred and required.

1,000 nodes x 8 GPUs in racks of 32 nodes and blocks of 4 racks. Half of the GPUs that are asked for are gangs of 2 to 16 whole nodes, the
others jobs of 1 to 8 GPUs. Jobs end by chance, and a job like each of them is admitted, so that about a tenth more is asked for than there
is. The clock is the process's CPU time for fold and decide. Each mode plays the same draws.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from dataclasses import dataclass, field

from bench.options import options
from headrace.allocator.decide import Allocator
from headrace.contracts import facts as f
from headrace.contracts.documents.model import Policy, PolicyProfile, Pool, Profile, Topology
from headrace.contracts.facts.levels import LEVEL
from headrace.contracts.facts.nodes import Device
from headrace.contracts.facts.records import Record
from headrace.contracts.values.amounts import GPU, GPU_UNITS
from headrace.contracts.values.ids import job_key, make_job_id
from headrace.domain.fold.apply import apply
from headrace.domain.model.jobs import JobRecord
from headrace.domain.model.time_rules import TimeRules
from headrace.domain.state.state import State

NODES, RACK, BLOCK = 1_000, 32, 128
SINGLE = (1, 1, 2, 4, 8)
GANGS = (2, 2, 4, 4, 8, 16)
MODES: dict[str, Topology | None] = {
    "none": None,
    "prefer": Topology(prefer="rack"),
    "require": Topology(require="rack"),
}


@dataclass
class Racks:
    """One installation. `apart`, `together`: gangs granted on nodes of several racks, of one."""

    topology: Topology | None
    seed: int
    spent: float = 0.0
    grants: int = 0
    sequence: int = 0
    now: int = 1_000_000
    made: int = 0
    counted: Counter[str] = field(default_factory=Counter)
    used: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.state = State(terms=TimeRules(level=LEVEL))
        self.allocator = Allocator(self.state)
        profiles = [Profile(name=f"s{size}", request={GPU: size * GPU_UNITS}, pools=("pool",)) for size in sorted(set(SINGLE))]
        profiles += [
            Profile(name=f"g{size}", request={GPU: 8 * GPU_UNITS}, replicas=size, pools=("pool",), topology=self.topology)
            for size in sorted(set(GANGS))
        ]
        links = tuple(PolicyProfile(name=profile.name) for profile in profiles)
        pool = Pool(name="pool", selector={"site": "a"}, topology=("block", "rack"), backfill_for=60_000_000, keep_for=0)
        self._fold("governance", f.PoolAppliedV1(author="bench", pool=pool))
        self._fold("governance", *(f.ProfileAppliedV1(author="bench", profile=profile) for profile in profiles))
        self._fold("governance", f.PolicyAppliedV1(author="bench", policy=Policy(name="q", profiles=links)))
        devices = tuple(Device(device=f"g{device}", model="H100-80GB", memory=81_920) for device in range(8))
        for number in range(NODES):
            labels = {"site": "a", "block": f"b{number // BLOCK}", "rack": f"r{number // RACK}"}
            fact = f.NodeRegisteredV1(
                node=f"n{number:04d}", labels=labels, devices=devices, cpu=128_000, memory=1_048_576, at=self.now
            )
            self._fold(f"node.{fact.node}", fact)
        asked = 0
        while asked < 1.1 * NODES * 8:
            asked += self.submit()
        self.decide()

    def _fold(self, by: str, *facts: f.AnyFact) -> None:
        self.sequence += 1
        self.now += 1_000_000
        record = Record(by=by, now=self.now, engine="bench", as_of=self.sequence - 1, facts=facts)
        began = time.process_time()
        apply(self.state, record, self.sequence)
        self.spent += time.process_time() - began

    def submit(self) -> int:
        """Admit one job; returns its GPUs. Seven jobs of a hundred are gangs, so that both kinds ask for as much."""
        gang = self.random.random() < 0.07
        size = self.random.choice(GANGS if gang else SINGLE)
        self.made += 1
        key = job_key("default", "u", make_job_id(1, self.made.to_bytes(10, "big")))
        profile, replicas, each = (f"g{size}", size, 8) if gang else (f"s{size}", 1, size)
        self._fold(
            "admission",
            f.JobAdmittedV1(job=key, policy="q", profile=profile, request={GPU: each * GPU_UNITS}, replicas=replicas),
        )
        return replicas * each

    def decide(self) -> None:
        """Let the allocator grant what fits."""
        while True:
            began = time.process_time()
            facts = self.allocator.decide(self.now)
            self.spent += time.process_time() - began
            if not facts:
                return
            self._fold("allocator", *facts)
            self._count(facts)

    def _count(self, facts: tuple[f.AnyFact, ...]) -> None:
        racks: dict[str, set[str]] = {}
        for fact in facts:
            if isinstance(fact, f.LeaseGrantedV1):
                self.grants += 1
                racks.setdefault(fact.job, set()).add(self.state.nodes[fact.node].labels["rack"])
        for key, there in racks.items():
            if self.state.jobs[key].request.replicas > 1:
                self.counted["together" if len(there) == 1 else "apart"] += 1

    def step(self) -> None:
        """About one job in a hundred ends, and one is submitted for each."""
        running = [job for job in self.state.jobs.values() if job.leases]
        for job in self.random.sample(running, max(1, len(running) // 100)):
            self._end(job)
            self.submit()
        self.decide()
        self.used.append(self.state.pools["pool"].use.get(GPU, 0) / (NODES * 8 * GPU_UNITS))

    def _end(self, job: JobRecord) -> None:
        for rank, lease in sorted(job.leases.items()):
            ended = f.LeaseEndedV1(
                job=job.key, attempt=job.attempt, rank=rank, outcome="exited", exit_code=0, exited_at=self.now, at=self.now
            )
            self._fold(f"node.{lease.node}", ended)


def main() -> None:
    """Play each mode and print one line for it."""
    parser = options("bench.racks", __doc__, "four minutes")
    parser.add_argument("--steps", type=int, default=300, help="steps played; in each one job in a hundred ends")
    parser.add_argument("--seed", type=int, default=1, help="of the draws")
    chosen = parser.parse_args()
    for mode, topology in MODES.items():
        racks = Racks(topology, chosen.seed)
        racks.spent, racks.grants, racks.counted = 0.0, 0, Counter()
        for _ in range(chosen.steps):
            racks.step()
        gangs = racks.counted.total()
        share = racks.counted["together"] / gangs if gangs else 0.0
        waiting = sum(len(group.members) for group in racks.state.pending.groups.values() if group.request.replicas > 1)
        print(
            f"{mode:8} {gangs:5} gangs granted, {share:6.1%} in one rack; {1e3 * racks.spent / racks.grants:6.2f} ms CPU a grant; "
            f"{sum(racks.used) / len(racks.used):6.1%} of GPUs in use; {waiting} gangs wait at the end",
            flush=True,
        )


if __name__ == "__main__":
    main()
