"""What `main` does before there is anything to run; how it runs is the business of the integration tests."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

from headrace.contracts.facts import LeaseEndedV1
from headrace.node_executor.arguments import parse
from headrace.node_executor.files.workspace import Workspace
from headrace.node_executor.main import FAILED, Stop, closed, journal_gone, registration
from headrace.node_executor.reporting.journal import Journal

from .conftest import JOB, order


def run(*arguments: str) -> tuple[int, dict[str, str]]:
    """The exit code and the one line on stderr."""
    done = subprocess.run([sys.executable, "-m", "headrace.node_executor", "run", *arguments], capture_output=True, check=False)
    return done.returncode, json.loads(done.stderr)


def test_a_data_directory_that_cannot_be_used_is_one_clear_line(tmp_path) -> None:
    (tmp_path / "file").touch()
    code, line = run("--name", "gpu01", "--data", str(tmp_path / "file"))
    assert code == FAILED
    assert {name: line[name] for name in ("level", "event", "node", "service")} == {
        "level": "error",
        "event": "failed",
        "node": "gpu01",
        "service": "node",
    }
    assert "File exists" in line["reason"]


def test_a_node_claims_the_isolation_that_was_proved() -> None:
    levels, inside = {"whole": "hardware", "fraction": "driver", "slice": "none"}, {"container-whole": "watchdog"}
    fact = registration(parse(["run", "--name", "a", "--devices", "none"], {}), "none", levels, inside)
    assert (fact.isolation, fact.levels) == ("none", {"whole": "hardware", "fraction": "driver", "container-whole": "watchdog"})


def test_of_a_former_executors_leases_those_that_are_over_are_closed(tmp_path) -> None:
    journal = Journal(str(tmp_path / "journal"))
    journal.began(order(granted=5))
    journal.began(order(attempt=2, granted=6))
    journal.note_fact(LeaseEndedV1(job=JOB, attempt=2, outcome="exited", exit_code=0, exited_at=1, at=2))
    assert closed(journal) == {f"{JOB}/2/0": 6}
    journal.close()


async def test_a_stop_ends_jobs_only_where_it_is_told_so_and_at_once_where_it_must() -> None:
    stop = Stop(ends_jobs=False)
    stop.on_signal(signal.SIGTERM)
    assert (stop.wanted.is_set(), stop.ends_jobs, stop.at_once.is_set()) == (True, False, False)
    stop.on_signal(signal.SIGQUIT)
    assert (stop.ends_jobs, stop.at_once.is_set()) == (True, True)


async def test_one_that_is_to_be_started_again_leaves_its_jobs_alone() -> None:
    stop = Stop(ends_jobs=True)
    stop.on_signal(signal.SIGHUP)
    assert (stop.wanted.is_set(), stop.ends_jobs, stop.at_once.is_set()) == (True, False, False)
    stop.on_signal(signal.SIGQUIT)
    assert (stop.ends_jobs, stop.at_once.is_set()) == (True, True)


async def test_who_is_ending_its_jobs_is_not_talked_out_of_it() -> None:
    stop = Stop(ends_jobs=True)
    stop.on_signal(signal.SIGTERM)
    stop.on_signal(signal.SIGHUP)
    assert stop.ends_jobs


def test_a_journal_that_is_gone_is_named_where_jobs_have_been_and_not_on_a_new_node(tmp_path) -> None:
    path, workspace = str(tmp_path / "journal"), Workspace(str(tmp_path))
    first = Journal(path)
    assert (first.found, journal_gone(first, workspace, path)) == (False, "")
    first.close()
    (tmp_path / "leases" / "a.b.c.1.0").mkdir()
    again = Journal(path)
    assert (again.found, journal_gone(again, workspace, path)) == (True, "")
    again.close()
    (tmp_path / "journal").unlink()
    lost = Journal(path)
    assert journal_gone(lost, workspace, path).startswith(f"{path} is gone, and {tmp_path}/leases has jobs that it knew of: ")
    lost.close()
