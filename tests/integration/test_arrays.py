"""An array on a whole installation: real services, real processes, real books."""

from __future__ import annotations

import asyncio
import json

import asyncpg

from headrace.supervisor.installation import Installation
from headrace.supervisor.processes.postgres import address
from tests.integration.machine import Machine
from tests.patience import PATIENCE

SHOW = "echo $HEADRACE_ARRAY_INDEX of $HEADRACE_ARRAY_COUNT; exit $((HEADRACE_ARRAY_INDEX == 3))"
WHOSE = ("--queue", "rnd/one", "--user", "alice")


async def results(dsn: str) -> list[tuple[object, ...]]:
    connection = await asyncpg.connect(dsn)
    try:
        statement = "SELECT index, state FROM headrace.array_results ORDER BY array_job, index"
        return [tuple(row) for row in await connection.fetch(statement)]
    finally:
        await connection.close()


async def test_an_array_runs_with_its_indices_and_is_cancelled_in_part(place: Machine) -> None:
    place.up()
    place.done("apply", "-f", place.documents)

    waited = place.run("submit", *WHOSE, "--name", "sweep", "--array", "1-5:2%2", "--wait", "--", "sh", "-c", SHOW)
    array = waited.stdout.strip()
    assert (waited.returncode, waited.stderr) == (1, f"headrace: {array} failed: of 3 elements: 2 succeeded, 1 failed\n")
    assert place.done("logs", "sweep", "--user", "alice") == "1 of 3\n3 of 3\n5 of 3\n"
    assert place.done("logs", "sweep:3", "--user", "alice") == "3 of 3\n"
    (line,) = json.loads(place.done("jobs", "--json"))
    assert (line["id"], line["array"], line["elements"]) == (array, "1-5:2%2", {"failed": 1, "succeeded": 2})

    for command in ("job", "why"):
        ran = place.run(command, "sweep:2", "--user", "alice")
        assert (ran.returncode, ran.stderr) == (
            1,
            f"headrace: array default.alice.{array} has no element 2; its indices are 1-5:2\n",
        )
    place.done("submit", *WHOSE, "--name", "long", "--array", "0-99%1", "--", "sleep", "600")
    place.until(lambda: '"running": 1' in place.done("job", "long", "--user", "alice", "--json"))
    assert "AT_ARRAY_LIMIT" in place.done("why", "long:7", "--user", "alice")
    for command in ("cancel", "requeue"):
        refused = place.run(command, "--user", "alice", "long:100-200")
        why = "elements: the array has no element 100-200; its indices are 0-99"
        assert (refused.returncode, refused.stderr) == (1, f"headrace: {why}\n")
    place.done("cancel", "--user", "alice", "long:50-99")
    place.until(lambda: '"cancelled": 50' in place.done("job", "long", "--user", "alice", "--json"))
    place.done("cancel", "--user", "alice", "long")
    place.until(lambda: '"cancelled": 100' in place.done("job", "long", "--user", "alice", "--json"))

    shown = [(1, "succeeded"), (3, "failed"), (5, "succeeded"), *((index, "cancelled") for index in range(100))]
    installation = Installation(place.data)
    dsn = address(installation.postgres, installation.postgres_password())
    async with asyncio.timeout(PATIENCE):
        while await results(dsn) != shown:
            await asyncio.sleep(0.2)

    assert place.run("audit", "verify").returncode == 0  # each decision about arrays follows from the state before it
    change = place.data.parent / "change.yaml"
    change.write_text("submit: [{name: more, queue: rnd/one, array: 0-3, user: alice, duration: 10s}]")
    place.done("submit", *WHOSE, "--name", "rest", "--array", "0-9%1", "--", "sleep", "600")
    place.done("submit", *WHOSE, "--after", "rest:3", "--", "true")  # without `:ok`: the same job on both sides of the API
    assert "Each as it is -> with" in place.done("whatif", "-f", str(change))
