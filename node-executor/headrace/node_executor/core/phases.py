"""Phases of a lease, and the steps that its rules share (R28): enter a phase, set a timer, state a rung, kill the group."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from headrace.contracts.facts import LeaseRungV1
from headrace.contracts.facts.fact import Ladder
from headrace.contracts.messages.orders import StartOrder
from headrace.node_executor.core.vocabulary import Action, Exited, Kill, SetTimer, State


class Phase(StrEnum):
    """Phases in the life of a lease."""

    STARTING = "starting"
    RUNNING = "running"
    NOTIFIED = "told"
    CALLBACK = "callback"
    HOOK = "hook"
    SUSPEND = "suspend"
    SUSPENDED = "suspended"
    TERM = "term"
    KILL = "kill"
    VERIFY = "verify"
    ENDED = "ended"


@dataclass(slots=True)
class Lease:
    """One lease. `since`: when the phase began. `deadline`: when its timer fires (0: none).

    `limit`: when the executor stops, `halted`: why it does.

    `hooked`: the job polls its preempt file. `walked`: it has been told to stop. `parked`: it is suspended, or was when its end began;
    its devices are not its own. `blame`: the limit that it exceeded; `fault`: the device of it that failed.
    """

    order: StartOrder
    phase: Phase = Phase.STARTING
    ladder: Ladder | None = None
    since: int = 0
    deadline: int = 0
    limit: int | None = None
    halted: str = ""
    hooked: bool = False
    killed: bool = False
    walked: bool = False
    parked: bool = False
    blame: str = ""
    fault: str = ""
    exited: Exited | None = None

    @property
    def id(self) -> str:
        return self.order.lease


Actions = list[Action]


def enter(lease: Lease, phase: Phase, at: int) -> None:
    """Enter a phase, without a timer."""
    lease.phase, lease.since, lease.deadline = phase, at, 0


def set_timer(lease: Lease, deadline: int, out: Actions) -> None:
    """Ask for `TimerFired` at `deadline`."""
    lease.deadline = deadline
    out.append(SetTimer(lease.id, deadline))


def no_later(lease: Lease, moment: int) -> int:
    """Return the earlier of `moment` and the stop of the executor."""
    return moment if lease.limit is None else min(moment, lease.limit)


def rung(lease: Lease, rung: str, at: int, result: str, out: Actions) -> None:
    """State a rung of the ladder with the time since the phase began; no effect without a ladder."""
    if lease.ladder is None:
        return
    order = lease.order
    took = max(0, at - lease.since)
    fact = LeaseRungV1(job=order.job, attempt=order.attempt, rank=order.rank, rung=rung, at=at, took=took, result=result)
    out.append(State(fact))


def kill(lease: Lease, at: int, out: Actions) -> None:
    """Enter the last rung: SIGKILL."""
    lease.killed = True
    enter(lease, Phase.KILL, at)
    out.append(Kill(lease.id))
