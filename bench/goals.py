"""Every figure that the quality page names: what it is, which group measures it, its goal, and what is beside it."""

from __future__ import annotations

from typing import NamedTuple

RATES, DURATIONS = ("/s", "jobs/s", "facts/s"), ("ms", "s")
BOUND_BY = {
    **dict.fromkeys(("core", "reclaim", "why", "memory", "books", "verify", "sustained", "storm", "api"), "loops"),
    **dict.fromkeys(("line", "node"), "execs"),
}
"""By group, the piece of calibration that its rates and durations depend on most."""


class Figure(NamedTuple):
    """One line of the table. `key`: its name in what `group` finds; `more`: whether more is better; `goal` None: only told.

    `beside`: others' values of the same, each with what it is.
    """

    number: str
    what: str
    group: str
    key: str
    unit: str
    goal: float | None
    more: bool = False
    beside: tuple[tuple[str, float], ...] = ()

    @property
    def bound_by(self) -> str:
        """Piece of calibration (`bench.calibrate`) that the figure is held against; "" if the machine's speed does not matter."""
        return BOUND_BY.get(self.group, "") if self.unit in (*RATES, *DURATIONS) else ""

    def at_speed(self, value: float, speed: float) -> float:
        """The value as a ratio to the speed of a machine: it is the same on a machine that is twice as fast."""
        return value / speed if self.unit in RATES else value * speed

    def of_ratio(self, ratio: float, speed: float) -> float:
        """The inverse of `at_speed`."""
        return ratio * speed if self.unit in RATES else ratio / speed

    def met(self, median: float) -> bool:
        """Whether the goal is reached."""
        return self.goal is None or (median >= self.goal if self.more else median <= self.goal)

    def ratio(self, median: float, other: float) -> float:
        """How many times better than `other`; 0 if unknown."""
        if not median or not other:
            return 0.0
        return median / other if self.more else other / median


FIGURES = (
    Figure(
        "P1",
        "core: grants, 20 shapes",
        "core",
        "P1 20 shapes",
        "/s",
        20_000,
        True,
        (("YuniKorn core", 3_700), ("kube-scheduler floor", 810)),
    ),
    Figure("", "core: grants, 20 shapes, 16 ends at once", "core", "P1 16 at once", "/s", None, True),
    Figure("", "core: grants, 5 shapes", "core", "P1 5 shapes", "/s", None, True),
    Figure("", "core: grants, 100 shapes", "core", "P1 100 shapes", "/s", None, True),
    Figure(
        "P2", "rate with 1,000,000 pending, of that with 1,000", "core", "P2", "%", 50, True, (("YuniKorn core at 50,000", 5),)
    ),
    Figure("P3", "rate with 10,000 nodes, of that with 10", "core", "P3", "%", 50, True),
    Figure("", "one decision, p99, at 10,000 nodes", "core", "P3 p99", "ms", 1),
    Figure(
        "P4",
        "submit to the books, no processes, sustained",
        "sustained",
        "P4",
        "jobs/s",
        3_000,
        True,
        (("Slurm's own word", 500), ("Kueue", 43), ("KAI", 10)),
    ),
    Figure("", "the same, least of any ten seconds", "sustained", "P4 least", "jobs/s", None, True),
    Figure(
        "P5",
        "submit to the books, `true` as process",
        "line",
        "P5",
        "jobs/s",
        600,
        True,
        (("Slurm 22.05", 56), ("HyperQueue", 480)),
    ),
    Figure("P6", "submit to order at the node at 500/s, p50", "sustained", "P6 p50", "ms", 6),
    Figure("", "the same, p99", "sustained", "P6 p99", "ms", 20),
    Figure("P7", "submit to process started, idle, p50", "line", "P7 p50", "ms", 15, False, (("Slurm srun", 49),)),
    Figure("", "the same, p99", "line", "P7 p99", "ms", 40),
    Figure("P8", "Kueue's baseline: makespan", "kueue", "makespan_s", "s", 70, False, (("Kueue", 351.1),)),
    Figure("", "the same: use", "kueue", "use_percent", "%", 94, True, (("Kueue", 55.9),)),
    Figure("", "the same: mean wait of large", "kueue", "large_s", "s", 1, False, (("Kueue", 16.5),)),
    Figure("", "the same: mean wait of medium", "kueue", "medium_s", "s", 13, False, (("Kueue", 76.8),)),
    Figure("", "the same: mean wait of small", "kueue", "small_s", "s", 50, False, (("Kueue", 215.5),)),
    Figure("P9", "Kueue's large-scale: makespan", "kueue-large", "makespan_s", "s", 25, False, (("Kueue", 1_179.4),)),
    Figure("P10", "KAI: fill with 4,000 jobs", "kai", "fill_s", "s", 3, False, (("KAI", 397.8),)),
    Figure("", "KAI: reclaim one GPU, p99 to the signal", "kai", "reclaim_ms", "ms", 50, False, (("KAI", 13_900),)),
    Figure("", "KAI: reclaim for 2,000 GPUs, all signals out", "kai", "gang_ms", "ms", 500, False, (("KAI", 102_000),)),
    Figure("", "KAI: refuse the impossible, p99", "kai", "impossible_ms", "ms", 20, False, (("KAI", 249_500),)),
    Figure("P11", "39,000 preemptions ordered and signalled", "storm", "seconds", "s", 15, False, (("GKE with Kueue", 93),)),
    Figure("P12", "1,000,000 facts to the first decision", "memory", "from_facts_s", "s", 4),
    Figure("", "snapshot of 1,000,000 jobs and 50,000 facts", "memory", "from_snapshot_s", "s", 3),
    Figure("P13", "memory of a pending job", "memory", "resident", "B", 1_024),
    Figure("", "snapshot of a pending job", "memory", "snapshot", "B", 100),
    Figure("", "CPU for 1,000 jobs, no processes", "sustained", "cpu", "s", 0.4, False, (("Dask", 0.84), ("Ray", 1.0))),
    Figure("", "CPU for 1,000 jobs, real processes", "line", "cpu", "s", None),
    Figure(
        "P14", "Alibaba 2023, default: allocated at 98 % arrived", "packing", "default 98", "%", 95.2, True, (("FGD", 95.2),)
    ),
    Figure("", "the same at 130 %", "packing", "default 130", "%", 95.4, True, (("FGD", 95.4),)),
    Figure("", "gpuspec33: allocated at 98 % arrived", "packing", "gpuspec33 98", "%", 93.0, True, (("FGD", 86.4),)),
    Figure("", "the same at 130 %", "packing", "gpuspec33 130", "%", 94.6, True, (("FGD", 94.5),)),
    Figure("P15", "Philly, 80 nodes: mean wait", "trace", "wait_mean_s", "s", 5_020),
    Figure("", "the same, p95", "trace", "wait_p95_s", "s", 20_729),
    Figure("", "the same: GPU-hours lost, nothing saved", "trace", "lost_gpu_hours", "h", 3_000),
    Figure("Q1", "kill -9 of the allocator to the next grant, p99", "failover", "p99_ms", "ms", 1_000),
    Figure("", "the same: jobs lost or ended twice, violations", "failover", "wrong", "", 0),
    Figure("Q2", "chaos: kills", "chaos", "kills", "", 500, True),
    Figure("", "chaos: submits lost, ended twice, violations", "chaos", "wrong", "", 0),
    Figure("Q3", "NATS leader killed: next record once writable, p99", "leader", "resume_s", "s", 1),
    Figure("", "the same: until the server lets anybody write", "leader", "elected_s", "s", None),
    Figure("", "the same: lost, violations", "leader", "wrong", "", 0),
    Figure("", "acknowledged and gone after what must not matter", "durability", "lost", "", 0),
    Figure("Q4", "tests of damage found and repaired that fail", "proofs", "Q4", "", 0),
    Figure("Q5", "simulation: times real time", "sim", "times_real", "", 1_000, True),
    Figure("", "simulation: seeds in 10 minutes", "sim", "seeds_in_10_min", "", 2_000, True),
    Figure("", "simulation: violations", "sim", "violations", "", 0),
    Figure("Q6", "random histories that break a rule", "properties", "failed", "", 0),
    Figure("Q7", "burst of 100,000: lost or ended twice", "load", "lost", "", 0),
    Figure("", "the same: drained after", "load", "drained_s", "s", None),
    Figure("", "slow readers, poison, full disks: lost, violations", "load", "hard", "", 0),
    Figure("", "burst: greatest memory of a service", "load", "peak_mib", "MiB", None),
    Figure("Q8", "executor back with 200 running jobs", "node", "restart_s", "s", 2),
    Figure("", "tests of jobs that outlive it that fail", "proofs", "Q8", "", 0),
    Figure("API", "submit over HTTP, 1 client, p50", "api", "submit 1 p50", "ms", None),
    Figure("", "submit over HTTP, 32 clients, p50", "api", "submit 32 p50", "ms", 10),
    Figure("", "submit over HTTP at 500/s, p50", "api", "submit 500/s p50", "ms", 10),
    Figure("", "read over HTTP, 1 client, p50", "api", "read 1 p50", "ms", None),
    Figure("", "batched publishes", "api", "batched", "jobs/s", None, True),
    Figure("more", "accounting catches up", "books", "catch_up", "facts/s", 10_000, True, (("Python eventsourcing", 47_000),)),
    Figure("", "audit: records, chains and seals, on one core", "verify", "records", "facts/s", 50_000, True),
    Figure("", "audit: every decision made again, on one core", "verify", "whole", "facts/s", None, True),
    Figure("", "plan of one GPU over 8,000 leases", "reclaim", "one", "ms", None),
    Figure("", "grant to exec on the node, p50", "node", "exec_ms", "ms", 5),
    Figure("", "why a job waits, 10,000 pending", "why", "why", "ms", None),
)
