"""`headrace simulate` and `demo` hand over what was typed, and their exit code is that of what they play."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from headrace.cli.main import main
from headrace.cli.output.explain_view import because
from headrace.cli.output.formatting import as_json
from headrace.contracts.values.durations import DAY, HOUR, SECOND


@pytest.fixture
def played(monkeypatch):
    """What the two were called with."""
    calls = []

    def module(name, play):
        fake = ModuleType(name)
        fake.main = play
        monkeypatch.setitem(sys.modules, name, fake)

    module("headrace.simulate.command", lambda files, *, as_json: calls.append(("simulate", files, as_json)) or 1)
    sys.modules["headrace.simulate.command"].what_if = lambda *asked, **how: calls.append(("what if", *asked, how)) or 0
    sys.modules["headrace.simulate.command"].why = lambda *asked, **how: calls.append(("why", *asked, how)) or 0
    module("headrace.demo", lambda argv: calls.append(("demo", argv)) or 0)
    return calls


def test_scenarios_are_played_and_differences_fail(played):
    assert main(["simulate", "a.yaml", "b.yaml", "--json"]) == 1
    assert played == [("simulate", ["a.yaml", "b.yaml"], True)]


def test_the_demo_is_played(played):
    assert (main(["demo"]), main(["demo", "--keep"])) == (0, 0)
    assert played == [("demo", []), ("demo", ["--keep"])]


def test_what_would_be_otherwise_is_asked_with_the_moment_and_how_far(played):
    assert main(["simulate", "a.yaml", "--what-if", "c.yaml", "--at", "20s", "--for", "1h", "--json"]) == 0
    assert main(["simulate", "a.yaml", "--what-if", "c.yaml"]) == 0
    assert played == [
        ("what if", "a.yaml", "c.yaml", {"at": 20 * SECOND, "span": HOUR, "as_json": True}),
        ("what if", "a.yaml", "c.yaml", {"at": None, "span": 7 * DAY, "as_json": False}),
    ]


def test_why_a_job_of_it_waits_is_asked_with_the_moment_and_shown_for_people_or_programs(played):
    assert main(["simulate", "a.yaml", "--why", "r-4", "--at", "20s"]) == 0
    assert main(["simulate", "a.yaml", "--why", "r-4", "--json"]) == 0
    assert played == [("why", "a.yaml", "r-4", because, {"at": 20 * SECOND}), ("why", "a.yaml", "r-4", as_json, {"at": None})]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        pytest.param(["a.yaml", "b.yaml", "--why", "j"], "takes one scenario at a time", id="why in two scenarios"),
        pytest.param(["a.yaml", "b.yaml", "--what-if", "c.yaml"], "takes one scenario at a time", id="two scenarios"),
        pytest.param(["a.yaml", "--at", "20s"], "--at requires --what-if or --why", id="a moment without changes"),
    ],
)
def test_what_cannot_be_asked_is_told_in_a_line(played, capsys, words, complaint):
    assert main(["simulate", *words]) == 1
    assert complaint in capsys.readouterr().err
    assert played == []
