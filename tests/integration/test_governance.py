"""The governance service on a real NATS server: what administrators write is durable, based on what they read, and theirs alone."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import structlog

from headrace.bus.log import LogRefused, LogUnavailable
from headrace.bus.nats.jetstream import JetStreamLog
from headrace.bus.nats.streams import ensure_streams
from headrace.bus.process import Service
from headrace.contracts.documents.yaml_text import read_tree
from headrace.contracts.facts.governance import PolicyAppliedV1
from headrace.contracts.messages.queries import (
    Answer,
    ApplyAnswer,
    ApplyRequest,
    DeleteRequest,
    GetAnswer,
    GetRequest,
    NodeRequest,
    RecordsAnswer,
    RecordsRequest,
    ServiceView,
    StoredRecord,
)
from headrace.contracts.transport.codec import decode, decode_record, encode
from headrace.contracts.transport.subjects import LEDGER_STREAM, query
from headrace.governance.service import prepare
from headrace.health.health import Health
from headrace.nats_client.connection import Connection
from headrace.service.hosting import Part, alone
from tests.patience import PATIENCE

TWO_TEAMS = Path("deploy/examples/two-teams.yaml")


@asynccontextmanager
async def governance(connection: Connection, tmp_path: Path) -> AsyncIterator[asyncio.Task[None]]:
    """The service in this process."""
    service = Service("governance", connection, tmp_path, structlog.get_logger(), Health("governance"))
    task = asyncio.create_task(alone(Part(prepare))(service))
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


class Admin:
    """Asks as `acme.root`, until a service listens."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    async def ask(self, what: str, request: object) -> Answer:
        return await self.send(what, encode(request))

    async def send(self, what: str, payload: bytes) -> Answer:
        async with asyncio.timeout(PATIENCE):
            while True:
                try:
                    answer = await self.connection.ask(query("governance", what, "acme", "root"), payload)
                except LogUnavailable:
                    await asyncio.sleep(0.02)
                else:
                    return decode(answer.data, Answer)

    async def apply(self, documents: dict[str, object], **options: object) -> tuple[Answer, ApplyAnswer]:
        answer = await self.ask("apply", ApplyRequest(documents=documents, **options))
        return answer, decode(bytes(answer.body), ApplyAnswer)


@pytest.fixture
async def core(login) -> Connection:
    operator = await login("operator")
    await ensure_streams(operator)
    return operator


@pytest.fixture
async def admin(core, login) -> Admin:
    return Admin(await login("owner"))


@pytest.fixture
def two_teams(request) -> dict[str, object]:
    return read_tree((request.config.rootpath / TWO_TEAMS).read_text()).value


async def test_documents_become_one_durable_record_of_their_author(core, admin, login, tmp_path, two_teams):
    async with governance(await login("governance"), tmp_path):
        answer, applied = await admin.apply(two_teams, reason="the first day")
    message = await JetStreamLog(core, LEDGER_STREAM).get(applied.revision)
    record = decode_record(message.payload)
    assert (answer.code, applied.applied, applied.revision, answer.sequence) == ("", True, 1, 1)
    assert [line.action for line in applied.changes] == ["create"] * 7
    assert (message.subject, record.by, record.as_of) == ("hr.ledger.governance", "governance", 0)
    assert {(fact.author, fact.reason) for fact in record.facts} == {("acme.root", "the first day")}
    assert [fact.policy.name for fact in record.facts if isinstance(fact, PolicyAppliedV1)] == ["rnd", "devops"]


async def test_what_is_written_is_there_after_a_restart_with_its_revision(admin, login, tmp_path, two_teams):
    async with governance(await login("governance"), tmp_path):
        await admin.apply(two_teams)
    async with governance(await login("governance"), tmp_path):
        answer = await admin.ask("get", GetRequest(kind="policy", name="rnd"))
        (view,) = decode(bytes(answer.body), GetAnswer).documents
        again, plan = await admin.apply(two_teams)
        status = decode(bytes((await admin.ask("status", {})).body), ServiceView)
    assert (view.name, view.revision, view.document) == (
        "default/rnd",
        1,
        {"name": "rnd", "group": "rnd", "profiles": ["three", "two"], "reservation": {"gpu": "5"}, "limit": {"gpu": "9"}},
    )
    assert (again.code, plan.applied, plan.revision, {line.action for line in plan.changes}) == ("", True, 0, {"keep"})
    assert (status.service, status.folded) == ("governance", 1)


async def test_administrators_read_the_ledger_as_it_was_written(core, admin, login, tmp_path, two_teams):
    async with governance(await login("governance"), tmp_path):
        await admin.apply(two_teams)
        answer = decode(bytes((await admin.ask("records", RecordsRequest())).body), RecordsAnswer)
    message = await JetStreamLog(core, LEDGER_STREAM).get(1)
    assert (answer.tip, answer.records) == (1, (StoredRecord(**message._asdict()),))


async def test_a_dry_run_writes_nothing(core, admin, login, tmp_path, two_teams):
    async with governance(await login("governance"), tmp_path):
        answer, plan = await admin.apply(two_teams, dry_run=True)
    assert (answer.code, plan.applied, len(plan.changes)) == ("", False, 7)
    assert await JetStreamLog(core, LEDGER_STREAM).tip() == 0


async def test_of_two_that_read_the_same_the_second_is_refused_with_the_new_plan(admin, login, tmp_path, two_teams):
    def with_limit(gpus: str) -> dict[str, object]:
        return {"policies": [{**two_teams["policies"][0], "limit": {"gpu": gpus}}]}

    async with governance(await login("governance"), tmp_path):
        await admin.apply(two_teams)
        outcomes = await asyncio.gather(
            *(admin.apply(with_limit(gpus), revisions={"policy/default/rnd": 1}) for gpus in ("7", "8"))
        )
        answer = await admin.ask("get", GetRequest(kind="policy", name="rnd"))
    ((_, won),) = [outcome for outcome in outcomes if not outcome[0].code]
    ((refused, plan),) = [outcome for outcome in outcomes if outcome[0].code]
    (view,) = decode(bytes(answer.body), GetAnswer).documents
    limits = {"limit.gpu: 9 -> 7": ("7", "limit.gpu: 7 -> 8"), "limit.gpu: 9 -> 8": ("8", "limit.gpu: 8 -> 7")}
    limit, new_plan = limits[won.changes[0].fields[0]]
    assert (won.revision, view.document["limit"], view.revision) == (2, {"gpu": limit}, 2)
    assert (refused.code, plan.applied, plan.changes[0].fields) == ("STALE", False, (new_plan,))
    assert refused.error == (
        "revisions.policy/default/rnd: it is based on revision 1, the object is now at revision 2: "
        "get it again and apply what you want of it"
    )


async def test_an_object_is_deleted_once_it_is_not_named_any_more(admin, login, tmp_path, two_teams):
    async with governance(await login("governance"), tmp_path):
        await admin.apply(two_teams)
        refused = await admin.ask("delete", DeleteRequest(kind="profile", name="two"))
        await admin.ask("delete", DeleteRequest(kind="policy", name="rnd"))
        await admin.ask("delete", DeleteRequest(kind="policy", name="devops"))
        deleted = await admin.ask("delete", DeleteRequest(kind="profile", name="two"))
    assert (refused.code, refused.error) == (
        "REFUSED",
        "profile two is named by policy default/rnd, policy default/devops: change or delete those first (R11)",
    )
    assert (deleted.code, decode(bytes(deleted.body), ApplyAnswer).revision) == ("", 4)


async def test_what_is_closed_is_open_again_when_it_is_applied_and_what_is_drained_goes_by_itself(
    admin, login, tmp_path, two_teams
):
    clocks = "windows: [{days: [mon], from: '08:00', to: '20:00', timezone: Europe/Berlin}]"
    window = f"policies: [{{name: rnd, group: rnd, profiles: [three], {clocks}}}]"
    async with governance(await login("governance"), tmp_path):
        await admin.ask("apply", ApplyRequest(documents=two_teams))
        await admin.ask("delete", DeleteRequest(kind="policy", name="rnd", mode="freeze"))
        frozen = decode(bytes((await admin.ask("get", GetRequest(kind="policy", name="rnd"))).body), GetAnswer)
        applied = await admin.ask("apply", ApplyRequest(documents=read_tree(window).value))
        opened = decode(bytes((await admin.ask("get", GetRequest(kind="policy", name="rnd"))).body), GetAnswer)
        drained = await admin.ask("delete", DeleteRequest(kind="profile", name="two", mode="drain"))
        async with asyncio.timeout(PATIENCE):
            while (await admin.ask("get", GetRequest(kind="profile", name="two"))).code == "":
                await asyncio.sleep(0.02)
    assert [frozen.documents[0].closed, opened.documents[0].closed, applied.code, drained.code] == ["freeze", "", "", ""]


@pytest.mark.parametrize("what", ["apply", "delete", "get", "cordon", "uncordon", "records"])
async def test_only_administrators_may_ask(core, login, what):
    alice = await login("acme-alice")
    with pytest.raises(LogRefused, match="may not publish"):
        await alice.ask(query("governance", what, "acme", "alice"), b"{}")
    assert core.is_connected


HOSTILE = [
    b"",
    b"nonsense",
    b"[]",
    b"\xff\xfe",
    b"[" * 100_000,
    b'{"documents": {"pools": ' + b"[" * 200 + b"]" * 200 + b"}}",
    b'{"documents": {"pools": [{"name": "x", "selector": 1e999}]}}',
    b'{"documents": {"policies": [{"name": "hr.ledger.>", "profiles": []}]}}',
    b'{"documents": {"policies": 7}, "kind": 7, "node": 7}',
    b'{"documents": {"users": [' + b",".join(b'{"handle": "u%d"}' % number for number in range(2_000)) + b"]}}",
    b'{"documents": {"users": [' + b",".join(b'{"hndle": "%d"}' % number for number in range(20_000)) + b"]}}",
    b'{"documents": {}, "revisions": {"policy/x": 3}}',
]


async def test_no_question_ends_the_service(core, admin, login, tmp_path):
    async with governance(await login("governance"), tmp_path) as task:
        for payload in HOSTILE:
            for what in ("apply", "delete", "get", "cordon"):
                answer = await admin.send(what, payload)
                assert (answer.code in ("INVALID", "NOT_FOUND", "STALE"), "\n" in answer.error) == (True, False), answer
        unknown = await admin.ask("aply", {})
        assert unknown.code == "NOT_FOUND"
        good, _ = await admin.apply({"users": [{"handle": "ann"}]})
        assert (good.code, task.done()) == ("", False)
    assert await JetStreamLog(core, LEDGER_STREAM).tip() == 1


async def test_a_node_that_is_not_there_cannot_be_cordoned(admin, login, tmp_path):
    async with governance(await login("governance"), tmp_path):
        answer = await admin.ask("cordon", NodeRequest(node="gpu99"))
    assert (answer.code, answer.error) == ("NOT_FOUND", "there is no node gpu99; there is nothing of this kind")


async def test_it_runs_as_a_process(nats_server, core, admin, tmp_path):
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "headrace.governance",
        env={
            **os.environ,
            "HEADRACE_NATS_URL": nats_server.url,
            "HEADRACE_NATS_USER": "governance",
            "HEADRACE_NATS_PASSWORD": nats_server.credentials["governance"].password,
            "HEADRACE_DATA": str(tmp_path),
        },
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        answer, _ = await admin.apply({"users": [{"handle": "ann"}]})
    finally:
        process.terminate()
        code = await asyncio.wait_for(process.wait(), PATIENCE)
    assert (answer.code, code) == ("", 0)
