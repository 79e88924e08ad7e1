"""Slurm and HyperQueue beside Headrace, on the same work in the same call: `true` with one of 64 GPUs, and one job on an idle system.

Slurm is Debian's, alone on the loopback: munged, slurmctld and slurmd with keys, ports and folders of this run, 64 pretended GPUs and 256
pretended CPUs, eager scheduling, no accounting storage; its jobs are one array. HyperQueue is the wheel of PyPI in an environment of its
own (`.hyperqueue`): server and one worker with 64 slots in one Python process, nothing kept on disk. Headrace keeps everything on disk, and
books it. `--install` gets what is missing (apt for Slurm, as root); without it a peer that is not there is left out, and it is said why.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from bench import line
from bench.installation import cpu_seconds, installation
from bench.options import options
from bench.stage import done, progress, quantile
from headrace.client import connect

ROOT = Path(__file__).parents[1]
GPUS, CPUS = 64, 256
JOBS, SAMPLES, RUNS = 2_000, 50, 5
WITHIN = 300.0
SLURM = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "sinfo")
HYPERQUEUE = ROOT / ".hyperqueue" / "bin" / "python"
SLURM_CONF = """\
ClusterName=bench
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
SlurmctldPort={ctld}
SlurmdPort={d}
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
GresTypes=gpu
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,sched_interval=1,default_queue_depth=1000,bf_interval=1,bf_max_job_test=1000
SlurmdParameters=config_overrides
MaxArraySize=100001
MaxJobCount=200000
MinJobAge=10
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} Boards=1 SocketsPerBoard=1 CoresPerSocket={cpus} ThreadsPerCore=1 Gres=gpu:{gpus} \
    RealMemory=1000
PartitionName=all Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""
HQ_PROGRAM = """
import json, sys, time
from pathlib import Path
from hyperqueue import Job, LocalCluster
from hyperqueue.cluster import WorkerConfig
folder, slots, runs, jobs, samples = Path(sys.argv[1]), *map(int, sys.argv[2:])
found = {"jobs_per_s": [], "milliseconds": []}
with LocalCluster(str(folder), WorkerConfig(cores=slots)) as cluster:
    client = cluster.client()
    for number in range(samples + 5):
        job, file = Job(), folder / f"output-{number}"
        job.program(["sh", "-c", f"date +%s%N > {file}"], stdout=None, stderr=None)
        began = time.time_ns()
        client.wait_for_jobs([client.submit(job)], raise_on_error=False)
        if number >= 5:
            found["milliseconds"].append((int(file.read_text()) - began) / 1e6)
    for _ in range(runs):
        job, file = Job(), folder / "ended"
        tasks = [job.program(["true"], stdout=None, stderr=None) for _ in range(jobs)]
        job.program(["sh", "-c", f"date +%s%N > {file}"], stdout=None, stderr=None, deps=tasks)  # its own waiting looks once a second
        began = time.time_ns()
        client.wait_for_jobs([client.submit(job)], raise_on_error=False)
        found["jobs_per_s"].append(jobs * 1e9 / (int(file.read_text()) - began))
(folder / "found.json").write_text(json.dumps(found))
"""


class Absent(Exception):
    """A peer cannot be run here, and why."""


def free_ports(count: int) -> list[int]:
    """A number of free ports on the loopback."""
    held = [socket.socket() for _ in range(count)]
    for one in held:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports


def install() -> None:
    """Get what is missing. Says what it does."""
    if not all(map(_where, SLURM)) and os.geteuid() == 0 and shutil.which("apt-get"):
        progress("installing slurm-wlm and munge")
        command = ["apt-get", "install", "--yes", "--no-install-recommends", "slurm-wlm", "munge"]
        subprocess.run(command, env=os.environ | {"DEBIAN_FRONTEND": "noninteractive"}, capture_output=True, check=False)
    if not HYPERQUEUE.exists():
        progress("installing HyperQueue into .hyperqueue")
        subprocess.run([sys.executable, "-m", "venv", HYPERQUEUE.parents[1]], capture_output=True, check=False)
    if HYPERQUEUE.exists():
        pip = [HYPERQUEUE, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "hyperqueue"]
        subprocess.run(pip, capture_output=True, check=False)
    done()


def _where(program: str) -> str | None:
    return shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


@contextmanager
def slurm() -> Iterator[dict[str, str]]:
    """A cluster of one node; what the environment has to say to reach it. Raises `Absent`."""
    missing = [program for program in SLURM if not _where(program)]
    if missing:
        raise Absent(f"{', '.join(missing)} are not installed: apt install slurm-wlm munge")
    if os.geteuid():
        raise Absent("its daemons and pretended devices take root")
    folder, host, ports = (
        Path(tempfile.mkdtemp(prefix="headrace-slurm-")),
        socket.gethostname().partition(".")[0],
        free_ports(2),
    )
    folder.chmod(0o755)
    started: list[subprocess.Popen[bytes]] = []
    try:
        _write_slurm(folder, host, *ports)
        environment = os.environ | {"SLURM_CONF": f"{folder}/slurm.conf"}

        def start(program: str, *arguments: str) -> None:
            log = (folder / f"{program}.out").open("wb")
            command = [_where(program) or program, *arguments]
            started.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True))

        munge = [f"--{name}={folder}/munge.{name}" for name in ("socket", "pid-file", "log-file", "seed-file", "key-file")]
        start("munged", "--foreground", "--force", "--num-threads=10", *munge)
        _until((folder / "munge.socket").exists, folder / "munged.out")
        start("slurmctld", "-D")
        start("slurmd", "-D", "-N", host)
        _until(lambda: "idle" in _printed(environment, "sinfo", "-h", "-o", "%T"), folder / "slurmctld.log")
        yield environment | {"BENCH_PIDS": ",".join(str(one.pid) for one in started)}
    finally:
        for one in reversed(started):
            one.terminate()
        for one in started:
            with suppress(subprocess.TimeoutExpired):
                one.wait(10)
            one.kill()
            one.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _write_slurm(folder: Path, host: str, ctld: int, d: int) -> None:
    for name in ("state", "spool"):
        (folder / name).mkdir()
    for number in range(GPUS):
        os.mknod(folder / f"gpu{number}", 0o020666, os.makedev(1, 3))
    (folder / "munge.key-file").write_bytes(secrets.token_bytes(128))
    (folder / "munge.key-file").chmod(0o600)
    (folder / "gres.conf").write_text(f"NodeName={host} Name=gpu File={folder}/gpu[0-{GPUS - 1}]\n")
    (folder / "slurm.conf").write_text(SLURM_CONF.format(folder=folder, host=host, ctld=ctld, d=d, cpus=CPUS, gpus=GPUS))
    (folder / "job.sh").write_text("#!/bin/sh\ntrue\n")


def _printed(environment: dict[str, str], *command: str) -> str:
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False).stdout


def _until(is_so: Callable[[], bool], log: Path) -> None:
    deadline = time.monotonic() + 30.0
    while not is_so():
        if time.monotonic() > deadline:
            raise Absent(f"it does not start: {log.read_text('utf-8', 'replace')[-300:] if log.exists() else 'no log'}")
        time.sleep(0.1)


def run_slurm(runs: int, jobs: int, samples: int) -> dict[str, Any]:
    """Jobs/s of each run, milliseconds of each sample. Raises `Absent`."""
    with slurm() as environment:
        pids = [int(pid) for pid in environment["BENCH_PIDS"].split(",")]
        script = str(Path(environment["SLURM_CONF"]).with_name("job.sh"))
        waits, rates = [], []
        for number in range(samples + 5):
            began = time.time_ns()
            printed = _printed(environment, "srun", "--gres=gpu:1", "-n1", "date", "+%s%N").strip()
            if number >= 5:
                waits.append((int(printed) - began) / 1e6)
        before = _cpu(pids)
        for number in range(1, runs + 1):
            progress(f"Slurm: run {number} of {runs}")
            began_at, deadline = time.perf_counter(), time.monotonic() + WITHIN
            array = ("sbatch", f"--array=1-{jobs}", "--gres=gpu:1", "-n1", "-o", "/dev/null", script)
            if "Submitted" not in _printed(environment, *array):
                raise Absent("it does not take an array of jobs")
            while _printed(environment, "squeue", "-h", "-t", "PD,R,CG", "-o", "%i").strip():
                if time.monotonic() > deadline:
                    raise Absent(f"{jobs} jobs have not ended in {WITHIN:.0f} s")
                time.sleep(0.2)
            rates.append(jobs / (time.perf_counter() - began_at))
        used = _cpu(pids) - before
        version = _printed(environment, "sinfo", "--version").strip()
    done()
    return {"version": version, "jobs_per_s": rates, "milliseconds": waits, "cpu_per_1000": 1_000 * used / (runs * jobs)}


def _cpu(pids: list[int]) -> float:
    times = [psutil.Process(pid).cpu_times() for pid in pids]
    return sum(each.user + each.system + each.children_user + each.children_system for each in times)


def run_hyperqueue(runs: int, jobs: int, samples: int) -> dict[str, Any]:
    """Jobs/s of each run, milliseconds of each sample. Raises `Absent`."""
    if not HYPERQUEUE.exists():
        raise Absent("it is not installed: make bench-peers does that")
    progress(f"HyperQueue: {runs} runs")
    with tempfile.TemporaryDirectory(prefix="headrace-hq-") as folder:
        before = os.times()
        arguments = [folder, *map(str, (GPUS, runs, jobs, samples))]
        try:
            ended = subprocess.run(
                [HYPERQUEUE, "-c", HQ_PROGRAM, *arguments], capture_output=True, text=True, timeout=WITHIN, check=False
            )
        except subprocess.TimeoutExpired:
            raise Absent(f"{runs} times {jobs} jobs have not ended in {WITHIN:.0f} s") from None
        file = Path(folder) / "found.json"
        if not file.exists():
            raise Absent(f"it has failed: {ended.stderr.strip()[-300:]}")
        found: dict[str, Any] = json.loads(file.read_text("utf-8"))
        after = os.times()
    done()
    used = after.children_user - before.children_user + after.children_system - before.children_system
    shown = subprocess.run([HYPERQUEUE, "-m", "pip", "show", "hyperqueue"], capture_output=True, text=True, check=False).stdout
    version = next((row.partition(": ")[2] for row in shown.splitlines() if row.startswith("Version")), "")
    return {"version": f"hyperqueue {version}", **found, "cpu_per_1000": 1_000 * used / (runs * jobs + samples)}


def run_headrace(runs: int, jobs: int, samples: int) -> dict[str, Any]:
    """The same of ours."""

    async def work(folder: Path) -> dict[str, Any]:
        async with connect(data=folder, user="bench") as client:
            await line.latency(client, 5)
            waits = await line.latency(client, samples)
            before, rates = cpu_seconds(folder), []
            for number in range(1, runs + 1):
                progress(f"Headrace: run {number} of {runs}")
                rates.append(await line.throughput(folder, client, jobs))
            used = sum(spent - before.get(part, 0.0) for part, spent in cpu_seconds(folder).items())
        return {"jobs_per_s": rates, "milliseconds": waits, "cpu_per_1000": 1_000 * used / (runs * jobs)}

    with installation(GPUS) as folder:
        found = asyncio.run(work(folder))
    done()
    return {"version": "this tree, durable and booked", **found}


PEERS = {"Headrace": run_headrace, "Slurm": run_slurm, "HyperQueue": run_hyperqueue}


def show(found: dict[str, Any]) -> None:
    """A line for each, with the ratio of Headrace to it."""
    print(
        f"{'':<12}{'jobs/s':>9} {'least - greatest':>18} {'ratio':>7}{'idle p50 ms':>13}{'p99':>8} {'ratio':>7}{'CPU-s/1,000':>13}  version"
    )
    ours = found["Headrace"]
    for name, row in found.items():
        if "absent" in row:
            print(f"{name:<12} left out: {row['absent']}")
            continue
        rate, p50 = statistics.median(row["jobs_per_s"]), quantile(row["milliseconds"], 0.5)
        faster, sooner = statistics.median(ours["jobs_per_s"]) / rate, p50 / quantile(ours["milliseconds"], 0.5)
        spread = f"{min(row['jobs_per_s']):,.0f} - {max(row['jobs_per_s']):,.0f}"
        print(
            f"{name:<12}{rate:>9,.0f} {spread:>18} {faster:>7.2f}{p50:>13.1f}{quantile(row['milliseconds'], 0.99):>8.1f}"
            f" {sooner:>7.2f}{row['cpu_per_1000']:>13.2f}  {row['version']}",
            flush=True,
        )


def measure(runs: int = RUNS, jobs: int = JOBS, samples: int = SAMPLES) -> dict[str, Any]:
    """All of them, one after the other; what cannot be run says why."""
    found: dict[str, Any] = {}
    for name, work in PEERS.items():
        try:
            found[name] = work(runs, jobs, samples)
        except Absent as reason:
            found[name] = {"absent": str(reason)}
    return found


def main() -> None:
    """Run them, and print the table."""
    parser = options("bench.peers", __doc__, "15 minutes, and more with --install")
    parser.add_argument("--install", action="store_true", help="get what is missing first")
    parser.add_argument("--jobs", type=int, default=JOBS, help="of each run")
    parser.add_argument("--samples", type=int, default=SAMPLES, help="of the latency")
    parser.add_argument("--runs", type=int, default=RUNS, help="of each")
    parser.add_argument("--json", type=Path, help="write the figures into this file as well")
    arguments = parser.parse_args()
    if arguments.install:
        install()
    print(
        f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} before; {arguments.runs} runs of {arguments.jobs:,} times `true`"
        f" with one of {GPUS} GPUs"
    )
    found = measure(arguments.runs, arguments.jobs, arguments.samples)
    show(found)
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
