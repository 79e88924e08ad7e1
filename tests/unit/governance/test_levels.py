from __future__ import annotations

from headrace.contracts import facts as f
from headrace.contracts.messages.queries import ApplyAnswer, Presence
from headrace.domain.state.state import State
from headrace.governance.decide import Decision
from headrace.governance.levels import PRESENT, REMEMBERED, ServicePresence, is_new, nodes_too_old, raising

KEPT = Decision(ApplyAnswer(changes=(), applied=True))


def attendance_of(*spoken, began=0.0):
    """An attendance that expects feed and audit, and has heard (called, reads, when)."""
    attendance = ServicePresence(("feed", "audit"), began)
    for number, (called, reads, when) in enumerate(spoken):
        service = called.partition("-")[0]
        attendance.receive(Presence(service=service, called=called, instance=str(number), reads=reads), when)
    return attendance


def test_nothing_objects_when_all_that_are_expected_read_it():
    assert attendance_of(("feed", 2, 9.5), ("audit", 3, 9.5)).objections(2, 10.0) == []


def test_at_first_it_is_not_known_who_is_there():
    assert attendance_of(("feed", 2, 1.0), ("audit", 2, 1.0)).objections(2, PRESENT - 0.1) == [
        "it is not known yet who is there"
    ]


def test_in_a_new_installation_the_first_announcements_of_all_expected_services_are_enough():
    assert attendance_of(("feed", 2, 0.1)).objections(2, 0.2, new=True) == ["it is not known yet who is there"]
    assert attendance_of(("feed", 2, 0.1), ("audit", 2, 0.2)).objections(2, 0.2, new=True) == []
    assert attendance_of(("feed", 2, 0.1), ("audit", 2, 0.2), ("audit-standby", 1, 0.2)).objections(2, 0.2, new=True) == [
        "audit-standby reads level 1: it runs headrace 0.1.0"
    ]


def test_an_installation_is_new_until_a_document_is_applied_or_the_level_is_raised(site):
    assert is_new(State())
    assert not is_new(site.state)
    raised = State()
    raised.terms.level = 2
    assert not is_new(raised)


def test_who_is_away_and_who_is_too_old_is_named():
    attendance = attendance_of(("feed", 1, 9.5), ("feed-standby", 1, 9.5), ("audit", 2, 10.0 - PRESENT))
    assert attendance.objections(2, 10.0) == [
        "audit is not there",
        "feed reads level 1: it runs headrace 0.1.0",
        "feed-standby reads level 1: it runs headrace 0.1.0",
    ]


def test_an_old_instance_that_fell_silent_counts_for_a_minute():
    attendance = attendance_of(("feed", 1, 10.0), ("feed", 2, 10.0 + REMEMBERED), ("audit", 2, 10.0 + REMEMBERED))
    assert attendance.objections(2, 9.9 + REMEMBERED) == ["feed reads level 1: it runs headrace 0.1.0"]
    assert attendance.objections(2, 10.0 + REMEMBERED) == []


def test_who_has_said_goodbye_counts_no_more():
    attendance = attendance_of(("feed", 1, 9.0), ("feed", 2, 9.5), ("audit", 2, 9.5))
    attendance.receive(Presence(service="feed", called="feed", instance="0", reads=1, leaves=True), 9.6)
    assert attendance.objections(2, 10.0) == []


def test_nodes_that_are_there_or_hold_something_hold_the_level_back_until_their_executors_are_new(site):
    site.node("gpu02")
    names = sorted(site.state.nodes)
    assert nodes_too_old(site.state, 2) == [f"node {name} reads level 1: it runs headrace 0.1.0" for name in names]
    for name in names[1:]:
        site.state.terms.executors[name] = 2
    assert len(nodes_too_old(site.state, 2)) == 1
    site.state.nodes[names[0]].status = "stopped"
    assert nodes_too_old(site.state, 2) == []
    assert nodes_too_old(site.state, 1) == []


def test_of_many_nodes_the_first_are_named(site):
    for number in range(12):
        site.node(f"many{number:02d}")
    shown = nodes_too_old(site.state, 2)
    assert (len(shown), shown[-1]) == (11, f"and {len(site.state.nodes) - 10} nodes more")


def test_the_level_is_raised_once_and_not_past_a_node_that_has_come_meanwhile(site):
    operation = raising(2)
    site.node("gpu09")
    assert operation(site.state, 0) == KEPT
    for name in site.state.nodes:
        site.state.terms.executors[name] = 2
    assert operation(site.state, 0) == KEPT._replace(facts=(f.InstallationLevelV1(level=2, release="0.2.0"),))
    site.state.terms.level = 2
    assert operation(site.state, 0) == KEPT
