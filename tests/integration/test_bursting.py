"""A pool that grows, on one machine: real services, and instances of provider `local`, which are real node executors."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import psutil
import pytest

from headrace.provisioner.providers.local import pid_of
from tests.integration.machine import Machine, new_machine

DOCUMENTS = """
groups: [{name: rnd, members: [alice]}]
pools:
  - {name: hall, selector: {site: hq}}
  - name: cloud
    selector: {site: cloud}
    burst:
      provider: local
      offers: [{name: scarce, price: "1"}, {name: plenty, price: "2"}]
      max_nodes: 2
      boot: 30s
      idle: 3s
      node: {gpus: 2, gpu_model: H100-80GB, cpus: 8, memory: 16GiB}
profiles: [{name: one, request: {gpu: 1}, pools: [hall, cloud]}]
policies: [{name: rnd, group: rnd, profiles: [one]}]
"""


@pytest.fixture(scope="module")
def installed() -> Iterator[Machine]:
    """An installation at level 3 with a hall of two GPUs and a cloud behind it."""
    with new_machine() as made:
        made.up("--jobs-are-trusted")
        made.until(lambda: json.loads(made.done("status", "--json"))["level"]["stated"] == 3)
        (made.data.parent / "documents.yaml").write_text(DOCUMENTS)
        made.done("apply", "-f", made.documents)
        yield made


@pytest.fixture
def place(installed: Machine) -> Iterator[Machine]:
    """The installation without jobs and without instances; afterwards too."""
    yield installed
    installed.released.write_text("")
    installed.run("cancel", "--user", "alice", "--queue", "rnd/one", "--yes")
    installed.until(lambda: nodes(installed) == {"box"} and not any(not one["ended_at"] for one in instances(installed)))
    installed.released.unlink()
    faults(installed).unlink(missing_ok=True)


def faults(place: Machine) -> Path:
    """The switchboard of the provider."""
    folder = place.data / "burst/local"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / "faults.json"


def full(place: Machine) -> None:
    """Two jobs hold the hall."""
    for job in [place.submit("sleep 600") for _ in range(2)]:
        place.until_state(job, "running")


def instances(place: Machine, **wanted: str) -> list[dict[str, Any]]:
    found = json.loads(place.done("burst", "list", "--json"))
    return [one for one in found if wanted.items() <= one.items()]


def nodes(place: Machine) -> set[str]:
    return {one["name"] for one in json.loads(place.done("nodes", "--json"))}


def test_a_full_hall_orders_a_node_which_runs_the_job_and_leaves(place: Machine) -> None:
    faults(place).write_text('{"refuse": {"scarce": "CAPACITY"}}')
    full(place)
    job = place.submit(place.goes_on_until_released)
    place.until_state(job, "running")
    (mine,) = instances(place, stage="joined")
    (refused,) = instances(place, stage="refused")
    assert (mine["offer"], mine["price"], refused["offer"], refused["cause"]) == ("plenty", "2.00", "scarce", "CAPACITY")
    assert place.job(job)["attempts"][0]["nodes"] == [mine["instance"]]
    assert nodes(place) == {"box", mine["instance"]}

    pid = pid_of(place.data / "burst/local" / mine["instance"])
    place.released.write_text("")
    place.until_state(job, "succeeded")
    place.until(lambda: bool(instances(place, instance=mine["instance"], stage="ended", cause="idle")))
    assert (nodes(place), psutil.pid_exists(pid) and psutil.Process(pid).status() != "zombie") == ({"box"}, False)
    log = place.done("audit", "log", "--from", "1h", "--all-tenants")
    assert [f"{mine['instance']} {what}" in log for what in ("is ordered", "is made", "is to end: idle", "has ended")] == [
        True
    ] * 4

    def costs() -> dict[str, Any]:
        return json.loads(place.done("statement", "--instances", "--json"))

    def lines() -> dict[str, dict[str, str]]:
        return {line["what"]: line for line in costs()["lines"] if line["instance"] == mine["instance"]}

    place.until(lambda: set(lines()) == {"booting", "used", "idle"})
    assert (lines()["used"]["tenant"], lines()["used"]["offer"], lines()["idle"]["tenant"]) == ("default", "plenty", "")
    assert float(costs()["overhead"]) < float(costs()["total"])
    assert f",{mine['instance']},Instance," in place.done("statement", "--instances", "--focus")

    assert place.done("burst", "plan", "cloud", "--nodes", "3").splitlines()[0].startswith("2 instances by offer")
    gone = place.run("burst", "end", mine["instance"])
    assert (gone.returncode, "lives" in gone.stderr) == (1, True)


def test_an_operator_ends_an_instance_and_its_job_goes_on_elsewhere(place: Machine) -> None:
    full(place)
    job = place.submit("sleep 600")
    place.until_state(job, "running")
    (mine,) = instances(place, stage="joined")
    assert place.done("burst", "end", mine["instance"]) == f"{mine['instance']} will end: 1 jobs have to stop first\n"
    place.until(lambda: bool(instances(place, instance=mine["instance"], stage="ended", cause="operator")))
    place.until(lambda: len(place.job(job)["attempts"]) == 2)
    assert place.job(job)["attempts"][0]["cause"] == "drain"


def test_a_notice_of_the_provider_moves_the_job_before_the_deadline(place: Machine) -> None:
    full(place)
    job = place.submit("sleep 600")
    place.until_state(job, "running")
    (mine,) = instances(place, stage="joined")
    deadline = time.time_ns() // 1_000 + 120_000_000
    notice = json.dumps({"kind": "spot", "deadline": deadline})
    (place.data / "burst/local" / mine["instance"] / "notice.json").write_text(notice)
    place.until(lambda: bool(instances(place, instance=mine["instance"], stage="ended", cause="interrupted")))
    assert place.job(job)["attempts"][0]["cause"] == "interrupted"
    ended = datetime.fromisoformat(place.job(job)["attempts"][0]["ended_at"])
    assert ended.timestamp() < deadline / 1_000_000 - 20
    # a next instance that has run nothing when the job is cancelled closes the pool for ten minutes (R38)
    place.until(lambda: len(place.job(job)["attempts"]) == 2)


def test_a_provisioner_that_is_killed_goes_on_where_it_was(place: Machine) -> None:
    before = set(faults(place).parent.glob("*/pid"))
    faults(place).write_text('{"lose_answers": true}')
    full(place)
    job = place.submit("sleep 600")
    place.until(lambda: bool(set(faults(place).parent.glob("*/pid")) - before))
    os.kill(place.parts()["provisioner"]["pid"], signal.SIGKILL)
    faults(place).unlink()
    place.until_state(job, "running")
    (made,) = set(faults(place).parent.glob("*/pid")) - before
    assert [one["instance"] for one in instances(place) if not one["ended_at"]] == [made.parent.name]


def test_a_node_that_has_left_is_removed_by_an_operator(place: Machine) -> None:
    refused = place.run("node", "remove", "box")
    assert refused.stderr == "headrace: box is there; stop its executor first, and remove it then\n"
