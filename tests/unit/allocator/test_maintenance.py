"""When drains begin, and what is stated of windows (R41)."""

from __future__ import annotations

from msgspec import structs

from headrace.allocator.maintenance import MaintenanceTurns
from headrace.contracts import facts as f
from headrace.contracts.documents.model import Documents, MaintenanceWindow
from headrace.contracts.values.durations import HOUR, MINUTE
from tests.unit.allocator.history import HALL, START, History, policy

ONCE = MaintenanceWindow(begins=START + HOUR, ends=START + 2 * HOUR, reason="switches")


def test_a_drain_begins_at_its_time_and_is_stated_until_it_is_in_the_log():
    history = History(policy("ml"))
    history.node()
    turns = MaintenanceTurns(history.state)
    assert (bool(turns), list(turns.changes(START)), turns.next_change(START)) == (False, [], None)
    history.append_facts(f.NodeDrainScheduledV1(author="a.b", node="n1", begins=START + HOUR))

    assert (bool(turns), list(turns.changes(START)), turns.next_change(START)) == (True, [], START + HOUR)
    began = f.NodeDrainBeganV1(node="n1")
    assert [list(turns.changes(START + HOUR)), list(turns.changes(START + 2 * HOUR))] == [[began], [began]]
    history.append_facts(began, by="allocator")
    assert (bool(turns), list(turns.changes(START + 2 * HOUR))) == (False, [])


def test_a_window_is_stated_when_it_is_announced_when_it_begins_and_when_it_has_ended():
    history = History(policy("ml"), pools=(structs.replace(HALL, maintenance=(ONCE,)),))
    turns, name = MaintenanceTurns(history.state), HALL.name
    ahead = f.MaintenanceStatedV1(pool=name, begins=START + HOUR, ends=START + 2 * HOUR, reason="switches")
    for now, stated in (
        (START, ahead),
        (START + HOUR, structs.replace(ahead, begun=True)),
        (START + 2 * HOUR, f.MaintenanceStatedV1(pool=name)),
    ):
        assert list(turns.changes(now)) == [stated]
        history.append_facts(stated, by="allocator")
        assert list(turns.changes(now + MINUTE)) == []
    assert [turns.next_change(now) for now in (START, START + HOUR, START + 2 * HOUR)] == [START + HOUR, START + 2 * HOUR, None]


def test_a_window_that_is_begun_late_keeps_its_begin_and_one_that_is_removed_ends():
    history = History(policy("ml"), pools=(structs.replace(HALL, maintenance=(ONCE,)),))
    turns, name = MaintenanceTurns(history.state), HALL.name
    history.append_facts(*turns.changes(START), by="allocator")
    begun = f.MaintenanceStatedV1(pool=name, begins=START + HOUR, ends=START + 2 * HOUR, begun=True, reason="switches")
    assert list(turns.changes(START + HOUR + MINUTE)) == [begun]
    history.append_facts(begun, by="allocator")
    history.law(Documents(pools=(HALL,)))
    assert list(turns.changes(START + HOUR + 2 * MINUTE)) == [f.MaintenanceStatedV1(pool=name)]
    assert bool(turns)
