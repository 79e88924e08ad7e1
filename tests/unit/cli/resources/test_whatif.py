"""`headrace whatif` on the ledger of this machine, and over the API."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager

import pytest

from headrace.bus.memory import MemoryLog
from headrace.bus.nats.object_store import MemoryObjects
from headrace.cli import whole_ledger
from headrace.client import Refused
from headrace.contracts.documents.yaml_text import read_tree
from headrace.contracts.messages.whatif import Difference, OutcomeNumbers, Sides
from headrace.contracts.transport.codec import encode
from headrace.contracts.values.durations import HOUR
from headrace.service.snapshots import Snapshots
from headrace.simulate.scenario import read_scenario
from headrace.simulate.virtual_system import START
from headrace.simulate.world import World

SITE = """
groups: [{name: all, members: [ann]}]
pools: [{name: hall, selector: {site: a}}]
profiles: [{name: one, request: {gpu: 1}, pools: [hall]}]
nodes: [{name: n, labels: {site: a}, gpus: 1}]
policies: [{name: q, group: all, profiles: [one]}]
timeline:
  - {at: 0s, submit: {name: first, queue: q/one, time_limit: 1h}}
  - {at: 60s, submit: {name: next, queue: q/one, time_limit: 1h}}
  - {at: 120s, submit: {name: last, queue: q/one, time_limit: 1h}}
"""


@pytest.fixture(scope="module")
def ledger() -> MemoryLog:
    """The ledger of an installation in which one job runs and two wait."""
    world = World(read_scenario(read_tree(SITE)))
    assert list(world.run()) == []
    return world.log


@pytest.fixture
def stored(monkeypatch, ledger):
    """`stored(log)`: that log is the ledger on this machine; at first `ledger` is."""

    def store_it(log: MemoryLog) -> None:
        @asynccontextmanager
        async def store(_installation):
            yield None, log

        monkeypatch.setattr(whole_ledger, "here", lambda _args: "this machine's")
        monkeypatch.setattr(whole_ledger, "store", store)
        monkeypatch.setattr(Snapshots, "over", lambda _connection, log: Snapshots(MemoryObjects(), log))

    store_it(ledger)
    return store_it


@pytest.fixture
def none_here(monkeypatch):
    """No installation is on this machine."""
    monkeypatch.setattr(whole_ledger, "here", lambda _args: None)


@pytest.fixture
def changes(tmp_path):
    """The path of a file with one more job, and a GPU more."""
    path = tmp_path / "changes.yaml"
    path.write_text("nodes: [{name: new, labels: {site: a}, gpus: 1}]\nsubmit: [{name: big, queue: q/one, duration: 1h}]\n")
    return path


def test_the_ledger_on_this_machine_is_folded_and_played_on(headrace, stored, ledger, changes):
    ran = headrace(f"whatif -f {changes} --at {ledger.last_sequence} --json")
    found = json.loads(ran.out)
    assert (ran.code, ran.err, ran.calls) == (0, "", [])
    assert (found["total"]["before"]["starts"], found["total"]["after"]["starts"]) == (2, 3)
    assert "a job whose end is not known ends at its time limit" in found["assumptions"]


def test_the_moment_is_a_record_or_a_time(headrace, stored, ledger, changes):
    def waiting(at):
        ran = headrace(f"whatif -f {changes} --at {at} --json")
        assert ran.err == ""
        return json.loads(ran.out)["total"]["before"]["starts"]

    by_time = [waiting(f"2026-01-01T00:0{minute}:30Z") for minute in range(3)]
    first_wait = next(record.sequence for record in ledger.messages_after(0) if record.stamped == START + 60_000_000)
    assert by_time == [0, 1, 2]
    assert waiting(first_wait) == 1


def test_the_text_says_from_where_and_what_is_assumed(headrace, stored, ledger, changes):
    out = headrace(f"whatif -f {changes} --at {ledger.last_sequence}").out
    assert out.startswith(f"From record {ledger.last_sequence}, 2026-01-01T00:02:00.000Z, with {changes}, played ")
    assert out.splitlines()[2].startswith("GROUP  STARTS  WAITING")
    assert out.splitlines()[-1].startswith("Assumed: a job whose end is not known ends at its time limit; ")


@pytest.mark.parametrize(
    ("text", "flags", "complaint"),
    [
        pytest.param("submit: [{name: a}]", "", "headrace: {file}: line 1: submit[0]: queue is missing\n", id="the file"),
        pytest.param(
            "nodes: [{{name: n}}]", "", "headrace: node n: there is one of that name already; give it another\n", id="a node"
        ),
        pytest.param(
            "nodes: [{{name: m}}]", "--at 999", "headrace: --from: the ledger ends with record ", id="a record to come"
        ),
    ],
)
def test_what_cannot_be_is_told_in_a_line(headrace, stored, ledger, tmp_path, text, flags, complaint):
    file = tmp_path / "c.yaml"
    file.write_text(text.replace("{{", "{").replace("}}", "}"))
    ran = headrace(f"whatif -f {file} {flags}")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith(complaint.replace("{file}", str(file)))


def test_a_damaged_ledger_is_told(headrace, stored, ledger, changes):
    damaged = MemoryLog(lambda: START)
    for message in ledger.messages_after(1):
        damaged.append_now(message.subject, message.payload, None)
    stored(damaged)
    assert headrace(f"whatif -f {changes}").err.startswith("headrace: the ledger is damaged: ")


def test_the_real_jobs_of_a_time_are_played_again(headrace, stored, ledger, changes):
    ran = headrace(f"whatif -f {changes} --from 2026-01-01T00:00:30Z --to 2026-01-01T00:02:30Z --json")
    found = json.loads(ran.out)
    assert (ran.err, found["span"]) == ("", 120_000_000)
    assert (found["total"]["before"]["waiting"], found["total"]["after"]["waiting"]) == (2, 2)
    assert found["assumptions"][-1].startswith("what was refused stays refused")
    assert found["recorded"] == found["total"]["before"] | {"reserved": 0, "borrowed": 0}


def test_a_time_in_which_nothing_came_is_told(headrace, stored, ledger, changes):
    ran = headrace(f"whatif -f {changes} --from 2026-01-01T00:09:30Z --to {ledger.last_sequence}")
    assert ran.err == "headrace: --to: the ledger holds nothing between the beginning and there\n"


SIDES = Sides(before=OutcomeNumbers(starts=2), after=OutcomeNumbers(starts=3))
ANSWERED = Difference(
    at=START,
    span=HOUR,
    assumptions=("no jobs are submitted later",),
    total=SIDES,
    groups={"dev": SIDES},
    policies={},
    pools={},
    moved=(),
    moved_in_all=0,
)


@pytest.mark.parametrize(
    ("flags", "asked"),
    [
        ("", {"since": "", "span": 7 * 24 * HOUR}),
        ("--at 12 --for 2h", {"since": "12", "span": 2 * HOUR}),
        (
            "--from 2026-01-01T00:00:30Z --to 99",
            {"since": "2026-01-01T00:00:30.000000Z", "until": "99", "span": 7 * 24 * HOUR},
        ),
    ],
)
def test_elsewhere_the_api_answers(headrace, none_here, changes, flags, asked):
    ran = headrace(f"whatif -f {changes} {flags}", what_if=(ANSWERED, 7, START))
    tree = {
        "nodes": [{"name": "new", "labels": {"site": "a"}, "gpus": "1"}],
        "submit": [{"name": "big", "queue": "q/one", "duration": "1h"}],
    }
    assert (ran.code, ran.err, ran.calls) == (0, "", [("what_if", (tree,), asked)])
    assert ran.out.startswith(f"From record 7, 2026-01-01T00:00:00.000Z, with {changes}, played 1h on.")
    assert ran.out.splitlines()[3].split() == ["dev", "2", "->", "3", "0", "0", "0s", "0s", "0s", "0", "0.00"]


def test_elsewhere_a_refusal_names_the_option_or_the_place_in_the_file(headrace, none_here, changes):
    wrong = [
        {"field": "since", "description": "no such record"},
        {"field": "changes.submit", "description": "of another tenant"},
    ]
    refused = Refused("INVALID", "since: no such record (and 1 more)", encode({"details": [{"fieldViolations": wrong}]}))
    ran = headrace(f"whatif -f {changes}", what_if=refused)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == "headrace: --from: no such record\nheadrace: submit: of another tenant\n"


def test_elsewhere_a_refusal_without_a_field_is_told(headrace, none_here, changes):
    ran = headrace(f"whatif -f {changes}", what_if=Refused("TOO_LONG", "it takes longer than 600 s", b""))
    assert (ran.code, ran.err) == (1, "headrace: it takes longer than 600 s\n")
