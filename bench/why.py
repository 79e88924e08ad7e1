"""What a `why` costs at 1,000 nodes x 8 GPUs and 10,000 pending jobs, two thirds of those that run with a time limit.

Also what the reason alone costs, as FEED asks for it for the heads of queues.
"""

from __future__ import annotations

import gc
import random
import statistics
import time

from bench.allocator_core import Core
from bench.options import options
from headrace.contracts import facts as f
from headrace.contracts.values.durations import HOUR, MINUTE
from headrace.domain.explain.explain import explain
from headrace.domain.explain.wait_reasons import wait_of
from headrace.domain.model.job_states import JobState


def measure(pending: int = 10_000, asked: int = 60, seed: int = 1) -> dict[str, dict[str, float]]:
    """Milliseconds of one whole answer, and of one reason alone."""
    core = Core(1_000, pending, 20, at_once=1, seed=seed)
    state, chance = core.state, random.Random(seed)
    for policy in state.policies.values():
        for number, job in enumerate(policy.jobs.values()):
            for lease in list(job.leases.values()):
                core.fold(
                    f"node.{lease.node}", (f.LeaseStartedV1(job=job.key, attempt=job.attempt, rank=lease.rank, at=core.now),)
                )
            job.time_limit = None if number % 3 == 0 else chance.randrange(10 * MINUTE, 9 * HOUR)
    gc.collect()
    gc.freeze()  # as a service does once it has caught up
    waiting = [job for job in state.jobs.values() if job.state is JobState.PENDING]
    figures: dict[str, list[float]] = {"why": [], "reason": []}
    for job in chance.sample(waiting, asked):
        for name, question in (("why", explain), ("reason", wait_of)):
            began = time.process_time()
            question(state, job, core.now)
            figures[name].append((time.process_time() - began) * 1_000)
    return {
        name: {"median": statistics.median(times), "p95": sorted(times)[int(len(times) * 0.95)], "greatest": max(times)}
        for name, times in figures.items()
    }


if __name__ == "__main__":
    parser = options("bench.why", __doc__, "1 minute")
    parser.add_argument("--pending", type=int, default=10_000, help="jobs that wait")
    parser.add_argument("--asked", type=int, default=60, help="of them, by chance")
    asked = parser.parse_args()
    for name, row in measure(asked.pending, asked.asked).items():
        print(f"{name:>7}  median {row['median']:.2f} ms, p95 {row['p95']:.2f} ms, greatest {row['greatest']:.2f} ms")
