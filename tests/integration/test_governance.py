"""The governance service on a real NATS server: what administrators write is durable, based on what they read, and theirs alone."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from base64 import b64decode
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
import structlog

from headrace.bus.log import LogRefused
from headrace.bus.nats.jetstream import JetStreamLog
from headrace.bus.nats.streams import ensure_streams
from headrace.bus.process import Service
from headrace.bus.variables import API
from headrace.client.errors import Refused
from headrace.contracts.documents.yaml_text import read_tree
from headrace.contracts.facts.governance import PolicyAppliedV1
from headrace.contracts.messages.queries import Answer, ServiceView
from headrace.contracts.schemas import protocol
from headrace.contracts.transport.codec import decode, decode_record
from headrace.contracts.transport.subjects import LEDGER_STREAM, query
from headrace.governance.service import prepare
from headrace.health.health import Health
from headrace.identity.owner import LOCAL
from headrace.nats_client.connection import Connection
from headrace.service.hosting import Part, alone
from headrace.supervisor.api_away import DirectApi
from tests.patience import PATIENCE

TWO_TEAMS = Path("deploy/examples/two-teams.yaml")
PASSWORD = "the-owners-password"


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
    """The owner, who speaks to the API of governance itself, as soon as it is served."""

    def __init__(self, socket: Path) -> None:
        self.socket = socket

    async def ask(self, method: str, **request: Any) -> dict[str, Any]:
        api = DirectApi(self.socket, PASSWORD)
        try:
            async with asyncio.timeout(PATIENCE):
                while not await api.answers():
                    await asyncio.sleep(0.02)
            return await api.call(method, request)
        finally:
            await api.close()

    async def refused(self, method: str, **request: Any) -> Refused:
        with pytest.raises(Refused) as refused:
            await self.ask(method, **request)
        return refused.value

    async def apply(self, documents: Mapping[str, object], **options: object) -> dict[str, Any]:
        return await self.ask("ApplyDocuments", documents=documents, **options)

    async def policy(self, name: str) -> dict[str, Any]:
        (found,) = (await self.ask("GetDocuments", kind="policy", name=name))["documents"]
        return dict(found)


@pytest.fixture
async def core(login) -> Connection:
    operator = await login("operator")
    await ensure_streams(operator)
    return operator


@pytest.fixture
def admin(core, tmp_path, monkeypatch) -> Admin:
    (tmp_path / "credentials").mkdir()
    (tmp_path / "credentials" / "owner.json").write_text(json.dumps({"name": "owner", "password": PASSWORD, "user": "root"}))
    monkeypatch.setenv(API, f"unix:{tmp_path / 'api.sock'}")
    return Admin(tmp_path / "api.sock")


@pytest.fixture
def two_teams(request) -> dict[str, object]:
    return read_tree((request.config.rootpath / TWO_TEAMS).read_text()).value


async def test_documents_become_one_durable_record_of_their_author(core, admin, login, tmp_path, two_teams):
    async with governance(await login("governance"), tmp_path):
        applied = await admin.apply(two_teams, reason="the first day")
    message = await JetStreamLog(core, LEDGER_STREAM).get(int(applied["revision"]))
    record = decode_record(message.payload)
    assert (applied["applied"], applied["revision"], applied["sequence"]) == (True, "1", "1")
    assert [line["action"] for line in applied["changes"]] == ["create"] * 7
    assert (message.subject, record.by, record.as_of) == ("hr.ledger.governance", "governance", 0)
    assert {(fact.author, fact.reason) for fact in record.facts} == {("default.root", "the first day")}
    assert [fact.policy.name for fact in record.facts if isinstance(fact, PolicyAppliedV1)] == ["rnd", "devops"]


async def test_what_is_written_is_there_after_a_restart_with_its_revision(core, admin, login, tmp_path, two_teams):
    async with governance(await login("governance"), tmp_path):
        await admin.apply(two_teams)
    async with governance(await login("governance"), tmp_path):
        view = await admin.policy("rnd")
        plan = await admin.apply(two_teams)
        asked = decode((await core.ask(query("governance", "status", "default", "operator"))).data, Answer)
        status = decode(bytes(asked.body), ServiceView)
    assert (view["name"], view["etag"], view["document"]) == (
        "default/rnd",
        "1",
        {"name": "rnd", "group": "rnd", "profiles": ["three", "two"], "reservation": {"gpu": "5"}, "limit": {"gpu": "9"}},
    )
    assert (plan["applied"], "revision" in plan, {line["action"] for line in plan["changes"]}) == (True, False, {"keep"})
    assert (status.service, status.folded) == ("governance", 1)


async def test_administrators_read_the_ledger_as_it_was_written(core, admin, login, tmp_path, two_teams):
    async with governance(await login("governance"), tmp_path):
        await admin.apply(two_teams)
        answer = await admin.ask("ListRecords", exact=True)
    message = await JetStreamLog(core, LEDGER_STREAM).get(1)
    (record,) = answer["records"]
    assert (answer["sequence"], record["sequence"], record["subject"]) == ("1", "1", message.subject)
    assert b64decode(record["payload"]) == message.payload


async def test_a_dry_run_writes_nothing(core, admin, login, tmp_path, two_teams):
    async with governance(await login("governance"), tmp_path):
        plan = await admin.apply(two_teams, dry_run=True)
    assert ("applied" in plan, len(plan["changes"])) == (False, 7)
    assert await JetStreamLog(core, LEDGER_STREAM).tip() == 0


async def test_of_two_that_read_the_same_the_second_is_refused(admin, login, tmp_path, two_teams):
    def with_limit(gpus: str) -> dict[str, object]:
        return {"policies": [{**two_teams["policies"][0], "limit": {"gpu": gpus}}]}

    async with governance(await login("governance"), tmp_path):
        await admin.apply(two_teams)
        outcomes = await asyncio.gather(
            *(admin.apply(with_limit(gpus), revisions={"policy/default/rnd": "1"}) for gpus in ("7", "8")),
            return_exceptions=True,
        )
        view = await admin.policy("rnd")
    (won,) = [outcome for outcome in outcomes if isinstance(outcome, dict)]
    (refused,) = [outcome for outcome in outcomes if isinstance(outcome, Refused)]
    limit = {"limit.gpu: 9 -> 7": "7", "limit.gpu: 9 -> 8": "8"}[won["changes"][0]["fields"][0]]
    assert (won["revision"], view["document"]["limit"], view["etag"]) == ("2", {"gpu": limit}, "2")
    assert refused.code == "STALE"
    assert str(refused) == (
        "revisions.policy/default/rnd: it is based on revision 1, the object is now at revision 2: "
        "get it again and apply what you want of it"
    )


async def test_an_object_is_deleted_once_it_is_not_named_any_more(admin, login, tmp_path, two_teams):
    async with governance(await login("governance"), tmp_path):
        await admin.apply(two_teams)
        refused = await admin.refused("DeleteDocument", kind="profile", name="two")
        await admin.ask("DeleteDocument", kind="policy", name="rnd")
        await admin.ask("DeleteDocument", kind="policy", name="default/devops")
        deleted = await admin.ask("DeleteDocument", kind="profile", name="two")
    assert (refused.code, str(refused)) == (
        "REFUSED",
        "profile two is named by policy default/rnd, policy default/devops: change or delete those first (R11)",
    )
    assert deleted["revision"] == "4"


async def test_what_is_closed_is_open_again_when_it_is_applied_and_what_is_drained_goes_by_itself(
    admin, login, tmp_path, two_teams
):
    clocks = "windows: [{days: [mon], from: '08:00', to: '20:00', timezone: Europe/Berlin}]"
    window = f"policies: [{{name: rnd, group: rnd, profiles: [three], {clocks}}}]"
    async with governance(await login("governance"), tmp_path):
        await admin.apply(two_teams)
        await admin.ask("DeleteDocument", kind="policy", name="rnd", mode="FREEZE")
        frozen = await admin.policy("rnd")
        await admin.apply(read_tree(window).value)
        opened = await admin.policy("rnd")
        await admin.ask("DeleteDocument", kind="profile", name="two", mode="DRAIN")
        async with asyncio.timeout(PATIENCE):
            while [one["name"] for one in (await admin.ask("GetDocuments", kind="profile"))["documents"]] != ["three"]:
                await asyncio.sleep(0.02)
        gone = await admin.refused("GetDocuments", kind="profile", name="two")
    assert (frozen["closed"], "closed" in opened) == ("freeze", False)
    assert (gone.code, str(gone)) == ("NOT_FOUND", "name: there is no profile two; there is three")


@pytest.mark.parametrize(
    "what", ["apply", "delete", "get", "cordon", "uncordon", "records", "token-create", "erase", "preempt", "claim", "storage"]
)
@pytest.mark.parametrize("who", ["acme-alice", "owner"])
async def test_users_and_the_owner_order_nothing_over_the_bus(core, login, who, what):
    stranger = await login(who)
    with pytest.raises(LogRefused, match="may not publish"):
        await stranger.ask(query("governance", what, "acme", "alice"), b"{}")
    assert core.is_connected


async def test_administrators_verbs_are_not_served_on_the_bus_even_to_the_operator(core, admin, login, tmp_path):
    async with governance(await login("governance"), tmp_path):
        await admin.ask("GetCaller")
        for what in ("apply", "delete", "get", "cordon", "uncordon", "drain", "records", "token-create", "erase", "preempt"):
            answer = decode((await core.ask(query("governance", what, "default", "operator"), b"{}")).data, Answer)
            assert (answer.code, answer.error.partition(";")[0]) == ("NOT_FOUND", f"unknown query {what!r}")


@pytest.mark.parametrize(
    "shown", [(), (("authorization", f"Bearer {PASSWORD}"),), (("authorization", "Bearer x"), (LOCAL, "1"))]
)
async def test_on_its_socket_a_caller_is_the_owner_only_with_the_password_and_the_mark_of_the_gateway(
    admin, login, tmp_path, shown
):
    async with governance(await login("governance"), tmp_path):
        await admin.ask("GetCaller")
        (method,) = (one for one in protocol.methods() if one.name == "GetCaller")
        async with grpc.aio.insecure_channel(f"unix:{admin.socket}") as channel:
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await channel.unary_unary(protocol.path_of(method))(b"", metadata=shown)
    assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED


HOSTILE: list[dict[str, Any]] = [
    {"pools": 7},
    {"pools": [{"name": "x", "selector": 1e300}]},
    {"policies": [{"name": "hr.ledger.>", "profiles": []}]},
    {"users": [{"handle": f"u{number}"} for number in range(2)] * 2},
    {"users": [{"hndle": str(number)} for number in range(20_000)]},
    {"pools": [[[[[[[[]]]]]]]]},
    {"nonsense": {}},
]


async def test_no_document_ends_the_service(core, admin, login, tmp_path):
    async with governance(await login("governance"), tmp_path) as task:
        for documents in HOSTILE:
            refused = await admin.refused("ApplyDocuments", documents=documents)
            assert (refused.code, "\n" in str(refused)) == ("INVALID", False), refused
        assert (await admin.refused("DeleteDocument", kind="x", name="y")).code == "INVALID"
        assert (await admin.refused("GetDocuments", kind="pool", name="../x")).code == "NOT_FOUND"
        stale = await admin.refused("ApplyDocuments", documents={"users": [{"handle": "x"}]}, revisions={"user/default/x": "3"})
        assert stale.code == "STALE"
        good = await admin.apply({"users": [{"handle": "ann"}]})
        assert (good["applied"], task.done()) == (True, False)
    assert await JetStreamLog(core, LEDGER_STREAM).tip() == 1


async def test_a_node_that_is_not_there_cannot_be_cordoned(admin, login, tmp_path):
    async with governance(await login("governance"), tmp_path):
        refused = await admin.refused("CordonNode", name="nodes/gpu99")
    assert (refused.code, str(refused)) == ("NOT_FOUND", "there is no node gpu99; there is nothing of this kind")


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
        answer = await admin.apply({"users": [{"handle": "ann"}]})
    finally:
        process.terminate()
        code = await asyncio.wait_for(process.wait(), PATIENCE)
    assert (answer["applied"], code) == (True, 0)
