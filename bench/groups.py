"""What `make bench` can measure, by group: how, about how long it takes, and under which names its figures go into the table."""

from __future__ import annotations

import asyncio
import json
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bench import allocator_core, api, books, kai, kueue, line, memory, node, reclaim, storm, sustained, verify, why
from bench.installation import installation
from bench.results import Found
from bench.stage import done, progress, quantile

ROOT = Path(__file__).parents[1]
RUNS = 5
WAITING, LIVE, TAIL = 100_000, 1_000_000, 50_000
"""Pending jobs whose memory is taken; jobs in a snapshot; facts behind it."""
MONTH_FACTS, MONTH_JOBS, VERIFIED_JOBS = 200_000, 1_000_000, 4_000
API_SECONDS = 3.0


class Size(NamedTuple):
    """How much is asked for: runs of each figure, and whether it is to be quick."""

    runs: int = RUNS
    is_quick: bool = False


class Group(NamedTuple):
    """`minutes` as on two quiet cores, whole and quick; a long one is only run when it is named."""

    what: str
    minutes: tuple[float, float]
    work: Callable[[Size], Found]
    is_long: bool = False


def core(size: Size) -> Found:
    """P1 by shapes, P2 by pending jobs, P3 by nodes; each run has a seed of its own."""
    cells: dict[str, tuple[int, int, int, int]] = {
        "P1 20 shapes": (1_000, 10_000, 20, 1),
        "P1 16 at once": (1_000, 10_000, 20, 16),
        "P1 5 shapes": (1_000, 10_000, 5, 1),
        "P1 100 shapes": (1_000, 10_000, 100, 1),
        "1k pending": (1_000, 1_000, 20, 1),
        "100k pending": (1_000, 100_000, 20, 1),
        "1M pending": (1_000, 1_000_000, 20, 1),
        "10 nodes": (10, 10_000, 20, 1),
        "100 nodes": (100, 10_000, 20, 1),
        "10k nodes": (10_000, 10_000, 20, 1),
    }
    detail = {}
    for name, cell in cells.items():
        runs = []
        for seed in range(1, size.runs + 1):
            progress(f"core, {name}: run {seed} of {size.runs}")
            runs.append(allocator_core.measure(*cell, seconds=1.0, seed=seed))
        done()
        detail[name] = runs
        middle = statistics.median(run["grants_per_s"] for run in runs)
        print(f"  core, {name:<14} {middle:>9,.0f} grants/s   sizes {runs[-1]['sizes']}", flush=True)
    rates = {name: [run["grants_per_s"] for run in runs] for name, runs in detail.items()}
    figures = {name: values for name, values in rates.items() if name.startswith("P1")}
    figures["P2"] = [100 * much / few for much, few in zip(rates["1M pending"], rates["1k pending"], strict=True)]
    figures["P3"] = [100 * many / few for many, few in zip(rates["10k nodes"], rates["10 nodes"], strict=True)]
    figures["P3 p99"] = [run["p99_ms"] for run in detail["10k nodes"]]
    return Found(figures, detail, f"1-{size.runs}")


def whole_line(size: Size) -> Found:
    """P5 and P7 on one installation."""
    progress(f"P5, P7: an installation, {size.runs} times 2,000 jobs and 100 samples")
    found = line.measure(size.runs, 2_000, 100)
    done()
    figures = {
        "P5": found["jobs_per_s"],
        "P7 p50": [quantile(run, 0.5) for run in found["milliseconds"]],
        "P7 p99": [quantile(run, 0.99) for run in found["milliseconds"]],
        "cpu": [sum(found["cpu_seconds_per_1000"].values())],
    }
    return Found(figures, found)


def sustained_line(size: Size) -> Found:
    """P6 as often as asked, P4 once, for five minutes."""
    seconds = 60.0 if size.is_quick else sustained.SECONDS
    found = asyncio.run(
        sustained.measure(sustained.NODES, sustained.GPUS, seconds, sustained.RATE, sustained.LATENCY_SECONDS, size.runs)
    )
    sustained.show(found)
    (run,) = found["P4"]
    figures = {
        "P4": [run["jobs_per_s"]],
        "P4 least": [run["least_of_ten_s"]],
        "P6 p50": [one["p50_ms"] for one in found["P6"]],
        "P6 p99": [one["p99_ms"] for one in found["P6"]],
        "cpu": [sum(run["cpu_seconds_per_1000"].values())],
    }
    return Found(figures, found)


def kueue_replay(name: str, size: Size) -> Found:
    """P8 or P9."""
    runs = [asyncio.run(kueue.play(name, "0s")) for _ in range(size.runs)]
    kueue.show(name, runs)
    return Found({what: [run[what] for run in runs] for what in kueue.SCENARIOS[name].kueue}, runs)


def kai_shapes(size: Size) -> Found:
    """P10."""
    runs = [asyncio.run(kai.play(kai.NODES, kai.GANG, kai.SAMPLES)) for _ in range(size.runs)]
    kai.show(runs)
    return Found(kai.summary(runs), runs)


def preemption_storm(size: Size) -> Found:
    """P11."""
    runs = [asyncio.run(storm.play(storm.VICTIMS, storm.GPUS, storm.EACH)) for _ in range(size.runs)]
    storm.show(runs)
    return Found({"seconds": [run["seconds"] for run in runs]}, runs)


def memory_and_rebuild(size: Size) -> Found:
    """P12 and P13: each figure from processes of its own."""
    found = memory.measure(size.runs, min(size.runs, 2), WAITING, 1_000_000, LIVE, TAIL, progress)
    done()
    figures = {
        "resident": [run["resident"] for run in found["per_job"]],
        "snapshot": [run["snapshot"] for run in found["per_job"]],
        "from_facts_s": [run["seconds"] for run in found["from_facts"]],
        "from_snapshot_s": [run["seconds"] for run in found["from_snapshot"]],
    }
    return Found(figures, found)


def the_books(size: Size) -> Found:
    """How fast accounting catches up, and what people ask of a month."""
    runs = []
    for number in range(1, size.runs + 1):
        progress(f"books: run {number} of {size.runs}")
        runs.append(books.catch_up(MONTH_FACTS))
    progress(f"books: a month of {MONTH_JOBS:,} jobs")
    month = {} if size.is_quick else books.month(MONTH_JOBS)
    done()
    for question, seconds in month.items():
        print(f"  {question:<58} {statistics.median(seconds):.2f} s   (a statement: goal 5)", flush=True)
    return Found({"catch_up": [run["facts_per_s"] for run in runs]}, {"runs": runs, "month": month})


def the_audit(size: Size) -> Found:
    """How fast a ledger is looked at."""
    runs = []
    for seed in range(1, size.runs + 1):
        progress(f"verify: run {seed} of {size.runs}")
        runs.append(verify.measure(VERIFIED_JOBS, seed))
    done()
    figures = {
        "records": [run["records_facts_per_s"] for run in runs],
        "folded": [run["folded_facts_per_s"] for run in runs],
        "whole": [run["whole_facts_per_s"] for run in runs],
    }
    return Found(figures, runs, f"1-{size.runs}")


def plans(size: Size) -> Found:
    """The search for victims."""
    progress("plans of preemption over 8,000 leases")
    rows = reclaim.measure(runs=1 if size.is_quick else 7)
    done()
    reclaim.show(rows)
    one = next(row for row in rows if row["asks"] == "1 GPU")
    return Found({"one": list(one["ms"])}, rows, "1" if size.is_quick else "1-7")


def the_node(_size: Size) -> Found:
    """The executor by itself."""
    progress("an executor with real processes")
    found = asyncio.run(node.measure())
    done()
    node.show(found)
    return Found({"restart_s": [found["restart_s"]], "exec_ms": [quantile(found["exec_ms"], 0.5)]}, found)


def why_it_waits(size: Size) -> Found:
    """One whole answer to *why*."""
    runs = [why.measure(seed=seed) for seed in range(1, size.runs + 1)]
    return Found({"why": [run["why"]["median"] for run in runs]}, runs, f"1-{size.runs}")


def the_api(size: Size) -> Found:
    """Submits and reads over HTTP, batched publishes."""
    with installation(gpus=8) as folder:
        runs: list[dict[str, Any]] = [asyncio.run(api.measure(folder, 32, API_SECONDS)) for _ in range(size.runs)]
    names = {
        "submit 1 p50": "submit, 1 client",
        "submit 32 p50": "submit, 32 clients",
        "submit 500/s p50": "submit, 500 a second",
        "read 1 p50": "read, 1 client",
    }
    figures = {key: [run[name]["p50_ms"] for run in runs] for key, name in names.items()}
    return Found(figures | {"batched": [run["batched publish, jobs/s"] for run in runs]}, runs)


def in_own_process(*command: str) -> Any:
    """What another tool of ours finds, by its `--json`; what it says is seen. Raises `RuntimeError` where it leaves nothing."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "found.json"
        ended = subprocess.run([sys.executable, *command, "--json", str(file)], cwd=ROOT, check=False).returncode
        if not file.exists():
            raise RuntimeError(f"{' '.join(command)} has ended with {ended}, and found nothing")
        return json.loads(file.read_text("utf-8"))


def failover(size: Size) -> Found:
    """Q1."""
    found = in_own_process("-m", "bench.failover", "--kills", "10" if size.is_quick else "100")
    wrong = found["lost"] + found["double"] + len(found["violations"])
    return Found({"p99_ms": [quantile(found["ms"], 0.99)], "wrong": [wrong]}, found)


def chaos(size: Size) -> Found:
    """Q2."""
    found = in_own_process("-m", "tests.chaos.campaign", "--minutes", "2" if size.is_quick else "10")
    wrong = found["lost"] + found["ended_twice"] + len(found["violations"])
    return Found({"kills": [found["kills"]], "wrong": [wrong]}, found, str(found["seed"]))


def leader(size: Size) -> Found:
    """Q3."""
    found = in_own_process("-m", "tests.chaos.leader", "--kills", "5" if size.is_quick else "50")
    figures = {
        "resume_s": [quantile(found["next_record_s"], 0.99)],
        "elected_s": found["elected_s"],
        "wrong": [found["lost"] + len(found["violations"])],
    }
    return Found(figures, found)


def durability(size: Size) -> Found:
    """What is stated to survive: power cuts, lost servers, a lost database, kills."""
    rows = in_own_process("-m", "tests.chaos.durability", "--times", "2" if size.is_quick else "10")
    return Found({"lost": [sum(row["lost"] for row in rows if not row["control"])]}, rows)


def simulation(size: Size) -> Found:
    """Q5."""
    found = in_own_process("-m", "tests.simulation.campaign", "--seeds", "100" if size.is_quick else "1000")
    figures = {
        "times_real": [found["simulated_s"] / found["seconds"]],
        "seeds_in_10_min": [600 * found["runs"] / found["seconds"]],
        "violations": [found["violations"]],
    }
    return Found(figures, found, found["seeds"])


def burst(size: Size) -> Found:
    """Q7: the burst, and hard times after it."""
    found = in_own_process("-m", "bench.load.burst", "--jobs", "10000" if size.is_quick else "100000")
    hard = in_own_process("-m", "bench.load.hard")
    figures = {
        "lost": [len(found["acknowledged_and_unknown"]) + found["twice"]],
        "drained_s": [found["drained_after_s"]],
        "peak_mib": [max(row["peak"] for row in found["memory_mib"])],
        "hard": [hard["lost"] + hard["ended_twice"] + len(hard["violations"])],
    }
    return Found(figures, {"burst": found, "hard": hard})


def packing(size: Size) -> Found:
    """P14; the runs are the given orders of arrival."""
    found = in_own_process("-m", "bench.packing", "--policies", "Headrace", "--orders", str(size.runs))
    figures = {
        f"{workload} {mark}": [run["allocated"][mark] for run in found[workload]["Headrace"]]
        for workload in ("default", "gpuspec33")
        for mark in ("98", "100", "130")
    }
    return Found(figures, found)


def trace(_size: Size) -> Found:
    """P15, on 80 nodes; a trace is played once, since it always comes out the same."""
    rows = in_own_process("-m", "bench.trace", "--nodes", "80", "--only-engine")["80"]
    saved, unsaved = rows["Headrace, they save, left alone for 4 h"], rows["Headrace, nothing saved, nobody stopped"]
    figures = {name: [saved[name]] for name in ("wait_mean_s", "wait_p95_s")}
    return Found(figures | {"lost_gpu_hours": [unsaved["lost_gpu_hours"]]}, rows)


PROOFS = {
    "Q4": ("tests/integration/test_verify.py", "tests/integration/failures/test_repair.py"),
    "Q8": ("tests/integration/test_node_executor.py",),
}


def proofs(_size: Size) -> Found:
    """Promises that are kept or not: tests on real servers, with real processes."""
    counts = {name: passed(files) for name, files in PROOFS.items()}
    return Found({name: [found["failed"]] for name, found in counts.items()}, counts)


def properties(size: Size) -> Found:
    """Q6."""
    found = passed(["tests/properties"], 1_000 if size.is_quick else 10_000)
    return Found({"failed": [found["failed"]]}, found)


def passed(files: Sequence[str], histories: int = 0) -> dict[str, int]:
    """How many tests passed and failed, with a line for each of the latter; histories are drawn on all cores."""
    command = [sys.executable, "-m", "pytest", "-q", "-o", "faulthandler_timeout=0", *files]
    if histories:
        command += ["--numprocesses", "logical", "--dist", "worksteal"]
    variables = ["env", *([f"HEADRACE_HISTORIES={histories}"] if histories else [])]
    output = subprocess.run([*variables, *command], cwd=ROOT, capture_output=True, text=True, check=False).stdout
    for report in output.splitlines():
        if report.startswith(("FAILED ", "ERROR ")):
            print(f"  {report}", flush=True)
    print("  " + output.strip().rpartition("\n")[2], flush=True)
    return counted(output)


def counted(output: str) -> dict[str, int]:
    """What pytest says at its end, as counts. Raises `RuntimeError` where it has not run any."""
    last = output.strip().rpartition("\n")[2]
    count = {word: int(number) for number, word in re.findall(r"(\d+) (passed|failed|error)", last)}
    if not count:
        raise RuntimeError(f"no test was run: {output[-500:]}")
    return {"passed": count.get("passed", 0), "failed": count.get("failed", 0) + count.get("error", 0)}


GROUPS: dict[str, Group] = {
    "core": Group("P1-P3: the allocator in process", (5, 1.5), core),
    "reclaim": Group("plans of preemption", (1, 1), plans),
    "why": Group("why a job waits", (1, 0.3), why_it_waits),
    "line": Group("P5, P7: the line with real processes", (2, 1), whole_line),
    "sustained": Group("P4, P6: the line on simulated nodes", (9, 2.5), sustained_line),
    "kueue": Group("P8: Kueue's baseline", (9, 2), lambda size: kueue_replay("baseline", size)),
    "kueue-large": Group("P9: Kueue's large-scale", (9, 2), lambda size: kueue_replay("large-scale", size)),
    "kai": Group("P10: KAI's shapes", (7, 1.5), kai_shapes),
    "storm": Group("P11: a storm of preemptions", (10, 2), preemption_storm),
    "node": Group("Q8: the executor by itself", (1, 1), the_node),
    "memory": Group("P12, P13: rebuilding and memory", (6, 5), memory_and_rebuild),
    "books": Group("accounting", (5, 1), the_books),
    "verify": Group("the audit", (2, 0.5), the_audit),
    "api": Group("the API", (3, 1), the_api),
    "packing": Group("P14: a real trace of requests", (8, 2), packing, is_long=True),
    "trace": Group("P15: six weeks of a real cluster", (10, 10), trace, is_long=True),
    "failover": Group("Q1: kill -9 with standbys", (8, 2), failover, is_long=True),
    "chaos": Group("Q2: everything breaks", (15, 5), chaos, is_long=True),
    "leader": Group("Q3: a NATS cluster loses its leader", (15, 3), leader, is_long=True),
    "durability": Group("what survives what", (10, 4), durability, is_long=True),
    "sim": Group("Q5: simulation with faults", (8, 1), simulation, is_long=True),
    "properties": Group("Q6: random histories", (300, 30), properties, is_long=True),
    "load": Group("Q7: a burst of 100,000, and hard times", (15, 8), burst, is_long=True),
    "proofs": Group("Q4, Q8: tests of damage and of restarts", (2, 2), proofs, is_long=True),
}


def chosen(names: Sequence[str]) -> list[str]:
    """The groups asked for, in order; of nothing all that are not long."""
    if "all" in names:
        return list(GROUPS)
    return [name for name, group in GROUPS.items() if name in names or (not names and not group.is_long)]
