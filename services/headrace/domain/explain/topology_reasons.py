"""Why a gang does not fit into one topology domain although enough is free in total (R22, R40)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.domain.backfill.holds import as_seen_by
from headrace.domain.model.dedication import reach_in
from headrace.domain.model.topology import fullest
from headrace.domain.state.topology import topology_of

if TYPE_CHECKING:
    from headrace.domain.model.jobs import JobRecord
    from headrace.domain.state.pools import PoolState
    from headrace.domain.state.state import State


def where_it_fails(state: State, job: JobRecord, pool: PoolState, now: int) -> str:
    """`no example.com/rack of pool hall has room for its 4 replicas; r1 has room for 3`; empty if the job requires no domain."""
    level, name, replicas = job.request.required, pool.document.name, job.request.replicas
    if not level:
        return ""
    if level not in pool.document.topology:
        return f"pool {name} has no topology level {level}"
    if not topology_of(pool).domains(level):
        return f"no node of pool {name} has the labels {', '.join(pool.document.topology)}"
    most, domain = fullest(topology_of(pool).counted(level, replicas_per_node(state, job, pool, now)))
    lines = [f"no {level} of pool {name} has room for its {replicas} replicas"]
    if domain is not None:
        lines.append(f"{domain.label} has room for {most}" if most else "none has room for any")
    return "; ".join(lines)


def replicas_per_node(state: State, job: JobRecord, pool: PoolState, now: int) -> dict[str, int]:
    """How many replicas of the job each node has room for now, of those that it may go to."""
    with as_seen_by(state, job, pool, now):
        counts = pool.index.replicas(job.request.shape, reach_in(pool.document, job.policy.key))
    return {node: count for node, count in counts.items() if node not in job.avoiding}
