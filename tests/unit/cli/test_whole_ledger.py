"""Where the records of the whole ledger come from; how they are read is in `tests/integration/test_verify.py`."""

from __future__ import annotations

import argparse

import pytest

from headrace.cli import whole_ledger
from headrace.cli.whole_ledger import Progress, here
from headrace.supervisor.installation import Installation


@pytest.fixture
def installation(tmp_path, monkeypatch):
    for name in ("HEADRACE_URL", "HEADRACE_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    made = Installation(tmp_path / "data")
    made.prepare()
    made.operator()
    return made


def test_the_files_of_this_machine_are_read_where_they_are_ours(installation, tmp_path):
    found = here(argparse.Namespace(data=str(installation.directory)))
    assert found is not None
    assert found.directory == installation.directory
    assert here(argparse.Namespace(data=str(tmp_path / "other"))) is None


@pytest.mark.parametrize("name", ["HEADRACE_URL", "HEADRACE_TOKEN"])
def test_who_names_another_place_is_answered_from_there(installation, monkeypatch, name):
    monkeypatch.setenv(name, "x")
    assert here(argparse.Namespace(data=str(installation.directory))) is None


def test_progress_is_for_terminals(capsys, monkeypatch):
    progress = Progress()
    progress.show(1, 2)
    progress.end()
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(whole_ledger.sys.stderr, "isatty", lambda: True, raising=False)
    progress.show(1, 2)
    progress.end()
    assert capsys.readouterr().err.startswith("\rrecord 1 of 2, ")
