"""One release beside the next, as processes on a real server: no process states what another there cannot read."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from headrace.bus.nats.jetstream import JetStreamLog
from headrace.bus.nats.permissions import CALLOUT_USER, SERVICES
from headrace.bus.nats.streams import ensure_streams
from headrace.bus.process import BROKEN, DATA, PASSWORD, URL, USER
from headrace.bus.variables import API
from headrace.bus.writer_chain import Chain
from headrace.contracts.facts import NodeRegisteredV1
from headrace.contracts.facts.levels import FIRST, LEVEL, RELEASES
from headrace.contracts.messages.queries import Answer, Presence, ServiceView
from headrace.contracts.transport.codec import encode
from headrace.contracts.transport.subjects import LEDGER_STREAM, presence, query
from headrace.supervisor.api_away import DirectApi
from tests.integration.releases import ROOT, next_release, path_of
from tests.patience import PATIENCE

OWNERS = "the-owners-password"
READ = ("admission", "feed", "accounting", "audit", "preemption", "provisioner", CALLOUT_USER)
"""Services that only say here that they are there."""


class Releases:
    """Starts services of this release and of the next, and looks at what they say and write."""

    def __init__(self, server, login, folder):
        self.server, self.login, self.folder = server, login, folder
        self.paths = {1: path_of(ROOT), 2: next_release(folder / "next")}
        self.processes = []

    def start(self, service, release):
        login = self.server.credentials[service]
        settings = {URL: self.server.url, USER: login.name, PASSWORD: login.password, DATA: str(self.folder)}
        with (self.folder / f"{service}-{len(self.processes)}.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", f"headrace.{service}"],
                env=os.environ | settings | {"PYTHONPATH": self.paths[release], API: f"unix:{self.folder / 'api.sock'}"},
                stderr=log,
            )
        process.log = log.name
        self.processes.append(process)
        return process

    async def ask(self, service, what):
        operator = await self.login("operator")
        message = await operator.ask(query(service, what, "default", "operator"))
        return msgspec.json.decode(message.data, type=Answer)

    async def order(self, method, request):
        """An order of the owner, to governance itself."""
        api = DirectApi(self.folder / "api.sock", OWNERS)
        try:
            await _until(api.answers)
            return await api.call(method, request)
        finally:
            await api.close()

    async def status(self, service):
        try:
            return msgspec.json.decode((await self.ask(service, "status")).body, type=ServiceView)
        except Exception:  # noqa: BLE001 - it is not there yet
            return None

    async def kinds(self):
        """The types of all facts in the ledger, as they were written."""
        log = JetStreamLog(await self.login("operator"), LEDGER_STREAM)
        found = [await log.get(sequence) for sequence in range(1, await log.tip() + 1)]
        return [fact["type"] for message in found for fact in json.loads(message.payload)["facts"]]


@pytest.fixture
async def releases(nats_server, login, tmp_path):
    await ensure_streams(await login("operator"))
    node = Chain(JetStreamLog(await login("node-gpu01"), LEDGER_STREAM), "node.gpu01", "e")
    await node.append(1, 0, (NodeRegisteredV1(node="gpu01", cpu=1, memory=1, reads=LEVEL + 1, at=1),))
    (tmp_path / "credentials").mkdir()
    (tmp_path / "credentials" / "owner.json").write_text(json.dumps({"name": "owner", "password": OWNERS, "user": "ann"}))
    one = Releases(nats_server, login, tmp_path)
    yield one
    for process in one.processes:
        process.kill()
        process.wait()


def beyond(record):
    """What a process of this release says where a record raises the installation past it."""
    raised = f"record {record} raises the installation to level {LEVEL + 1}"
    return f"{raised}, and headrace {RELEASES[-1]} reads up to level {LEVEL}: install headrace 0.4.0 or newer here"


def last_line(process):
    return json.loads(Path(process.log).read_text("utf-8").splitlines()[-1])


async def _present(login):
    while True:
        for service in READ:
            published = Presence(service=service, called=service, instance=service, reads=LEVEL + 1)
            await (await login(service)).publish(presence(service), encode(published))
        await asyncio.sleep(0.5)


async def _until(condition):
    async with asyncio.timeout(PATIENCE):
        while not await condition():
            await asyncio.sleep(0.05)


async def test_a_newer_release_writes_as_the_older_one_reads_until_all_are_new_and_then_an_old_one_stops_loudly(
    releases, login
):
    cordon = {"name": "nodes/gpu01", "reason": "looked at"}
    logins = {service: await login(service) for service in READ}

    async def known(service):
        return logins[service]

    assert set(SERVICES) == {*READ, "allocator", "governance"} - {CALLOUT_USER}
    present = asyncio.create_task(_present(known))
    old, _ = releases.start("allocator", 1), releases.start("governance", 2)

    async def held_by_the_old_one():
        view = await releases.status("governance")
        return view is not None and view.held_back == (f"allocator reads level {LEVEL}: it runs headrace {RELEASES[-1]}",)

    await _until(held_by_the_old_one)
    await releases.order("CordonNode", cordon)
    assert await releases.kinds() == ["node.registered.v1", "node.cordoned.v1"]

    async def follows():
        view = await releases.status("allocator")
        return view is not None and (view.folded, view.level, view.reads) == (2, FIRST, LEVEL)

    await _until(follows)
    old.terminate()  # it says goodbye, so the others need not wait for it
    assert await asyncio.to_thread(old.wait, PATIENCE) == 0
    releases.start("allocator", 2)

    async def raised():
        view = await releases.status("allocator")
        return view is not None and (view.level, view.reads) == (LEVEL + 1, LEVEL + 1)

    await _until(raised)
    await releases.order("UncordonNode", cordon)
    await releases.order("CordonNode", cordon)
    assert (await releases.kinds())[2:] == ["installation.level.v1", "node.uncordoned.v1", "node.cordoned.v2"]

    late = releases.start("preemption", 1)
    assert await asyncio.to_thread(late.wait, PATIENCE) == BROKEN
    last = last_line(late)
    assert (last["level"], last["reason"]) == (
        "critical",
        beyond(3),
    )
    present.cancel()
