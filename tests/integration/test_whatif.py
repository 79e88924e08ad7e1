"""What if with the real process on a real ledger: what it may take, and that nothing of it is left."""

from __future__ import annotations

import contextlib
import os
import sys
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


async def test_a_question_that_takes_more_memory_than_its_limit_is_told_so_and_the_next_is_answered(
    nats_server, login, monkeypatch, call, tmp_path
):
    operator = await login("operator")
    await ensure_streams(operator)
    world = World(read_scenario(read_tree(SITE)))
    for _ in world.run():
        pass
    for message in world.log.messages_after(0):
        await operator.ask(message.subject, message.payload)
    governance = nats_server.credentials["governance"]
    for name, value in {URL: nats_server.url, USER: governance.name, PASSWORD: governance.password, MEMORY: "160MiB"}.items():
        monkeypatch.setenv(name, value)
    peak = tmp_path / "peak"
    says = f"from headrace.simulate import whatif_worker as w; w.main(); open({str(peak)!r}, 'w').write(str(w._peak()))"
    supposing = WhatIfService((sys.executable, "-c", says))
    with pytest.raises(ApiError) as too_large:
        await supposing.what_if(asking(200_000), call)
    assert (too_large.value.code.name, too_large.value.reason) == ("RESOURCE_EXHAUSTED", "TOO_LARGE")
    assert too_large.value.message.endswith(
        "each of its two plays may take 160MiB of memory and needs more: ask for a shorter time or fewer jobs; "
        "the provider can raise HEADRACE_WHATIF_MEMORY and start governance again"
    )
    limit_reported = too_large.value.message.startswith("each of its two plays")  # else a signal ended it
    assert peak.exists() is limit_reported
    assert not limit_reported or 140 * 1024**2 < int(peak.read_text()) < 170 * 1024**2
    assert (await supposing.what_if(asking(3), call)).total.after.starts == 3
    supposing.close()
    assert left_of(nats_server.url, str(peak)) == []


def left_of(url: str, named: str) -> list[str]:
    """Processes that work out a what-if on that server."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if named.encode() in (process / "cmdline").read_bytes() and url.encode() in (process / "environ").read_bytes():
                found.append(process.name)
    return found
