"""The executor: performs the core's actions, and reports their results as events.

Strategy: `handle` is the only entry. The core's actions are performed at once and in order, and their results go back in as further
events, from a queue and not from the stack. Only starts are put off to the next turns of the loop, a few at a time, so that a thousand
orders do not delay an exit, a heartbeat or an acknowledgement; and directories are tidied later, some at a time. Leases of a former
executor are taken over by the same events (`adopt`): the job runs, or has ended in a certain way meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable
from itertools import islice
from typing import Any, ClassVar

import structlog

from headrace.contracts.facts import AnyFact, LeaseEndedV1
from headrace.contracts.messages.orders import LogsRequest, StartOrder
from headrace.contracts.messages.queries import LogsAnswer
from headrace.contracts.values.ids import lease_id
from headrace.node_executor.core import vocabulary as v
from headrace.node_executor.core.inbox import Inbox
from headrace.node_executor.core.node import Node
from headrace.node_executor.core.phases import Phase
from headrace.node_executor.dependencies import ExecutorDependencies
from headrace.node_executor.enforcement import Entered
from headrace.node_executor.files.inspection import FileInspector
from headrace.node_executor.files.retention import RetentionPolicy, prune
from headrace.node_executor.launch.environment import callback_environment
from headrace.node_executor.launch.preempt_notice import PreemptNotice, write_notice
from headrace.node_executor.launch.preparation import Prepared
from headrace.node_executor.leases.interruption import InterruptionCheck
from headrace.node_executor.leases.resume_check import ResumeCheck
from headrace.node_executor.leases.running_lease import RunningLease
from headrace.node_executor.leases.suspension import CannotResume, CannotSuspend, Suspension
from headrace.node_executor.monitoring.checkpoint_monitor import CheckpointMonitor
from headrace.node_executor.reporting.journal import Open
from headrace.node_executor.reporting.log_requests import read_log
from headrace.node_executor.runtimes import CALLBACK, CannotStart, End, Running, RuntimeListener
from headrace.node_executor.runtimes.job_log import Output
from headrace.node_executor.system.cgroups import killed_for_memory
from headrace.node_executor.system.clock import clock
from headrace.node_executor.system.daemon_thread import in_daemon_thread

STARTS_PER_TURN = 4
TIDY_AFTER = 0.05
TIDY_AT_ONCE = 40
SECOND = 1_000_000

_log = structlog.get_logger("headrace.node_executor")


class Executor:
    """The executor of one node. `state` takes facts for the ledger, in order."""

    def __init__(
        self, node: Node, dependencies: ExecutorDependencies, state: Callable[[AnyFact], None], now: Callable[[], int] = clock
    ) -> None:
        self._node = node
        self._with = dependencies
        self._state = state
        self._now = now
        self._loop = asyncio.get_running_loop()
        self._inbox = Inbox(node, self._perform)
        self._waiting: dict[str, StartOrder] = {}
        self._untidy: list[RunningLease] = []
        self._held: dict[str, RunningLease] = {}
        self._suspension = Suspension(dependencies.devices)
        inspector = FileInspector()
        self._checkpoint_monitor = CheckpointMonitor(self.handle, now, inspector)
        self._resume_check = ResumeCheck(inspector)
        self._interruption = InterruptionCheck(dependencies.is_shutting_down)
        self.finished = asyncio.Event()

    @property
    def running(self) -> int:
        """Number of leases here, including starting and stopping ones."""
        return len(self._node.leases)

    @property
    def held(self) -> list[RunningLease]:
        """All leases that are here."""
        return list(self._held.values())

    def handle(self, event: v.Event) -> None:
        """Pass an event to the core, and perform the actions that follow."""
        self._inbox.handle(event)
        if self._node.finished:
            self.finished.set()

    def halt(self, grace: float, reason: str = v.EXECUTOR_STOPPED) -> None:
        """End everything that runs, within `grace` seconds; `finished` is set once nothing is left."""
        at = self._now()
        self.handle(v.Halted(at=at, deadline=at + int(grace * SECOND), reason=reason))

    def adopt(self, left: Open) -> None:
        """Take over a lease of a former executor: its job runs on, has ended meanwhile, or was never started."""
        order = left.order
        held = self._hold(order, self._with.preparation.recall(order))
        held.outlasted = self._with.journal.is_of_another_boot(left)
        self._node.adopt(
            order, started=left.started, suspended=left.suspended, ladder=left.ladder, notified_at=left.notified_at
        )
        held.entered = self._with.enclosing.enforcement.adopt(held.case)
        if self._with.runtime.adopt(held.launch(order.command, held.prepared.env), self._listener(held)):
            if left.started and left.ladder is not None and not left.suspended:
                self.handle(v.Notified(self._now(), order.lease, held.prepared.paths.polls, "the executor was restarted"))
        elif left.started:
            self._exited(held, End(None, self._now()))
        else:
            self._leave(order.lease)
            self._node.forget_adopted(order.lease)
            self._with.journal.forgotten(order.lease)
            self._release(v.Release(order.lease))
            self._tidy()  # now: the feed may order the same lease again

    def read_log(self, request: LogsRequest) -> LogsAnswer:
        """Return a piece of a job's output."""
        alive = lease_id(request.job, request.attempt, request.rank) in self._node.leases
        return read_log(self._with.workspace, request, alive=alive)

    async def poll_checkpoints(self) -> None:
        """Look for new checkpoints of the running jobs."""
        await self._checkpoint_monitor.poll(held for held in self._held.values() if held.running is not None)

    async def prune(self, kept: RetentionPolicy) -> None:
        """Remove files of finished jobs beyond the limits of retention."""
        alive = {os.path.basename(held.prepared.paths.control) for held in self._held.values()}
        now = self._now() / SECOND
        gone = await in_daemon_thread(lambda: prune(self._with.workspace, kept, now, alive))
        if gone:
            _log.info("pruned", things=gone)

    # Performing actions

    def _perform(self, action: v.Action) -> None:
        other = self._with.others.get(type(action))
        try:
            other() if other is not None else self.PERFORMS[type(action)](self, action)
        except Exception:  # noqa: BLE001 - one lease's trouble must not reach the others
            _log.exception("action_failed", action=type(action).__name__, lease=getattr(action, "lease", ""))

    def _spawn(self, action: v.Spawn) -> None:
        if not self._waiting:
            self._loop.call_soon(self._start_some)
        self._waiting[action.order.lease] = action.order

    def _unspawn(self, action: v.Unspawn) -> None:
        held = self._held.get(action.lease)
        if self._waiting.pop(action.lease, None) is not None:
            self.handle(v.StartFailed(self._now(), action.lease, "never_started"))
        elif held is not None and held.entering:
            held.unwanted = True

    def _start_some(self) -> None:
        for lease in list(islice(self._waiting, STARTS_PER_TURN)):
            self._start(self._waiting.pop(lease))
        if self._waiting:
            self._loop.call_soon(self._start_some)

    def _start(self, order: StartOrder) -> None:
        try:
            prepared = self._with.preparation.prepare(order, self._with.tracing.starting(order, self._now()))
        except CannotStart as error:
            self._not_started(order, error)
            return
        held = self._hold(order, prepared)
        try:
            self._with.journal.began(order)
        except OSError as error:
            self._not_started(order, CannotStart(f"the node cannot write its journal: {error.strerror}"))
            return
        held.entering = True
        self._with.enclosing.enter(
            held.case, lambda entered: self._entered(held, entered), lambda error: self._not_started(order, error)
        )

    def _entered(self, held: RunningLease, entered: Entered) -> None:
        held.entered = entered
        self._resume_check.check_then(held, lambda: self._launch(held))

    def _launch(self, held: RunningLease) -> None:
        held.entering = False
        if held.unwanted:
            self._leave(held.order.lease)
            self.handle(v.StartFailed(self._now(), held.order.lease, "never_started"))
            return
        self._with.runtime.start(held.launch(held.order.command, held.prepared.env), self._listener(held))

    def _leave(self, lease: str) -> None:
        """Remove what was set up for a lease without processes, at once if possible.

        otherwise slices are removed at the next reconciliation.
        """
        self._with.enclosing.leave(lease, lambda why: _log.warning("left_behind", lease=lease, reason=why) if why else None)

    def _hold(self, order: StartOrder, prepared: Prepared) -> RunningLease:
        held = self._held[order.lease] = RunningLease(order, prepared, Output(prepared.paths.log, self._with.output_limit))
        return held

    def _listener(self, held: RunningLease) -> RuntimeListener:
        order = held.order

        def started(running: Running, at: int) -> None:
            held.running = running
            self._with.enclosing.enforcement.started(order.lease, held.prepared.paths.control, running.pid)
            self._with.tracing.started(order.lease, at)
            self.handle(v.Started(at, order.lease, held.isolation))

        def failed(error: CannotStart) -> None:
            held.output.note(error.message)
            self._leave(order.lease)
            self._not_started(order, error)

        return RuntimeListener(started, failed, lambda end: self._exited(held, end))

    def _not_started(self, order: StartOrder, error: CannotStart) -> None:
        outcome = "refused" if error.exit_code is None else "exited"
        _log.info("not_started", lease=order.lease, outcome=outcome, reason=error.message)
        self.handle(v.StartFailed(self._now(), order.lease, outcome, error.exit_code, error.message))

    def _notify(self, action: v.Notify) -> None:
        ladder = self._node.leases[action.lease].ladder
        if ladder is not None:
            self._with.journal.note_stop_order(action.lease, ladder, self._now())
        paths = self._held[action.lease].prepared.paths
        hooked = paths.polls
        deadline = action.deadline if hooked else action.unhooked
        complaint = write_notice(paths.preempt, PreemptNotice(action.reason, action.preemptor, deadline // SECOND))
        self.handle(v.Notified(self._now(), action.lease, hooked, complaint or "told"))

    def _run_callback(self, action: v.RunCallback) -> None:
        held = self._held[action.lease]
        pid = held.running.pid if held.running is not None else 0
        env = callback_environment(held.prepared.env, held.prepared.paths, pid, action.deadline)
        launch = held.launch(held.order.on_abort, env, CALLBACK)

        def started(running: Running, _at: int) -> None:
            held.callback = running
            lease = self._node.leases.get(action.lease)
            if lease is None or lease.phase is not Phase.CALLBACK:  # its deadline passed before the call began
                running.kill()

        def failed(error: CannotStart) -> None:
            self._callback_over(held, f"failed: could not start: {error.message}")

        listener = RuntimeListener(started, failed, lambda end: self._callback_ended(held, end))
        if not self._with.runtime.adopt(launch, listener):
            self._with.runtime.start(launch, listener)

    def _stop_callback(self, action: v.StopCallback) -> None:
        callback = self._held[action.lease].callback
        if callback is not None:
            callback.kill()

    def _terminate(self, action: v.Terminate) -> None:
        running = self._held[action.lease].running
        if running is not None:
            running.terminate()

    def _suspend(self, action: v.Suspend) -> None:
        held = self._held[action.lease]
        if held.running is None or (held.order.image and held.running.group is None):
            reason = (
                "it has ended" if held.running is None else "the control group of its container is not visible to this node"
            )
            self.handle(v.CannotSuspend(self._now(), action.lease, reason))
            return
        held.moving = self._loop.create_task(self._off(held, held.running))

    async def _off(self, held: RunningLease, running: Running) -> None:
        lease = held.order.lease
        try:
            how = await self._suspension.suspend(held.standing(running))
        except CannotSuspend as error:
            self.handle(v.CannotSuspend(self._now(), lease, str(error)))
        else:
            self.handle(v.Suspended(self._now(), lease, how))

    def _resume(self, action: v.Resume) -> None:
        held = self._held[action.lease]
        with contextlib.suppress(OSError):
            os.unlink(held.prepared.paths.preempt)
        if held.running is not None:
            held.moving = self._loop.create_task(self._back(held, held.running))

    async def _back(self, held: RunningLease, running: Running) -> None:
        try:
            await self._suspension.resume(held.standing(running))
        except CannotResume as error:
            held.lost = str(error)
            held.output.note(held.lost)
            running.kill()
        else:
            self.handle(v.Resumed(self._now(), held.order.lease))

    def _kill(self, action: v.Kill) -> None:
        running = self._held[action.lease].running
        if running is not None:
            running.kill()

    def _verify(self, action: v.Verify) -> None:
        def left(why: str) -> None:
            at = self._now()
            self.handle(v.DevicesBusy(at, action.lease, why) if why else v.DevicesFree(at, action.lease))

        self._with.enclosing.leave(action.lease, left)

    def _set_timer(self, action: v.SetTimer) -> None:
        held = self._held[action.lease]
        if held.timer is not None:
            held.timer.cancel()
        delay = max(0, action.deadline - self._now()) / SECOND
        held.timer = self._loop.call_later(delay, self._timer_fired, action)

    def _timer_fired(self, action: v.SetTimer) -> None:
        at = max(self._now(), action.deadline)  # the wall clock may have been set back meanwhile
        self.handle(v.TimerFired(at, action.lease, action.deadline))

    def _state_fact(self, action: v.State) -> None:
        fact = action.fact
        if isinstance(fact, LeaseEndedV1):
            self._with.tracing.ended(lease_id(fact.job, fact.attempt, fact.rank), fact.at, fact.outcome)
        self._state(fact)

    def _release(self, action: v.Release) -> None:
        held = self._held.pop(action.lease, None)
        if held is None:
            return
        self._with.enclosing.forget(action.lease)
        if held.timer is not None:
            held.timer.cancel()
        if not self._untidy:
            self._loop.call_later(TIDY_AFTER, self._tidy)
        self._untidy.append(held)

    def _tidy(self) -> None:
        """Tidy a few leases; in this thread, because in another each system call would wait for its turn with the interpreter."""
        untidy, self._untidy = self._untidy[:TIDY_AT_ONCE], self._untidy[TIDY_AT_ONCE:]
        for held in untidy:
            group = held.prepared.group
            if group is not None and not group.remove() and not held.abandoned:
                held.abandoned = True  # a process in it is still dying: try once more, and again at the next start
                self._untidy.append(held)
                continue
            self._with.runtime.forget(held.name)
            if held.order.on_abort:
                self._with.runtime.forget(f"{held.name}.{CALLBACK}")
            self._with.workspace.tidy(held.prepared.paths)
        if self._untidy:
            self._loop.call_later(TIDY_AFTER, self._tidy)

    # Results and events

    def _exited(self, held: RunningLease, end: End) -> None:
        held.running = None
        self._interruption.check_then(held, self._node.leases.get(held.order.lease), end, lambda: self._report_exit(held, end))

    def _report_exit(self, held: RunningLease, end: End) -> None:
        def report() -> None:
            finished = os.path.lexists(held.prepared.paths.finished)
            message = (
                held.lost or end.message or (killed_for_memory(held.prepared.group, held.order.amounts) if end.code else "")
            )
            code = None if held.lost else end.code
            self.handle(v.Exited(end.at, held.order.lease, code, finished, seen=self._now(), message=message))

        self._checkpoint_monitor.poll_then(held, report)

    def _callback_ended(self, held: RunningLease, end: End) -> None:
        held.callback = None
        if end.code is None:
            self._callback_over(held, "failed: the process that kept it was killed")
        else:
            self._callback_over(held, f"failed: exit {end.code}" if end.code else "exit 0")

    def _callback_over(self, held: RunningLease, result: str) -> None:
        lease = self._node.leases.get(held.order.lease)
        if result.startswith("failed") and lease is not None and lease.phase is Phase.CALLBACK:  # killed by another program
            held.output.note(f"the abort callback {result}")
        self._checkpoint_monitor.poll_then(held, lambda: self.handle(v.CallbackEnded(self._now(), held.order.lease, result)))

    PERFORMS: ClassVar[dict[type[v.Action], Callable[[Executor, Any], None]]] = {
        v.Spawn: _spawn,
        v.Unspawn: _unspawn,
        v.Notify: _notify,
        v.RunCallback: _run_callback,
        v.StopCallback: _stop_callback,
        v.Suspend: _suspend,
        v.Resume: _resume,
        v.Terminate: _terminate,
        v.Kill: _kill,
        v.Verify: _verify,
        v.SetTimer: _set_timer,
        v.State: _state_fact,
        v.Release: _release,
    }
