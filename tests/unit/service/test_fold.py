from __future__ import annotations

import time

import pytest
from structlog.testing import capture_logs

from headrace.bus.log import LogBroken
from headrace.contracts.facts import JobRejectedV1, NodeStoppedV1
from headrace.service.fold import LedgerFold, wall_clock
from tests.unit.service.bus import START, Bus


@pytest.fixture
def bus():
    bus = Bus()
    bus.hall("n1")
    return bus


def read(bus, fold=None):
    """A fold of the whole ledger, and what it says to the last message."""
    fold = fold or LedgerFold()
    records = [fold.read(message) for message in bus.ledger.messages_after(fold.sequence)]
    return fold, records[-1]


def test_a_good_record_is_folded_and_given_back(bus):
    with capture_logs() as logs:
        fold, record = read(bus)
    assert (record.by, fold.sequence, fold.now, list(fold.state.nodes), logs) == ("node.n1", 2, START, ["n1"], [])


def test_a_void_record_of_a_node_changes_nothing_but_is_told(bus):
    bus.state("node.n1", NodeStoppedV1(node="n2", at=START))
    with capture_logs() as logs:
        fold, record = read(bus)
    assert (record, fold.sequence, fold.state.voids) == (None, 3, {"node.n1": 1})
    assert logs == [
        {
            "event": "void_record",
            "log_level": "error",
            "reason": "record 3 on hr.ledger.node.n1 is void: it speaks of node n2",
            "help": "the node is set aside until an operator uncordons it",
        }
    ]


def test_who_watches_hears_of_every_message_and_whether_it_was_void(bus):
    fold, calls = LedgerFold(), []
    fold.watchers.append(lambda message, is_void: calls.append((message.sequence, is_void)))
    bus.state("node.n1", NodeStoppedV1(node="n2", at=START))
    read(bus, fold)
    assert calls == [(1, False), (2, False), (3, True)]


def test_a_void_record_of_a_service_stops_the_reader(bus):
    rejected = JobRejectedV1(job="a.b.c", policy="q", profile="one", reason="MALFORMED", message="")
    bus.state("allocator", rejected)
    with pytest.raises(LogBroken, match="record 3 on hr.ledger.allocator is void: allocator may not state job.rejected.v1"):
        read(bus)


def test_a_gap_stops_the_reader(bus):
    (_, second) = bus.ledger.messages_after(0)
    with pytest.raises(LogBroken, match="after sequence 0 comes 2: records are missing"):
        LedgerFold().read(second)


def test_this_machines_time_is_in_microseconds():
    before = time.time_ns()
    assert before // 1_000 <= wall_clock() <= time.time_ns() // 1_000
