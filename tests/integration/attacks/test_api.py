"""What must not work over HTTP, and what hostile payloads on the bus must not break, tried on a whole installation."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from nats.aio.client import Client

from headrace.client.submissions import new_job_id
from headrace.contracts.messages.tokens import FEED_SUFFIX, PERSON_CONNECTIONS, inbox_prefix
from tests.integration.api import Api, installation, until
from tests.integration.crowd import Crowd
from tests.patience import PATIENCE

NAME = "tenants/emca"


@pytest.fixture(scope="module")
def api() -> Iterator[Api]:
    """Two tenants with a job each: alice and boss of acme, eve of emca."""
    with installation() as made:
        made.give_tokens(boss="acme", alice="acme", eve="emca")
        made.tokens["node"] = made.run("token", "create", "--node", "gpu01").strip()
        made.tokens["gone"] = made.run("token", "create", "--user", "alice", "--tenant", "acme", "--reason", "lost").strip()
        (lost,) = [one["id"] for one in json.loads(made.run("token", "list", "--json"))][:1]
        made.run("token", "revoke", lost)
        (job,) = made.submit("eve", "emca", ["sleep", "600"])
        made.until("eve", job["name"], "running")
        yield made


POLICY = {"policy": {"name": f"{NAME}/policies/mine", "group": "dev", "profiles": [{"name": "half"}]}}

CROSSING: dict[str, tuple[str, str, object]] = {
    "read its tenant": ("GET", f"/v1/{NAME}", None),
    "list its jobs": ("GET", f"/v1/{NAME}/jobs", None),
    "list its groups": ("GET", f"/v1/{NAME}/groups", None),
    "list its users": ("GET", f"/v1/{NAME}/users", None),
    "list its policies": ("GET", f"/v1/{NAME}/policies", None),
    "list its queues": ("GET", f"/v1/{NAME}/queues", None),
    "list its service accounts": ("GET", f"/v1/{NAME}/serviceAccounts", None),
    "read its group": ("GET", f"/v1/{NAME}/groups/dev", None),
    "read its policy": ("GET", f"/v1/{NAME}/policies/dev", None),
    "read its queue": ("GET", f"/v1/{NAME}/queues/dev/half", None),
    "read its usage": ("GET", f"/v1/{NAME}/usage", None),
    "list its preemptions": ("GET", f"/v1/{NAME}/preemptions", None),
    "watch its jobs": ("GET", f"/v1/{NAME}/jobs:watch", None),
    "read a job of its": ("GET", f"/v1/{NAME}/jobs/JOB", None),
    "explain a job of its": ("GET", f"/v1/{NAME}/jobs/JOB:explain", None),
    "cancel a job of its": ("POST", f"/v1/{NAME}/jobs/JOB:cancel", {}),
    "preempt a job of its": ("POST", f"/v1/{NAME}/jobs/JOB:preempt", {"force": True, "reason": "mine"}),
    "submit there": ("POST", f"/v1/{NAME}/jobs:submit", {"queue": "dev/half", "jobs": [{"command": ["id"]}]}),
    "delete its policy": ("DELETE", f"/v1/{NAME}/policies/dev", None),
    "delete its group": ("DELETE", f"/v1/{NAME}/groups/dev", None),
    "delete it": ("DELETE", f"/v1/{NAME}", None),
    "apply documents to it": ("POST", "/v1/documents:apply", {"documents": {"groups": [{"tenant": "emca", "name": "x"}]}}),
    "apply a pool": ("POST", "/v1/documents:apply", {"documents": {"pools": [{"name": "x", "selector": {"a": "b"}}]}}),
    "apply a tenant": ("POST", "/v1/documents:apply", {"documents": {"tenants": [{"name": "acme", "admins": ["alice"]}]}}),
    "read the history": ("GET", "/v1/audit/records", None),
    "cordon a node": ("POST", "/v1/nodes/box:cordon", {"reason": "mine"}),
    "drain a node": ("POST", "/v1/nodes/box:drain", {"reason": "mine"}),
    "delete a pool": ("DELETE", "/v1/pools/hq", None),
    "delete a profile of all": ("DELETE", "/v1/profiles/half", None),
}
"""What acme's people must not do to emca, or to what is shared."""


@pytest.mark.parametrize("who", ["alice", "boss", "node"])
def test_no_user_reaches_into_another_tenant_or_the_providers_things(api: Api, who: str) -> None:
    (job,) = [one["name"].rpartition("/")[2] for one in api.done("eve", "GET", f"/v1/{NAME}/jobs")["jobs"]]
    leaked = {}
    for what, (verb, path, body) in CROSSING.items():
        response = api.ask(who, verb, path.replace("JOB", job), body)
        if response.status not in (403, 404):
            leaked[what] = response
        assert "eve" not in json.dumps(response.body), what
    assert leaked == {}
    assert api.done("root", "GET", f"/v1/{NAME}/jobs/{job}")["state"] == "running"


def test_the_state_that_a_tenant_reads_names_no_other(api: Api) -> None:
    state = json.dumps(api.done("alice", "GET", "/v1/audit/state"))
    assert "hq" in state
    assert not any(name in state for name in ("emca", "eve", "chief"))


def test_what_a_tenant_reads_of_the_installation_as_a_whole_names_no_other(api: Api) -> None:
    verified = until(lambda: api.done("alice", "GET", "/v1/audit/verification"))
    assert (verified.get("found", "0"), "findings" in verified) == ("0", False)
    pools = until(lambda: api.done("alice", "GET", "/v1/audit/timeline", bins=3).get("pools"))
    assert [sorted(pool) for pool in pools] == [
        ["borrowed", "growth", "kept", "pool", "preemptions", "reserved", "usable", "used"]
    ]
    assert api.done("alice", "GET", "/v1/preemptions").get("preemptions", []) == []
    shown = json.dumps([verified, pools])
    assert not any(name in shown for name in ("emca", "eve", "chief"))
    ways = [("alice", "GET", path) for path in ("/v1/audit/verification", "/v1/audit/timeline", "/v1/preemptions")]
    assert [api.ask("node", verb, path).status for _, verb, path in ways] == [403] * 3


def test_a_preemption_that_concerns_others_and_one_that_never_was_look_the_same(api: Api) -> None:
    missing = api.ask("alice", "GET", "/v1/preemptions/1.0")
    assert (missing.status, missing.body["message"]) == (
        404,
        "name: fact 1.0 ordered no preemption that concerns you; list them to see their names",
    )
    for name in ("0.0", "1", "1.0.0", "-1.0", "1.99999", "9" * 30 + ".0", "%E2%91%A0.0", "emca.eve.x@1"):
        assert api.ask("alice", "GET", f"/v1/preemptions/{name}").status == 400, name
    for query in ({"bins": 1001}, {"bins": -1}, {"since": "2999-01-01T00:00:00Z"}):
        assert api.ask("alice", "GET", "/v1/audit/timeline", **query).status == 400, query


def test_a_tenant_that_is_there_and_one_that_is_not_look_the_same(api: Api) -> None:
    for path in ("", "/jobs", "/groups/dev", "/jobs/01jd3v8k5w2m4x6z8b0c2e4g6h", "/usage"):
        there, not_there = (api.ask("alice", "GET", f"/v1/tenants/{tenant}{path}") for tenant in ("emca", "no-such"))
        assert (there.status, json.dumps(there.body).replace("emca", "no-such")) == (
            not_there.status,
            json.dumps(not_there.body),
        )


BEARERS = {
    "none": {},
    "empty": {"authorization": "Bearer "},
    "no bearer": {"authorization": "Basic YWxpY2U6c2VjcmV0"},
    "garbage": {"authorization": "Bearer hunter2"},
    "no algorithm": {"authorization": "Bearer eyJhbGciOiJub25lIn0.eyJpc3MiOiJoZWFkcmFjZSIsInN1YiI6ImRlZmF1bHQucm9vdCJ9."},
    "a header of the gateway": {"x-headrace-tenant": "default", "x-headrace-user": "root"},
    "a header of a proxy": {"x-forwarded-user": "root", "x-forwarded-for": "127.0.0.1", "x-real-ip": "127.0.0.1"},
    "a header of Envoy": {
        "x-envoy-internal": "true",
        "x-envoy-original-path": "/v1/pools",
        "x-envoy-external-address": "127.0.0.1",
    },
    "metadata of gRPC": {"grpc-metadata-authorization": "Bearer x", "grpcgateway-authorization": "Bearer x"},
    "a cookie": {"cookie": "authorization=Bearer x; token=x"},
}


@pytest.mark.parametrize("headers", BEARERS.values(), ids=BEARERS)
def test_without_a_token_no_caller_is_identified(api: Api, headers: dict[str, str]) -> None:
    assert raw(api, "GET", "/v1/pools", headers) == 401


def raw(api: Api, verb: str, path: str, headers: dict[str, str] | list[tuple[str, str]]) -> int:
    """The status of a request with these very headers."""
    connection = http.client.HTTPConnection(urlsplit(api.address).netloc, timeout=PATIENCE)
    try:
        connection.putrequest(verb, path, skip_accept_encoding=True)
        for name, value in headers.items() if isinstance(headers, dict) else headers:
            connection.putheader(name, value)
        connection.endheaders()
        return connection.getresponse().status
    finally:
        connection.close()


def test_two_tokens_are_refused_and_a_revoked_one_as_well(api: Api) -> None:
    both = [("authorization", f"Bearer {api.tokens[who]}") for who in ("alice", "root")]
    assert raw(api, "GET", "/v1/audit/records", both) in (400, 401)
    assert raw(api, "GET", "/v1/audit/records", both[::-1]) in (400, 401)
    assert api.ask("gone", "GET", "/v1/tenants/acme/jobs").status == 401


PATHS = (
    "/v1/tenants/../tenants/emca", "/v1/tenants/acme/../emca/jobs", "/v1/tenants/acme%2f..%2femca/jobs", "/v1/tenants/%2e%2e/emca",
    "/v1/tenants/acme/groups/..%2f..%2femca", "/v1/tenants/acme/jobs/%00", "/v1/tenants/acme/jobs/*",
    "/v1/tenants/acme/jobs/../../../../etc/passwd:tell", "/v1/tenants/*/jobs", "/v1/tenants/%3e/jobs", "/v1//tenants/emca",
    "/v1/tenants/acme/jobs/" + "x" * 5_000, "/v1/tenants/acme/groups/%F0%9F%92%A9", "/headrace.v1.Audit/ListRecords", "/../../etc/passwd",
)  # fmt: skip


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path[:40])
def test_no_path_leads_elsewhere(api: Api, path: str) -> None:
    status = raw(api, "GET", path, {"authorization": f"Bearer {api.tokens['alice']}"})
    assert 400 <= status < 500


@pytest.mark.parametrize(
    "query",
    [
        {"page_size": 2**31 - 1},
        {"page_size": -1},
        {"page_size": "x"},
        {"page_token": "x" * 3_000},
        {"page_token": "../../"},
        {"filter": "(" * 3_000},
        {"filter": "user = 'eve' OR tenant = 'emca'"},
        {"min_sequence": "9" * 40},
        {"no_such": 1},
    ],
    ids=str,
)
def test_no_page_is_too_large_and_no_filter_too_deep(api: Api, query: dict[str, Any]) -> None:
    response = api.ask("alice", "GET", "/v1/tenants/acme/jobs", **query)
    assert response.status == 400 or (response.status == 200 and query == {"page_size": 2**31 - 1})
    assert "eve" not in json.dumps(response.body)


BODIES = {
    "deep": b'{"queue": ' + b"[" * 50_000,
    "huge numbers": b'{"queue": "dev/half", "jobs": [{"command": ["a"], "priority": ' + b"9" * 400 + b"}]}",
    "no utf-8": b'{"queue": "\xff\xfe"}',
    "not a number": b'{"queue": "dev/half", "jobs": [{"command": ["a"], "priority": NaN}]}',
    "unknown fields": b'{"queue": "dev/half", "tenant": "emca"}',
    "nothing": b"",
    "too much": b'{"queue": "' + b"x" * 5_000_000 + b'"}',
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_no_body_is_too_hostile(api: Api, body: bytes) -> None:
    assert 400 <= api.ask("alice", "POST", "/v1/tenants/acme/jobs:submit", body).status < 500


def test_a_client_that_says_nothing_does_not_keep_the_others_waiting(api: Api) -> None:
    address = urlsplit(api.address)
    slow = []
    try:
        for _ in range(50):
            one = socket.create_connection((address.hostname, address.port), timeout=PATIENCE)
            one.sendall(b"POST /v1/tenants/acme/jobs:submit HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{")
            slow.append(one)
        began = time.monotonic()
        assert api.ask("alice", "GET", "/v1/tenants/acme/queues").status == 200
        assert time.monotonic() - began < PATIENCE / 2
    finally:
        for one in slow:
            one.close()


HOSTILE = (
    b"", b"{", b"[]", b"null", b"\xff\xfe\x00", b"{}", b'{"id": 5}', b"[" * 100_000, b'{"a":' * 100_000,
    b'{"jobs": ' + b"[" * 100_000, b'{"jobs": []}', b'{"jobs": [' + b"{}," * 5_000 + b"{}]}",
    b'{"id": "../../etc", "command": ["a"]}', b'{"id": "*", "command": ["a"]}', b'{"id": "JOB", "command": []}',
    b'{"id": "JOB", "command": ["a"], "priority": 1e400}', b'{"id": "JOB", "command": ["a"], "priority": ' + b"9" * 5_000 + b"}",
    b'{"id": "JOB", "command": ["a"], "time_limit": "-1s"}', b'{"id": "JOB", "command": ["a"], "request": {"gpu": "1e99"}}',
    b'{"id": "JOB", "command": ["a\\u0000b"]}', b'{"id": "JOB", "command": ["a"], "env": {"A=B": "c", "": "d"}}',
    b'{"id": "JOB", "command": ["a"], "on_behalf_of": "boss"}', b'{"id": "JOB", "command": ["a"], "tenant": "emca"}',
    b'{"id": "JOB", "command": ["a"], "after": [{"job": "emca.eve.JOB"}]}', b'{"id": "JOB", "command": ["a"], "secret_env": ["../../x"]}',
    b'{"id": "JOB", "id": "JOB", "command": ["a"], "\xf0\x9f\x92\xa9": 1}', b"x" * 900_000,
)  # fmt: skip


async def test_no_payload_on_the_bus_ends_a_service_and_the_next_good_job_runs(api: Api) -> None:
    url = json.loads((api.data / "endpoint.json").read_text())["url"]
    nats = Client()
    await nats.connect(url, user="acme_alice", password=api.tokens["alice"], inbox_prefix=inbox_prefix("", api.tokens["alice"]))
    try:
        for payload in HOSTILE:
            request = payload.replace(b"JOB", new_job_id().encode())
            for subject in (
                "hr.submit.acme.alice.dev.half",
                "hr.submit.acme.alice.no-such.queue",
                f"hr.cancel.acme.alice.{new_job_id()}",
            ):
                await nats.request(subject, request, PATIENCE)
        await nats.request("hr.cancel.acme.alice.no-ulid", b"{}", PATIENCE)
    finally:
        await nats.close()
    (job,) = await asyncio.to_thread(api.submit, "alice", "acme", ["true"])
    await asyncio.to_thread(api.until, "alice", job["name"], "succeeded")
    parts = json.loads(api.run("status", "--json"))["parts"]
    assert {part["name"]: part["restarts"] for part in parts} == {part["name"]: 0 for part in parts}
    assert {job["user"] for job in api.done("alice", "GET", "/v1/tenants/acme/jobs")["jobs"]} == {"alice"}


async def test_while_one_user_holds_all_connections_that_it_gets_others_work_and_its_token_is_revoked(api: Api) -> None:
    """`headrace status` and `token revoke` of the owner, an administrator's and another user's requests; revoking ends the connections."""
    api.done(
        "root",
        "POST",
        "/v1/documents:apply",
        {"documents": {"groups": [{"tenant": "acme", "name": "all", "members": ["flo"]}]}},
    )
    token = api.run("token", "create", "--user", "flo", "--tenant", "acme").strip()
    crowd = Crowd(json.loads((api.data / "endpoint.json").read_text())["url"])
    try:
        logins = ("acme_flo", f"acme_flo{FEED_SUFFIX}")
        assert [await crowd.grow(login, token, PERSON_CONNECTIONS + 8) for login in logins] == [PERSON_CONNECTIONS] * 2
        parts = json.loads(await asyncio.to_thread(api.run, "status", "--json"))["parts"]
        assert {part["name"]: part["restarts"] for part in parts} == {part["name"]: 0 for part in parts}
        assert await asyncio.to_thread(api.run, "token", "list", who="root")
        (job,) = await asyncio.to_thread(api.submit, "alice", "acme", ["true"])
        await asyncio.to_thread(api.until, "alice", job["name"], "succeeded")
        await asyncio.to_thread(api.run, "token", "revoke", "--user", "flo", "--tenant", "acme", "--reason", "floods")
        await crowd.ended()
        assert await crowd.grow("acme_flo", token, 1) == 0
    finally:
        crowd.leave()


async def test_the_id_of_another_users_job_makes_no_second_job_that_its_name_could_mean(api: Api) -> None:
    deadline = time.monotonic() + PATIENCE
    while json.loads(api.run("status", "--json"))["level"]["stated"] < 2:
        assert time.monotonic() < deadline
    job = new_job_id()
    submission = {"queue": "dev/half", "jobs": [{"id": job, "command": ["sleep", "600"]}], "wait": True}
    (hers,) = api.done("alice", "POST", "/v1/tenants/acme/jobs:submit", submission)["jobs"]
    response = api.ask("boss", "POST", "/v1/tenants/acme/jobs:submit", submission)
    assert (response.status, response.reason) == (409, "ID_REUSED")
    assert "names a job of somebody else in this tenant" in response.body["message"]
    url = json.loads((api.data / "endpoint.json").read_text())["url"]
    nats = Client()
    await nats.connect(url, user="acme_boss", password=api.tokens["boss"], inbox_prefix=inbox_prefix("", api.tokens["boss"]))
    try:
        payload = json.dumps({"id": job, "command": ["sleep", "600"]}).encode()
        await nats.request("hr.submit.acme.boss.dev.half", payload, PATIENCE)
    finally:
        await nats.close()
    api.done("boss", "POST", f"/v1/tenants/acme/jobs/{job}:cancel", {})
    await asyncio.to_thread(api.until, "alice", hers["name"], "cancelled")
    named = [one["name"] for one in api.done("boss", "GET", "/v1/tenants/acme/jobs")["jobs"] if one["name"].endswith(job)]
    assert named == [hers["name"]]
