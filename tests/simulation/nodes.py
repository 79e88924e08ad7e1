"""A node executor on a simulated machine: the product's core, journal, ledger and link; only what touches hardware is made up.

What `headrace.node_executor.executor` does with processes and files, `Hands` does with a `Machine`, action by action.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from headrace.contracts.facts import AnyFact, NodeRegisteredV1
from headrace.contracts.facts.fact import Ladder
from headrace.contracts.facts.levels import LEVEL
from headrace.contracts.messages.orders import StartOrder
from headrace.contracts.messages.queries import LogsAnswer
from headrace.contracts.transport.subjects import node_writer
from headrace.nats_client.connection import Address
from headrace.node_executor.core import vocabulary as v
from headrace.node_executor.core.inbox import Inbox
from headrace.node_executor.core.node import Node
from headrace.node_executor.core.phases import Phase
from headrace.node_executor.main import closed
from headrace.node_executor.reporting.journal import Journal, Open
from headrace.node_executor.reporting.ledger import FactWriter
from headrace.node_executor.reporting.link import BusListener, Link, LinkTimings
from tests.simulation.clockwork import Process, current
from tests.simulation.machines import SECOND, Machine, MemoryJournal
from tests.simulation.network import Network, SimulatedConnection

ENGINE = "headrace-node/simulated"
START_TAKES = 0.05
MOVES_TAKES = 0.2
STOP_GRACE = 20.0


class Hands:
    """Performs what the core asks for. `now` is the node's clock."""

    def __init__(
        self,
        node: Node,
        machine: Machine,
        journal: Journal,
        state: Callable[[AnyFact], None],
        now: Callable[[], int],
        ask: Callable[[], None],
    ) -> None:
        self.node, self.machine, self.journal, self._state, self.now = node, machine, journal, state, now
        self._process = current()
        self._loop = asyncio.get_running_loop()
        self._inbox = Inbox(node, lambda action: self._performs[type(action)](action))
        self._waiting: dict[str, asyncio.TimerHandle] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._performs: dict[type[v.Action], Callable[[Any], None]] = {
            v.Spawn: self._spawn,
            v.Unspawn: self._unspawn,
            v.Notify: self._notify,
            v.RunCallback: self._run_callback,
            v.StopCallback: lambda action: machine.stop_callback(action.lease),
            v.Suspend: lambda action: self._later(MOVES_TAKES, self._suspend, action.lease),
            v.Resume: lambda action: self._later(MOVES_TAKES, self._resume, action.lease),
            v.Terminate: lambda action: machine.terminate(action.lease),
            v.Kill: self._kill,
            v.Verify: self._verify,
            v.SetTimer: self._set_timer,
            v.Ask: lambda _: ask(),
            v.Check: lambda _: self._later(START_TAKES, self._checked),
            v.State: lambda action: self._state(action.fact),
            v.Release: self._release,
        }

    def receive(self, what: Callable[[str], None], lease: str) -> None:
        """The machine has something to say; this process receives it when its turn comes."""
        self._loop.call_soon(what, lease, context=self._process.context)

    def state(self, fact: AnyFact) -> None:
        """A fact of the node, such as a notice of its provider."""
        self._state(fact)

    def handle(self, event: v.Event) -> None:
        """Something happened."""
        self._inbox.handle(event)

    def halt(self) -> None:
        """The executor is to end its jobs and go."""
        at = self.now()
        self.handle(v.Halted(at=at, deadline=at + int(STOP_GRACE * SECOND)))

    def adopt(self, left: Open) -> None:
        """Take over a lease of a former executor."""
        order, lease = left.order, left.order.lease
        self.node.adopt(order, started=left.started, suspended=left.suspended, ladder=left.ladder, notified_at=left.notified_at)
        one = self.machine.running.get(lease)
        if one is not None:
            self.handle(v.Started(self.now(), lease, "watchdog"))
            if left.started and left.ladder is not None and not left.suspended:
                hooked = self.machine.notify(lease, _grace(left.ladder, self.machine, lease))
                self.handle(v.Notified(self.now(), lease, hooked, "the executor was restarted"))
            self.look(lease)
            if one.code is not None:
                self.exited(lease)
        elif left.started:
            self.handle(v.Exited(self.now(), lease, None, seen=self.now()))
        else:
            self.node.forget_adopted(lease)
            self.journal.forgotten(lease)
            self._release(v.Release(lease))

    def look(self, lease: str) -> None:
        """There may be a checkpoint."""
        uri = self.machine.saw(lease)
        if uri:
            self.handle(v.CheckpointSeen(self.now(), lease, uri, int(uri.rpartition("/")[2])))

    def exited(self, lease: str) -> None:
        """Its processes are gone."""
        one = self.machine.running.get(lease)
        if one is not None and one.code is not None:
            self.look(lease)
            self.handle(v.Exited(one.ended_at, lease, one.code, one.finished, seen=self.now()))

    def called_back(self, lease: str) -> None:
        """Its callback is over."""
        self.look(lease)
        self.handle(v.CallbackEnded(self.now(), lease, "exit 0"))

    def _later(self, seconds: float, what: Callable[..., None], *about: Any) -> asyncio.TimerHandle:
        return self._loop.call_later(seconds * self.machine.slow, what, *about)

    def _spawn(self, action: v.Spawn) -> None:
        order = action.order
        self._waiting[order.lease] = self._later(START_TAKES, self.begin_job, order)

    def _unspawn(self, action: v.Unspawn) -> None:
        waiting = self._waiting.pop(action.lease, None)
        if waiting is not None:
            waiting.cancel()
            self.handle(v.StartFailed(self.now(), action.lease, "never_started"))

    def begin_job(self, order: StartOrder) -> None:
        if self.machine.trouble == "stall":
            return
        self._waiting.pop(order.lease, None)
        if self.machine.trouble == "refuse":
            self.handle(v.StartFailed(self.now(), order.lease, "refused", None, "this machine is in no order"))
            return
        if not order.command:  # its text can never be read again
            self.handle(v.StartFailed(self.now(), order.lease, "exited", 126, "there is no command"))
            return
        try:
            self.journal.began(order)
        except OSError as error:
            self.handle(v.StartFailed(self.now(), order.lease, "refused", None, f"the journal: {error.strerror}"))
            return
        self._later(START_TAKES, self._begin, order)

    def _begin(self, order: StartOrder) -> None:
        self.machine.start(order)
        self._loop.call_soon(self._begun, order.lease)

    def _begun(self, lease: str) -> None:
        self.handle(v.Started(self.now(), lease, "watchdog"))

    def _notify(self, action: v.Notify) -> None:
        ladder = self.node.leases[action.lease].ladder
        grace = 0.0
        if ladder is not None:
            self.journal.note_stop_order(action.lease, ladder, self.now())
            grace = _grace(ladder, self.machine, action.lease)
        hooked = self.machine.notify(action.lease, grace)
        self.handle(v.Notified(self.now(), action.lease, hooked))

    def _run_callback(self, action: v.RunCallback) -> None:
        self.machine.call_back(action.lease)
        if self.machine.running[action.lease].callback == "over":  # under a former executor
            self.receive(self.called_back, action.lease)

    def _kill(self, action: v.Kill) -> None:
        lease = self.node.leases[action.lease]
        asked = lease.ladder is not None and lease.ladder.cause == "preempted" and not self.machine.jumped
        self.machine.kill(action.lease, graced=asked and lease.limit is None and not lease.blame and not lease.parked)

    def _verify(self, action: v.Verify) -> None:
        holder = self.machine.holder(action.lease)
        at = self.now()
        self.handle(v.DevicesBusy(at, action.lease, holder) if holder else v.DevicesFree(at, action.lease))

    def _suspend(self, lease: str) -> None:
        if self.machine.suspend(lease):
            self.handle(v.Suspended(self.now(), lease, "simulated"))
        else:
            self.handle(v.CannotSuspend(self.now(), lease, "it cannot be had off its devices"))

    def _resume(self, lease: str) -> None:
        if self.machine.resume(lease):
            self.handle(v.Resumed(self.now(), lease))

    def _checked(self) -> None:
        trouble = self.machine.trouble or ("the disk is full" if self.machine.disk.full else "")
        self.handle(v.Checked(self.now(), trouble))

    def _set_timer(self, action: v.SetTimer) -> None:
        if action.lease in self._timers:
            self._timers[action.lease].cancel()
        delay = max(0, action.deadline - self.now()) / SECOND
        self._timers[action.lease] = self._loop.call_later(delay, self._timer_fired, action)

    def _timer_fired(self, action: v.SetTimer) -> None:
        self.handle(v.TimerFired(max(self.now(), action.deadline), action.lease, action.deadline))

    def _release(self, action: v.Release) -> None:
        timer = self._timers.pop(action.lease, None)
        if timer is not None:
            timer.cancel()
        self.machine.forget(action.lease)


def _grace(ladder: Ladder, machine: Machine, lease: str) -> float:
    """Seconds that must be left to it, once told."""
    one = machine.running[lease]
    has_callback = bool(one.order.on_abort) or one.behaviour.hooked
    return ((ladder.callback_grace if has_callback and not one.order.on_abort else 0) + ladder.term_grace) / SECOND


async def serve(machine: Machine, network: Network) -> None:
    """One life of the executor."""
    process = current()
    now = clock_of(network, process)
    journal = MemoryJournal(machine.disk)
    link = Link(machine.name, Address("simulated"), LinkTimings(), now, partial(SimulatedConnection, network, machine.name))
    ledger = FactWriter(link, node_writer(machine.name), ENGINE, now, journal)
    registration = NodeRegisteredV1(
        node=machine.name,
        labels=machine.row.labels,
        devices=machine.devices,
        cpu=machine.cpu,
        memory=machine.row.memory,
        executor=ENGINE,
        isolation=machine.row.isolation,
        reads=LEVEL,
        at=now(),
    )
    node = Node(registration, closed(journal), journal.last)
    hands = Hands(node, machine, journal, ledger.state, now, link.ask_now)
    machine.executor = hands
    for left in [left for left in journal.open.values() if not left.ended]:
        hands.adopt(left)
    listener = BusListener(
        pushed=lambda orders: hands.handle(v.Pushed(now(), orders)),
        answered=lambda answer: hands.handle(v.Answered(now(), answer)),
        returned=lambda: hands.handle(v.Returned(now())),
        logs=lambda _request: LogsAnswer(ended=True),
    )
    await link.run(listener, ledger, lambda: len(node.leases))


def clock_of(network: Network, process: Process) -> Callable[[], int]:
    """The clock of the machine that a process is on."""
    return lambda: network.clock() + process.ahead


__all__ = ["Hands", "Phase", "clock_of", "serve"]
