"""`headrace simulate` and `demo` hand over what was typed, and their exit code is that of what they play."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from headrace.cli.main import main


@pytest.fixture
def played(monkeypatch):
    """What the two were called with."""
    calls = []

    def module(name, play):
        fake = ModuleType(name)
        fake.main = play
        monkeypatch.setitem(sys.modules, name, fake)

    module("headrace.simulate.command", lambda files, *, as_json: calls.append(("simulate", files, as_json)) or 1)
    module("headrace.demo", lambda argv: calls.append(("demo", argv)) or 0)
    return calls


def test_scenarios_are_played_and_differences_fail(played):
    assert main(["simulate", "a.yaml", "b.yaml", "--json"]) == 1
    assert played == [("simulate", ["a.yaml", "b.yaml"], True)]


def test_the_demo_is_played(played):
    assert (main(["demo"]), main(["demo", "--keep"])) == (0, 0)
    assert played == [("demo", []), ("demo", ["--keep"])]
