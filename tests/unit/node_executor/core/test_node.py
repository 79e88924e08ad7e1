"""Orders, answers and what a former executor left, as a conversation with the whole node."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.contracts.facts import (
    DeviceDrainedV1,
    DeviceReturnedV1,
    LeaseEndedV1,
    NodeCheckedV1,
    NodeRegisteredV1,
    NodeStoppedV1,
)
from headrace.contracts.facts.fact import DeviceShare, Ladder
from headrace.contracts.facts.nodes import Device
from headrace.contracts.messages.orders import NodeAnswer, Orders, StartOrder, StopOrder
from headrace.node_executor.core import vocabulary as v
from headrace.node_executor.core.lease import REVOKED
from headrace.node_executor.core.node import Node

JOB = "acme.alice.01j9z3k4m5n6p7q8r9s0t1v2w3"
LEASE = f"{JOB}/1/0"
SECOND_JOB = "acme.bob.01j9z3k4m5n6p7q8r9s0t1v2w4"
LADDER = Ladder(cause="cancelled", callback_grace=0, term_grace=30)
REGISTRATION = NodeRegisteredV1(
    node="gpu01",
    devices=(Device(device="gpu0", model="H100-80GB", memory=81920), Device(device="gpu1", model="H100-80GB", memory=81920)),
    cpu=8000,
    memory=65536,
    at=0,
)


def node(closed: dict[str, int] | None = None, *, answered: bool = True, through: int = 0) -> Node:
    one = Node(REGISTRATION, closed, through)
    if answered:
        assert one.step(answer(0)) == [v.State(registered(0))]
    return one


def registered(at: int, *holding: str) -> NodeRegisteredV1:
    return NodeRegisteredV1(node="gpu01", devices=REGISTRATION.devices, cpu=8000, memory=65536, holding=holding, at=at)


def answer(
    through: int, *starts: StartOrder, stops: tuple[StopOrder, ...] = (), at: int = 0, to: str = "gpu01", lost: bool = False
) -> v.Answered:
    return v.Answered(at, NodeAnswer(node=to, through=through, last_record=0, lost=lost, starts=starts, stops=stops))


def push(through: int, *starts: StartOrder, stops: tuple[StopOrder, ...] = (), at: int = 0, to: str = "gpu01") -> v.Pushed:
    return v.Pushed(at, Orders(node=to, number=1, through=through, starts=starts, stops=stops))


def stop(lease: str = LEASE, ordered: int = 6, *, started: bool = False) -> StopOrder:
    return StopOrder(lease=lease, ordered=ordered, ladder=LADDER, started=started)


def ended(outcome: str, at: int, **fields: Any) -> v.State:
    return v.State(LeaseEndedV1(job=JOB, attempt=1, outcome=outcome, exited_at=at, at=at, **fields))


def disputed(device: str, holder: str, at: int) -> v.State:
    message = f"it is held for {holder}, which the ledger does not have there"
    return v.State(DeviceDrainedV1(node="gpu01", device=device, cause="disputed", message=message, at=at))


def finish(one: Node, lease: str = LEASE) -> None:
    """The job runs and ends."""
    one.step(v.Started(1, lease, "simulated"))
    one.step(v.Exited(2, lease, 0))
    one.step(v.DevicesFree(3, lease))
    assert lease not in one.leases


def test_a_start_order_is_obeyed_once(make_order) -> None:
    one, order = node(), make_order()
    assert one.step(push(10, order)) == [v.Spawn(order)]
    assert one.step(push(11, order)) == []
    assert one.step(answer(12, order)) == []
    finish(one)
    assert one.step(push(13, order)) == []
    assert one.step(answer(14, order)) == []


def test_what_the_ledger_saw_start_and_is_unknown_here_by_now_is_lost_and_not_started_anew(make_order) -> None:
    """R32: the machine lost its power, and its journal with it; the next attempt goes on from the newest checkpoint."""
    one, order = node(), make_order(started=True, devices=(DeviceShare(device="gone", units=126_000),))
    assert one.step(answer(10, order, at=4)) == [ended("lost", 4, message="it was started here, and is gone")]
    assert one.step(answer(11, order, at=5)) == []


def test_what_the_ledger_saw_start_and_is_to_stop_is_lost_where_it_is_unknown_by_now():
    """R32: it ran, so it is not stated as never started."""
    one = node()
    assert one.step(answer(10, stops=(stop(started=True),), at=4)) == [
        ended("lost", 4, message="it was started here, and is gone")
    ]
    assert one.step(push(11, stops=(stop(started=True),), at=5)) == []


def test_what_runs_here_goes_on_whether_the_ledger_saw_it_start_or_not(make_order) -> None:
    one, order = node(), make_order()
    assert one.step(push(10, order)) == [v.Spawn(order)]
    assert one.step(answer(11, make_order(started=True))) == []


def test_pushes_are_ignored_until_the_first_answer_has_told_what_was_left_behind(make_order) -> None:
    one = node(answered=False)
    assert one.step(push(10, make_order())) == []
    assert one.step(answer(10, make_order())) == [v.Spawn(make_order()), v.State(registered(0))]


def test_orders_for_another_node_are_ignored(make_order) -> None:
    one = node()
    assert one.step(push(10, make_order(), to="gpu02")) == []
    assert one.step(answer(10, make_order(), to="gpu02")) == []


def test_an_older_push_is_ignored(make_order) -> None:
    one = node()
    one.step(answer(20))
    assert one.step(push(19, make_order())) == []
    assert one.step(push(20, make_order())) == [v.Spawn(make_order())]


def test_an_older_answer_kills_nothing(make_order) -> None:
    one = node()
    one.step(push(20, make_order(granted=20)))
    one.step(v.Started(1, LEASE, "simulated"))
    assert one.step(answer(19)) == []


def test_an_answer_from_before_the_grant_kills_nothing(make_order) -> None:
    one = node()
    one.step(push(10, make_order(granted=30)))
    one.step(v.Started(1, LEASE, "simulated"))
    assert one.step(answer(29)) == []


def test_a_lease_that_an_answer_leaves_out_is_stopped_as_revoked_and_the_node_reports_itself_after_it(make_order) -> None:
    one = node()
    one.step(push(10, make_order(granted=10)))
    one.step(v.Started(1, LEASE, "simulated"))
    deadline = REVOKED.term_grace + 100
    assert one.step(answer(10, at=100)) == [v.Notify(LEASE, "revoked", "", deadline, deadline)]
    one.step(v.Notified(100, LEASE, hooked=False))
    one.step(v.Exited(200, LEASE, 143))
    assert one.step(v.DevicesFree(300, LEASE))[-1] == v.State(registered(300))


def test_a_node_that_was_given_up_although_it_lives_says_again_what_it_is() -> None:
    """R32: nothing ran on it, so that nothing is taken from it, and it noticed no silence of its own."""
    one = node()
    assert one.step(answer(10, at=100, lost=True)) == [v.State(registered(100))]
    assert one.step(answer(11, at=200)) == []


def test_what_was_taken_from_a_node_that_was_given_up_ends_before_it_says_again_what_it_is(make_order) -> None:
    one = node()
    one.step(push(10, make_order(granted=10)))
    one.step(v.Started(1, LEASE, "simulated"))
    deadline = REVOKED.term_grace + 100
    assert one.step(answer(12, at=100, lost=True)) == [v.Notify(LEASE, "revoked", "", deadline, deadline)]
    one.step(v.Notified(100, LEASE, hooked=False))
    one.step(v.Exited(200, LEASE, 143))
    assert one.step(v.DevicesFree(300, LEASE))[-1] == v.State(registered(300))


def test_a_lease_that_an_answer_lists_among_the_stops_is_not_left_out(make_order) -> None:
    one = node()
    one.step(push(10, make_order(granted=10)))
    one.step(v.Started(1, LEASE, "simulated"))
    assert one.step(answer(12, stops=(stop(),), at=100)) == [v.Notify(LEASE, "cancelled", "", 130, 130)]


def test_a_stop_for_a_lease_that_never_came_is_answered_and_its_start_is_ignored_from_then_on(make_order) -> None:
    one = node()
    assert one.step(push(10, stops=(stop(),), at=7)) == [ended("never_started", 7)]
    assert one.step(push(11, make_order())) == []
    assert one.step(push(12, stops=(stop(),))) == []


def test_a_start_and_a_stop_in_one_message_start_nothing(make_order) -> None:
    assert node().step(push(10, make_order(), stops=(stop(),), at=7)) == [ended("never_started", 7)]


def test_a_lease_that_is_over_is_forgotten_once_no_order_can_name_it_any_more(make_order) -> None:
    one = node()
    one.step(push(10, make_order(granted=10)))
    finish(one)
    one.step(answer(9))
    assert LEASE in one.closed
    one.step(answer(10, make_order(granted=10)))
    assert LEASE in one.closed
    one.step(answer(11))
    assert one.closed == {}


def test_a_device_that_is_not_here_is_refused(make_order) -> None:
    order = make_order(devices=(DeviceShare(device="gpu7", units=126_000),))
    assert node().step(push(11, order, at=7)) == [ended("refused", 7, message="device gpu7 is not on this node")]


def test_of_several_devices_those_that_are_taken_are_disputed_and_none_is_touched(make_order) -> None:
    one = node()
    one.step(push(10, make_order(SECOND_JOB)))
    devices = (DeviceShare(device="gpu1", units=63_000), DeviceShare(device="gpu0", units=1))
    assert one.step(push(11, make_order(devices=devices), at=7)) == [
        disputed("gpu0", f"{SECOND_JOB}/1/0", 7),
        v.Ask(),
        ended("refused", 7, message="device gpu0 is not free", held_by=f"{SECOND_JOB}/1/0"),
    ]
    assert {name: device.free for name, device in one.devices.items()} == {"gpu0": 0, "gpu1": 126_000}


def test_two_halves_of_a_device_fit_and_come_back(make_order) -> None:
    one = node()
    half = (DeviceShare(device="gpu0", units=63_000),)
    orders = [make_order(attempt=number, devices=half) for number in (1, 2)]
    assert one.step(push(10, *orders)) == [v.Spawn(order) for order in orders]
    assert one.devices["gpu0"].free == 0
    finish(one, orders[0].lease)
    assert one.devices["gpu0"].free == 63_000


@pytest.mark.parametrize("lease", ["../../etc/1/0", f"{JOB}/1", f"{JOB}/01/0", f"{JOB}/2/0"])
def test_a_lease_id_that_is_invalid_or_another_one_is_ignored(make_order, lease) -> None:
    import msgspec

    assert node().step(push(10, msgspec.structs.replace(make_order(), lease=lease))) == []


def test_a_stop_for_something_that_is_not_a_lease_is_ignored() -> None:
    assert node().step(push(10, stops=(stop("../../etc/1/0"),))) == []


def test_what_ended_under_a_former_executor_is_not_started_again_and_forgotten_when_it_is_left_out(make_order) -> None:
    one, order = node({LEASE: 5, f"{JOB}/2/0": 6}, answered=False), make_order()
    assert one.step(answer(7, order)) == [v.State(registered(0))]
    assert one.closed == {LEASE: 5}
    assert one.step(answer(8)) == []
    assert one.closed == {}


def test_an_answer_that_may_not_know_of_the_last_ends_is_not_believed(make_order) -> None:
    one = node(answered=False, through=9)
    assert one.step(answer(8, make_order())) == []
    assert one.step(push(8, make_order())) == []
    assert one.step(answer(9)) == [v.State(registered(0))]


def test_what_a_former_executor_left_running_goes_on(make_order) -> None:
    one, order = node(answered=False), make_order()
    one.adopt(order, started=True, suspended=False, ladder=None, notified_at=0)
    assert one.step(answer(7, order)) == [v.State(registered(0, LEASE))]
    refused = {"outcome": "refused", "message": "device gpu0 is not free", "held_by": LEASE, "exited_at": 0, "at": 0}
    assert one.step(push(8, make_order(attempt=2))) == [
        disputed("gpu0", LEASE, 0),
        v.Ask(),
        v.State(LeaseEndedV1(job=JOB, attempt=2, **refused)),
    ]
    finish(one)


def test_what_a_former_executor_left_and_is_granted_no_longer_is_stopped_before_the_node_reports(make_order) -> None:
    """R32."""
    one = node(answered=False)
    one.adopt(make_order(), started=True, suspended=False, ladder=None, notified_at=0)
    assert [type(action) for action in one.step(answer(7))] == [v.Notify]
    one.step(v.Exited(2, LEASE, 0))
    assert one.step(v.DevicesFree(3, LEASE))[-1] == v.State(registered(3))


def test_a_ladder_of_a_former_executor_keeps_its_deadlines(make_order) -> None:
    """R28."""
    one, order = node(answered=False), make_order(on_abort=("save",))
    ladder = Ladder(cause="drain", callback_grace=60, term_grace=30)
    one.adopt(order, started=True, suspended=False, ladder=ladder, notified_at=10)
    actions = one.step(v.Notified(50, LEASE, hooked=False))
    assert actions[1:] == [v.RunCallback(LEASE, 70), v.SetTimer(LEASE, 70)]
    one = node(answered=False)
    one.adopt(order, started=True, suspended=False, ladder=ladder, notified_at=10)
    assert one.step(v.Notified(80, LEASE, hooked=False))[1:] == [v.Terminate(LEASE), v.SetTimer(LEASE, 110)]


def test_a_suspended_lease_of_a_former_executor_holds_no_device_until_it_goes_on(make_order) -> None:
    """R29."""
    one, order = node(answered=False), make_order()
    one.adopt(order, started=True, suspended=True, ladder=None, notified_at=0)
    other = make_order(attempt=2)
    suspended = make_order(suspended=True)
    one.step(answer(7, suspended))
    assert one.step(push(8, other)) == [v.Spawn(other)]
    finish(one, other.lease)
    assert one.step(push(9, order)) == [v.Resume(LEASE)]


def test_what_was_never_started_is_as_if_it_had_never_been_ordered(make_order) -> None:
    one, order = node(answered=False), make_order()
    one.adopt(order, started=False, suspended=False, ladder=None, notified_at=0)
    one.forget_adopted(LEASE)
    assert one.step(answer(7, order)) == [v.Spawn(order), v.State(registered(0))]


def test_a_device_that_is_gone_since_is_not_a_hindrance(make_order) -> None:
    one = node(answered=False)
    gone = make_order(devices=(DeviceShare(device="gpu7", units=126_000),))
    one.adopt(gone, started=True, suspended=False, ladder=None, notified_at=0)
    one.step(answer(7, gone))
    finish(one)


def test_leases_of_a_former_executor_are_remembered_while_the_answers_are_older_than_they() -> None:
    one = node({LEASE: 5}, answered=False)
    assert one.step(answer(4)) == [v.State(registered(0))]
    assert one.step(answer(5, stops=(stop(),))) == []
    assert one.closed == {LEASE: 5}


def test_a_node_that_was_out_of_touch_reports_itself_again_with_what_it_still_runs(make_order) -> None:
    one = node()
    one.step(push(10, make_order(granted=10)))
    one.step(v.Started(1, LEASE, "simulated"))
    assert one.step(v.Returned(50)) == []
    assert one.step(push(11, stops=(stop(),))) == []
    assert one.step(answer(12, make_order(granted=10), at=60)) == [v.State(registered(60, LEASE))]


def test_a_halted_node_starts_nothing_ends_everything_and_says_that_it_goes(make_order) -> None:
    one = node()
    one.step(push(10, make_order()))
    one.step(v.Started(1, LEASE, "simulated"))
    assert one.step(v.Halted(100, 200))[1:] == [v.Terminate(LEASE), v.SetTimer(LEASE, 200)]
    assert one.step(push(11, make_order(attempt=2))) == []
    assert not one.finished
    one.step(v.Exited(150, LEASE, 143))
    assert one.step(v.DevicesFree(150, LEASE)) == [
        ended("lost", 150, exit_code=143, message="executor stopped"),
        v.Release(LEASE),
        v.State(NodeStoppedV1(node="gpu01", through=11, at=150)),
    ]
    assert one.finished


def test_a_node_that_never_reported_itself_goes_without_a_word() -> None:
    one = node(answered=False)
    assert one.step(v.Halted(100, 200)) == []
    assert one.finished
    assert one.step(answer(5)) == []


def changed(
    at: int, cause: str = "xid", message: str = "XID 79: it has fallen off the bus", device: str = "gpu0"
) -> v.DeviceChanged:
    return v.DeviceChanged(at, device, cause, 79 if cause else 0, message)


DRAINED = DeviceDrainedV1(node="gpu01", device="gpu0", cause="xid", code=79, message="XID 79: it has fallen off the bus", at=5)


def test_a_device_that_fails_is_drained_by_a_fact_that_says_why_and_returned_by_another() -> None:
    one = node()
    assert one.step(changed(5)) == [v.State(DRAINED)]
    assert one.step(changed(6)) == []
    back = DeviceReturnedV1(node="gpu01", device="gpu0", message="in order again", at=9)
    assert one.step(changed(9, "", "in order again")) == [v.State(back)]
    assert one.step(changed(10, "", "in order again")) == one.step(changed(11, device="gpu7")) == []


def test_before_the_node_has_registered_the_registration_says_it() -> None:
    one = node(answered=False)
    assert one.step(changed(5)) == []
    (action,) = one.step(answer(0, at=6))
    assert [device.unfit for device in action.fact.devices] == ["XID 79: it has fallen off the bus", ""]


def test_nothing_is_started_on_a_device_that_is_drained(make_order) -> None:  # R36
    one = node()
    one.step(changed(5))
    (action,) = one.step(push(9, make_order(), at=6))
    assert (action.fact.outcome, action.fact.message) == (
        "refused",
        "device gpu0 is drained: XID 79: it has fallen off the bus",
    )


@pytest.mark.parametrize(
    ("code", "outcome", "message"),
    [
        pytest.param(1, "lost", "device gpu0 failed: XID 79: it has fallen off the bus", id="is the node's fault"),
        pytest.param(0, "exited", "", id="unless it has not failed"),
    ],
)
def test_what_fails_on_a_device_that_failed(make_order, code: int, outcome: str, message: str) -> None:  # R32
    one = node()
    one.step(push(9, make_order(), at=2))
    one.step(v.Started(3, LEASE, "hardware"))
    one.step(changed(5))
    one.step(v.Exited(6, LEASE, code))
    facts = [action.fact for action in one.step(v.DevicesFree(7, LEASE)) if isinstance(action, v.State)]
    assert [(fact.outcome, fact.exit_code, fact.message) for fact in facts] == [(outcome, code, message)]


def test_an_order_for_a_device_that_another_lease_holds_is_disputed_and_the_node_asks_what_should_run(make_order) -> None:
    """R36: it was never told to end the other one, so ledger and node differ; it is not its fault."""
    one = node()
    one.step(push(10, make_order()))
    one.step(v.Started(1, LEASE, "simulated"))
    refused = {"attempt": 1, "outcome": "refused", "message": "device gpu0 is not free", "exited_at": 4, "at": 4}
    assert one.step(push(20, make_order(SECOND_JOB, granted=20), at=4)) == [
        disputed("gpu0", LEASE, 4),
        v.Ask(),
        v.State(LeaseEndedV1(job=SECOND_JOB, held_by=LEASE, **refused)),
    ]

    actions = one.step(answer(21, at=5))

    assert actions == [v.Notify(LEASE, "revoked", "", 5_000_005, 5_000_005)]  # the ledger does not have it
    one.step(v.Notified(6, LEASE, False))
    one.step(v.Exited(7, LEASE, 143))
    assert one.step(v.DevicesFree(8, LEASE))[-1] == v.State(registered(8))  # and so the device may be granted again


def test_a_node_that_stops_says_which_orders_it_had_read(make_order) -> None:
    """R36: what was granted after that is not meant."""
    one = node()
    one.step(push(17, make_order()))
    finish(one)
    assert one.step(v.Halted(20, 30)) == [v.State(NodeStoppedV1(node="gpu01", through=17, at=20))]


def test_a_node_that_is_asked_to_checks_itself_once_for_each_order_and_says_what_it_found() -> None:
    """R36."""
    one = node()
    asked = v.Answered(4, NodeAnswer(node="gpu01", through=9, last_record=0, check=8))
    assert one.step(asked) == [v.Check()]
    assert one.step(asked) == []
    checked = NodeCheckedV1(node="gpu01", ordered=8, passed=False, message="the disk is full", at=6)
    assert one.step(v.Checked(6, "the disk is full")) == [v.State(checked)]
    again = v.Answered(7, NodeAnswer(node="gpu01", through=19, last_record=0, check=18))
    assert one.step(again) == [v.Check()]
    assert one.step(v.Checked(8)) == [v.State(NodeCheckedV1(node="gpu01", ordered=18, passed=True, at=8))]


def test_an_order_that_is_withheld_starts_nothing_and_stops_nothing(make_order) -> None:
    """The key of what it runs is missing: it is started when it is told without that, and goes on where it runs."""
    one = node()
    assert one.step(push(10, make_order(withheld=True, command=()))) == []
    order = make_order()
    assert one.step(push(11, order)) == [v.Spawn(order)]
    assert one.step(answer(12, make_order(withheld=True, command=()))) == []
