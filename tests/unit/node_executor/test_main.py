"""What `main` does before there is anything to run; how it runs is the business of the integration tests."""

from __future__ import annotations

import json
import subprocess
import sys

from headrace.contracts.facts import LeaseEndedV1
from headrace.node_executor.arguments import parse
from headrace.node_executor.core.node import Closed
from headrace.node_executor.journal import Journal
from headrace.node_executor.main import FAILED, registration, unstated

JOB = "acme.alice.01j9z3k4m5n6p7q8r9s0t1v2w3"


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


def test_a_node_without_devices_claims_no_isolation() -> None:
    assert registration(parse(["run", "--name", "a", "--devices", "none"], {})).isolation == "none"
    assert registration(parse(["run", "--name", "a", "--devices", "sim:1xL4"], {})).isolation == "simulated"


def test_what_a_former_executor_had_begun_is_lost_and_what_had_ended_has_ended(tmp_path) -> None:
    journal = Journal(str(tmp_path / "journal"))
    fact = LeaseEndedV1(job=JOB, attempt=2, outcome="exited", exit_code=0, exited_at=1, at=2)
    journal.began(f"{JOB}/1/0", 5)
    journal.began(f"{JOB}/2/0", 6)
    journal.ended(f"{JOB}/2/0", 6, fact)
    lost = LeaseEndedV1(job=JOB, attempt=1, outcome="lost", message="the executor was restarted", exited_at=9, at=9)
    assert unstated(journal, at=9) == {f"{JOB}/1/0": Closed(5, lost), f"{JOB}/2/0": Closed(6, fact)}
    journal.close()
