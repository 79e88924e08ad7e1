"""While the API is away the owner still sees what is there, lets nodes work again, and revokes tokens."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headrace.bus.nats.connection import connect
from headrace.bus.nats.jetstream import JetStreamLog
from headrace.bus.nats.streams import ensure_streams
from headrace.bus.writer_chain import Chain
from headrace.contracts.facts import NodeRegisteredV1
from headrace.contracts.facts.levels import LEVEL
from headrace.contracts.transport.codec import decode_record
from headrace.contracts.transport.subjects import LEDGER_STREAM
from headrace.supervisor import api_away
from headrace.supervisor.installation import Installation
from headrace.supervisor.network.ports import free_port
from headrace.supervisor.processes.pidfile import Lock, RunningInstallation, write_running
from tests.integration.conftest import binary
from tests.patience import PATIENCE

ASKED_ITSELF = "asking governance directly"


class Place:
    """An installation whose NATS server runs, and nothing else of it."""

    def __init__(self, installation: Installation, log: JetStreamLog) -> None:
        self.installation = installation
        self._log = log

    async def run(self, *words: str, **more: str) -> tuple[int, str, str]:
        """(exit code, output, errors) of a command of the owner."""
        environment = {key: value for key, value in os.environ.items() if not key.startswith("HEADRACE_")}
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "headrace.cli", *words),
            env=environment | {"HEADRACE_DATA": str(self.installation.directory)} | more,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(2 * PATIENCE):
            out, err = await process.communicate()
        return process.returncode or 0, out.decode(), err.decode()

    async def kinds(self) -> list[str]:
        """The types of all facts in the ledger."""
        found = [await self._log.get(sequence) for sequence in range(1, await self._log.tip() + 1)]
        return [type(fact).__name__ for message in found if message for fact in decode_record(message.payload).facts]


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    installation = Installation(tmp_path / "data")
    installation.prepare()
    installation.keep_settings(installation.settings())
    port = free_port()
    url = f"nats://127.0.0.1:{port}"
    node = installation.node("gpu01")
    installation.write_nats_config((port,))
    installation.write_endpoint(url, "http://127.0.0.1:1", str(installation.local_socket()))
    (server,) = installation.servers()
    quiet = asyncio.subprocess.DEVNULL
    nats = await asyncio.create_subprocess_exec(binary(), "-c", str(server.config), stdout=quiet, stderr=quiet)
    try:
        operator = installation.operator()
        async with asyncio.timeout(PATIENCE):
            core = await connect(url, operator.name, operator.password)
            await ensure_streams(core)
            writer = await connect(url, node.name, node.password)
        chain = Chain(JetStreamLog(writer, LEDGER_STREAM), "node.gpu01", "e")
        await chain.append(1, 0, (NodeRegisteredV1(node="gpu01", cpu=1, memory=1, reads=LEVEL, at=1),))
        with Lock(installation):
            running = RunningInstallation(pid=os.getpid(), since=1, url=url, ready=True, children=())
            write_running(installation, running)
            yield Place(installation, JetStreamLog(core, LEDGER_STREAM))
        await writer.close()
        await core.close()
    finally:
        nats.terminate()
        await nats.wait()


async def test_the_owner_goes_on_while_gateway_and_governance_are_away(place: Place) -> None:
    made = await api_away.call(place.installation, "CreateToken", {"token": {"role": "admin", "handle": "ops"}})
    token = made["name"].rpartition("/")[2]
    code, _, err = await place.run("pools")
    assert (code, err.count("\n"), err.startswith("headrace: the API does not answer at ")) == (1, 1, True)
    code, out, _ = await place.run("status")
    assert (code, out.startswith(f"Headrace in {place.installation.directory}")) == (0, True)
    code, out, err = await place.run("node", "cordon", "gpu01", "--reason", "fan")
    assert (code, out, ASKED_ITSELF in err) == (0, "gpu01 is cordoned\n", True), err
    code, out, err = await place.run("node", "uncordon", "gpu01")
    assert (code, out, ASKED_ITSELF in err) == (0, "gpu01 is uncordoned\n", True), err
    code, out, err = await place.run("token", "revoke", token, "--reason", "lost")
    assert (code, out, ASKED_ITSELF in err) == (0, f"{token} is revoked\n", True), err
    assert await place.kinds() == [
        "NodeRegisteredV1",
        "TokenCreatedV1",
        "NodeCordonedV1",
        "NodeUncordonedV1",
        "TokenRevokedV1",
    ]
    log = place.installation.logs / "governance-once.log"
    assert (log.stat().st_mode & 0o777, list(place.installation.metrics.iterdir())) == (0o600, [])


async def test_a_refusal_is_told_in_one_line_and_another_login_does_not_go_around_the_api(place: Place) -> None:
    code, _, err = await place.run("node", "uncordon", "nowhere")
    assert (code, "there is no node nowhere" in err) == (1, True)
    code, _, err = await place.run(
        "node", "uncordon", "gpu01", HEADRACE_TOKEN="a.b.c", HEADRACE_TENANT="acme", HEADRACE_USER="eve"
    )
    assert (code, ASKED_ITSELF in err, err.startswith("headrace: the API does not answer at ")) == (1, False, True), err
    assert await place.kinds() == ["NodeRegisteredV1"]
    assert json.loads(place.installation.endpoint.read_text())["local"]
