"""What if over the API: whose changes go on, and what comes of the process that answers."""

from __future__ import annotations

import asyncio
import sys

import pytest
from google.protobuf.json_format import MessageToDict, ParseDict

from headrace.contracts.api import audit_pb2 as pb
from headrace.contracts.codec import encode
from headrace.contracts.durations import HOUR, SECOND
from headrace.contracts.whatif import Difference, Moved, Numbers, Sides, WhatIfAnswer
from headrace.domain.state import State
from headrace.governance.api.faults import Fault
from headrace.governance.api.office import Call, Office
from headrace.governance.api.supposing import Supposing
from headrace.identity.caller import Caller, Denied, Role
from headrace.service.answering import Refused

SIDES = Sides(before=Numbers(starts=2, wait_max=7), after=Numbers(starts=3, cost="1.500000"))
FOUND = Difference(
    at=0,
    span=HOUR,
    assumptions=("nobody new comes",),
    total=SIDES,
    groups={"dev": SIDES},
    policies={},
    pools={},
    moved=(Moved(job="ann.x", queue="dev/one", before=5 * SECOND, after=None, before_is="started", after_is="waiting"),),
    moved_in_all=1,
)
OWN = {"policies": [{"tenant": "acme", "name": "dev", "profiles": ["one"]}]}


def player(answer, before="pass") -> Supposing:
    said = encode(answer) if isinstance(answer, WhatIfAnswer) else answer
    return Supposing((sys.executable, "-c", f"import sys, time; sys.stdin.read(); {before}; sys.stdout.buffer.write({said!r})"))


def call(role=Role.PROVIDER_ADMIN, within=30.0) -> Call:
    office = Office(*(State() if field == "state" else None for field in Office._fields))
    return Call(Caller(role, "acme", "boss"), "WhatIf", within, office)


def request(changes, **more):
    return ParseDict({"changes": changes, **more}, pb.WhatIfRequest())


async def test_the_answer_comes_from_a_process_of_its_own():
    report = await player(WhatIfAnswer(found=FOUND, since=3 * SECOND, sequence=9)).what_if(request(OWN), call())
    assert MessageToDict(report, preserving_proto_field_name=True) == {
        "sequence": "9",
        "time": "1970-01-01T00:00:03Z",
        "span": "1h",
        "assumptions": ["nobody new comes"],
        "total": NUMBERS,
        "groups": {"dev": NUMBERS},
        "moved": [{"job": "ann.x", "queue": "dev/one", "before": "5", "before_is": "started", "after_is": "waiting"}],
        "moved_in_all": 1,
    }


_ZEROS = dict.fromkeys(("wait_mean", "wait_p95", "wait_max", "lost", "used", "reserved", "borrowed"), "0") | {
    "cost": "0.000000"
}
NUMBERS = {"before": _ZEROS | {"starts": 2, "wait_max": "7"}, "after": _ZEROS | {"starts": 3, "cost": "1.500000"}}


async def test_one_is_worked_out_at_a_time():
    slow = player(WhatIfAnswer(found=FOUND), "time.sleep(30)")
    first = asyncio.create_task(slow.what_if(request(OWN), call()))
    await asyncio.sleep(0)
    with pytest.raises(Refused, match="another what-if"):
        await slow.what_if(request(OWN), call())
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    with pytest.raises(Fault, match="longer than 0.05 s"):
        await slow.what_if(request(OWN), call(within=0.05))


@pytest.mark.parametrize(
    ("answer", "told", "fields"),
    [
        pytest.param(
            WhatIfAnswer(code="INVALID", error="since: no (and 1 more)", lines=("since: no", "span: no")),
            r"since: no \(and 1 more\)",
            ["since", "span"],
            id="no such time",
        ),
        pytest.param(WhatIfAnswer(code="UNAVAILABLE", error="the ledger is away"), "the ledger is away", [], id="no ledger"),
        pytest.param(b"", "ended without an answer", [], id="no word"),
    ],
)
async def test_why_there_is_no_answer_is_told(answer, told, fields):
    with pytest.raises(Fault, match=told) as raised:
        await player(answer).what_if(request(OWN), call())
    assert [violation.field for violation in raised.value.violations] == fields


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"policies": [{"tenant": "other", "name": "dev", "profiles": ["one"]}]}, id="a policy of others"),
        pytest.param({"pools": [{"name": "hall", "selector": {"site": "a"}}]}, id="a pool"),
        pytest.param({"nodes": [{"name": "n"}]}, id="a node"),
        pytest.param({"delete": [{"kind": "policy", "name": "other/dev"}]}, id="a deletion of others"),
        pytest.param({"delete": [{"kind": "pool", "name": "hall"}]}, id="a deletion of a pool"),
        pytest.param({"submit": [{"name": "x", "queue": "dev/one", "tenant": "other"}]}, id="a job of others"),
        pytest.param({"policies": [{"tenant": "acme", "name": "dev", "colour": "red"}]}, id="what cannot be read"),
    ],
)
async def test_a_tenant_supposes_what_is_its_own_and_nothing_else(changes):
    own = player(WhatIfAnswer(found=FOUND))
    with pytest.raises((Fault, Denied)):
        await own.what_if(request(changes, parent="tenants/acme"), call(Role.TENANT_ADMIN))
    kept = {"delete": [{"kind": "policy", "name": "dev"}], "submit": [{"name": "x", "queue": "dev/one"}], **OWN}
    assert (await own.what_if(request(kept, parent="tenants/acme"), call(Role.TENANT_ADMIN))).moved_in_all == 1


async def test_where_no_process_can_be_started_that_is_told():
    with pytest.raises(Refused, match="no process can be started"):
        await Supposing(("/no/such/player",)).what_if(request(OWN), call())


async def test_nothing_to_change_is_refused():
    with pytest.raises(Fault, match="nothing is changed"):
        await player(WhatIfAnswer(found=FOUND)).what_if(request({}), call())
