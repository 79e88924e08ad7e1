"""What a node's token must not be good for, tried on a whole installation with real executors and raw connections."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from nats import errors

from headrace.bus.log import LogRefused
from headrace.bus.nats.connection import connect
from headrace.contracts.messages.tokens import StorageReport
from headrace.contracts.transport.codec import encode
from tests.integration.api import HEADRACE, Api, installation, until
from tests.patience import PATIENCE


@pytest.fixture(scope="module")
def api() -> Iterator[Api]:
    """An installation at the newest level, with a pool of nodes of site hq."""
    with installation() as made:
        until(lambda: json.loads(made.run("status", "--json"))["level"]["stated"] == 3)
        yield made


def node(api: Api, name: str) -> dict[str, Any]:
    found = {one["name"]: one for one in json.loads(api.run("nodes", "--json"))}
    return dict(found.get(name, {}))


def executor(api: Api, name: str, token: str, *words: str) -> subprocess.Popen[bytes]:
    """A real executor that shows a token, as on another machine."""
    url = json.loads((api.data / "endpoint.json").read_text())["url"]
    environment = os.environ | {"HEADRACE_NATS_URL": url, "HEADRACE_NATS_USER": f"node_{name}", "HEADRACE_NATS_PASSWORD": token}
    data = api.data.parent / name
    command = (sys.executable, "-m", "headrace.node_executor", "run", "--name", name, "--data", str(data), "--run-as", "self")
    return subprocess.Popen((*command, *words), env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def test_a_nodes_token_is_believed_as_far_as_it_was_made_for_and_an_operator_approves_the_rest(api: Api) -> None:
    token = api.run("token", "create", "--node", "liar", "--labels", "rack=r7", "--gpus", "1").strip()
    process = executor(api, "liar", token, "--labels", "site=hq,rack=r7", "--devices", "sim:64xH100-80GB")
    try:
        shown = until(lambda: node(api, "liar"))
        assert (shown["pool"], shown["gpus"], shown["unapproved"]) == (
            "",
            1,
            ["site=hq", "64 GPUs (1 approved)", "isolation simulated (none approved)"],
        )
        whole = api.done("root", "GET", "/v1/nodes/liar")
        assert (whole["gpus"], whole["labels"]["rack"], "site" in whole["labels"]) == (1, "r7", False)
        assert node(api, "box")["unapproved"] == []
        assert api.run("node", "approve", "liar", "--labels", "site=hq,rack=r7", "--gpus", "2").splitlines() == [
            "liar: labels: rack=r7 -> rack=r7,site=hq",
            "liar: gpus: 1 -> 2",
        ]
        shown = until(lambda: node(api, "liar") if node(api, "liar")["gpus"] == 2 else None)
        assert (shown["pool"], shown["unapproved"]) == ("hq", ["64 GPUs (2 approved)", "isolation simulated (none approved)"])
        api.done("root", "POST", "/v1/nodes/liar:approve", {"reason": "a test"})
        assert until(lambda: node(api, "liar")["gpus"] == 64)
        assert node(api, "liar")["unapproved"] == []
        approves = "approves of liar: rack=r7,site=hq, 64 GPUs, isolation up to simulated: a test"
        until(lambda: approves in api.run("audit", "log", "--node", "liar", "--all-tenants"))
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE)


def test_a_node_that_is_called_otherwise_than_its_token_does_not_start(api: Api) -> None:
    process = executor(api, "gpu01", api.run("token", "create", "--node", "gpu02").strip(), "--devices", "none")
    printed = process.communicate(timeout=PATIENCE)[1].decode().splitlines()
    complaint = "this node is called gpu01, and the token in HEADRACE_NATS_PASSWORD is of node gpu02: say --name gpu02"
    assert (process.returncode, printed[-1]) == (2, f"headrace node: error: argument --name: {complaint}")


async def test_a_node_that_floods_the_ledger_is_disconnected_within_a_moment_and_kept_out_until_an_operator_lets_it_in(
    api: Api,
) -> None:
    """R36; 500 KB void records as fast as the server takes them: 1,000 MB in 10 s, without end, before nodes were excluded."""
    token = api.run("token", "create", "--node", "flood").strip()
    url = json.loads((api.data / "endpoint.json").read_text())["url"]
    connection, sent = await connect(url, "node_flood", token), 0
    connection.options["allow_reconnect"] = False
    async with asyncio.timeout(PATIENCE):
        while connection.is_connected:
            with suppress(errors.Error, OSError):
                await connection.publish("hr.ledger.node.flood", b"x" * 500_000)
                sent += 1
                await connection.flush(1)
    await connection.close()
    assert sent > 10
    with pytest.raises(LogRefused):
        await connect(url, "node_flood", token)
    await asyncio.to_thread(until, lambda: "node flood is excluded" in status_text(api))
    (job,) = await asyncio.to_thread(api.submit, "root", "acme", ["true"], user="alice")
    await asyncio.to_thread(api.until, "root", job["name"], "succeeded")
    assert "lets it in" in status_text(api)
    await asyncio.to_thread(api.run, "node", "uncordon", "flood")
    async with asyncio.timeout(PATIENCE):
        while not await is_let_in(url, token):
            pass
    excluded = "flood is excluded: it wrote more than 10 records within 10 minutes"
    await asyncio.to_thread(until, lambda: excluded in api.run("audit", "log", "--all-tenants"))


def status_text(api: Api) -> str:
    """The status, with what is wrong."""
    ran = subprocess.run([*HEADRACE, "status"], capture_output=True, text=True, timeout=PATIENCE, check=False, env=api.env())
    return ran.stdout + ran.stderr


async def is_let_in(url: str, token: str) -> bool:
    try:
        connection = await connect(url, "node_flood", token)
    except LogRefused:
        return False
    await connection.close()
    return True


async def test_while_storage_is_scarce_only_new_jobs_are_refused(api: Api) -> None:
    """Callout says how full the servers really are every 10 s; so this asks at once."""
    operator = json.loads((api.data / "credentials" / "operator.json").read_text())["password"]
    nats = await connect(json.loads((api.data / "endpoint.json").read_text())["url"], "operator", operator)
    try:

        async def report(used: int) -> None:
            await nats.ask("hr.query.governance.storage.default.operator", encode(StorageReport(used=used, limit=100)))

        async def submitted(used: int, *, rejected: bool) -> dict[str, Any]:
            """The first job that admission judges after it has read the report; between the two it may read one of callout's own."""
            async with asyncio.timeout(PATIENCE):
                while True:
                    await report(used)
                    (job,) = await asyncio.to_thread(api.submit, "root", "acme", ["true"], user="alice")
                    if (job["state"] == "rejected") is rejected:
                        return job

        (running,) = await asyncio.to_thread(api.submit, "root", "acme", ["sleep", "600"], user="alice")
        assert (await submitted(95, rejected=True))["reason"] == "DISK_FULL"
        await report(95)
        await asyncio.to_thread(api.done, "root", "POST", f"/v1/{running['name']}:cancel", {})
        await asyncio.to_thread(api.until, "root", running["name"], "cancelled")
        job = await submitted(50, rejected=False)
        await asyncio.to_thread(api.until, "root", job["name"], "succeeded")

        def audited() -> bool:
            """Whether the audit log, which follows the ledger, says both: last that jobs are admitted again."""
            log = api.run("audit", "log", "--all-tenants", "--kind", "storage")
            return (
                "streams take 95 of 100 bytes: no job is admitted" in log and "jobs are admitted again" in log.splitlines()[-1]
            )

        await asyncio.to_thread(until, audited)
    finally:
        await nats.close()
