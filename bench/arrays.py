"""What an array costs beside single jobs: facts, bytes of the ledger, memory of the state and CPU time, from the submit to the last end.

In process, no NATS; admission, allocator and simulated nodes state facts through the codec and the ledger. Jobs of one GPU and one second
of virtual time on 8 GPUs. Each figure comes from a process of its own. `python -m bench.arrays --count 100000`
"""

from __future__ import annotations

import gc
import resource
import subprocess
import sys
import time
import tracemalloc
from typing import Any

from bench.options import options
from headrace.bus.memory import MemoryLog
from headrace.contracts.documents import model as d
from headrace.contracts.transport.codec import encode
from headrace.contracts.values.amounts import GPU, GPU_UNITS
from headrace.contracts.values.durations import SECOND
from headrace.simulate.scenario import Expect, Moment, Nodes, Scenario, Submit
from headrace.simulate.world import World

GPUS = 8


def scenario(count: int, *, array: bool, submit_only: bool) -> Scenario:
    """`count` jobs, as an array or one by one; with `submit_only` none of them can start."""
    pool = d.Pool(name="hall", selector={"site": "hall"})
    one = d.Profile(name="one", request={GPU: GPU_UNITS}, pools=("hall",))
    policy = d.Policy(name="ml", profiles=(d.PolicyProfile(name="one"),), max_pending=10_000_000)
    how: dict[str, Any] = {"array": f"0-{count - 1}"} if array else {"count": count}
    jobs = Submit(name="j", queue="ml/one", duration=SECOND, **how)
    end = SECOND if submit_only else (count // GPUS + 2) * SECOND
    return Scenario(
        documents=d.Documents(pools=(pool,), profiles=(one,), policies=(policy,)),
        nodes=(Nodes(name="n", labels={"site": "hall"}, gpus=GPUS, gpu_model="H100-80GB"),),
        timeline=(
            *((Moment(at=0, cordon="n"),) if submit_only else ()),
            Moment(at=0, submit=jobs),
            Moment(at=end, expect=Expect()),
        ),
    )


def measured(count: int, *, array: bool, submit_only: bool) -> dict[str, object]:
    """The figures of one run in this process."""
    world = World(scenario(count, array=array, submit_only=submit_only), judged=False)
    if submit_only:
        tracemalloc.start()
    before = time.process_time()
    for _ in world.run():
        pass
    spent = time.process_time() - before
    state, kept = world.state, 0
    size = sum(len(message.payload) for message in world.log.messages_after(0))
    facts = sum(len(record.facts) for record in world.history)
    if submit_only:
        for ours in (world.history, world.names, world.machines.behaviours):  # what the bench keeps
            ours.clear()
        world.log = world.submits = MemoryLog(lambda: 0)
        gc.collect()
        kept, _ = tracemalloc.get_traced_memory()
    return {
        "facts": facts,
        "ledger_bytes": size,
        "cpu_s": round(spent, 2),
        "traced_bytes": kept,
        "peak_rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "jobs_in_state": len(state.jobs),
        "waiting": sum(policy.pending for policy in state.policies.values()),
    }


def main() -> None:
    """Print the figures of both forms, submitted only and run to the end."""
    parser = options("bench.arrays", __doc__, "5 minutes")
    parser.add_argument("--count", type=int, default=100_000, help="number of jobs (default: 100000)")
    parser.add_argument("--one", choices=("array", "single"), help="only this form, in this process, as JSON")
    parser.add_argument("--submit-only", action="store_true", help="with --one: submit the jobs, and let none of them start")
    args = parser.parse_args()
    if args.one:
        print(encode(measured(args.count, array=args.one == "array", submit_only=args.submit_only)).decode())
        return
    for only in (["--submit-only"], []):
        for form in ("array", "single"):
            command = [sys.executable, "-m", "bench.arrays", "--count", str(args.count), "--one", form, *only]
            ran = subprocess.run(command, capture_output=True, text=True, check=True)
            print(f"{'submitted' if only else 'run to the end'}, {form}: {ran.stdout.strip()}", flush=True)


if __name__ == "__main__":
    main()
