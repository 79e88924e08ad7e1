"""What if over the API: whose changes go on, and what comes of the process that answers."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from google.protobuf.json_format import MessageToDict, ParseDict

from headrace.client import past_answers
from headrace.contracts.api import audit_pb2 as pb
from headrace.contracts.messages.whatif import (
    Difference,
    Moved,
    OutcomeNumbers,
    PoolNumbers,
    PoolSides,
    Sides,
    WhatIfAnswer,
    WhatIfQuestion,
)
from headrace.contracts.transport.codec import decode, encode
from headrace.contracts.values.durations import HOUR, SECOND
from headrace.domain.state.state import State
from headrace.governance.api.context import ApiContext, CallContext
from headrace.governance.api.errors import ApiError
from headrace.governance.api.slots import Slots
from headrace.governance.api.whatif_service import WhatIfService
from headrace.identity.caller import Caller, Denied, Role
from headrace.service.answering import Refused
from tests.patience import PATIENCE

SIDES = Sides(before=OutcomeNumbers(starts=2, wait_max=7), after=OutcomeNumbers(starts=3, cost="1.500000"))
FOUND = Difference(
    at=0,
    span=HOUR,
    assumptions=("no jobs are submitted later",),
    total=SIDES,
    groups={"dev": SIDES},
    policies={},
    pools={},
    moved=(Moved(job="ann.x", queue="dev/one", before=5 * SECOND, after=None, before_is="started", after_is="waiting"),),
    moved_in_all=1,
)
ANSWERS = f"""import json, os, signal, sys, threading, time
def answer(asked, text={encode(WhatIfAnswer(found=FOUND)).decode()!r}):
    sys.stdout.write('{{"number": %d, "answer": %s}}\\n' % (asked["number"], text))
    sys.stdout.flush()
for line in sys.stdin:
    asked = json.loads(line)
"""
"""The beginning of a process that gets its questions."""
SLEEPS_WHERE_ASKED = f"""{ANSWERS}
    span = asked["question"].get("span") if "question" in asked else "1h"
    if span != "1h":
        answer(asked)
"""
OWN = {"policies": [{"tenant": "acme", "name": "dev", "profiles": ["one"]}]}


MADE: list[WhatIfService] = []


@pytest.fixture(autouse=True)
async def nothing_is_left():
    """End what waits for a question."""
    yield
    while MADE:
        await MADE.pop().close()


def service(*arguments) -> WhatIfService:
    MADE.append(WhatIfService(*arguments))
    return MADE[-1]


def player(answer) -> WhatIfService:
    return service((sys.executable, "-c", f"{ANSWERS}    answer(asked, {encode(answer).decode()!r})"))


def call(role=Role.PROVIDER_ADMIN, within=30.0) -> CallContext:
    known = {"state": State(), "clock": lambda: 7 * SECOND, "environment": os.environ}
    backend = ApiContext(*(known.get(field) for field in ApiContext._fields))
    return CallContext(Caller(role, "acme", "boss"), "WhatIf", within, backend)


async def until(holds) -> None:
    async with asyncio.timeout(PATIENCE):
        while not holds():
            await asyncio.sleep(0.01)


def request(changes, **more):
    return ParseDict({"changes": changes, **more}, pb.WhatIfRequest())


async def test_the_answer_comes_from_a_process_of_its_own():
    report = await player(WhatIfAnswer(found=FOUND, since=3 * SECOND, sequence=9)).what_if(request(OWN), call())
    assert MessageToDict(report, preserving_proto_field_name=True) == {
        "sequence": "9",
        "time": "1970-01-01T00:00:03Z",
        "span": "1h",
        "assumptions": ["no jobs are submitted later"],
        "total": NUMBERS,
        "groups": {"dev": NUMBERS},
        "moved": [{"job": "ann.x", "queue": "dev/one", "before": "5", "before_is": "started", "after_is": "waiting"}],
        "moved_in_all": 1,
    }


async def test_a_client_reads_from_the_answer_what_was_found():
    pools = PoolSides(before=PoolNumbers(had=9, used=3, percent="33.3"), after=PoolNumbers(had=9, cost="0.250000"))
    found = msgspec.structs.replace(FOUND, at=3 * SECOND, pools={"hall": pools}, recorded=OutcomeNumbers(lost=4))
    report = await player(WhatIfAnswer(found=found, since=3 * SECOND, sequence=9)).what_if(request(OWN), call())
    assert past_answers.what_if(MessageToDict(report, preserving_proto_field_name=True)) == (found, 9, 3 * SECOND)


def test_what_a_library_does_at_a_fork_does_not_run_in_the_process():
    player = f"{ANSWERS}    answer(asked)"
    program = f"""import os, sys, uvloop
from headrace.contracts.messages.whatif import WhatIfQuestion
from headrace.governance.api.whatif_answering import Answering
os.register_at_fork(after_in_child=lambda: os._exit(9))
async def ask():
    answering = Answering((sys.executable, "-c", {player!r}))
    print((await answering.ask(WhatIfQuestion(changes={{}}), dict(os.environ))).found.moved_in_all)
    await answering.close()
uvloop.run(ask())
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert (ran.stdout, ran.stderr) == ("1\n", "")


async def test_a_process_that_ends_at_its_start_is_started_once_more(tmp_path):
    begun = tmp_path / "begun"
    ends_at_first = f"import os, sys\nif not os.path.exists({str(begun)!r}): open({str(begun)!r}, 'x').close(); os._exit(1)\n"
    own = service((sys.executable, "-c", ends_at_first + ANSWERS + "    answer(asked)"))
    assert (await own.what_if(request(OWN), call())).moved_in_all == 1


@pytest.mark.parametrize("role", [Role.TENANT_ADMIN, Role.PROVIDER_ADMIN])
async def test_a_document_that_names_no_tenant_is_of_the_tenant_that_is_asked_about(role, tmp_path):
    keeps = f"    open({str(tmp_path / 'question')!r}, 'w').write(json.dumps(asked.get('question')))\n    answer(asked)\n"
    own = service((sys.executable, "-c", ANSWERS + keeps))
    await own.what_if(request({"policies": [{"name": "dev", "profiles": ["one"]}]}, parent="tenants/acme"), call(role))
    assert decode((tmp_path / "question").read_bytes(), WhatIfQuestion) == WhatIfQuestion(changes=OWN, tenant="acme")


_ZEROS = dict.fromkeys(("wait_mean", "wait_p95", "wait_max", "lost", "used", "reserved", "borrowed"), "0") | {
    "cost": "0.000000"
}
NUMBERS = {"before": _ZEROS | {"starts": 2, "wait_max": "7"}, "after": _ZEROS | {"starts": 3, "cost": "1.500000"}}


async def test_another_question_of_the_same_tenant_waits_and_others_are_answered_meanwhile():
    slow = service((sys.executable, "-c", SLEEPS_WHERE_ASKED), Slots(2))
    first = asyncio.create_task(slow.what_if(request(OWN, span="1h"), call(Role.TENANT_ADMIN)))
    await asyncio.sleep(0)
    with pytest.raises(ApiError, match="^0.2 s were over before it was its turn: .* ask again later$"):
        await slow.what_if(request(OWN), call(Role.TENANT_ADMIN, within=0.2))
    assert (await slow.what_if(request(OWN), call())).moved_in_all == 1
    queue = await slow.get_what_if_queue(pb.GetWhatIfQueueRequest(), call())
    assert MessageToDict(queue, preserving_proto_field_name=True) == {
        "questions": [{"tenant": "tenants/acme", "caller": "acme.boss", "since_time": "1970-01-01T00:00:07Z"}]
    }
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert (await slow.get_what_if_queue(pb.GetWhatIfQueueRequest(), call())).questions == []
    assert (await slow.what_if(request(OWN), call(Role.TENANT_ADMIN))).moved_in_all == 1


async def test_a_tenant_that_fills_its_part_of_the_queue_is_told_the_way_out():
    slow = service((sys.executable, "-c", SLEEPS_WHERE_ASKED), Slots(2, waiting_each=1))
    asked = [asyncio.create_task(slow.what_if(request(OWN, span="1h"), call(Role.TENANT_ADMIN))) for _ in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(
        ApiError, match="^tenant acme has 1 what-ifs waiting already: end one by closing its request, or ask"
    ) as full:
        await slow.what_if(request(OWN), call(Role.TENANT_ADMIN))
    assert (full.value.code.name, full.value.reason, full.value.retry_after) == ("RESOURCE_EXHAUSTED", "TOO_MANY_WHATIFS", 30)
    queue = await slow.get_what_if_queue(pb.GetWhatIfQueueRequest(parent="tenants/acme"), call())
    assert [place.position for place in queue.questions] == [0, 1]
    for one in asked:
        one.cancel()
    await asyncio.gather(*asked, return_exceptions=True)


async def test_the_process_learns_which_answer_is_no_longer_awaited_and_answers_the_next_question(tmp_path):
    notes = f"    open({str(tmp_path)!r} + '/%d %s' % (asked['number'], 'asked' if 'question' in asked else 'dropped'), 'x')\n"
    slow = service((sys.executable, "-c", SLEEPS_WHERE_ASKED + notes))

    def noted() -> list[str]:
        return sorted(one.name for one in tmp_path.iterdir())

    with pytest.raises(ApiError, match="^it takes longer than 1 s, waiting included; ask for a shorter time of the ledger$"):
        await slow.what_if(request(OWN, span="1h"), call(within=1))
    asking = asyncio.create_task(slow.what_if(request(OWN, span="1h"), call()))
    await until(lambda: noted() == ["1 asked", "1 dropped", "2 asked"])
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert (await slow.what_if(request(OWN), call())).moved_in_all == 1
    await until(lambda: noted() == ["1 asked", "1 dropped", "2 asked", "2 dropped", "3 asked"])


async def test_one_process_answers_all_questions_and_another_one_is_started_when_it_has_ended(tmp_path):
    notes = f"import os; open({str(tmp_path)!r} + f'/{{os.getpid()}}', 'x')\n{ANSWERS}    answer(asked)"
    own = service((sys.executable, "-c", notes))

    def begun() -> set[str]:
        return {pid.name for pid in tmp_path.iterdir()}

    def alive() -> set[str]:
        return {pid for pid in begun() if Path("/proc", pid).exists()}

    await own.what_if(request(OWN), call())
    await asyncio.gather(*(own.what_if(request(OWN), call(role)) for role in (Role.PROVIDER_ADMIN, Role.TENANT_ADMIN)))
    (first,) = begun()
    os.kill(int(first), signal.SIGKILL)
    assert (await own.what_if(request(OWN), call())).moved_in_all == 1
    assert len(begun()) == 2
    await own.close()
    assert alive() == set()


@pytest.mark.parametrize(
    ("answer", "message", "fields"),
    [
        pytest.param(
            WhatIfAnswer(code="INVALID", error="since: no (and 1 more)", lines=("since: no", "span: no")),
            r"since: no \(and 1 more\)",
            ["since", "span"],
            id="no such time",
        ),
        pytest.param(WhatIfAnswer(code="UNAVAILABLE", error="the ledger is away"), "the ledger is away", [], id="no ledger"),
        pytest.param(
            WhatIfAnswer(code="TOO_LARGE", error="each play may take 1GiB", lines=("each play may take 1GiB",)),
            "^each play may take 1GiB$",
            [],
            id="too large",
        ),
    ],
)
async def test_why_there_is_no_answer_is_told(answer, message, fields):
    with pytest.raises(ApiError, match=message) as raised:
        await player(answer).what_if(request(OWN), call())
    assert [violation.field for violation in raised.value.violations] == fields


@pytest.mark.parametrize(
    "ends",
    [
        pytest.param("os._exit(1)", id="no word"),
        pytest.param("sys.stdout.write('{'); sys.stdout.flush(); os._exit(0)", id="half an answer"),
    ],
)
async def test_a_process_that_ends_without_an_answer_is_told_so(ends):
    with pytest.raises(ApiError, match="ended without an answer; most likely each of its two plays may take 4GiB") as raised:
        await service((sys.executable, "-c", f"{ANSWERS}    {ends}")).what_if(request(OWN), call())
    assert (raised.value.code.name, raised.value.reason) == ("RESOURCE_EXHAUSTED", "NO_ANSWER")


@pytest.mark.parametrize("name", ["SIGSEGV", "SIGBUS", "SIGABRT"])
async def test_a_process_that_dies_by_a_signal_as_for_want_of_memory_is_told_as_too_large(name):
    dies = (
        f"import resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n{ANSWERS}    os.kill(os.getpid(), signal.{name})"
    )
    with pytest.raises(ApiError) as raised:
        await service((sys.executable, "-c", dies)).what_if(request(OWN), call())
    assert (raised.value.code.name, raised.value.reason) == ("RESOURCE_EXHAUSTED", "TOO_LARGE")
    assert raised.value.message == (
        f"its process was ended by {name}; most likely each of its two plays may take 4GiB of memory and needs more: ask for a "
        "shorter time or fewer jobs; the provider can raise HEADRACE_WHATIF_MEMORY and start governance again"
    )


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
    with pytest.raises((ApiError, Denied)):
        await own.what_if(request(changes, parent="tenants/acme"), call(Role.TENANT_ADMIN))
    kept = {"delete": [{"kind": "policy", "name": "dev"}], "submit": [{"name": "x", "queue": "dev/one"}], **OWN}
    assert (await own.what_if(request(kept, parent="tenants/acme"), call(Role.TENANT_ADMIN))).moved_in_all == 1


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param(OWN, id="a policy"),
        pytest.param({"delete": [{"kind": "policy", "name": "dev"}]}, id="a deletion"),
        pytest.param({"submit": [{"name": "x", "queue": "dev/one", "user": "ann"}]}, id="a job of another"),
        pytest.param({"submit": [{"name": "x", "queue": "dev/one", "tenant": "other"}]}, id="a job in another tenant"),
    ],
)
async def test_a_member_supposes_jobs_of_their_own_and_nothing_else(changes):
    own, member = player(WhatIfAnswer(found=FOUND)), call(Role.TENANT_MEMBER)
    with pytest.raises((ApiError, Denied)):
        await own.what_if(request(changes, parent="tenants/acme"), member)
    kept = {"submit": [{"name": "x", "queue": "dev/one"}, {"name": "y", "queue": "dev/one", "user": "boss"}]}
    assert (await own.what_if(request(kept, parent="tenants/acme"), member)).moved_in_all == 1


async def test_where_no_process_can_be_started_that_is_told():
    with pytest.raises(Refused, match="no process can be started"):
        await service(("/no/such/player",)).what_if(request(OWN), call())


async def test_nothing_to_change_is_refused():
    with pytest.raises(ApiError, match="nothing is changed"):
        await player(WhatIfAnswer(found=FOUND)).what_if(request({}), call())
