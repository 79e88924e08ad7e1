"""The one way to read the ledger: gaps and void records of services stop the reader, void records of nodes set the node aside."""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from headrace.contracts import facts as f
from headrace.contracts.facts import levels
from headrace.contracts.facts.nodes import Device
from headrace.contracts.facts.records import RECORD_BYTES_MAX, Record, digest
from headrace.contracts.transport.codec import encode
from headrace.contracts.values.amounts import CPU_UNITS
from headrace.contracts.values.durations import SECOND
from headrace.domain.fold.ledger import FoldedLedger, LedgerBroken
from headrace.domain.model.requests import Shape
from headrace.domain.state.state import State
from tests.unit.domain.site import GIB, Site, gpus, policy, pool
from tests.unit.domain.snapshot import snapshot

NOW = 1_000_000 * SECOND
ONE = Shape(1, 0, 0, 0, ())


class Stored(NamedTuple):
    """One message as the log hands it out."""

    sequence: int
    subject: str
    stamped: int
    payload: bytes


class Tape:
    """What is written to a ledger, message after message, and one who reads it."""

    def __init__(self) -> None:
        self.ledger = FoldedLedger()
        self.last: dict[str, str] = {}
        self.messages: list[Stored] = []

    @property
    def state(self) -> State:
        return self.ledger.state

    def read_message(self, subject: str, payload: bytes, *, sequence: int | None = None, stamped: int = NOW) -> Record | None:
        """The reader reads one message."""
        message = Stored(self.ledger.sequence + 1 if sequence is None else sequence, subject, stamped, payload)
        self.messages.append(message)
        return self.ledger.read(message)

    def write(self, by: str, /, *facts: f.AnyFact, stamped: int = NOW, **fields: object) -> Record | None:
        """A record as its writer would write it, `fields` aside."""
        record = self.record(by, *facts, **fields)
        return self.read_message(f"hr.ledger.{by}", encode(record), stamped=stamped)

    def record(self, by: str, /, *facts: f.AnyFact, **fields: object) -> Record:
        chained = {} if by.startswith("node.") else {"prev": self.ledger.last_of(by)[1]}
        return Record(
            **{"by": by, "now": NOW, "engine": "1", "as_of": self.ledger.sequence, "facts": facts, **chained, **fields}
        )


def registered(node: str = "n1") -> f.NodeRegisteredV1:
    devices = (Device(device="gpu0", model="H100", memory=80 * GIB),)
    return f.NodeRegisteredV1(node=node, labels={"pool": "hall"}, devices=devices, cpu=8 * CPU_UNITS, memory=GIB, at=NOW)


HALL = f.PoolAppliedV1(author="a.b", pool=pool())


@pytest.fixture
def tape() -> Tape:
    """A pool of two nodes."""
    begun = Tape()
    begun.write("governance", HALL)
    begun.write("node.n1", registered("n1"))
    begun.write("node.n2", registered("n2"))
    return begun


def test_an_empty_ledger_is_at_the_beginning():
    ledger = FoldedLedger()
    assert (ledger.sequence, ledger.now, ledger.last_of("allocator"), ledger.void_reason) == (0, 0, (0, ""), "")


def test_a_good_record_is_handed_out_and_made_true():
    tape = Tape()
    written = tape.record("governance", HALL)
    assert tape.read_message("hr.ledger.governance", encode(written)) == written
    assert (tape.ledger.sequence, tape.ledger.now, list(tape.state.pools), tape.state.voids) == (1, NOW, ["hall"], {})
    assert tape.ledger.last_of("governance") == (1, digest(encode(written)))


def test_a_reader_may_begin_with_a_state_that_another_has_read():
    tape = Tape()
    tape.write("governance", HALL)
    second = FoldedLedger(tape.state)
    assert (second.state is tape.state, second.sequence, second.last_of("governance")) == (
        True,
        1,
        tape.ledger.last_of("governance"),
    )


@pytest.mark.parametrize("sequence", [0, 3, 5, 99])
def test_a_gap_or_a_message_read_again_stops_the_reader(tape, sequence):
    before = snapshot(tape.state)
    with pytest.raises(LedgerBroken, match=f"^after sequence 3 comes {sequence}: records are missing$"):
        tape.read_message("hr.ledger.node.n1", encode(tape.record("node.n1")), sequence=sequence)
    assert snapshot(tape.state) == before


def test_log_time_is_the_greatest_of_any_record_and_never_goes_back():  # R34
    tape, seen = Tape(), []
    for now in (NOW, NOW + SECOND, NOW - SECOND, NOW + 2 * SECOND):
        tape.write("governance", now=now)
        seen.append(tape.ledger.now - NOW)
    assert seen == [0, SECOND, SECOND, 2 * SECOND]


@pytest.mark.parametrize(
    ("ahead", "voids"),
    [
        pytest.param(-3600 * SECOND, {}, id="long ago"),
        pytest.param(2 * SECOND, {}, id="two seconds ahead of the server"),
        pytest.param(2 * SECOND + 1, {"node.n1": 1}, id="a microsecond more"),
    ],
)
def test_a_node_whose_clock_runs_more_than_2_s_ahead_is_void(tape, ahead, voids):  # R34
    tape.write("node.n1", now=NOW + ahead)
    assert (tape.state.voids, tape.ledger.now) == (voids, NOW if voids else max(NOW, NOW + ahead))


def test_a_void_record_of_a_node_is_counted_and_sets_that_node_aside_and_no_other(tape):
    reasons = []
    for _ in range(2):
        assert tape.write("node.n1", registered("n2")) is None
        reasons.append(tape.ledger.void_reason)
    state = tape.state
    assert reasons == [f"record {number} on hr.ledger.node.n1 is void: it speaks of node n2" for number in (4, 5)]
    assert (tape.ledger.sequence, state.voids) == (5, {"node.n1": 2})
    assert {name: node.cordoned for name, node in state.nodes.items()} == {
        "n1": "its record 4 was void: it speaks of node n2",
        "n2": "",
    }
    assert state.pools["hall"].index.find(ONE) == "n2", "nothing is granted on it any more"


def test_what_a_person_gave_as_the_reason_for_a_cordon_is_not_overwritten(tape):
    tape.write("governance", f.NodeCordonedV1(author="a.b", reason="new fans", node="n1"))
    tape.write("node.n1", registered("n2"))
    assert (tape.state.nodes["n1"].cordoned, tape.state.voids) == ("new fans", {"node.n1": 1})


def test_a_node_that_was_set_aside_goes_on_and_may_be_taken_back(tape):
    tape.write("node.n1", registered("n2"))
    assert tape.write("node.n1", f.NodeStoppedV1(node="n1", at=NOW)) is not None
    tape.write("node.n1", registered("n1"))
    tape.write("governance", f.NodeUncordonedV1(author="a.b", node="n1"))
    assert (tape.state.nodes["n1"].cordoned, tape.state.pools["hall"].index.find(ONE)) == ("", "n1")


def test_a_node_that_names_a_device_twice_is_void_for_no_two_leases_could_be_told_apart(tape):
    twice = msgspec.structs.replace(registered("n1"), devices=registered("n1").devices * 2)
    assert tape.write("node.n1", twice) is None
    assert tape.ledger.void_reason == "record 4 on hr.ledger.node.n1 is void: it names its 2 devices in an invalid way"


def test_a_node_in_no_pool_is_set_aside_as_well():
    tape = Tape()
    tape.write("node.n1", registered("n1"))
    tape.write("node.n1", registered("n2"))
    assert tape.state.nodes["n1"].cordoned == "its record 2 was void: it speaks of node n2"


def test_a_node_that_never_registered_may_be_void_as_well():
    tape = Tape()
    assert tape.write("node.n9", registered("n1")) is None
    assert (tape.state.nodes, tape.state.voids, tape.ledger.last_of("node.n9")[0]) == ({}, {"node.n9": 1}, 1)


VOID = {
    "no JSON": b"{",
    "no record": b"[]",
    "nothing": b"",
    "no UTF-8": b"\xff\xfe",
    "nested too deeply": b'{"facts":' + b"[" * 100_000,
    "too long": b" " * (RECORD_BYTES_MAX + 1),
    "a fact of no known type": b'{"by":"node.n1","now":1,"engine":"1","as_of":1,"facts":[{"type":"node.exploded.v1"}]}',
    "a number where a name belongs": b'{"by":7,"now":1,"engine":"1","as_of":1,"facts":[]}',
    "a number beyond every reader": b'{"by":"node.n1","now":9007199254740993,"engine":"1","as_of":1,"facts":[]}',
}


@pytest.mark.parametrize("payload", [pytest.param(payload, id=name) for name, payload in VOID.items()])
def test_malformed_bytes_of_a_node_are_void_and_change_nothing_else(tape, payload):
    before = snapshot(tape.state)
    assert tape.read_message("hr.ledger.node.n1", payload) is None
    after = snapshot(tape.state)
    assert tape.ledger.void_reason.startswith("record 4 on hr.ledger.node.n1 is void: ")
    assert (after.pop("sequence"), after.pop("voids"), after["writers"].pop("node.n1")) == (
        4,
        {"node.n1": 1},
        [4, digest(payload)],
    )
    node = after["nodes"]["n1"]
    assert node.pop("cordoned").startswith("its record 4 was void: ")
    assert (node.pop("cordoned_by"), node.pop("cordoned_at")) == ("headrace", NOW)
    for key in ("sequence", "voids"):
        del before[key]
    del before["writers"]["node.n1"]
    for key in ("cordoned", "cordoned_by", "cordoned_at"):
        del before["nodes"]["n1"][key]
    assert after == before


@given(payload=st.binary(max_size=200))
def test_no_bytes_whatsoever_of_a_node_stop_the_reader(payload):
    tape = Tape()
    assert tape.read_message("hr.ledger.node.n1", payload) is None
    assert (tape.ledger.sequence, tape.state.voids) == (1, {"node.n1": 1})


@pytest.mark.parametrize("payload", [pytest.param(payload, id=name) for name, payload in VOID.items()])
def test_malformed_bytes_of_a_service_stop_the_reader(tape, payload):
    before = snapshot(tape.state)
    with pytest.raises(LedgerBroken, match="^record 4 on hr.ledger.allocator is void: "):
        tape.read_message("hr.ledger.allocator", payload)
    assert snapshot(tape.state) == before


@pytest.mark.parametrize(
    ("by", "facts", "fields", "why"),
    [
        pytest.param(
            "allocator", (), {"by": "preemption"}, "it says it is by preemption, its subject says allocator", id="another"
        ),
        pytest.param(
            "allocator", (), {"now": NOW + 3 * SECOND}, "its time is 3000000 us ahead of the server's (R34)", id="a clock ahead"
        ),
        pytest.param("allocator", (), {"prev": "forged"}, "it does not name its writer's last record", id="no first record"),
        pytest.param("governance", (), {"prev": ""}, "it does not name its writer's last record", id="a writer begun anew"),
        pytest.param("allocator", (HALL,), {}, "allocator may not state pool.applied.v1", id="a fact of another"),
        pytest.param("accounting", (), {}, "accounting writes nothing here", id="one who only reads"),
    ],
)
def test_a_void_record_of_a_service_stops_the_reader_before_anything_is_changed(tape, by, facts, fields, why):
    before = snapshot(tape.state)
    payload = encode(tape.record(by, *facts, **fields))
    with pytest.raises(LedgerBroken) as broken:
        tape.read_message(f"hr.ledger.{by}", payload)
    assert str(broken.value) == f"record 4 on hr.ledger.{by} is void: {why}"
    assert snapshot(tape.state) == before


@pytest.mark.parametrize("subject", ["hr.ledger", "hr.feed.x", "hr.ledger.a.b", "hr.ledger.node.", "hr.ledger.NODE.n1"])
def test_a_message_on_no_ledger_subject_stops_the_reader_unless_it_claims_to_be_a_nodes(tape, subject):
    payload = encode(tape.record("node.n1"))
    if subject.startswith("hr.ledger.node."):
        assert tape.read_message(subject, payload) is None
    else:
        with pytest.raises(LedgerBroken, match="invalid ledger subject"):
            tape.read_message(subject, payload)


def test_each_service_names_its_own_last_record_and_nodes_need_not():
    tape = Tape()
    first = encode(tape.record("governance", HALL))
    tape.read_message("hr.ledger.governance", first)
    tape.write("admission", prev="")
    tape.write("node.n1", registered("n1"))
    tape.write("node.n1", f.NodeStoppedV1(node="n1", at=NOW))
    second = encode(tape.record("governance", f.NodeCordonedV1(author="a.b", node="n1"), prev=digest(first)))
    tape.read_message("hr.ledger.governance", second)
    assert {writer: last[0] for writer, last in tape.state.writers.items()} == {"governance": 5, "admission": 2, "node.n1": 4}
    with pytest.raises(LedgerBroken, match="record 6 .* does not name its writer's last record"):
        tape.write("governance", prev=digest(first))


def test_two_readers_of_the_same_ledger_know_the_same(tape):
    tape.write("node.n1", registered("n2"))
    tape.write("governance", f.PolicyAppliedV1(author="a.b", policy=policy(reservation=gpus(1))))
    other = FoldedLedger()
    for message in tape.messages:
        other.read(message)
    assert snapshot(other.state) == snapshot(tape.state)


def test_a_void_record_costs_the_leases_on_its_node_nothing():
    site = Site()
    site.node()
    job = site.admit("a")
    ledger = FoldedLedger(site.state)
    ledger.read(Stored(ledger.sequence + 1, "hr.ledger.node.n1", site.now, b"{"))
    assert (job.state, site.state.nodes["n1"].healthy, site.state.nodes["n1"].grantable) == ("pending", True, False)


def test_a_level_that_this_release_does_not_read_stops_the_reader_and_says_what_to_install(tape):
    own, next_one = levels.RELEASES[-1], levels.LEVEL + 1
    why = f"^record 4 raises the installation to level {next_one}, and headrace {own} reads up to level {levels.LEVEL}: "
    with pytest.raises(LedgerBroken, match=f"{why}install headrace 9.0.0 or newer here$"):
        tape.write("governance", f.InstallationLevelV1(level=next_one, release="9.0.0"))
    assert (tape.ledger.sequence, tape.state.terms.level) == (3, 1)


def test_what_is_stated_before_its_level_is_void_like_any_breach_of_the_law(tape, monkeypatch):
    monkeypatch.setitem(levels.SINCE, f.DeviceDrainedV1, 2)
    monkeypatch.setitem(levels.SINCE, f.NodeCordonedV1, 2)
    assert tape.write("node.n1", f.DeviceDrainedV1(node="n1", device="gpu0", cause="lost", at=NOW)) is None
    early = "device.drained.v1 may be stated from level 2 on, and the installation is at 1"
    assert tape.state.nodes["n1"].cordoned == f"its record 4 was void: {early}"
    with pytest.raises(LedgerBroken, match=r"node.cordoned.v1 may be stated from level 2 on"):
        tape.write("governance", f.NodeCordonedV1(author="a.b", node="n2"))


def test_a_node_whose_executor_is_too_old_for_the_level_is_set_aside_until_it_is_brought_up_to_date(tape):
    tape.state.terms.level = 2
    assert tape.write("node.n1", registered("n1")) is None
    assert tape.state.nodes["n1"].cordoned == (
        "its record 4 was void: its executor reads level 1, and the installation is at level 2: "
        "install headrace 0.2.0 on the node, and uncordon it"
    )
    assert tape.write("node.n2", structs.replace(registered("n2"), reads=2)) is not None
    assert (tape.state.terms.executors["n2"], tape.state.nodes["n2"].cordoned) == (2, "")
