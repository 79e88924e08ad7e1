"""Metrics of the whole installation, from the state that the feed folds and from the facts that it reads. Pure.

Only the feed shows them: every service has the same state, and a metric has one source. Counters start at zero with the process.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from headrace.contracts.facts import (
    JobEndedV1,
    LeaseGrantedV1,
    PreemptionDismissedV1,
    PreemptionNoneV1,
    PreemptionOrderedV1,
    PreemptionSettledV1,
    fact_type,
)
from headrace.contracts.values.amounts import CPU, CPU_UNITS, GPU, GPU_UNITS
from headrace.domain.explain.availability import stocks
from headrace.domain.state.quota import borrowed
from headrace.health.metrics import LONG, Histogram

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from headrace.contracts.facts import AnyFact
    from headrace.contracts.values.amounts import Amounts
    from headrace.domain.model.jobs import PolicyState
    from headrace.domain.state.state import State
    from headrace.feed.queue_heads import Heads
    from headrace.health.metrics import Labels, MetricSources
    from headrace.views.job_index import JobIndex

MICROSECONDS = 1_000_000
UNKNOWN = "unknown"
"""Reason of a queue whose first job has not been looked at yet."""

PREEMPTIONS: dict[type, str] = {
    PreemptionOrderedV1: "ordered",
    PreemptionDismissedV1: "dismissed",
    PreemptionNoneV1: "no_victims",
    PreemptionSettledV1: "settled",
}

Fold = dict[tuple[str, ...], float]


class FeedCounts:
    """Counts since the feed started. `note` is called for every fact after the start."""

    def __init__(self, state: State) -> None:
        self.facts: Counter[type] = Counter()
        self.ended_as: Counter[str] = Counter()
        self.waited = Histogram(LONG)
        self.signal, self.grace, self.release = Histogram(LONG), Histogram(LONG), Histogram(LONG)
        self.lost = 0
        self._state = state

    def note(self, fact: AnyFact) -> None:
        """Count one fact of a record that has just been folded."""
        kind = type(fact)
        self.facts[kind] += 1
        if kind is LeaseGrantedV1:
            job = self._state.jobs.get(fact.job)  # type: ignore[union-attr]
            if job is not None and fact.rank == 0 and fact.attempt == 1:  # type: ignore[union-attr]
                self.waited.observe(max(0, self._state.now - job.admitted_at) / MICROSECONDS)
        elif kind is JobEndedV1:
            self.ended_as[fact.state] += 1  # type: ignore[union-attr]
        elif isinstance(fact, PreemptionSettledV1):
            self.signal.observe(fact.to_signal / MICROSECONDS)
            self.grace.observe(fact.grace / MICROSECONDS)
            self.release.observe(fact.to_release / MICROSECONDS)
            self.lost += fact.lost

    def by_type(self) -> Mapping[Labels, float]:
        """Facts by type, such as `lease.granted.v1`."""
        return {(fact_type(kind),): count for kind, count in self.facts.items()}

    def preemptions(self) -> Mapping[Labels, float]:
        """Number of preemptions by outcome."""
        return {(outcome,): self.facts[kind] for kind, outcome in PREEMPTIONS.items()}

    def ended(self) -> Mapping[Labels, float]:
        """Ended jobs by final state."""
        return {(state,): count for state, count in self.ended_as.items()}

    def parts(self) -> Mapping[Labels, Histogram]:
        """Durations of the three parts of preemptions."""
        return {("signal",): self.signal, ("grace",): self.grace, ("release",): self.release}


class InstallationMetrics:
    """Gauges of the installation, read from the state when asked for. `now`: microseconds since 1970."""

    def __init__(self, state: State, job_index: JobIndex, heads: Heads, last_seen: Mapping[str, int]) -> None:
        self._state = state
        self._job_index = job_index
        self._heads = heads
        self._last_seen = last_seen

    def pending(self) -> Mapping[Labels, float]:
        """Waiting jobs by the reason of the first in their queue (R22)."""
        found: Counter[tuple[str, ...]] = Counter()
        for queue, line in self._job_index.lines.items():
            if line.pending:
                found[self._heads.reason(queue) or UNKNOWN,] += line.pending
        return found

    def holding(self) -> float:
        """Number of jobs that hold leases."""
        return sum(len(policy.jobs) for policy in self._state.policies.values())

    def pools(self) -> Mapping[Labels, float]:
        """By pool, key and measure: leased + kept + free + unusable = capacity (R6); also usable, and nominated, leased or not."""
        found: Fold = {}
        for name, pool in self._state.pools.items():
            for key, stock in stocks(self._state, pool, pool.usable).items():
                amounts = {word: getattr(stock, word) for word in ("capacity", "kept", "free", "unusable")}
                amounts |= {"usable": pool.usable[key], "leased": stock.used, "nominated": pool.nominated.get(key, 0)}
                found |= {(name, key, what): outside(key, amount) for what, amount in amounts.items()}
        return found

    def policies(self) -> Mapping[Labels, float]:
        """GPUs by tenant, policy and measure: leased, reservation, idle (of it), borrowed (beyond it), limit."""
        found: Fold = {}
        for (tenant, name), policy in self._state.policies.items():
            found |= {(tenant, name, what): outside(GPU, amount) for what, amount in _standing(policy).items()}
        return found

    def nodes(self) -> Mapping[Labels, float]:
        """Nodes by status; a ready one that is granted nothing new is `cordoned`."""
        found: Counter[tuple[str, ...]] = Counter({("ready",): 0, ("cordoned",): 0, ("stopped",): 0, ("lost",): 0})
        for node in self._state.nodes.values():
            found["cordoned" if node.healthy and node.cordoned else node.status,] += 1
        return found

    def unfit(self) -> float:
        """Number of devices of known nodes that may not be used."""
        return sum(bool(device.unfit) for node in self._state.nodes.values() for device in node.devices)

    def silence(self, now: int) -> float:
        """Seconds since the last heartbeat of the healthy node that has been silent longest."""
        last_seen = [
            at for name, at in self._last_seen.items() if (node := self._state.nodes.get(name)) is not None and node.healthy
        ]
        return max(0, now - min(last_seen, default=now)) / MICROSECONDS


def show(metrics: MetricSources, counted: FeedCounts, standing: InstallationMetrics, clock: Callable[[], int]) -> None:
    """Declare all metrics of the installation."""
    metrics.counter("headrace_facts_total", "facts folded, by type", counted.by_type, "type")
    metrics.counter("headrace_preemptions_total", "number of preemptions, by outcome", counted.preemptions, "outcome")
    metrics.counter("headrace_jobs_ended_total", "jobs that have ended, by their final state", counted.ended, "state")
    metrics.counter("headrace_work_lost_gpu_seconds_total", "GPU-seconds of work lost by preemptions", lambda: counted.lost)
    metrics.histograms(
        "headrace_admission_to_grant_seconds", "from a job's admission to its first lease", lambda: {(): counted.waited}
    )
    metrics.histograms(
        "headrace_preemption_seconds",
        "the parts of a preemption's time: to the signal, the job's grace, to the release",
        counted.parts,
        "part",
    )
    metrics.gauge(
        "headrace_pending_jobs", "jobs that wait, by the reason of the first in their queue", standing.pending, "reason"
    )
    metrics.gauge("headrace_holding_jobs", "jobs that hold leases", standing.holding)
    metrics.gauge(
        "headrace_pool_amount",
        "what a pool has: GPUs, cores, MiB, or the key's own unit",
        standing.pools,
        "pool",
        "key",
        "what",
    )
    metrics.gauge("headrace_policy_gpus", "GPUs of a policy over all pools", standing.policies, "tenant", "policy", "what")
    metrics.gauge("headrace_nodes", "nodes by status", standing.nodes, "status")
    metrics.gauge("headrace_devices_unfit", "devices of registered nodes that may not be used", standing.unfit)
    metrics.gauge(
        "headrace_node_silence_seconds",
        "seconds since the last heartbeat of the healthy node that has been silent for longest",
        lambda: standing.silence(clock()),
    )


def outside(key: str, amount: int) -> float:
    """The amount in the unit that people write: GPUs, cores, MiB."""
    return amount / {GPU: GPU_UNITS, CPU: CPU_UNITS}.get(key, 1)


def _standing(policy: PolicyState) -> Amounts:
    wide = policy.wide
    leased, reserved = wide.leased.get(GPU, 0), (wide.reservation or {}).get(GPU, 0)
    amounts = {"leased": leased, "reservation": reserved, "idle": max(0, reserved - leased), "borrowed": borrowed(wide, GPU)}
    return amounts | ({"limit": wide.limit[GPU]} if GPU in wide.limit else {})
