"""Why a suspended job does not go on (R29): what is in its way where it was, whether it may go on elsewhere, and until when it waits."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from headrace.contracts.messages.explanation import WhyView
from headrace.contracts.values.amounts import GPU
from headrace.contracts.values.durations import format_time
from headrace.domain.explain.expected_ends import ExpectedEnds
from headrace.domain.explain.wait_reasons import CHECKED_NEXT, KEY_MISSING, named, numbers_of, shown
from headrace.domain.model.dedication import may_use
from headrace.domain.model.job_states import JobState
from headrace.domain.queueing.freeze_drain import pool_closing, queue_closing, sentence
from headrace.domain.queueing.gates import budget_exhausted, may_borrow, outside_window
from headrace.domain.state import capacity
from headrace.domain.state.job_deadlines import phase_ends
from headrace.domain.state.quota import limits_of, over_limit, over_reservation, to_grant, with_reservation

if TYPE_CHECKING:
    from headrace.contracts.values.amounts import Amounts
    from headrace.domain.model.jobs import JobRecord, LeaseState
    from headrace.domain.state.pools import PoolState
    from headrace.domain.state.state import State

BY_ENDS = "the jobs on its devices end by then, and no job that ranks before it takes them"
AT_THE_LATEST = "nothing lets it go on before; it is stopped then, and waits in line from its last checkpoint on"


class _Obstacle(NamedTuple):
    """What keeps it from going on where it was, and the jobs whose end would let it."""

    text: str
    holders: tuple[JobRecord, ...] = ()


def explain_suspended(state: State, job: JobRecord, now: int) -> WhyView:
    """The answer to *why* for a suspended job at log time `now`."""
    obstacle, latest = _obstacle(state, job, now), phase_ends(job)
    start, assumption = latest, AT_THE_LATEST
    gone = _gone(state, obstacle.holders, now)
    if gone is not None and (latest is None or gone <= latest):
        start, assumption = gone, BY_ENDS
    return WhyView(
        job=job.key,
        state=job.state,
        reason=job.reason,
        message=_message(job, obstacle.text, latest),
        blockers=named(job, obstacle.holders),
        expected_start=start,
        assumption=assumption if start is not None else "",
        sequence=state.sequence,
        now=now,
    )


def moving_to(job: JobRecord) -> str:
    """Where a job goes on that moves: ` and goes on from its checkpoint on n2 of pool b`; empty for any other job."""
    if job.state is JobState.STOPPING and job.nomination is not None:
        nodes = ", ".join(sorted({place.node for place in job.nomination.places}))
        return f" and goes on from its checkpoint on {nodes} of pool {job.nomination.pool}"
    return ""


def _message(job: JobRecord, obstacle: str, latest: int | None) -> str:
    devices = ", ".join(f"{lease.node}/{share.device}" for lease in job.leases.values() for share in lease.devices)
    other_place = (
        "it goes on elsewhere, from its checkpoint, as soon as it is given another place"
        if job.checkpoint
        else "it has no checkpoint, so it goes on nowhere else"
    )
    parts = [f"it is suspended, and goes on when its devices are free again: {devices} ({obstacle})", other_place]
    if latest is not None:
        parts.append(f"it is stopped and waits in line again at {format_time(latest)} at the latest")
    return "; ".join(parts)


def _gone(state: State, holders: tuple[JobRecord, ...], now: int) -> int | None:
    """When the last of them will be gone; None: unknown, or without any."""
    ends = ExpectedEnds(state, now)
    known = [ends.of(holder) for holder in holders]
    return None if None in known else max((end for end in known if end is not None), default=None)


def _obstacle(state: State, job: JobRecord, now: int) -> _Obstacle:
    """The first thing that keeps it from going on where it was, in the order of R22 where that has a reason for it."""
    pool = state.pools[next(iter(job.leases.values())).pool]
    closing = queue_closing(state, job.policy, job.profile) or pool_closing(state, pool.document.name)
    if job.locked:
        return _Obstacle(KEY_MISSING.format(owner=f"{job.tenant}.{job.user}"))
    if closing is not None:
        return _Obstacle(sentence(closing))
    if (opens := outside_window(state, job, now)) is not None:
        return _Obstacle(f"outside the policy's windows: {opens}" if opens else "outside the policy's windows")
    if (spent := budget_exhausted(job, now)) is not None:
        return _Obstacle(spent)
    return _in_accounts(state, job, pool) or _on_nodes(state, job, pool)


def _in_accounts(state: State, job: JobRecord, pool: PoolState) -> _Obstacle | None:
    """A limit, or a reservation that it may not go beyond."""
    name = pool.document.name
    asked: Amounts = {GPU: sum(lease.amounts.get(GPU, 0) for lease in job.leases.values())}
    limited = over_limit(limits_of(state, job, name), pool.governed, asked, beyond=job.beyond, against=to_grant(state))
    if limited is not None:
        return _Obstacle(numbers_of(limited, "limit"))
    if not may_borrow(job):
        looked_at = with_reservation(state, job.policy, name)
        beyond = over_reservation(looked_at, pool.governed, asked, firm=not job.preemptible)
        if beyond is not None:
            return _Obstacle(numbers_of(beyond, "reservation"))
    return None


def _on_nodes(state: State, job: JobRecord, pool: PoolState) -> _Obstacle:
    if job.barred_from == pool.document.name:
        preemptor = next((key for key, victims in state.barred.items() if job in victims), "")
        first = state.jobs.get(preemptor)
        return _Obstacle(f"it made room for {shown(job, preemptor)}, which goes first", () if first is None else (first,))
    for lease in job.leases.values():
        node = state.nodes[lease.node]
        if not node.grantable:
            why = node.cordoned or ("its node has stopped" if not node.healthy else "it is tried by one job after its refusals")
            return _Obstacle(f"nothing is granted on {node.name}: {why}")
        home = state.pool_of(node)
        if home is None or not may_use(home.document, node, job.policy.key):
            return _Obstacle(f"{node.name} is dedicated to others")
    holders = tuple(dict.fromkeys(other.job for lease in job.leases.values() for other in _on_its_devices(state, lease)))
    if holders:
        return _Obstacle("held by other jobs", holders)
    if not all(capacity.is_open(state.nodes[lease.node], lease.devices) for lease in job.leases.values()):
        return _Obstacle("kept for other jobs, or out of service")
    if state.holds or pool.search is not None:
        return _Obstacle("kept for jobs that rank before it")
    return _Obstacle(CHECKED_NEXT)


def _on_its_devices(state: State, lease: LeaseState) -> list[LeaseState]:
    """Leases on its node that hold anything of the devices of a suspended lease."""
    names = {share.device for share in lease.devices}
    node = state.nodes[lease.node]
    return [
        other
        for other in node.leases.values()
        if other.job is not lease.job and any(share.device in names for share in capacity.held_by(other).devices)
    ]
