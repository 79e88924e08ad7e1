"""P12 and P13: what the fold costs. Memory and snapshot bytes of a pending job, seconds to rebuild from facts and from a snapshot.

In process, no NATS; through the codec and the ledger, as a service reads. Jobs are those that clients send: an id with chance in it, a
name, a digest, a time limit, one of 100 policies of 50 tenants and five requests; no labels, no trace. Each figure comes from a
process of its own, so that no memory is counted twice; seconds are those of the one core that it uses.
"""

from __future__ import annotations

import gc
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from bench.options import options
from headrace.allocator.decide import Allocator
from headrace.bus.process import collect_garbage_rarely
from headrace.contracts import facts as f
from headrace.contracts.documents.model import Policy, PolicyProfile, Pool, Profile, Tenant
from headrace.contracts.facts import AnyFact
from headrace.contracts.facts.fact import DeviceShare
from headrace.contracts.facts.nodes import Device
from headrace.contracts.facts.records import Record, digest
from headrace.contracts.transport.codec import encode
from headrace.contracts.transport.subjects import ledger
from headrace.contracts.values.amounts import CPU, GPU, GPU_UNITS, JOB, MEMORY
from headrace.contracts.values.durations import HOUR, SECOND
from headrace.contracts.values.ids import job_key, make_job_id
from headrace.domain.fold.ledger import FoldedLedger
from headrace.domain.snapshots.snapshot import copy_of, dump, load

TENANTS = 50
GPUS = (GPU_UNITS // 4, GPU_UNITS // 2, GPU_UNITS, 4 * GPU_UNITS, 8 * GPU_UNITS)
DEVICES = 8
BATCH = 4 * DEVICES
"""Jobs of a quarter that fill a node: the facts of one record where jobs come and go."""
ADMITTED_AT_ONCE = 100
START = 1_700_000_000 * SECOND


class Stored(NamedTuple):
    """One message as the log hands it out."""

    sequence: int
    subject: str
    stamped: int
    payload: bytes


class Tape:
    """Writes records as services and a node with this number of devices do."""

    def __init__(self, seed: int = 1, devices: int = DEVICES) -> None:
        self.random = random.Random(seed)
        self.sequence = 0
        self.now = START
        self.last: dict[str, str] = {}
        self.jobs = 0
        self.devices = devices
        self.grants = 0

    def write(self, by: str, facts: tuple[AnyFact, ...]) -> Stored:
        """The next message."""
        self.sequence += 1
        self.now += 1_000
        prev = "" if by.startswith("node.") else self.last.get(by, "")
        record = Record(by=by, now=self.now, engine="bench", as_of=self.sequence - 1, prev=prev, facts=facts)
        payload = encode(record)
        self.last[by] = digest(payload)
        return Stored(self.sequence, ledger(by), self.now, payload)

    def law(self) -> Iterator[Stored]:
        """One pool, five profiles, 50 tenants with two policies each, one node."""
        profiles = [
            Profile(name=f"p{number}", request={GPU: gpu, CPU: 1_000, MEMORY: 8_192}, pools=("pool",))
            for number, gpu in enumerate(GPUS)
        ]
        links = tuple(PolicyProfile(name=profile.name) for profile in profiles)
        law: list[AnyFact] = [f.PoolAppliedV1(author="b.b", pool=Pool(name="pool", selector={"site": "a"}))]
        law += [f.ProfileAppliedV1(author="b.b", profile=profile) for profile in profiles]
        for number in range(TENANTS):
            tenant = f"tenant-{number}"
            law.append(f.TenantAppliedV1(author="b.b", tenant=Tenant(name=tenant)))
            for name in ("train", "serve"):
                policy = Policy(tenant=tenant, name=name, profiles=links, reservation={GPU: 0})
                law.append(f.PolicyAppliedV1(author="b.b", policy=policy))
        yield self.write("governance", tuple(law))
        devices = tuple(Device(device=f"gpu{number}", model="H100-80GB", memory=81_920) for number in range(self.devices))
        resources = {"cpu": 16_000 * self.devices, "memory": 131_072 * self.devices}
        node = f.NodeRegisteredV1(node="n1", labels={"site": "a"}, devices=devices, at=self.now, **resources)
        yield self.write("node.n1", (node,))

    def admitted(self, shape: int) -> f.JobAdmittedV1:
        """One more job."""
        self.jobs += 1
        tenant, chance = f"tenant-{self.random.randrange(TENANTS)}", self.random.randbytes(18)
        return f.JobAdmittedV1(
            job=job_key(tenant, "alice", make_job_id(self.now // 1_000, chance[:10])),
            policy=self.random.choice(("train", "serve")),
            profile=f"p{shape}",
            request={GPU: GPUS[shape], CPU: 1_000, MEMORY: 8_192},
            name=f"train-{self.jobs}",
            digest=chance[10:].hex(),
            time_limit=self.random.randrange(1, 48) * HOUR,
        )

    def pending(self, jobs: int) -> Iterator[Stored]:
        """Records that admit this number of jobs, 100 each."""
        for _ in range(0, jobs, ADMITTED_AT_ONCE):
            shapes = self.random.choices(range(len(GPUS)), k=ADMITTED_AT_ONCE)
            yield self.write("admission", tuple(map(self.admitted, shapes)))

    def lives(self, facts: int, every: int = 2 * SECOND) -> Iterator[Stored]:
        """Records of jobs that come, run and end, five facts each; a batch every two seconds, so that the fold forgets the first."""
        for _ in range(0, facts, 5 * BATCH):
            self.now += every
            jobs = [self.admitted(0) for _ in range(BATCH)]
            yield self.write("admission", tuple(jobs))
            yield self.write("allocator", tuple(map(self._granted, jobs)))
            yield self.write(
                "node.n1", tuple(f.LeaseStartedV1(job=job.job, attempt=1, at=self.now, isolation="none") for job in jobs)
            )
            ends = {"attempt": 1, "outcome": "exited", "exit_code": 0, "exited_at": self.now, "at": self.now}
            yield self.write("node.n1", tuple(f.LeaseEndedV1(job=job.job, **ends) for job in jobs))
            done = {"attempt": 1, "state": "succeeded", "cause": "exited", "exit_code": 0}
            yield self.write("allocator", tuple(f.JobEndedV1(job=job.job, **done) for job in jobs))

    def _granted(self, job: f.JobAdmittedV1) -> f.LeaseGrantedV1:
        share = DeviceShare(device=f"gpu{self.grants // 4 % self.devices}", units=GPUS[0])
        self.grants += 1
        return f.LeaseGrantedV1(
            job=job.job, attempt=1, node="n1", pool="pool", devices=(share,), amounts={**job.request, JOB: 1}
        )


def _folded(tape: Tape) -> FoldedLedger:
    """One who has read the law."""
    reader = FoldedLedger()
    for message in tape.law():
        reader.read(message)
    return reader


def _resident() -> int:
    """Bytes of memory that this process has."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize()


def per_job(jobs: int) -> dict[str, float]:
    """Bytes of a pending job: as Python counts them, as the system does, in a snapshot; and seconds of dump and copy."""
    tape = Tape()
    reader = _folded(tape)
    gc.collect()
    before = _resident()
    for message in tape.pending(jobs):
        reader.read(message)
    gc.collect()
    resident = (_resident() - before) / jobs
    gc.freeze()
    gc.disable()
    began = time.process_time()
    data = dump(reader.state)
    dumped = time.process_time()
    copied = copy_of(reader.state)
    ended = time.process_time()
    return {
        "resident": resident,
        "snapshot": len(data) / len(copied.jobs),
        "dump_s": dumped - began,
        "copy_s": ended - dumped,
    }


def traced(jobs: int) -> dict[str, float]:
    """Bytes of a pending job as Python counts them."""
    tape = Tape()
    reader = _folded(tape)
    messages = list(tape.pending(jobs))
    gc.collect()
    tracemalloc.start()
    for message in messages:
        reader.read(message)
    gc.collect()
    return {"traced": tracemalloc.get_traced_memory()[0] / jobs}


def from_facts(facts: int) -> dict[str, float]:
    """Seconds from the first record to the allocator's first decision; what writes the records is outside of the clock."""
    tape = Tape()
    reader = _folded(tape)
    spent, count = 0.0, 0
    for message in tape.lives(facts):
        began = time.process_time()
        reader.read(message)
        spent += time.process_time() - began
        count += BATCH
    began = time.process_time()
    reader.state.pass_time(tape.now)
    Allocator(reader.state).decide(tape.now)
    return {"seconds": spent + time.process_time() - began, "facts": count}


def write_snapshot(path: Path, jobs: int, tail: int) -> None:
    """A snapshot of this number of live jobs at `path`, and behind it the records of a tail of facts."""
    tape = Tape()
    reader = _folded(tape)
    gc.disable()
    for message in tape.pending(jobs):
        reader.read(message)
    path.write_bytes(dump(reader.state))
    with path.with_suffix(".tail").open("w", encoding="utf-8") as file:
        for message in tape.lives(tail):
            file.write(json.dumps([*message[:3], message.payload.decode()]) + "\n")


def from_snapshot(path: Path) -> dict[str, float]:
    """Seconds from bytes in memory to the allocator's first decision; the collector of cycles waits meanwhile."""
    data = path.read_bytes()
    rows = [json.loads(row) for row in path.with_suffix(".tail").read_text(encoding="utf-8").splitlines()]
    tail = [Stored(sequence, subject, stamped, payload.encode()) for sequence, subject, stamped, payload in rows]
    gc.disable()
    began = time.process_time()
    reader = FoldedLedger(load(data))
    loaded = time.process_time()
    for message in tail:
        reader.read(message)
    folded = time.process_time()
    reader.state.pass_time(tail[-1].stamped)
    Allocator(reader.state).decide(tail[-1].stamped)
    ended = time.process_time()
    return {
        "seconds": ended - began,
        "load_s": loaded - began,
        "tail_s": folded - loaded,
        "first_decision_s": ended - folded,
        "jobs": len(reader.state.jobs),
        "resident": _resident(),
    }


def alone(what: str, *arguments: object) -> dict[str, float]:
    """One of the functions above in a process of its own."""
    command = [sys.executable, "-m", "bench.memory", what, *map(str, arguments)]
    found: dict[str, float] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return found


def measure(
    runs: int, rebuilds: int, jobs: int, facts: int, live: int, tail: int, report: Callable[[str], None]
) -> dict[str, Any]:
    """All of it: a job's memory and a fold rebuilt, each several times. `report` is called with what is being done."""

    def times(count: int, name: str, what: str, *arguments: object) -> list[dict[str, float]]:
        found = []
        for number in range(1, count + 1):
            report(f"{name}: run {number} of {count}")
            found.append(alone(what, *arguments))
        return found

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "snapshot"
        per_job = times(runs, f"P13: {jobs:,} pending jobs", "per_job", jobs)
        (trace,) = times(1, f"P13: {jobs:,} pending jobs, traced", "traced", jobs)
        from_facts = times(rebuilds, f"P12: from {facts:,} facts", "from_facts", facts)
        report(f"P12: writing a snapshot of {live:,} jobs")
        subprocess.run([sys.executable, "-m", "bench.memory", "write_snapshot", str(path), str(live), str(tail)], check=True)
        from_snapshot = times(rebuilds, f"P12: from {live:,} live jobs and {tail:,} facts", "from_snapshot", path)
    return {"traced": trace["traced"], "per_job": per_job, "from_facts": from_facts, "from_snapshot": from_snapshot}


def _run() -> None:
    parser = options("bench.memory", __doc__, "1 to 3 minutes for a part; all of them: `python -m bench.run memory`")
    parser.add_argument(
        "what",
        choices=["per_job", "traced", "from_facts", "from_snapshot", "write_snapshot"],
        help="what this process measures",
    )
    parser.add_argument("arguments", nargs="+", help="jobs, facts, or the file of the snapshot (to write it: FILE JOBS FACTS)")
    asked = parser.parse_args()
    what, arguments = asked.what, asked.arguments
    collect_garbage_rarely()  # as every service does
    if what == "write_snapshot":
        write_snapshot(Path(arguments[0]), int(arguments[1]), int(arguments[2]))
    elif what == "from_snapshot":
        print(json.dumps(from_snapshot(Path(arguments[0]))))
    else:
        print(json.dumps({"per_job": per_job, "traced": traced, "from_facts": from_facts}[what](int(arguments[0]))))


if __name__ == "__main__":
    _run()
