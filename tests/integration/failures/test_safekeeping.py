"""A backup of an installation that runs becomes another installation that goes on; and back again, of one that does not run."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.machine import HEADRACE, Machine
from tests.patience import PATIENCE


@pytest.fixture
def machines() -> Iterator[tuple[Machine, Machine]]:
    """Where the first is, and where the second will be."""
    with tempfile.TemporaryDirectory(prefix="headrace-", ignore_cleanup_errors=True) as folder:
        made = tuple(Machine(Path(folder) / name) for name in ("first", "second"))
        yield made  # type: ignore[misc]
        for machine in made:
            machine.end()


def verb(machine: Machine, noun: str, *words: str) -> str:
    """The output of a command of two words."""
    command = (*HEADRACE, noun, *words, "--data", str(machine.data))
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True).stdout


def purge(machine: Machine) -> bool:
    """Whether the stream has let go of its first three records."""
    command = (*HEADRACE, "archive", "purge", "--through", "3", "--data", str(machine.data))
    ran = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert ran.returncode == 0 or "records up to 3 cannot be removed: " in ran.stderr, ran.stderr
    return ran.returncode == 0


def test_an_installation_goes_on_out_of_its_backup(machines, monkeypatch):
    monkeypatch.setenv("HEADRACE_SNAPSHOT_FACTS", "5")
    first, second = machines
    first.up()
    first.done("apply", "-f", first.documents)
    done = first.submit("exit 0", "--wait").splitlines()[0]
    assert not purge(first)  # nothing is archived
    verb(first, "audit", "export")
    first.until(lambda: purge(first))
    running = first.submit("sleep 600", "--non-preemptible")
    first.until_state(running, "running")
    file = str(first.data.parent / "backup.tar")
    backup = json.loads(first.done("backup", file, "--json"))
    first.submit("exit 0", "--wait")  # is not in it

    restored = json.loads(second.done("restore", file, "--json"))
    assert (restored["through"], restored["jobs"]) == (backup["through"], 1)
    assert restored["booked"] <= restored["through"]
    archived = json.loads(verb(second, "archive", "status", "--json"))
    assert (archived["purged"], archived["through"] < backup["through"]) == (3, True)
    again = second.run("restore", file)
    assert (again.returncode, "is not empty: name another directory with --data" in again.stderr) == (1, True)

    second.up()
    assert (second.job(done)["state"], second.job(running)["user"]) == ("succeeded", "alice")
    later = second.submit("exit 0", "--wait").splitlines()[0]
    assert second.job(later)["state"] == "succeeded"
    assert json.loads(first.run("job", later, "--json").stdout or "{}") == {}
    second.done("down", "--now")
    second.done("backup", str(first.data.parent / "later.tar"))  # of what is not up
    missing = second.run("backup", "--data", str(first.data.parent / "nowhere"))
    assert (missing.returncode, "no installation in" in missing.stderr) == (1, True)
