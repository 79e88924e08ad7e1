"""`headrace whatif` on a ledger handed out a page at a time."""

from __future__ import annotations

import json

import pytest

from headrace.cli import whole_ledger
from headrace.contracts.documents.yaml_text import read_tree
from headrace.contracts.messages.queries import RecordsAnswer, StoredRecord
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


@pytest.fixture(autouse=True)
def another_place(monkeypatch):
    """Whatever runs on this machine is not asked."""
    monkeypatch.setattr(whole_ledger, "here", lambda _args: None)


@pytest.fixture(scope="module")
def ledger():
    """Records of an installation in which one job runs and two wait."""
    world = World(read_scenario(read_tree(SITE)))
    assert list(world.run()) == []
    return tuple(StoredRecord(**message._asdict()) for message in world.log.messages_after(0))


@pytest.fixture
def changes(tmp_path):
    """The path of a file with one more job, and a GPU more."""
    path = tmp_path / "changes.yaml"
    path.write_text("nodes: [{name: new, labels: {site: a}, gpus: 1}]\nsubmit: [{name: big, queue: q/one, duration: 1h}]\n")
    return path


def pages(ledger, size=3):
    """As governance would answer, page by page."""
    return lambda after: RecordsAnswer(tip=len(ledger), records=ledger[after : after + size])


def test_the_ledger_is_folded_page_by_page_and_played_on(headrace, ledger, changes):
    ran = headrace(f"whatif -f {changes} --at {len(ledger)} --json", records=pages(ledger))
    found = json.loads(ran.out)
    assert (ran.code, ran.err) == (0, "")
    assert [after for _, (after,), _ in ran.calls] == list(range(0, len(ledger), 3))
    assert (found["total"]["before"]["starts"], found["total"]["after"]["starts"]) == (2, 3)
    assert "a job whose end is not known ends at its time limit" in found["assumptions"]


def test_the_moment_is_a_record_or_a_time(headrace, ledger, changes):
    def waiting(at):
        ran = headrace(f"whatif -f {changes} --at {at} --json", records=pages(ledger))
        assert ran.err == ""
        return json.loads(ran.out)["total"]["before"]["starts"]

    by_time = [waiting(f"2026-01-01T00:0{minute}:30Z") for minute in range(3)]
    first_wait = next(record.sequence for record in ledger if record.stamped == START + 60_000_000)
    assert by_time == [0, 1, 2]
    assert waiting(first_wait) == 1


def test_the_text_says_from_where_and_what_is_assumed(headrace, ledger, changes):
    out = headrace(f"whatif -f {changes} --at {len(ledger)}", records=pages(ledger)).out
    assert out.startswith(f"From record {len(ledger)}, 2026-01-01T00:02:00.000Z, with {changes}, played ")
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
def test_what_cannot_be_is_told_in_a_line(headrace, ledger, tmp_path, text, flags, complaint):
    file = tmp_path / "c.yaml"
    file.write_text(text.replace("{{", "{").replace("}}", "}"))
    ran = headrace(f"whatif -f {file} {flags}", records=pages(ledger, size=100))
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith(complaint.replace("{file}", str(file)))


def test_a_damaged_ledger_is_told(headrace, ledger, changes):
    broken = RecordsAnswer(tip=9, records=ledger[1:])
    assert headrace(f"whatif -f {changes}", records=broken).err == (
        "headrace: the ledger is damaged: after sequence 0 comes 2: records are missing\n"
    )


def test_the_real_jobs_of_a_time_are_played_again(headrace, ledger, changes):
    ran = headrace(f"whatif -f {changes} --from 2026-01-01T00:00:30Z --to 2026-01-01T00:02:30Z --json", records=pages(ledger))
    found = json.loads(ran.out)
    assert (ran.err, found["span"]) == ("", 120_000_000)
    assert (found["total"]["before"]["waiting"], found["total"]["after"]["waiting"]) == (2, 2)
    assert found["assumptions"][-1].startswith("what was refused stays refused")
    assert found["recorded"] == found["total"]["before"] | {"reserved": 0, "borrowed": 0}


def test_a_time_in_which_nothing_came_is_told(headrace, ledger, changes):
    ran = headrace(f"whatif -f {changes} --from 2026-01-01T00:09:30Z --to {len(ledger)}", records=pages(ledger, size=100))
    assert ran.err == "headrace: --to: the ledger holds nothing between the beginning and there\n"
