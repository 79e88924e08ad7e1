"""Suspension of a lease off its devices (R29), and how it resumes or ends from there.

A job that was told before, and has no devices, has nothing left to save: a stop that asks for more than a suspension kills it.
"""

from __future__ import annotations

from headrace.contracts.facts import LeaseResumedV1, LeaseSuspendedV1
from headrace.contracts.facts.fact import Ladder
from headrace.node_executor.core.phases import Actions, Lease, Phase, enter, kill, rung
from headrace.node_executor.core.vocabulary import Resume, Resumed, State, Suspended


def suspended(lease: Lease, event: Suspended, out: Actions) -> None:
    """The lease is suspended; if the executor stops or the lease was ordered to end meanwhile, it is killed."""
    rung(lease, "suspend", event.at, event.how, out)
    enter(lease, Phase.SUSPENDED, event.at)
    lease.parked = True
    _state_suspended(lease, event.at, event.how, out)
    then, lease.ladder = lease.ladder, None
    if lease.limit is not None or (then is not None and then.then != "suspend"):
        lease.ladder = then
        kill(lease, event.at, out)


def _state_suspended(lease: Lease, at: int, how: str, out: Actions) -> None:
    order = lease.order
    out.append(State(LeaseSuspendedV1(job=order.job, attempt=order.attempt, rank=order.rank, at=at, how=how)))


def stop_suspended(lease: Lease, ladder: Ladder, at: int, out: Actions) -> None:
    """Stop a suspended lease. If it is told again to suspend, state again that it is suspended."""
    if ladder.then == "suspend":
        _state_suspended(lease, at, "", out)
    else:
        lease.ladder = ladder
        kill(lease, at, out)


def resume(lease: Lease, out: Actions) -> None:
    """Resume the lease: it has its devices again."""
    if lease.phase is Phase.SUSPENDED and lease.limit is None:
        lease.parked = False
        out.append(Resume(lease.id))


def resumed(lease: Lease, event: Resumed, out: Actions) -> None:
    """The lease runs as if it had never been told to stop."""
    order = lease.order
    enter(lease, Phase.RUNNING, event.at)
    lease.walked = lease.hooked = False
    out.append(State(LeaseResumedV1(job=order.job, attempt=order.attempt, rank=order.rank, at=event.at)))
