"""The life of one lease, as a table: in which state which event leads where, and what is to be done on the way (R28, R30).

    STARTING ──Started──► RUNNING ──stop──► TOLD ─┬─► CALLBACK ─┬─► TERM ──► KILL
                             │                    ├─► HOOK ─────┤     │        │
                             │                    └─────────────┘     │        │
                             └──────────────Exited────────────────────┴────────┴──► VERIFY ──DevicesFree──► ENDED

Strategy: `RULES` maps (state, event) to the function that handles it; a pair that is not there means nothing, so what comes late
(a timer that was replaced, a callback that was killed) needs no care elsewhere. Each rung on the ladder is stated as a fact with
the time it took. A job that exits skips the rungs that are left; a callback that still runs then is given its grace, because it
may be what saves the work.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from headrace.contracts.durations import MILLISECOND, SECOND
from headrace.contracts.facts import CheckpointRegisteredV1, LeaseEndedV1, LeaseRungV1, LeaseStartedV1
from headrace.contracts.facts.fact import Ladder
from headrace.contracts.orders import StartOrder
from headrace.node_executor.core.vocabulary import (
    Action,
    CallbackEnded,
    CheckpointSeen,
    DevicesBusy,
    DevicesFree,
    Exited,
    Kill,
    LeaseEvent,
    Release,
    RunCallback,
    SetTimer,
    Spawn,
    Started,
    StartFailed,
    State,
    StopCallback,
    Tell,
    Terminate,
    TimerFired,
    Told,
    Unspawn,
    Verify,
)

REVOKED = Ladder(cause="revoked", callback_grace=0, term_grace=5 * SECOND)
"""For a lease that is no longer ours: it may run elsewhere already, so only a moment to leave."""

LOOK_AGAIN = 500 * MILLISECOND
"""How long to wait before devices that were still in use are looked at again."""

EXECUTOR_STOPPED = "executor stopped"
KILLED = 128 + 9


class Phase(StrEnum):
    """Where a lease stands."""

    STARTING = "starting"
    RUNNING = "running"
    TOLD = "told"
    CALLBACK = "callback"
    HOOK = "hook"
    TERM = "term"
    KILL = "kill"
    VERIFY = "verify"
    ENDED = "ended"


@dataclass(slots=True)
class Lease:
    """One lease. `since`: when the phase began. `deadline`: when its timer fires (0: none). `limit`: when the executor stops."""

    order: StartOrder
    phase: Phase = Phase.STARTING
    ladder: Ladder | None = None
    since: int = 0
    deadline: int = 0
    limit: int | None = None
    hooked: bool = False
    killed: bool = False
    walked: bool = False
    exited: Exited | None = None

    @property
    def id(self) -> str:
        """The lease id."""
        return self.order.lease


Actions = list[Action]


def begin(lease: Lease, out: Actions) -> None:
    """Ask for the process."""
    out.append(Spawn(lease.order))


def stop(lease: Lease, ladder: Ladder, at: int, out: Actions) -> None:
    """Start on the ladder. A second stop changes nothing: what a job was told is never taken back (R27)."""
    if lease.ladder is not None or lease.limit is not None:
        return
    if lease.phase is Phase.STARTING:
        lease.ladder = ladder
        out.append(Unspawn(lease.id))
    elif lease.phase is Phase.RUNNING:
        lease.ladder = ladder
        _tell(lease, ladder, at, out)


def halt(lease: Lease, at: int, limit: int, out: Actions) -> None:
    """The executor stops: SIGTERM now, SIGKILL at `limit`; a ladder that is under way is cut short there."""
    if lease.phase is Phase.VERIFY:
        return
    lease.limit = limit
    if lease.phase is Phase.STARTING:
        out.append(Unspawn(lease.id))
    elif lease.phase is Phase.RUNNING:
        out.append(Tell(lease.id, "executor_stopping", "", limit, limit))
        _terminate(lease, at, out)
    elif lease.deadline > limit:
        _set_timer(lease, limit, out)


def handle(lease: Lease, event: LeaseEvent, out: Actions) -> None:
    """What follows from `event`; nothing, where the table has no line for it."""
    if isinstance(event, TimerFired) and event.deadline != lease.deadline:
        return
    rule = RULES.get((lease.phase, type(event)))
    if rule is not None:
        rule(lease, event, out)
    elif isinstance(event, CheckpointSeen) and lease.phase not in {Phase.STARTING, Phase.ENDED}:
        order = lease.order
        out.append(
            State(CheckpointRegisteredV1(job=order.job, attempt=order.attempt, uri=event.uri, step=event.step, at=event.at))
        )


# Starting, and ending by itself


def _started(lease: Lease, event: Started, out: Actions) -> None:
    order = lease.order
    fact = LeaseStartedV1(job=order.job, attempt=order.attempt, rank=order.rank, at=event.at, isolation=event.isolation)
    out.append(State(fact))
    _enter(lease, Phase.RUNNING, event.at)
    if lease.ladder is not None:
        _tell(lease, lease.ladder, event.at, out)
    elif lease.limit is not None:
        halt(lease, event.at, lease.limit, out)


def _start_failed(lease: Lease, event: StartFailed, out: Actions) -> None:
    if event.outcome == "never_started" and lease.ladder is None:
        _end(lease, "lost", None, EXECUTOR_STOPPED, event.at, event.at, out)
    else:
        _end(lease, event.outcome, event.exit_code, event.message, event.at, event.at, out)


def _exited(lease: Lease, event: Exited, out: Actions) -> None:
    lease.exited = event
    _verify(lease, event.at, out)


def _verify(lease: Lease, at: int, out: Actions) -> None:
    _enter(lease, Phase.VERIFY, at)
    out.append(Verify(lease.id))


# The ladder


def _tell(lease: Lease, ladder: Ladder, at: int, out: Actions) -> None:
    lease.walked = True
    _enter(lease, Phase.TOLD, at)
    term = _no_later(lease, at + ladder.term_grace)
    callback = _no_later(lease, at + ladder.callback_grace) if ladder.callback_grace else term
    out.append(Tell(lease.id, ladder.cause, ladder.preemptor, callback, callback if lease.order.on_abort else term))


def _told(lease: Lease, event: Told, out: Actions) -> None:
    ladder = lease.ladder
    if ladder is None:
        return
    _rung(lease, "told", event.at, event.result, out)
    lease.hooked = event.hooked
    deadline = _no_later(lease, lease.since + ladder.callback_grace)
    if deadline > event.at and lease.order.on_abort:
        _enter(lease, Phase.CALLBACK, event.at)
        out.append(RunCallback(lease.id, deadline))
        _set_timer(lease, deadline, out)
    elif deadline > event.at and lease.hooked:
        _enter(lease, Phase.HOOK, event.at)
        _set_timer(lease, deadline, out)
    else:
        _terminate(lease, event.at, out)


def _callback_ended(lease: Lease, event: CallbackEnded, out: Actions) -> None:
    _rung(lease, "callback", event.at, event.result, out)
    if lease.exited is not None:
        _verify(lease, event.at, out)
    elif lease.hooked:  # the job saves its work itself as well, in what is left of the same grace
        deadline = lease.deadline
        _enter(lease, Phase.HOOK, event.at)
        lease.deadline = deadline
    else:
        _terminate(lease, event.at, out)


def _callback_overran(lease: Lease, event: TimerFired, out: Actions) -> None:
    out.append(StopCallback(lease.id))
    _rung(lease, "callback", event.at, "timed out, killed", out)
    if lease.exited is not None:
        _verify(lease, event.at, out)
    else:
        _terminate(lease, event.at, out)


def _exited_before_callback(lease: Lease, event: Exited, _out: Actions) -> None:
    lease.exited = event


def _exited_by_hook(lease: Lease, event: Exited, out: Actions) -> None:
    _rung(lease, "callback", event.at, "hook: left", out)
    _exited(lease, event, out)


def _hook_overran(lease: Lease, event: TimerFired, out: Actions) -> None:
    _rung(lease, "callback", event.at, "hook: timed out", out)
    _terminate(lease, event.at, out)


def _terminate(lease: Lease, at: int, out: Actions) -> None:
    ladder = lease.ladder
    if ladder is not None and ladder.then == "suspend":
        _enter(lease, lease.phase, at)
        _rung(lease, "suspend", at, "this node cannot suspend", out)
    deadline = _no_later(lease, at + ladder.term_grace) if ladder is not None else lease.limit
    if deadline is None or deadline <= at:
        _kill(lease, at, out)
        return
    _enter(lease, Phase.TERM, at)
    out.append(Terminate(lease.id))
    _set_timer(lease, deadline, out)


def _exited_by_term(lease: Lease, event: Exited, out: Actions) -> None:
    _rung(lease, "term", event.at, "left", out)
    _exited(lease, event, out)


def _term_overran(lease: Lease, event: TimerFired, out: Actions) -> None:
    _rung(lease, "term", event.at, "timed out", out)
    _kill(lease, event.at, out)


def _kill(lease: Lease, at: int, out: Actions) -> None:
    lease.killed = True
    _enter(lease, Phase.KILL, at)
    out.append(Kill(lease.id))


def _exited_by_kill(lease: Lease, event: Exited, out: Actions) -> None:
    _rung(lease, "kill", event.at, "gone", out)
    _exited(lease, event, out)


# The end


def _devices_busy(lease: Lease, event: DevicesBusy, out: Actions) -> None:
    _set_timer(lease, event.at + LOOK_AGAIN, out)


def _look_again(lease: Lease, _event: TimerFired, out: Actions) -> None:
    lease.deadline = 0
    out.append(Verify(lease.id))


def _devices_free(lease: Lease, event: DevicesFree, out: Actions) -> None:
    exited = lease.exited
    if exited is None:
        raise AssertionError("devices are verified only after the process has ended")
    _rung(lease, "verify", event.at, "free", out)
    if lease.limit is not None and lease.ladder is None:
        _end(lease, "lost", exited.exit_code, EXECUTOR_STOPPED, exited.at, event.at, out)
    elif lease.killed and exited.exit_code == KILLED:
        _end(lease, "killed", exited.exit_code, "did not leave within its grace", exited.at, event.at, out)
    else:
        _end(lease, "exited", exited.exit_code, "", exited.at, event.at, out)


def _end(lease: Lease, outcome: str, exit_code: int | None, message: str, exited_at: int, at: int, out: Actions) -> None:
    order = lease.order
    fact = LeaseEndedV1(
        job=order.job,
        attempt=order.attempt,
        rank=order.rank,
        outcome=outcome,
        exit_code=exit_code,
        finished=lease.exited is not None and lease.exited.finished,
        stopping=lease.walked,
        message=message,
        exited_at=exited_at,
        at=at,
    )
    _enter(lease, Phase.ENDED, at)
    out.append(State(fact))
    out.append(Release(lease.id))


# What the rules above share


def _enter(lease: Lease, phase: Phase, at: int) -> None:
    lease.phase, lease.since, lease.deadline = phase, at, 0


def _set_timer(lease: Lease, deadline: int, out: Actions) -> None:
    lease.deadline = deadline
    out.append(SetTimer(lease.id, deadline))


def _no_later(lease: Lease, moment: int) -> int:
    return moment if lease.limit is None else min(moment, lease.limit)


def _rung(lease: Lease, rung: str, at: int, result: str, out: Actions) -> None:
    if lease.ladder is None:
        return
    order = lease.order
    took = max(0, at - lease.since)
    fact = LeaseRungV1(job=order.job, attempt=order.attempt, rank=order.rank, rung=rung, at=at, took=took, result=result)
    out.append(State(fact))


Rule = Callable[[Lease, Any, Actions], None]

RULES: dict[tuple[Phase, type[LeaseEvent]], Rule] = {
    (Phase.STARTING, Started): _started,
    (Phase.STARTING, StartFailed): _start_failed,
    (Phase.RUNNING, Exited): _exited,
    (Phase.TOLD, Exited): _exited,
    (Phase.TOLD, Told): _told,
    (Phase.CALLBACK, CallbackEnded): _callback_ended,
    (Phase.CALLBACK, TimerFired): _callback_overran,
    (Phase.CALLBACK, Exited): _exited_before_callback,
    (Phase.HOOK, Exited): _exited_by_hook,
    (Phase.HOOK, TimerFired): _hook_overran,
    (Phase.TERM, Exited): _exited_by_term,
    (Phase.TERM, TimerFired): _term_overran,
    (Phase.KILL, Exited): _exited_by_kill,
    (Phase.VERIFY, DevicesBusy): _devices_busy,
    (Phase.VERIFY, TimerFired): _look_again,
    (Phase.VERIFY, DevicesFree): _devices_free,
}
"""The law of this file. A pair that is missing has no effect."""
