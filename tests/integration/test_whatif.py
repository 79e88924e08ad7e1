"""What if with the real process on a real ledger: what it may take, and that nothing of it is left."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from google.protobuf.json_format import ParseDict

from headrace.bus.nats.streams import ensure_streams
from headrace.bus.process import PASSWORD, URL, USER
from headrace.contracts.api import audit_pb2 as pb
from headrace.contracts.documents.yaml_text import read_tree
from headrace.contracts.messages.whatif import MEMORY
from headrace.contracts.values.durations import SECOND
from headrace.domain.state.state import State
from headrace.governance.api.context import ApiContext, CallContext
from headrace.governance.api.errors import ApiError
from headrace.governance.api.whatif_service import WhatIfService
from headrace.identity.caller import Caller, Role
from headrace.simulate.scenario import read_scenario
from headrace.simulate.world import World
from tests.patience import PATIENCE

SITE = """
groups: [{name: all, members: [ann]}]
pools: [{name: hall, selector: {site: a}}]
profiles: [{name: one, request: {gpu: 1}, pools: [hall]}]
nodes: [{name: n, labels: {site: a}, gpus: 1}]
policies: [{name: q, group: all, profiles: [one], max_pending: 1000000}]
"""


def asking(jobs: int) -> pb.WhatIfRequest:
    row = {"name": "x", "queue": "q/one", "user": "ann", "count": jobs, "duration": "1m"}
    return ParseDict({"changes": {"submit": [row]}, "span": "1h"}, pb.WhatIfRequest())


@pytest.fixture
def call() -> CallContext:
    known = {"state": State(), "clock": lambda: 7 * SECOND, "environment": os.environ}
    return CallContext(
        Caller(Role.PROVIDER_ADMIN, "default", "root"), "WhatIf", 300.0, ApiContext(*map(known.get, ApiContext._fields))
    )


@pytest.fixture
async def asked(nats_server, login, monkeypatch) -> AsyncIterator[WhatIfService]:
    """The service of an installation with the documents above."""
    operator = await login("operator")
    await ensure_streams(operator)
    world = World(read_scenario(read_tree(SITE)))
    for _ in world.run():
        pass
    for message in world.log.messages_after(0):
        await operator.ask(message.subject, message.payload)
    governance = nats_server.credentials["governance"]
    for name, value in {URL: nats_server.url, USER: governance.name, PASSWORD: governance.password}.items():
        monkeypatch.setenv(name, value)
    service = WhatIfService()
    yield service
    await service.close()
    assert processes(nats_server.url) == {}


async def test_a_question_that_takes_more_memory_than_its_limit_is_told_so_and_the_next_is_answered(asked, monkeypatch, call):
    monkeypatch.setenv(MEMORY, "160MiB")
    with pytest.raises(ApiError) as too_large:
        await asked.what_if(asking(200_000), call)
    assert (too_large.value.code.name, too_large.value.reason) == ("RESOURCE_EXHAUSTED", "TOO_LARGE")
    assert too_large.value.message.endswith(
        "each of its two plays may take 160MiB of memory and needs more: ask for a shorter time or fewer jobs; "
        "the provider can raise HEADRACE_WHATIF_MEMORY and start governance again"
    )
    assert (await asked.what_if(asking(3), call)).total.after.starts == 3


async def test_who_goes_away_ends_the_copies_that_work_for_them_and_the_process_goes_on(asked, nats_server, call):
    assert (await asked.what_if(asking(3), call)).total.after.starts == 3
    (first,) = processes(nats_server.url)
    gone = asyncio.create_task(asked.what_if(asking(5_000), call))
    await until(lambda: len(processes(nats_server.url)) == 3)  # both plays, each in a copy
    assert set(processes(nats_server.url).values()) > {first}
    gone.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gone
    await until(lambda: set(processes(nats_server.url)) == {first})
    assert (await asked.what_if(asking(3), call)).total.after.starts == 3
    assert set(processes(nats_server.url)) == {first}


async def test_a_question_about_an_earlier_time_is_answered_from_the_ledger(asked, nats_server, call):
    request = asking(3)
    request.since = "2"
    assert (await asked.what_if(request, call)).sequence == "2"


async def until(holds) -> None:
    async with asyncio.timeout(PATIENCE):
        while not holds():
            await asyncio.sleep(0.01)


def processes(url: str) -> dict[int, int]:
    """Processes that answer what-ifs on that server, each with its parent."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (
                b"headrace.simulate" in (process / "cmdline").read_bytes()
                and url.encode() in (process / "environ").read_bytes()
            ):
                found[int(process.name)] = int((process / "stat").read_text().rpartition(")")[2].split()[1])
    return found
