"""What was lost from the disk while nothing ran is named at the next start, with what to type, and nothing is acknowledged meanwhile."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.integration.machine import Machine, new_machine

STREAMS = "nats/store/jetstream/CORE/streams"


class Begun(NamedTuple):
    """An installation that has run a job, and is down; the job; and a copy of its directory as it is then."""

    place: Machine
    job: str
    copy: Path


@pytest.fixture(scope="module")
def made() -> Iterator[Begun]:
    with new_machine() as place:
        place.up()
        place.done("apply", "-f", place.documents)
        job = place.submit("exit 0", "--wait")
        place.until_archived()
        place.kill()
        yield Begun(place, job, copy(place.data, place.data.with_name("copy")))


@pytest.fixture
def begun(made: Begun) -> Iterator[Begun]:
    """As it was when it had run its job, for each test."""
    shutil.rmtree(made.place.data)
    copy(made.copy, made.place.data)
    yield made
    made.place.end()


def copy(directory: Path, to: Path) -> Path:
    """With the owners of its files: PostgreSQL runs as an account of its own."""
    subprocess.run(("cp", "-a", directory, to), check=True)
    return to


def goes_on(place: Machine, *before: str) -> None:
    """It comes up, knows the jobs of before, and runs another one."""
    place.up()
    after = place.submit("exit 0", "--wait")
    assert [place.job(job)["state"] for job in (*before, after)] == ["succeeded"] * (len(before) + 1)


def refused(place: Machine, *expected: str) -> None:
    """It does not come up, and says why; and nothing is left running that could acknowledge a submission."""
    ran = place.run("up", "--detach", "--gpus", "2")
    assert ran.returncode != 0
    assert [words for words in expected if words not in ran.stderr + ran.stdout] == [], ran.stderr + ran.stdout
    assert [process.name() for process in place.processes()] == []


def test_a_lost_store_of_submissions_is_named_and_repaired_and_no_new_submission_is_taken_for_an_old_one(begun: Begun) -> None:
    place, job, _ = begun
    shutil.rmtree(place.data / STREAMS / "SUBMIT")

    refused(place, "stream SUBMIT is gone, and submissions through 1 were judged", "`headrace repair`")
    looked = json.loads(place.run("repair", "--look", "--json").stdout)
    assert [trouble.partition(":")[0] for trouble in looked["troubles"]] == [
        "stream SUBMIT is gone, and submissions through 1 were judged"
    ]
    place.done("repair")

    assert json.loads(place.done("repair", "--look", "--json"))["troubles"] == []
    goes_on(place, job)


def test_a_lost_ledger_is_named_with_its_streams_and_comes_back_from_what_is_left(begun: Begun) -> None:
    place, job, _ = begun
    shutil.rmtree(place.data / "nats/store")

    refused(place, "the ledger is empty, and the books' copy of it goes to record", "`headrace repair` puts it back")
    place.done("repair")

    goes_on(place, job)


def test_damaged_books_are_named_with_what_heals_them_and_repair_works_without(begun: Begun) -> None:
    place, job, _ = begun
    (place.data / "postgres/data/PG_VERSION").unlink()

    refused(place, "PG_VERSION is missing", f"move {place.data / 'postgres'} away and run `headrace up` again")
    looked = place.run("repair", "--look")
    assert (looked.returncode, "the books' database cannot be read, and is left out" in looked.stdout) == (0, True), looked
    (place.data / "postgres").rename(place.data / "damaged")

    goes_on(place, job)


def test_jobs_whose_keys_were_lost_wait_and_run_once_those_are_put_back(place: Machine) -> None:
    place.up()
    place.done("apply", "-f", place.documents)
    jobs = [place.submit(place.goes_on_until_released) for _ in range(2)]
    for job in jobs:
        place.until_state(job, "running")
    (node,) = (one["name"] for one in json.loads(place.done("nodes", "--json")))
    place.done("node", "cordon", node)  # else they could be granted something before it is known that the keys are missing
    place.done("down", "--now")
    (place.data / "keys").rename(place.data / "away")

    place.up()
    place.until(lambda: "keys of what jobs run are missing" in place.run("status").stderr)
    place.until(lambda: [place.job(job)["state"] for job in jobs] == ["pending"] * 2)
    for job in jobs:
        place.until(lambda job=job: "is missing, so what it runs cannot be read" in place.done("why", job))
    place.done("node", "uncordon", node)
    shutil.copytree(place.data / "away", place.data / "keys", dirs_exist_ok=True)

    place.released.touch()
    for job in jobs:
        place.until_state(job, "succeeded")
