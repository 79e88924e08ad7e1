"""What of maintenance keeps a job from starting, in words, and the time limit with which it could start (R41). Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.contracts.values.durations import MINUTE, SECOND, format_duration, format_time
from headrace.domain.backfill.holds import fits_now
from headrace.domain.indexes.pending import avoided
from headrace.domain.model.maintenance import run_and_grace
from headrace.domain.state.trial import Trial

if TYPE_CHECKING:
    from headrace.domain.model.jobs import JobRecord
    from headrace.domain.model.maintenance import PoolMaintenance
    from headrace.domain.state.pools import PoolState
    from headrace.domain.state.state import State

SHOWN_MAX = 3
"""Nodes that a message names."""


def kept_away_by(state: State, job: JobRecord, pool: PoolState, now: int) -> str | None:
    """The maintenance that is in the job's way in the pool, and what would help; None: no maintenance is."""
    window = state.maintenance.pools.get(pool.document.name) if pool.document.name in job.outlasts else None
    if window is not None:
        return _of_window(pool, job, window, now)
    drains = {name: drain for name, drain in state.maintenance.drains.items() if name in pool.nodes and name in job.avoiding}
    if not drains or fits_now(state, job, pool, now):
        return None
    with Trial(state) as trial:
        trial.avoid(job, avoided(job, now))
        if not fits_now(state, job, pool, now):
            return None
    first = sorted(drains.items(), key=lambda one: (-one[1].begins, one[0]))
    named = [
        f"node {name} is drained from {format_time(drain.begins)} on, by {drain.author}" for name, drain in first[:SHOWN_MAX]
    ]
    more = [f"and {len(first) - SHOWN_MAX} more"] if len(first) > SHOWN_MAX else []
    return f"{'; '.join([*named, *more])}; {_length(job)}{_help(job, first[0][1].begins, now)}"


def _of_window(pool: PoolState, job: JobRecord, window: PoolMaintenance, now: int) -> str:
    name, why = pool.document.name, _because(window.reason)
    if window.begun:
        return f"pool {name} is in maintenance until {format_time(window.ends)}{why}"
    when = f"the maintenance of pool {name} is from {format_time(window.begins)} to {format_time(window.ends)}{why}"
    return f"{when}; {_length(job)}{_help(job, window.begins, now)}"


def _because(reason: str) -> str:
    return f" ({reason})" if reason else ""


def _length(job: JobRecord) -> str:
    if job.time_limit is None:
        return "it has no time limit"
    return f"it may take {format_duration(run_and_grace(job, job.time_limit))} with the grace to stop"


def _help(job: JobRecord, begins: int, now: int) -> str:
    limit = limit_before(job, begins, now)
    return "" if limit is None else f"; jobs with --time-limit {format_duration(limit)} or less may start there before"


def limit_before(job: JobRecord, begins: int, now: int) -> int | None:
    """The longest time limit with which the job would end by `begins`, in whole minutes or seconds; None: it would not with any."""
    left = begins - now - run_and_grace(job, 0)
    unit = MINUTE if left >= MINUTE else SECOND
    return left // unit * unit or None if left > 0 else None


def shorter_limits(state: State, job: JobRecord, now: int) -> list[int]:
    """Time limits with which the job would end before some maintenance that it outlasts as it is, the longest first."""
    nodes, pools = state.maintenance.outlasted(job, now)
    begins = {state.maintenance.drains[name].begins for name in nodes} | {
        state.maintenance.pools[name].begins for name in pools
    }
    limits = {limit for begin in begins if (limit := limit_before(job, begin, now)) is not None}
    return sorted(limits, reverse=True)
