"""The six Philly weeks: 54,784 jobs of 15 virtual clusters, read from the folder of traces."""

from __future__ import annotations

import csv
import gzip
import os
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

FILE = "philly_jobs_6w.csv.gz"
GPUS_PER_NODE = 8
DAY = 86_400


@dataclass(frozen=True)
class Job:
    """One job; times in seconds. It takes `parts` x `per_node` GPUs: one node up to 8, equal parts on several above."""

    order: int
    submitted: int
    duration: int
    gpus: int
    cluster: str

    @property
    def parts(self) -> int:
        """On how many nodes."""
        parts = -(-self.gpus // GPUS_PER_NODE)
        while self.gpus % parts:
            parts += 1
        return parts

    @property
    def per_node(self) -> int:
        """GPUs on each of them."""
        return self.gpus // self.parts


def traces() -> Path:
    """The folder of traces: HEADRACE_TRACES, else `shared/data` beside the repository."""
    return Path(os.environ.get("HEADRACE_TRACES", Path(__file__).parents[2] / "shared" / "data"))


def read(limit: int | None = None, days: tuple[int, int] | None = None) -> list[Job]:
    """The jobs in order of submission; `FileNotFoundError` where the trace is not there.

    `limit`: the number of jobs to read, from the first on. `days`: only jobs submitted from the one day on and before the other, counted
    from 0.
    """
    with gzip.open(traces() / FILE, "rt", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    first, end = days or (0, sys.maxsize)
    there = [row for row in rows if first <= int(row["submit_s"]) // DAY < end][:limit]
    return [
        Job(order, int(row["submit_s"]) - first * DAY, int(row["duration_s"]), int(row["gpus"]), row["vc"])
        for order, row in enumerate(there)
    ]


def shares(jobs: list[Job], nodes: int) -> dict[str, int]:
    """GPUs of each virtual cluster: whole nodes in proportion to its GPU-time, the greatest remainders rounded up."""
    wanted: Counter[str] = Counter()
    for job in jobs:
        wanted[job.cluster] += job.gpus * job.duration
    total = sum(wanted.values())
    whole = {cluster: nodes * time // total for cluster, time in wanted.items()}
    by_remainder = sorted(wanted, key=lambda cluster: (-(nodes * wanted[cluster] % total), cluster))
    for cluster in by_remainder[: nodes - sum(whole.values())]:
        whole[cluster] += 1
    return {cluster: count * GPUS_PER_NODE for cluster, count in sorted(whole.items())}
