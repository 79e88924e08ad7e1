"""What simple schedulers do with the same jobs: first come first served, greedy backfill, shares with borrowing of what is idle.

Plain event simulators on counts of free GPUs per node, without a rule of ours: up to 8 GPUs on one node (the one that fits best), more as
equal parts on several. Nothing is ever preempted.
"""

from __future__ import annotations

import heapq
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from bench.philly import Job

GPUS_PER_NODE = 8


class Nodes:
    """Free GPUs of each node, by how many are free."""

    def __init__(self, count: int) -> None:
        self.with_free: list[list[int]] = [[] for _ in range(GPUS_PER_NODE)] + [list(range(count))]

    def take(self, parts: int, gpus: int) -> list[tuple[int, int]] | None:
        """(node, free before) for each part of this number of GPUs; None if they do not all fit."""
        taken: list[tuple[int, int]] = []
        for _ in range(parts):
            free = next((free for free in range(gpus, GPUS_PER_NODE + 1) if self.with_free[free]), None)
            if free is None:
                for node, _ in reversed(taken):
                    self.give(node, gpus)
                return None
            node = self.with_free[free].pop()
            self.with_free[free - gpus].append(node)
            taken.append((node, free))
        return taken

    def give(self, node: int, gpus: int) -> None:
        """Give the node this number of GPUs back."""
        free = next(free for free, nodes in enumerate(self.with_free) if node in nodes)
        self.with_free[free].remove(node)
        self.with_free[free + gpus].append(node)


@dataclass
class Line:
    """Waiting jobs, the oldest first, apart by virtual cluster and size; what is running in each cluster."""

    shares: Mapping[str, int]
    waiting: dict[tuple[str, int], deque[Job]] = field(default_factory=dict)
    running: Counter[str] = field(default_factory=Counter)

    def heads(self) -> Iterator[Job]:
        """The oldest of each cluster and size."""
        for jobs in self.waiting.values():
            if jobs:
                yield jobs[0]

    def is_inside(self, job: Job) -> bool:
        """Whether the job fits in what is left of its cluster's share."""
        return self.running[job.cluster] + job.gpus <= self.shares[job.cluster]


def fifo(line: Line, nodes: Nodes) -> Job | None:
    """Strictly in order: no job overtakes the oldest."""
    oldest = min(line.heads(), key=lambda job: job.order, default=None)
    return oldest if oldest is not None and _fits(nodes, oldest) else None


def backfill(line: Line, nodes: Nodes) -> Job | None:
    """The oldest that fits."""
    return min((job for job in line.heads() if _fits(nodes, job)), key=lambda job: job.order, default=None)


def borrowing(line: Line, nodes: Nodes) -> Job | None:
    """The oldest that fits, those inside their cluster's share first; the others borrow what is idle."""
    fitting = [job for job in line.heads() if _fits(nodes, job)]
    return min(fitting, key=lambda job: (not line.is_inside(job), job.order), default=None)


def _fits(nodes: Nodes, job: Job) -> bool:
    free = nodes.with_free
    return sum(len(free[units]) * (units // job.per_node) for units in range(job.per_node, GPUS_PER_NODE + 1)) >= job.parts


def play(
    jobs: Sequence[Job], nodes: int, shares: Mapping[str, int], choose: Callable[[Line, Nodes], Job | None]
) -> dict[int, tuple[int, int]]:
    """(start, end) of each job, in seconds, by its number."""
    line, free = Line(shares), Nodes(nodes)
    ends: list[tuple[int, int, Job, list[tuple[int, int]]]] = []
    done: dict[int, tuple[int, int]] = {}
    position = 0
    while position < len(jobs) or ends:
        now = min(ends[0][0] if ends else 1 << 60, jobs[position].submitted if position < len(jobs) else 1 << 60)
        while ends and ends[0][0] == now:
            _, _, job, places = heapq.heappop(ends)
            line.running[job.cluster] -= job.gpus
            for node, _ in places:
                free.give(node, job.per_node)
        while position < len(jobs) and jobs[position].submitted == now:
            job = jobs[position]
            line.waiting.setdefault((job.cluster, job.gpus), deque()).append(job)
            position += 1
        while (job := choose(line, free)) is not None:
            places = free.take(job.parts, job.per_node)
            if places is None:
                raise AssertionError(f"job {job.order} was said to fit")
            line.waiting[job.cluster, job.gpus].popleft()
            line.running[job.cluster] += job.gpus
            done[job.order] = (now, now + job.duration)
            heapq.heappush(ends, (now + job.duration, job.order, job, places))
    return done
