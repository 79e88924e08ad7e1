"""The life of one lease as a table: which event leads from which phase where, with which actions (R28, R30).

    STARTING ──Started──► RUNNING ──stop──► NOTIFIED ─┬─► CALLBACK ─┬─► TERM ──► KILL
                             │                        ├─► HOOK ─────┤     │        │
                             │                        └─────────────┘     │        │
                             └────────────────Exited──────────────────────┴────────┴──► VERIFY ──DevicesFree──► ENDED

If the ladder says so and the node supports it, SUSPEND ──► SUSPENDED comes before TERM (R29): from there an order to resume leads back to
RUNNING, and any other stop to KILL, because a job that was told before, and has no devices, has nothing to save.

Strategy: `RULES` maps (phase, event) to the function that handles it; a pair that is missing has no effect, so late events (of a timer
that was replaced, of a callback that was killed) need no care elsewhere. Each rung of the ladder is stated as a fact with the time it
took. A job that exits skips the remaining rungs; a callback that still runs then keeps its grace, because it may be what saves the work.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from headrace.contracts.facts import (
    CheckpointRegisteredV1,
    LeaseEndedV1,
    LeaseOverranV1,
    LeaseStartedV1,
)
from headrace.contracts.facts.fact import Ladder
from headrace.contracts.values.durations import MILLISECOND, SECOND
from headrace.node_executor.core.phases import Actions, Lease, Phase, enter, kill, no_later, rung, set_timer
from headrace.node_executor.core.suspension import resumed, stop_suspended, suspended
from headrace.node_executor.core.vocabulary import (
    CallbackEnded,
    CannotSuspend,
    CheckpointSeen,
    DevicesBusy,
    DevicesFree,
    Exited,
    LeaseEvent,
    Notified,
    Notify,
    Overran,
    Release,
    Resumed,
    RunCallback,
    Spawn,
    Started,
    StartFailed,
    State,
    StopCallback,
    Suspend,
    Suspended,
    Terminate,
    TimerFired,
    Unspawn,
    Verify,
)

REVOKED = Ladder(cause="revoked", callback_grace=0, term_grace=5 * SECOND)
"""Ladder of a lease that was revoked while this node ran it: the job may already run elsewhere, so its grace is short."""

VERIFY_AGAIN_FIRST, VERIFY_AGAIN_MOST = 10 * MILLISECOND, 500 * MILLISECOND
"""First and longest delay before devices that were in use are looked at again. In between, the delay is as long as it has taken so far."""

KEEPER_KILLED = "the process that kept the job was killed, so it is unknown how the job ended"
KILLED = 128 + 9


def begin(lease: Lease, out: Actions) -> None:
    """Ask for the job's process."""
    out.append(Spawn(lease.order))


def stop(lease: Lease, ladder: Ladder, at: int, out: Actions) -> None:
    """Start on the ladder. A second stop has no effect: what a job was told is never taken back (R27)."""
    if lease.limit is not None:
        return
    if lease.phase is Phase.SUSPENDED and not lease.parked:  # it is being resumed, and is told as soon as it runs
        lease.ladder = lease.ladder or ladder
    elif lease.phase is Phase.SUSPENDED:
        stop_suspended(lease, ladder, at, out)
    elif lease.ladder is not None:
        if lease.ladder.then == "suspend":  # it has to leave all the same, but is not to be suspended
            lease.ladder = msgspec.structs.replace(lease.ladder, then=ladder.then)
    elif lease.phase is Phase.STARTING:
        lease.ladder = ladder
        out.append(Unspawn(lease.id))
    elif lease.phase is Phase.RUNNING:
        lease.ladder = ladder
        _notify(lease, ladder, at, out)


def halt(lease: Lease, at: int, limit: int, reason: str, out: Actions) -> None:
    """The executor stops: SIGTERM now, SIGKILL at `limit`. A ladder that is under way is cut short at `limit`."""
    if lease.phase is Phase.VERIFY:
        return
    lease.limit, lease.halted = limit, reason
    if lease.phase is Phase.STARTING:
        out.append(Unspawn(lease.id))
    elif lease.phase is Phase.SUSPENDED:
        kill(lease, at, out)
    elif lease.phase is Phase.RUNNING:
        out.append(Notify(lease.id, "executor_stopping", "", limit, limit))
        _terminate(lease, at, out)
    elif lease.deadline > limit:
        set_timer(lease, limit, out)


def handle(lease: Lease, event: LeaseEvent, out: Actions) -> None:
    """Perform the rule of the table for `event`; no effect if the table has no rule."""
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
    enter(lease, Phase.RUNNING, event.at)
    if lease.ladder is not None:
        _notify(lease, lease.ladder, event.at, out)
    elif lease.limit is not None:
        halt(lease, event.at, lease.limit, lease.halted, out)


def _start_failed(lease: Lease, event: StartFailed, out: Actions) -> None:
    if event.outcome == "never_started" and lease.ladder is None:
        _end(lease, "lost", None, lease.halted, event.at, event.at, out)
    else:
        _end(lease, event.outcome, event.exit_code, event.message, event.at, event.at, out)


def _exited(lease: Lease, event: Exited, out: Actions) -> None:
    lease.exited = event
    _verify(lease, max(event.at, event.seen), out)


def _overran(lease: Lease, event: Overran, out: Actions) -> None:
    if lease.exited is not None:
        return
    if event.device:
        order = lease.order
        fact = LeaseOverranV1(
            job=order.job,
            attempt=order.attempt,
            rank=order.rank,
            device=event.device,
            limit=event.limit,
            used=event.used,
            at=event.at,
        )
        out.append(State(fact))
    lease.blame = event.message
    kill(lease, event.at, out)


def _verify(lease: Lease, at: int, out: Actions) -> None:
    if lease.parked:  # its former devices now belong to other leases
        _over(lease, at, out)
        return
    enter(lease, Phase.VERIFY, at)
    out.append(Verify(lease.id))


# The ladder


def _notify(lease: Lease, ladder: Ladder, at: int, out: Actions) -> None:
    lease.walked = True
    enter(lease, Phase.NOTIFIED, at)
    term = no_later(lease, at + ladder.term_grace)
    callback = no_later(lease, at + ladder.callback_grace) if ladder.callback_grace else term
    out.append(Notify(lease.id, ladder.cause, ladder.preemptor, callback, callback if lease.order.on_abort else term))


def _notified(lease: Lease, event: Notified, out: Actions) -> None:
    ladder = lease.ladder
    if ladder is None:
        return
    rung(lease, "told", event.at, event.result, out)
    lease.hooked = event.hooked
    deadline = no_later(lease, lease.since + ladder.callback_grace)
    if deadline > event.at and lease.order.on_abort:
        enter(lease, Phase.CALLBACK, event.at)
        out.append(RunCallback(lease.id, deadline))
        set_timer(lease, deadline, out)
    elif deadline > event.at and lease.hooked:
        enter(lease, Phase.HOOK, event.at)
        set_timer(lease, deadline, out)
    else:
        _terminate(lease, event.at, out)


def _callback_ended(lease: Lease, event: CallbackEnded, out: Actions) -> None:
    rung(lease, "callback", event.at, event.result, out)
    if lease.exited is not None:
        _verify(lease, event.at, out)
    elif lease.hooked:  # the job saves its work itself as well, in the rest of the same grace
        deadline = lease.deadline
        enter(lease, Phase.HOOK, event.at)
        lease.deadline = deadline
    else:
        _terminate(lease, event.at, out)


def _callback_overran(lease: Lease, event: TimerFired, out: Actions) -> None:
    out.append(StopCallback(lease.id))
    rung(lease, "callback", event.at, "timed out, killed", out)
    if lease.exited is not None:
        _verify(lease, event.at, out)
    else:
        _terminate(lease, event.at, out)


def _exited_before_callback(lease: Lease, event: Exited, _out: Actions) -> None:
    lease.exited = event


def _exited_by_hook(lease: Lease, event: Exited, out: Actions) -> None:
    rung(lease, "callback", event.at, "hook: left", out)
    _exited(lease, event, out)


def _hook_overran(lease: Lease, event: TimerFired, out: Actions) -> None:
    rung(lease, "callback", event.at, "hook: timed out", out)
    _terminate(lease, event.at, out)


def _terminate(lease: Lease, at: int, out: Actions) -> None:
    ladder = lease.ladder
    if ladder is not None and ladder.then == "suspend" and lease.limit is None and lease.phase is not Phase.SUSPEND:
        enter(lease, Phase.SUSPEND, at)
        out.append(Suspend(lease.id))
        return
    deadline = no_later(lease, at + ladder.term_grace) if ladder is not None else lease.limit
    if deadline is None or deadline <= at:
        kill(lease, at, out)
        return
    enter(lease, Phase.TERM, at)
    out.append(Terminate(lease.id))
    set_timer(lease, deadline, out)


def _cannot_suspend(lease: Lease, event: CannotSuspend, out: Actions) -> None:
    rung(lease, "suspend", event.at, event.result, out)
    _terminate(lease, event.at, out)


def _resumed(lease: Lease, event: Resumed, out: Actions) -> None:
    resumed(lease, event, out)
    if lease.ladder is not None:
        _notify(lease, lease.ladder, event.at, out)


def _exited_by_term(lease: Lease, event: Exited, out: Actions) -> None:
    rung(lease, "term", event.at, "left", out)
    _exited(lease, event, out)


def _term_overran(lease: Lease, event: TimerFired, out: Actions) -> None:
    rung(lease, "term", event.at, "timed out", out)
    kill(lease, event.at, out)


def _exited_by_kill(lease: Lease, event: Exited, out: Actions) -> None:
    rung(lease, "kill", event.at, "gone", out)
    _exited(lease, event, out)


# The end


def _devices_busy(lease: Lease, event: DevicesBusy, out: Actions) -> None:
    set_timer(lease, event.at + min(VERIFY_AGAIN_MOST, max(VERIFY_AGAIN_FIRST, event.at - lease.since)), out)


def _verify_again(lease: Lease, _event: TimerFired, out: Actions) -> None:
    lease.deadline = 0
    out.append(Verify(lease.id))


def _devices_free(lease: Lease, event: DevicesFree, out: Actions) -> None:
    rung(lease, "verify", event.at, "free", out)
    _over(lease, event.at, out)


def _over(lease: Lease, at: int, out: Actions) -> None:
    exited = lease.exited
    if exited is None:
        raise AssertionError("a lease is over only after its process has ended")
    if exited.exit_code is None:
        _end(lease, "lost", None, exited.message or KEEPER_KILLED, exited.at, at, out)
    elif lease.blame:
        _end(lease, "exited", exited.exit_code, lease.blame, exited.at, at, out)
    elif lease.fault and exited.exit_code and lease.ladder is None:
        _end(lease, "lost", exited.exit_code, lease.fault, exited.at, at, out)
    elif lease.limit is not None and lease.ladder is None:
        _end(lease, "lost", exited.exit_code, lease.halted, exited.at, at, out)
    elif lease.killed and exited.exit_code == KILLED:
        _end(
            lease,
            "killed",
            exited.exit_code,
            "it was suspended" if lease.parked else "did not leave within its grace",
            exited.at,
            at,
            out,
        )
    else:
        _end(lease, "exited", exited.exit_code, exited.message, exited.at, at, out)


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
    enter(lease, Phase.ENDED, at)
    out.append(State(fact))
    out.append(Release(lease.id))


Rule = Callable[[Lease, Any, Actions], None]

RULES: dict[tuple[Phase, type[LeaseEvent]], Rule] = {
    (Phase.STARTING, Started): _started,
    (Phase.STARTING, StartFailed): _start_failed,
    (Phase.RUNNING, Exited): _exited,
    (Phase.RUNNING, Overran): _overran,
    (Phase.NOTIFIED, Overran): _overran,
    (Phase.CALLBACK, Overran): _overran,
    (Phase.HOOK, Overran): _overran,
    (Phase.TERM, Overran): _overran,
    (Phase.NOTIFIED, Exited): _exited,
    (Phase.NOTIFIED, Notified): _notified,
    (Phase.CALLBACK, CallbackEnded): _callback_ended,
    (Phase.CALLBACK, TimerFired): _callback_overran,
    (Phase.CALLBACK, Exited): _exited_before_callback,
    (Phase.HOOK, Exited): _exited_by_hook,
    (Phase.HOOK, TimerFired): _hook_overran,
    (Phase.SUSPEND, Suspended): suspended,
    (Phase.SUSPEND, CannotSuspend): _cannot_suspend,
    (Phase.SUSPEND, Exited): _exited,
    (Phase.SUSPENDED, Resumed): _resumed,
    (Phase.SUSPENDED, Exited): _exited,
    (Phase.TERM, Exited): _exited_by_term,
    (Phase.TERM, TimerFired): _term_overran,
    (Phase.KILL, Exited): _exited_by_kill,
    (Phase.VERIFY, DevicesBusy): _devices_busy,
    (Phase.VERIFY, TimerFired): _verify_again,
    (Phase.VERIFY, DevicesFree): _devices_free,
}
"""Rules by (phase, event). A pair that is missing has no effect."""
