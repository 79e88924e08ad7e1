"""A lease that stands still (R29): a conversation, as with any other. Times in seconds after the start."""

from __future__ import annotations

import msgspec
import pytest

from headrace.contracts.facts import LeaseEndedV1, LeaseResumedV1, LeaseSuspendedV1, NodeRegisteredV1
from headrace.contracts.facts.fact import DeviceShare, Ladder
from headrace.contracts.facts.nodes import Device
from headrace.contracts.messages.orders import NodeAnswer, StopOrder
from headrace.node_executor.core import vocabulary as v
from headrace.node_executor.core.node import Node
from headrace.node_executor.core.phases import Phase
from headrace.node_executor.core.suspension import resume
from tests.unit.node_executor.core.lease_inputs import (
    JOB,
    LEASE,
    ended,
    exited,
    free,
    ladder_begun,
    rung,
    running,
    s,
    set_timer,
)

SUSPEND = Ladder(cause="preempted", callback_grace=0, term_grace=s(30), then="suspend")
CANCEL = Ladder(cause="cancelled", callback_grace=s(60), term_grace=s(30), then="cancel")


def suspended(seconds: float, how: str = "sigstop") -> v.State:
    return v.State(LeaseSuspendedV1(job=JOB, attempt=1, at=s(seconds), how=how))


def stands_still(at: float = 10):
    """A lease that has been suspended."""
    talk = running()
    talk.is_stopped(at, SUSPEND)
    assert talk.handle(ladder_begun(at)) == [rung("told", at, 0, "told"), v.Suspend(LEASE)]
    still = v.Suspended(s(at), LEASE, "sigstop")
    assert talk.handle(still) == [rung("suspend", at, 0, "sigstop"), suspended(at)]
    assert (talk.lease.phase, talk.lease.parked, talk.lease.ladder) == (Phase.SUSPENDED, True, None)
    return talk


def test_told_again_to_be_suspended_it_says_that_it_is() -> None:
    assert stands_still().is_stopped(20, SUSPEND) == [suspended(20, "")]


def test_any_other_stop_kills_it_and_its_devices_are_not_looked_at_because_they_may_be_of_another_job() -> None:
    talk = stands_still()
    assert talk.is_stopped(20, CANCEL) == [v.Kill(LEASE)]
    assert talk.handle(exited(21, 137)) == [
        rung("kill", 21, 1, "gone"),
        *ended("killed", 21, 21, exit_code=137, stopping=True, message="it was suspended"),
    ]


def test_an_end_while_it_stands_still_is_one_of_the_ladder() -> None:
    talk = stands_still()
    assert talk.handle(exited(21, 9)) == ended("exited", 21, 21, exit_code=9, stopping=True)


def test_the_executor_does_not_stop_without_it() -> None:
    assert stands_still().is_halted(20, 30) == [v.Kill(LEASE)]


def test_a_cancel_that_comes_while_it_is_told_keeps_it_from_being_suspended() -> None:
    talk = running()
    talk.is_stopped(10, SUSPEND)
    assert talk.is_stopped(10, CANCEL) == []
    assert talk.handle(ladder_begun(10)) == [rung("told", 10, 0, "told"), v.Terminate(LEASE), set_timer(40)]


def test_a_cancel_that_comes_while_it_is_being_suspended_kills_it_then() -> None:
    talk = running()
    talk.is_stopped(10, SUSPEND)
    talk.handle(ladder_begun(10))
    assert talk.is_stopped(10, CANCEL) == []
    still = v.Suspended(s(11), LEASE, "sigstop")
    assert talk.handle(still) == [rung("suspend", 11, 1, "sigstop"), suspended(11), v.Kill(LEASE)]


def test_an_end_that_comes_first_is_one_like_any_other() -> None:
    talk = running()
    talk.is_stopped(10, SUSPEND)
    talk.handle(ladder_begun(10))
    assert talk.handle(exited(11, 0)) == [v.Verify(LEASE)]
    assert talk.handle(v.Suspended(s(11), LEASE, "sigstop")) == []
    assert talk.handle(free(12))[-2:] == ended("exited", 11, 12, exit_code=0, stopping=True)


@pytest.fixture
def order(make_order):
    return make_order(devices=(DeviceShare(device="gpu0", units=126_000),))


class Machine:
    """A node of one GPU on which the order's job stands still."""

    def __init__(self, order):
        self.order = order
        self.node = Node(
            NodeRegisteredV1(node="n", devices=(Device(device="gpu0", model="H100", memory=1),), cpu=1, memory=1, at=0)
        )
        self.answered(1)
        self.answered(2, order)
        self.node.step(v.Started(1, LEASE, "simulated"))
        self.answered(3, stops=(StopOrder(lease=LEASE, ordered=3, ladder=SUSPEND),))
        self.node.step(v.Notified(5, LEASE, hooked=False))
        self.node.step(v.Suspended(5, LEASE, "sigstop"))

    def answered(self, through, *starts, stops=()):
        return self.node.step(v.Answered(5, NodeAnswer(node="n", through=through, last_record=0, starts=starts, stops=stops)))


def as_suspended(order):
    return msgspec.structs.replace(order, suspended=True)


def test_it_stays_where_it_is_while_it_is_told_so_and_goes_on_when_it_is_not(order) -> None:
    machine = Machine(order)
    assert machine.node.devices["gpu0"].free == 126_000
    assert machine.answered(4, as_suspended(order)) == []
    assert machine.answered(5, order) == [v.Resume(LEASE)]
    assert machine.node.devices["gpu0"].free == 0
    resumed = v.State(LeaseResumedV1(job=JOB, attempt=1, at=7))
    assert machine.node.step(v.Resumed(7, LEASE)) == [resumed]
    assert machine.answered(6, order) == []
    lease = machine.node.leases[LEASE]
    assert (lease.phase, lease.parked, lease.walked) == (Phase.RUNNING, False, False)


def test_its_devices_may_be_used_by_another_and_until_then_it_does_not_go_on(order, make_order) -> None:
    machine = Machine(order)
    other = make_order(attempt=2, devices=order.devices)
    assert machine.answered(4, as_suspended(order), other) == [v.Spawn(other)]
    assert machine.answered(5, order, other) == []
    assert machine.node.devices["gpu0"].free == 0


def test_one_that_is_unknown_here_is_not_started_anew(order) -> None:
    machine = Machine(order)
    stranger = msgspec.structs.replace(order, lease=f"{JOB}/7/0", attempt=7, started=True, suspended=True)
    lost = LeaseEndedV1(job=JOB, attempt=7, outcome="lost", message="it was suspended here, and is gone", exited_at=5, at=5)
    assert machine.answered(4, as_suspended(order), stranger) == [v.State(lost)]


def test_it_is_stopped_where_the_ledger_knows_nothing_of_it(order) -> None:
    assert Machine(order).answered(6) == [v.Kill(LEASE)]


def test_who_is_told_to_stop_while_being_resumed_is_told_as_soon_as_it_is_back() -> None:
    """R29: going on takes a while, because memory is put back onto the device."""
    talk = stands_still()
    out: list[v.Action] = []
    resume(talk.lease, out)
    assert out == [v.Resume(LEASE)]
    assert talk.is_stopped(20, CANCEL) == []
    resumed, *then = talk.handle(v.Resumed(s(30), LEASE))
    assert resumed == v.State(LeaseResumedV1(job=JOB, attempt=1, at=s(30)))
    assert [type(action) for action in then] == [v.Notify]
