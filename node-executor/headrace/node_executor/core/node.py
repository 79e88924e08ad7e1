"""All leases of the node: compares orders and answers with what runs, and decides when the node may register.

Strategy: level-triggered, not edge-triggered (`contracts.messages.orders`). `closed` remembers leases that are over until an answer that
is not older than their grant leaves them out: from then on no later order can name them. Leases that a former executor left running
continue (`adopt`). An answer older than the node's own last record is not used: it may miss an end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from headrace.contracts.facts import (
    DeviceDrainedV1,
    DeviceReturnedV1,
    LeaseEndedV1,
    NodeCheckedV1,
    NodeRegisteredV1,
    NodeStoppedV1,
)
from headrace.contracts.facts.fact import DeviceShare, Ladder
from headrace.contracts.messages.orders import StartOrder, StopOrder
from headrace.contracts.values.ids import IdError, lease_id, split_job_key
from headrace.node_executor.core import lease as life
from headrace.node_executor.core.device_holdings import NOT_FREE, DeviceHoldings
from headrace.node_executor.core.lease import REVOKED
from headrace.node_executor.core.phases import Actions, Lease, Phase
from headrace.node_executor.core.suspension import resume
from headrace.node_executor.core.vocabulary import (
    Action,
    Answered,
    Ask,
    Check,
    Checked,
    DeviceChanged,
    Event,
    Halted,
    LeaseEvent,
    Pushed,
    Returned,
    State,
)

GONE = "it was {} here, and is gone"
"""Message for a lease that the ledger saw here and whose journal was lost when the machine lost power (R32)."""


class Node:
    """State of the node. `step` takes an event and returns the actions.

    `registration` is what the node states of itself; `closed` are the leases of a former executor that are over, each with the sequence
    of its grant or stop; `through` is the sequence of the node's last record.
    """

    def __init__(self, registration: NodeRegisteredV1, closed: Mapping[str, int] | None = None, through: int = 0) -> None:
        self.registration = registration
        self.leases: dict[str, Lease] = {}
        self.closed: dict[str, int] = dict(closed or {})
        self.devices = {device.device: DeviceHoldings(device) for device in registration.devices}
        self.through = through
        self.answered = False
        self.registered = False
        self.registering = True
        self.limit: int | None = None
        self.finished = False
        self.checked = 0

    def adopt(self, order: StartOrder, *, started: bool, suspended: bool, ladder: Ladder | None, notified_at: int) -> None:
        """Continue a lease that a former executor left.

        `Started` is due if the lease was not yet stated as started, and `Notified` if it was told to stop (at `notified_at`).
        """
        lease = self.leases[order.lease] = Lease(order, ladder=ladder)
        if suspended:
            lease.phase, lease.parked, lease.ladder = Phase.SUSPENDED, True, None
        elif started:
            lease.phase = Phase.RUNNING if ladder is None else Phase.NOTIFIED
            lease.walked, lease.since = ladder is not None, notified_at
        if not suspended:
            self._hold(order, 1)

    def forget_adopted(self, lease: str) -> None:
        """Forget a carried lease that was never started: the next order for it starts it."""
        self._hold(self.leases.pop(lease).order, -1)

    def step(self, event: Event) -> list[Action]:
        """Return the actions that follow from `event`, in order."""
        out: Actions = []
        if isinstance(event, LeaseEvent):
            self._lease_event(event, out)
        else:
            STEPS[type(event)](self, event, out)
        self._report(event.at, out)
        return out

    def pushed(self, event: Pushed, out: Actions) -> None:
        """Handle new orders. They are ignored before the first answer, because only the answer tells what a former executor left behind."""
        orders = event.orders
        if orders.node != self.registration.node or not self.answered or orders.through < self.through:
            return
        self.through = orders.through
        self._follow_orders(orders.starts, orders.stops, event.at, out)

    def was_answered(self, event: Answered, out: Actions) -> None:
        """Handle an answer: all that should run.

        Leases that run and are not in it are stopped, unless the answer is older than their grant.

        A node that was declared lost although it runs registers again once nothing that was taken from it runs any more (R32).
        """
        answer = event.answer
        if answer.node != self.registration.node or answer.through < self.through:
            return
        self.through, self.answered = answer.through, True
        self.registering = self.registering or answer.lost
        if answer.check > self.checked and self.limit is None:
            self.checked = answer.check
            out.append(Check())
        named = {order.lease for order in answer.starts} | {order.lease for order in answer.stops}
        self.closed = {lease: at for lease, at in self.closed.items() if lease in named or at > self.through}
        self._follow_orders(answer.starts, answer.stops, event.at, out)
        for lease in list(self.leases.values()):
            if lease.id not in named and lease.order.granted <= answer.through and lease.ladder is None:
                life.stop(lease, REVOKED, event.at, out)
                self.registering = True

    def returned(self, _event: Returned, _out: Actions) -> None:
        """The node may have been declared lost; the next answer tells which of its leases still count."""
        self.registering, self.answered = True, False

    def halted(self, event: Halted, out: Actions) -> None:
        """The executor stops: no more starts, and everything that runs has until the deadline."""
        if self.limit is None or event.deadline < self.limit:
            self.limit = event.deadline
            for lease in list(self.leases.values()):
                life.halt(lease, event.at, event.deadline, event.reason, out)

    def device_changed(self, event: DeviceChanged, out: Actions) -> None:
        """A device is drained or usable again. Nothing is started on a drained device, and failures there are not the job's fault."""
        holding, why = self.devices.get(event.device), (event.message or event.cause) if event.cause else ""
        if holding is None or holding.unfit == why:
            return
        holding.unfit = why
        devices = [
            msgspec.structs.replace(one, unfit=why) if one.device == event.device else one for one in self.registration.devices
        ]
        self.registration = msgspec.structs.replace(self.registration, devices=tuple(devices))
        for lease in self.leases.values():
            if why and any(share.device == event.device for share in lease.order.devices):
                lease.fault = f"device {event.device} failed: {why}"
        if self.registered:
            name, device, message, at = self.registration.node, event.device, event.message, event.at
            drained = DeviceDrainedV1(node=name, device=device, cause=event.cause, code=event.code, message=message, at=at)
            out.append(State(drained if why else DeviceReturnedV1(node=name, device=device, message=message, at=at)))

    def was_checked(self, event: Checked, out: Actions) -> None:
        """The node has checked itself, as ordered before it is given work again (R36)."""
        out.append(
            State(
                NodeCheckedV1(
                    node=self.registration.node,
                    ordered=self.checked,
                    passed=not event.complaint,
                    message=event.complaint,
                    at=event.at,
                )
            )
        )

    def _lease_event(self, event: LeaseEvent, out: Actions) -> None:
        lease = self.leases.get(event.lease)
        if lease is None:
            return
        had = not lease.parked
        life.handle(lease, event, out)
        if had and lease.parked:
            self._hold(lease.order, -1)
        if lease.phase is Phase.ENDED:
            self._close(lease)

    def _follow_orders(self, starts: Iterable[StartOrder], stops: Iterable[StopOrder], at: int, out: Actions) -> None:
        for stop in stops:  # stops first: an unknown lease that is to stop must not be started by the same message
            lease = self.leases.get(stop.lease)
            if lease is not None:
                life.stop(lease, stop.ladder, at, out)
            elif stop.lease not in self.closed:
                self._gone(stop, at, out)
        if self.limit is not None:
            return
        for order in starts:
            lease = self.leases.get(order.lease)
            if lease is not None:
                self._go_on(lease, order, out)
            elif order.lease not in self.closed and not order.withheld:
                self._start(order, at, out)

    def _start(self, order: StartOrder, at: int, out: Actions) -> None:
        if not _consistent(order):
            return
        if order.suspended or order.started:
            was = "suspended" if order.suspended else "started"
            self._refuse(order, GONE.format(was), at, out, outcome="lost")
            return
        for share in order.devices:
            objection = self._objection(share)
            if objection:
                holder = self._dispute(order, at, out) if objection == NOT_FREE else ""
                self._refuse(order, f"device {share.label} {objection}", at, out, held_by=holder)
                return
        self._hold(order, 1)
        lease = self.leases[order.lease] = Lease(order)
        life.begin(lease, out)

    def _go_on(self, lease: Lease, order: StartOrder, out: Actions) -> None:
        """Go on with a lease that is here; a suspended one is resumed, unless its ladder suspends it."""
        is_free = not any(self._objection(share) for share in lease.order.devices)
        if lease.phase is Phase.SUSPENDED and lease.parked and not order.suspended and is_free:
            self._hold(lease.order, 1)
            resume(lease, out)

    def _hold(self, order: StartOrder, sign: int) -> None:
        """Take its devices (`sign` 1) or free them (-1)."""
        for share in order.devices:
            device = self.devices.get(share.device)  # a device that a former executor had may be gone
            if device is not None:
                (device.take if sign > 0 else device.give_back)(share)

    def _objection(self, share: DeviceShare) -> str:
        """Return why the share cannot be taken now, or "" if it can."""
        device = self.devices.get(share.device)
        return "is not on this node" if device is None else device.objection(share)

    def _holder(self, share: DeviceShare) -> str:
        """Return the lease that holds the device or a part of it."""
        return next(
            (
                lease.id
                for lease in self.leases.values()
                if not lease.parked and any(mine.device == share.device for mine in lease.order.devices)
            ),
            "",
        )

    def _dispute(self, order: StartOrder, at: int, out: Actions) -> str:
        """The ledger grants devices that are taken here: ask what should run, and then register again (R36).

        Until then nothing is granted on those devices. Returns the first of the leases that hold them.
        """
        taken = {share.device: self._holder(share) for share in order.devices if self._objection(share) == NOT_FREE}
        for device, holder in taken.items():
            message = f"it is held for {holder}, which the ledger does not have there"
            fact = DeviceDrainedV1(node=self.registration.node, device=device, cause="disputed", message=message, at=at)
            out.append(State(fact))
        self.registering, self.answered = True, False
        out.append(Ask())
        return next(iter(taken.values()))

    def _refuse(
        self, order: StartOrder, message: str, at: int, out: Actions, *, outcome: str = "refused", held_by: str = ""
    ) -> None:
        self.closed[order.lease] = order.granted
        fact = LeaseEndedV1(
            job=order.job,
            attempt=order.attempt,
            rank=order.rank,
            outcome=outcome,
            message=message,
            held_by=held_by,
            exited_at=at,
            at=at,
        )
        out.append(State(fact))

    def _gone(self, stop: StopOrder, at: int, out: Actions) -> None:
        """Answer a stop of a lease that is not here: it never started, or was lost."""
        parts = _parts(stop.lease)
        if parts is None:
            return
        self.closed[stop.lease] = stop.ordered
        job, attempt, rank = parts
        outcome, message = ("lost", GONE.format("started")) if stop.started else ("never_started", "")
        out.append(
            State(LeaseEndedV1(job=job, attempt=attempt, rank=rank, outcome=outcome, message=message, exited_at=at, at=at))
        )

    def _close(self, lease: Lease) -> None:
        if not lease.parked:
            self._hold(lease.order, -1)
        del self.leases[lease.id]
        self.closed[lease.id] = lease.order.granted

    def _report(self, at: int, out: Actions) -> None:
        """Register once nothing superseded runs any more (R32); when the executor stops, state that once nothing runs."""
        if self.limit is not None:
            if not self.leases and not self.finished:
                self.finished = True
                if self.registered:
                    out.append(State(NodeStoppedV1(node=self.registration.node, through=self.through, at=at)))
            return
        if not self.registering or not self.answered or any(_superseded(lease) for lease in self.leases.values()):
            return
        self.registering, self.registered = False, True
        holding = tuple(lease.id for lease in self.leases.values() if lease.phase is not Phase.STARTING)
        out.append(State(msgspec.structs.replace(self.registration, holding=holding, at=at)))


def _parts(lease: str) -> tuple[str, int, int] | None:
    """Split into (job key, attempt, rank); None for anything but an exact lease id, because the id also names directories."""
    job, _, rest = lease.partition("/")
    attempt, _, rank = rest.partition("/")
    try:
        split_job_key(job)
    except IdError:
        return None
    if not (attempt.isdecimal() and rank.isdecimal() and lease == lease_id(job, int(attempt), int(rank))):
        return None
    return job, int(attempt), int(rank)


def _superseded(lease: Lease) -> bool:
    return lease.ladder is not None and lease.ladder.cause == REVOKED.cause


def _consistent(order: StartOrder) -> bool:
    return _parts(order.lease) == (order.job, order.attempt, order.rank)


STEPS: dict[type[Event], Callable[[Node, Any, Actions], None]] = {
    Pushed: Node.pushed,
    Answered: Node.was_answered,
    Returned: Node.returned,
    Halted: Node.halted,
    DeviceChanged: Node.device_changed,
    Checked: Node.was_checked,
}
