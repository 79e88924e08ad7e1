"""`deploy/examples/ai-dev.yaml` does what its comments say: half a GPU each, first on the company's own machines, then in the cloud."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from headrace.contracts.values.amounts import GPU_UNITS
from headrace.contracts.values.durations import HOUR
from tests.integration.machine import Machine, new_machine

EXAMPLE = Path(__file__).parents[2] / "deploy/examples/ai-dev.yaml"
QUEUE = "ai-dev/half"
GPU_HOUR = GPU_UNITS * HOUR


def submitted(place: Machine, user: str, count: int = 1) -> list[str]:
    """Jobs that go on until they are released."""
    words = ("--queue", QUEUE, "--user", user, "--count", str(count))
    return place.done("submit", *words, "--", "sh", "-c", place.goes_on_until_released).split()


def nodes_of(place: Machine, jobs: list[str]) -> list[str]:
    return [place.job(job)["attempts"][-1]["nodes"][0] for job in jobs]


def instances(place: Machine) -> list[dict[str, str]]:
    return json.loads(place.done("burst", "list", "--json"))


def test_half_a_gpu_each_at_home_and_beyond_that_in_the_cloud() -> None:
    with new_machine() as place:
        place.up("--gpu-model", "RTX-6000-48GB", "--jobs-are-trusted")
        place.until(lambda: json.loads(place.done("status", "--json"))["level"]["stated"] == 3)
        text = EXAMPLE.read_text("utf-8")
        assert text.count("idle: 10m") == 1
        (place.data.parent / "documents.yaml").write_text(text.replace("idle: 10m", "idle: 5s"))
        place.done("apply", "-f", place.documents)
        refused = place.run("submit", "--queue", QUEUE, "--user", "eve", "--", "true")
        assert (refused.returncode != 0, "NOT_ALLOWED" in refused.stderr + refused.stdout) == (True, True), refused

        home = [*submitted(place, "alice", 2), *submitted(place, "bob"), *submitted(place, "ci")]
        for job in home:
            place.until_state(job, "running")
        shares = Counter(tuple(place.job(job)["attempts"][0]["devices"]) for job in home)
        assert (nodes_of(place, home), sorted(shares.values()), instances(place)) == (["box"] * 4, [2, 2], [])

        away = submitted(place, "alice", 16)  # ten GPUs in all: the limit
        for job in away:
            place.until_state(job, "running")
        (instance,) = [one["instance"] for one in instances(place) if one["stage"] == "joined"]
        assert nodes_of(place, away) == [instance] * 16
        (beyond,) = submitted(place, "bob")
        place.until(lambda: "AT_POLICY_LIMIT" in place.done("why", beyond))

        place.done("cancel", home[0])
        place.until_state(beyond, "running")
        assert nodes_of(place, [beyond]) == ["box"], "the own machines come first again"

        place.released.write_text("")
        for job in (*home[1:], *away, beyond):
            place.until_state(job, "succeeded")
        place.until(lambda: [one["cause"] for one in instances(place) if one["stage"] == "ended"] == ["idle"])
        assert {one["name"] for one in json.loads(place.done("nodes", "--json"))} == {"box"}
        place.until(lambda: set(prices(place)) == {"onprem", "cloud"})
        assert {pool: round(price, 2) for pool, price in prices(place).items()} == {"onprem": 0.80, "cloud": 4.10}


def prices(place: Machine) -> dict[str, float]:
    """By pool, what an hour of a GPU has cost in the books."""
    rows = json.loads(place.done("usage", "--by", "pool", "--json"))["rows"]
    hours = {row["pool"]: int(row["exact"]["total"]) / GPU_HOUR for row in rows if row["unit"] == "GPU-hours"}
    costs = {row["pool"]: float(row["cost"]) for row in rows if row["unit"] == "GPU-hours"}
    return {pool: costs[pool] / spent for pool, spent in hours.items() if spent}
