"""Whose wait it is: waits to the first start by virtual cluster and size of job, and whether clusters got their shares when they asked."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import product
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from bench.philly import Job
    from bench.trace import Outcome

SIZES = ((1, "1"), (2, "2-7"), (8, "8"), (9, ">8"))
"""The smallest number of GPUs of each class of sizes, and what it is called."""
ALL = "all"
COLUMNS = 39
"""How wide the columns of one row are."""


def size_of(gpus: int) -> str:
    """The class of sizes that a number of GPUs belongs to."""
    return next(name for least, name in reversed(SIZES) if gpus >= least)


def keys_of(job: Job) -> Iterator[tuple[str, str]]:
    """What a job is counted under: its cluster, its class of sizes, and `ALL` in place of either."""
    return product((job.cluster, ALL), (size_of(job.gpus), ALL))


def waits(jobs: Sequence[Job], found: Outcome) -> dict[tuple[str, str], dict[str, float]]:
    """By cluster and class of sizes, and for `ALL` of either: number of jobs, mean and 95th percentile of their waits in seconds."""
    apart: dict[tuple[str, str], list[int]] = defaultdict(list)
    for job in jobs:
        for key in keys_of(job):
            apart[key].append(found.started[job.order] - job.submitted)
    return {key: _summary(sorted(those)) for key, those in sorted(apart.items())}


def _summary(those: list[int]) -> dict[str, float]:
    return {"jobs": len(those), "mean_s": sum(those) / len(those), "p95_s": those[len(those) * 95 // 100]}


def late_jobs(jobs: Sequence[Job], found: Outcome, seconds: int) -> Counter[tuple[str, str]]:
    """The number of jobs that waited longer than `seconds`, by the keys of `waits`."""
    late = (job for job in jobs if found.started[job.order] - job.submitted > seconds)
    return Counter(key for job in late for key in keys_of(job))


def honoured(jobs: Sequence[Job], shares: Mapping[str, int], found: Outcome) -> dict[str, float | None]:
    """By cluster: percent of the time in which it asked for its whole share and had it. None: it never asked for the whole.

    It asks for its whole share while its jobs, running and waiting, ask for as many GPUs at least. It has it while none of those that wait
    would fit in what is left of the share. Only the time until the last submit counts.
    """
    changes: dict[str, list[tuple[int, int, int, int]]] = defaultdict(
        list
    )  # by cluster: (time, GPUs of the job, change of running, change of waiting)
    attempts: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for began, ended, number in found.busy:
        attempts[number].append((began, ended))
    for job in jobs:
        since = job.submitted
        for began, ended in sorted(attempts[job.order]):
            changes[job.cluster] += [(since, job.gpus, 0, 1), (began, job.gpus, 1, -1), (ended, job.gpus, -1, 0)]
            since = ended
    last = jobs[-1].submitted
    return {cluster: _honoured(sorted(changes[cluster]), share, last) for cluster, share in shares.items()}


def _honoured(changes: Iterable[tuple[int, int, int, int]], share: int, last: int) -> float | None:
    running, waiting, sizes = 0, 0, Counter[int]()
    asked = had = before = 0
    for at, gpus, runs, waits_too in changes:
        passed = min(at, last) - before
        if share and passed > 0 and running + waiting >= share:
            asked += passed
            if not any(running + size <= share for size, count in sizes.items() if count):
                had += passed
        before = at
        running += runs * gpus
        waiting += waits_too * gpus
        sizes[gpus] += waits_too
    return 100 * had / asked if asked else None


def lines(jobs: Sequence[Job], shares: Mapping[str, int], rows: Mapping[str, Outcome]) -> Iterable[str]:
    """The table, with a group of columns for each row. *late*: jobs that waited longer than 95 % of all jobs in the first row."""
    apart = {name: waits(jobs, found) for name, found in rows.items()}
    had = {name: honoured(jobs, shares, found) for name, found in rows.items()}
    first = next(iter(apart.values()))
    bar = int(first[ALL, ALL]["p95_s"])
    late = {name: late_jobs(jobs, found, bar) for name, found in rows.items()}
    yield f"late: waited for more than {bar:,} s, as 5 % of all jobs do in the first row; had: percent of the time in which a cluster"
    yield "asked for its whole share and had it"
    yield f"{'':<26}" + "".join(f" | {name:<{COLUMNS}}" for name in rows)
    yield (
        f"{'cluster':<8} {'share':>5} {'GPUs':>4} {'jobs':>6}"
        + f" | {'wait mean':>10} {'p95':>10} {'late':>8} {'had %':>8}" * len(rows)
    )
    for (cluster, size), counts in first.items():
        line = f"{cluster:<8} {shares.get(cluster, ''):>5} {size:>4} {counts['jobs']:>6,.0f}"
        for name, theirs in apart.items():
            row = theirs[cluster, size]
            share = had[name].get(cluster) if size == ALL else None
            part = "" if share is None else f"{share:.1f}"
            line += f" | {row['mean_s']:>10,.0f} {row['p95_s']:>10,.0f} {late[name][cluster, size]:>8,} {part:>8}"
        yield line.rstrip()


def figures(jobs: Sequence[Job], shares: Mapping[str, int], found: Outcome) -> dict[str, Any]:
    """The same of one row, for programs."""
    return {
        "waits": {f"{cluster}/{size}": row for (cluster, size), row in waits(jobs, found).items()},
        "honoured_percent": honoured(jobs, shares, found),
    }
