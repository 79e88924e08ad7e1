"""What is kept for whom, until when and behind whom (R16), in sentences. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.contracts.values.durations import format_duration, format_time
from headrace.contracts.values.reasons import WaitReason
from headrace.domain.backfill.hold_policy import keep_of, turn_of
from headrace.domain.backfill.holds import holds_before
from headrace.domain.explain.wait_reasons import named, shown

if TYPE_CHECKING:
    from headrace.domain.model.jobs import JobRecord
    from headrace.domain.model.preemption_state import Hold
    from headrace.domain.state.pools import PoolState
    from headrace.domain.state.state import State


CAPACITY_REASONS = frozenset({WaitReason.FRAGMENTED, WaitReason.WOULD_EXCEED_RESERVATION, WaitReason.NO_FREE_CAPACITY})
"""Reasons of a job that waits for capacity."""


def keep_notes(state: State, job: JobRecord, pool: PoolState, reason: WaitReason, now: int) -> tuple[str, ...]:
    """What is kept for a waiting job, why nothing is though it has waited long enough for capacity, and what is kept from it for others."""
    if not state.terms.amended:
        return ()
    hold = state.holds.get(job.key)
    if hold is not None:
        return (f"units are kept for it in pool {hold.pool} {_until(state, job, hold, now)}",)
    if reason is WaitReason.KEPT_FOR_LARGER_JOB:
        return tuple(
            f"units are kept for {shown(job, hold.job.key)} {_until(state, job, hold, now)}"
            for hold in holds_before(state, job, pool, now)
        )
    turn = turn_of(pool.document, job.pending_since, now)
    if reason not in CAPACITY_REASONS or turn.keeps or now < job.pending_since + pool.document.backfill_for:
        return ()
    if turn.until is None:
        return (f"nothing says when what is in its way ends, and pool {pool.document.name} keeps no units for it then",)
    span = format_duration(pool.document.keep_for)
    return (f"nothing says when what is in its way ends: units are kept for it from {format_time(turn.until)} on, for {span}",)


def _until(state: State, asking: JobRecord, hold: Hold, now: int) -> str:
    """`until 2026-01-01T11:11:00Z, behind default.ann.x`, as the tenant of `asking` may know it."""
    keep = keep_of(state, hold, now)
    if keep.kept_until is not None:
        when = f"until {format_time(keep.kept_until)}, since nothing says when what is in its way ends"
    elif keep.lent_until > now:
        when = f"until it starts, at {format_time(keep.lent_until)} at the latest by time limits"
    else:
        when = "until it starts"
    behind = named(asking, _in_the_way(state, hold))
    return f"{when}; behind {', '.join(behind)}" if behind else when


def _in_the_way(state: State, hold: Hold) -> list[JobRecord]:
    """The jobs that hold something of the kept devices; without any, of the nodes."""
    devices = {(place.node, share.device) for place in hold.places for share in place.devices}
    nodes = dict.fromkeys(place.node for place in hold.places)
    leases = [lease for name in nodes if name in state.nodes for lease in state.nodes[name].leases.values()]
    there = [one for one in leases if any((one.node, share.device) in devices for share in one.devices)]
    return list({lease.job.key: lease.job for lease in there or leases}.values())
