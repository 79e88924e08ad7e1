"""The API as its users meet it: over HTTP through the gateway, and over gRPC, with everything real behind it."""

from __future__ import annotations

import contextlib
import http.client
import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import grpc
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.client.submissions import new_job_id
from headrace.contracts.api import jobs_pb2, policies_pb2
from headrace.host.layouts import DEFAULT
from tests.integration.api import DOCUMENTS, LOOK_EVERY, Api, installation, until
from tests.integration.grpcweb import GrpcWeb
from tests.integration.madeup import Maker, Request
from tests.patience import PATIENCE
from tests.properties.campaign import examples

SUBMITTED = b'{"queue": "dev/half", "user": "alice", "jobs": [{"command": %s}]}'
LISTS = ("jobs", "queues", "policies", "groups", "users", "serviceAccounts", "profiles", "tokens", "jobs:watch")


class Provider:
    """An OpenID provider of this machine, whose claims say who is in which group."""

    def __init__(self) -> None:
        self.key = Ed25519PrivateKey.generate()
        keys = json.dumps(
            {"keys": [json.loads(jwt.algorithms.OKPAlgorithm.to_jwk(self.key.public_key())) | {"kid": "k1", "use": "sig"}]}
        ).encode()

        class Keys(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                self.end_headers()
                self.wfile.write(keys)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Keys)
        self.issuer = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def issuers(self) -> str:
        """The file that makes its tokens good."""
        named = {"name": "corp", "issuer": self.issuer, "audience": "headrace", "jwks_uri": f"{self.issuer}/keys"}
        fields = {"algorithms": ["EdDSA"], "tenant": "acme", "handle_claim": "preferred_username", "membership": "claims"}
        return json.dumps({"issuers": [named | fields]})

    def token(self, handle: str, *groups: str, age: int = 60) -> str:
        begins = int(time.time()) - age
        claims = {"iss": self.issuer, "aud": "headrace", "sub": f"id-{handle}", "iat": begins, "exp": begins + 3_600}
        own = {"preferred_username": handle, "groups": list(groups)}
        return jwt.encode(claims | own, self.key, algorithm="EdDSA", headers={"kid": "k1"})


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    made = Provider()
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture(scope="module")
def api(provider: Provider) -> Iterator[Api]:
    with installation(provider.issuers, layout=DEFAULT) as made:
        made.give_tokens(boss="acme", alice="acme", chief="emca", eve="emca")
        made.tokens["ci"] = made.run("token", "create", "--service-account", "ci", "--tenant", "acme").strip()
        yield made


# ---- documents ----


def test_a_set_of_documents_is_applied_whole_and_its_plan_can_be_read(api: Api) -> None:
    changed = {
        "documents": {
            "policies": [DOCUMENTS["policies"][0] | {"limit": {"gpu": 3}}],
            "profiles": [{"name": "two", "request": {"gpu": 2}, "pools": ["hq"]}],
        }
    }
    plan = api.done("root", "POST", "/v1/documents:apply", changed | {"dry_run": True})
    assert (plan["lines"], "applied" in plan) == (["+ profile two", "~ policy acme/dev", "    limit.gpu: 4 -> 3"], False)
    broken = changed["documents"] | {"pools": [{"name": "x", "selector": {"site": "x"}, "capacity": {"gpus": 1}}]}
    response = api.ask("root", "POST", "/v1/documents:apply", {"documents": broken})
    assert (response.status, response.reason) == (400, "INVALID")
    assert response.body["details"][1]["field_violations"][0]["field"] == "documents.pools[0].capacity.gpus"
    assert api.ask("root", "GET", "/v1/profiles/two").status == 404


def test_an_administrator_applies_what_is_the_tenants_and_nothing_else(api: Api) -> None:
    own = {"tenant": "acme", "name": "mine", "group": "dev", "profiles": ["half"]}
    plan = api.done("boss", "POST", "/v1/documents:apply", {"documents": {"policies": [own]}})
    assert plan["lines"][0] == "+ policy acme/mine"
    for documents in (
        {"policies": [own | {"tenant": "emca"}]},
        {"pools": [DOCUMENTS["pools"][0]]},
        {"tenants": [DOCUMENTS["tenants"][0]]},
        {"profiles": [DOCUMENTS["profiles"][0] | {"tenant": "emca"}]},
        {"policies": [own], "groups": [{"tenant": "emca", "name": "dev", "members": ["boss"]}]},
    ):
        assert api.ask("boss", "POST", "/v1/documents:apply", {"documents": documents}).status == 403, documents
    assert api.ask("alice", "POST", "/v1/documents:apply", {"documents": {"policies": [own]}}).status == 403
    assert api.ask("viewer", "POST", "/v1/documents:apply", {"documents": {"policies": [own]}, "dry_run": True}).status == 403


def test_a_tenant_has_profiles_of_its_own(api: Api) -> None:
    body = {"request": {"gpu": "1/8"}, "pools": ["hq"]}
    made = api.done("boss", "POST", "/v1/tenants/acme/profiles", body, profile_id="eighth")
    assert made["name"] == "tenants/acme/profiles/eighth"
    assert api.done("alice", "GET", f"/v1/{made['name']}")["request"] == {"gpu": "0.125"}
    assert api.ask("eve", "GET", f"/v1/{made['name']}").status == 403
    assert api.ask("boss", "POST", "/v1/profiles", body, profile_id="mine").status == 403
    api.done("boss", "DELETE", f"/v1/{made['name']}")


def test_a_stale_set_is_refused(api: Api) -> None:
    policy = DOCUMENTS["policies"][0]
    response = api.ask(
        "root", "POST", "/v1/documents:apply", {"documents": {"policies": [policy]}, "revisions": {"policy/acme/dev": "1"}}
    )
    assert (response.status, response.reason) == (409, "STALE")


def test_an_object_is_made_read_changed_and_removed(api: Api) -> None:
    body = {"request": {"gpu": "1/4"}, "pools": ["hq"]}
    tried = api.done("root", "POST", "/v1/profiles", body, profile_id="quarter", validate_only="true")
    assert api.ask("root", "GET", "/v1/profiles/quarter").status == 404
    made = api.done("root", "POST", "/v1/profiles", body, profile_id="quarter", reason="small things")
    assert (tried["name"], made["request"]) == ("profiles/quarter", {"gpu": "0.25"})
    again = api.ask("root", "POST", "/v1/profiles", body, profile_id="quarter")
    assert (again.status, again.reason) == (409, "ALREADY_EXISTS")
    changed = api.done("root", "PATCH", "/v1/profiles/quarter", {"replicas": 2, "etag": made["etag"]})
    assert (changed["replicas"], changed["request"]) == (2, {"gpu": "0.25"})
    stale = api.ask("root", "PATCH", "/v1/profiles/quarter", {"replicas": 3, "etag": made["etag"]})
    assert (stale.status, stale.reason) == (409, "STALE")
    back = api.done("root", "PATCH", "/v1/profiles/quarter", {}, update_mask="replicas")
    assert "replicas" not in back
    gone = api.done("root", "DELETE", "/v1/profiles/quarter", etag=back["etag"])
    assert (gone["lines"], gone["applied"]) == (["- profile quarter"], True)
    assert api.ask("root", "GET", "/v1/profiles/quarter").status == 404


def test_what_is_in_use_is_not_removed_but_by_a_mode(api: Api) -> None:
    response = api.ask("root", "DELETE", "/v1/profiles/half")
    assert (response.status, response.reason) == (400, "REFUSED")
    assert "named by policy acme/dev" in response.body["message"]
    frozen = api.done("root", "DELETE", "/v1/tenants/emca/policies/dev", mode="freeze")
    assert frozen["lines"] == ["~ policy emca/dev", "    closed: no -> freeze"]
    assert api.done("chief", "GET", "/v1/tenants/emca/queues/dev/half")["closed"] == "freeze"
    api.done("chief", "PATCH", "/v1/tenants/emca/policies/dev", {}, update_mask="limit")
    assert "closed" not in api.done("chief", "GET", "/v1/tenants/emca/policies/dev")


def test_lists_come_in_pages_and_filtered(api: Api) -> None:
    seen, token = [], ""
    while True:
        page = api.done("root", "GET", "/v1/profiles", page_size=1, page_token=token)
        seen += [profile["name"] for profile in page["profiles"]]
        token = page.get("next_page_token", "")
        if not token:
            break
    assert seen == sorted(seen)
    assert {"profiles/half", "profiles/one"} <= set(seen)
    found = api.done("root", "GET", "/v1/profiles", filter='pools = "hq" AND request.gpu = "0.5"')
    assert [profile["name"] for profile in found["profiles"]] == ["profiles/half"]
    other = api.ask(
        "root", "GET", "/v1/pools", page_token=api.done("root", "GET", "/v1/profiles", page_size=1)["next_page_token"]
    )
    assert (other.status, other.reason) == (400, "INVALID_PAGE_TOKEN")


def test_a_read_reflects_at_least_ones_own_write(api: Api) -> None:
    etag = api.done("root", "PATCH", "/v1/pools/hq", {"backfill_for": "11m"})["etag"]
    response = api.ask("root", "GET", "/v1/pools/hq", min_sequence=etag)
    assert int(response.headers["headrace-sequence"]) >= int(etag)
    assert response.body["backfill_for"] == "11m"
    late = api.ask("root", "GET", "/v1/pools/hq", min_sequence="999999999")
    assert (late.status, late.reason) == (400, "NOT_THERE_YET")


# ---- rules about access: R7, R12, R21 ----


def has_joined(api: Api, user: str) -> None:
    """The user is a member of the group dev, beside alice, and has a token."""
    api.done("boss", "PATCH", "/v1/tenants/acme/groups/dev", {"members": ["alice", user]})
    api.give_tokens(**{user: "acme"})


def test_linking_a_profile_opens_the_queue_and_unlinking_closes_it(api: Api) -> None:
    (refused,) = api.submit("alice", "acme", ["true"], queue="dev/one")
    assert (refused["state"], refused["reason"]) == ("rejected", "UNKNOWN_QUEUE")
    linked = [{"name": "half"}, {"name": "one"}]
    api.done("boss", "PATCH", "/v1/tenants/acme/policies/dev", {"profiles": linked})
    assert api.done("alice", "GET", "/v1/tenants/acme/queues/dev/one")["group"] == "dev"
    (job,) = api.submit("alice", "acme", ["true"], queue="dev/one")
    api.until("alice", job["name"], "succeeded")
    api.done("boss", "PATCH", "/v1/tenants/acme/policies/dev", {"profiles": [{"name": "half"}]})
    assert api.ask("alice", "GET", "/v1/tenants/acme/queues/dev/one").status == 404


def test_a_new_member_of_a_group_has_its_queues_from_that_act_alone(api: Api) -> None:
    has_joined(api, "newcomer")
    (job,) = api.submit("newcomer", "acme", ["true"])
    api.until("newcomer", job["name"], "succeeded")


def test_a_queue_can_be_restricted_to_one_service_account(api: Api) -> None:
    inference = {"group": "dev", "profiles": [{"name": "half", "submitters": ["ci"]}]}
    api.done("boss", "POST", "/v1/tenants/acme/policies", inference, policy_id="inference")
    (person,) = api.submit("alice", "acme", ["true"], queue="inference/half")
    (account,) = api.submit("ci", "acme", ["true"], queue="inference/half")
    assert (person["state"], person["reason"]) == ("rejected", "NOT_ALLOWED")
    api.until("ci", account["name"], "succeeded")


def test_shares_edited_live_move_idle_capacity_between_tenants(api: Api) -> None:
    jobs = api.submit("eve", "emca", *([["sleep", "60"]] * 16))
    deadline = time.monotonic() + PATIENCE
    while sum(api.done("eve", "GET", f"/v1/{job['name']}")["state"] == "running" for job in jobs) < 16:
        assert time.monotonic() < deadline
        time.sleep(LOOK_EVERY)
    shares = [{"pool": "hq", "reservation": {"gpu": "2"}, "limit": {"gpu": "5"}}]
    api.done("root", "PATCH", "/v1/tenants/emca", {"shares": shares})
    (job,) = api.submit("alice", "acme", ["sleep", "60"])
    api.until("alice", job["name"], "running")  # it reclaims inside its tenant's reservation (R23)
    (more,) = api.submit("eve", "emca", ["true"])
    why = api.done("eve", "GET", f"/v1/{more['name']}:explain")
    assert why["reason"] == "AT_TENANT_LIMIT"
    assert "acme" not in json.dumps(why)
    for one in (*jobs, more):
        api.done("eve", "POST", f"/v1/{one['name']}:cancel", {"reason": "enough"})
    api.done("alice", "POST", f"/v1/{job['name']}:cancel", {})
    api.done("root", "PATCH", "/v1/tenants/emca", {"shares": DOCUMENTS_SHARES})
    for one in jobs:
        api.until("eve", one["name"], "cancelled")


DOCUMENTS_SHARES = [{"pool": "hq", "reservation": {"gpu": "2"}, "limit": {"gpu": "8"}}]


def test_a_dedicated_pool_is_seen_by_its_owner_alone(api: Api) -> None:
    body = {"selector": {"site": "own"}, "dedicated_to": {"tenant": "emca"}}
    api.done("root", "POST", "/v1/pools", body, pool_id="own")
    assert api.done("chief", "GET", "/v1/pools/own")["dedicated_to"] == {"tenant": "emca"}
    assert api.ask("boss", "GET", "/v1/pools/own").status == 404
    assert api.ask("boss", "GET", "/v1/pools/vault").status == 404
    assert [pool["name"] for pool in api.done("boss", "GET", "/v1/pools")["pools"]] == ["pools/hq"]


def test_a_service_account_is_what_groups_name(api: Api) -> None:
    made = api.done("boss", "POST", "/v1/tenants/acme/serviceAccounts", {"groups": ["dev"]}, service_account_id="nightly")
    assert (made["groups"], made["name"]) == (["dev"], "tenants/acme/serviceAccounts/nightly")
    trusted = api.done("boss", "PATCH", f"/v1/{made['name']}", {"on_behalf": ["dev"], "etag": made["etag"]})
    assert trusted["on_behalf"] == ["dev"]
    listed = api.done("boss", "GET", "/v1/tenants/acme/serviceAccounts")["service_accounts"]
    assert [one["name"].rpartition("/")[2] for one in listed] == ["ci", "nightly"]
    assert api.done("boss", "DELETE", f"/v1/{made['name']}")["applied"] is True
    assert api.ask("boss", "GET", f"/v1/{made['name']}").status == 404


def test_what_a_groups_jobs_run_with_is_written_over_the_api(api: Api) -> None:
    runtime = {
        "env": {"HF_HOME": "/data/hf"},
        "deny_env": ["LD_*"],
        "secrets": {"HF_TOKEN": "env:HF_TOKEN"},
        "mounts": [{"source": "/data", "target": "/data", "read_only": False}],
        "default_request": {"gpu": "0.25"},
    }
    body = {"members": ["alice"], "runtime": runtime}
    api.done("boss", "POST", "/v1/tenants/acme/groups", body, group_id="vault")
    assert api.done("boss", "GET", "/v1/tenants/acme/groups/vault")["runtime"] == runtime
    api.done("boss", "PATCH", "/v1/tenants/acme/groups/vault", {}, update_mask="runtime.mounts")
    assert "mounts" not in api.done("boss", "GET", "/v1/tenants/acme/groups/vault")["runtime"]
    api.done("boss", "POST", "/v1/tenants/acme/policies", {"group": "vault", "profiles": [{"name": "half"}]}, policy_id="vault")
    (refused,) = api.done(
        "alice",
        "POST",
        "/v1/tenants/acme/jobs:submit",
        {"queue": "vault/half", "jobs": [{"command": ["true"], "env": {"LD_PRELOAD": "x"}}], "wait": True},
    )["jobs"]
    assert (refused["state"], refused["reason"]) == ("rejected", "RUNTIME_RULE")
    for name in ("policies/vault", "groups/vault"):
        api.done("boss", "DELETE", f"/v1/tenants/acme/{name}")


# ---- who may come in ----


def test_a_tenants_administrator_gives_and_revokes_tokens_and_a_revocation_holds_at_once(api: Api) -> None:
    body = {"role": "user", "handle": "alice", "lifetime": "2h"}
    made = api.done("boss", "POST", "/v1/tenants/acme/tokens", body, reason="another laptop")
    api.tokens["laptop"] = made["bearer"]
    assert api.done("laptop", "GET", "/v1/me")["handle"] == "alice"
    listed = api.done("boss", "GET", "/v1/tenants/acme/tokens", filter='handle = "alice" AND revoke_time = ""')["tokens"]
    assert made["name"] in [one["name"] for one in listed]
    assert not any("bearer" in one for one in listed)
    api.done("boss", "POST", f"/v1/{made['name']}:revoke", {"reason": "it is lost"})
    assert api.ask("laptop", "GET", "/v1/me").status == 401
    assert "revoke_time" in api.done("boss", "GET", f"/v1/{made['name']}")
    again = api.done("boss", "POST", "/v1/tenants/acme/tokens", body)
    api.tokens["laptop"] = again["bearer"]
    api.done("boss", "POST", "/v1/tenants/acme/tokens:revoke", {"handle": "alice"})
    assert [api.ask(who, "GET", "/v1/me").status for who in ("laptop", "alice")] == [401, 401]
    api.tokens["alice"] = api.done("boss", "POST", "/v1/tenants/acme/tokens", body)["bearer"]
    for who, path, wanted in (
        ("boss", "/v1/tenants/emca/tokens", body),
        ("boss", "/v1/tokens", {"role": "admin", "handle": "boss"}),
        ("boss", "/v1/tenants/acme/tokens", {"role": "viewer", "handle": "boss"}),
        ("alice", "/v1/tenants/acme/tokens", body),
        ("viewer", "/v1/tokens", {"role": "admin", "handle": "auditor"}),
    ):
        assert api.ask(who, "POST", path, wanted).status == 403, (who, path)


def test_whom_a_provider_says_to_be_in_a_group_submits_by_that_word_alone_and_no_longer(api: Api, provider: Provider) -> None:
    api.tokens["rita"] = provider.token("rita", "dev", "elsewhere")
    assert api.done("rita", "GET", "/v1/me")["groups"] == ["dev"]
    (job,) = api.submit("rita", "acme", ["true"])
    assert api.until("rita", job["name"], "succeeded")["user"] == "rita"
    api.tokens["moved"] = provider.token("rita", "ops", age=30)
    api.done("boss", "POST", "/v1/tenants/acme/groups", {}, group_id="ops")
    assert api.done("moved", "GET", "/v1/me")["groups"] == ["ops"]
    for who in ("moved", "rita"):  # the newer token's word counts, whichever is shown
        (refused,) = api.submit(who, "acme", ["true"])
        assert (refused["state"], refused["reason"]) == ("rejected", "NOT_ALLOWED")


def test_the_same_word_counts_on_the_bus(api: Api, provider: Provider) -> None:
    api.tokens["theo"] = provider.token("theo", "dev")
    theo = {"HEADRACE_TENANT": "acme", "HEADRACE_USER": "theo"}
    job = api.run("submit", "--queue", "dev/half", "--", "true", who="theo", **theo).strip()
    assert api.until("root", f"tenants/acme/jobs/{job}", "succeeded")["user"] == "theo"


def test_what_a_tenants_jobs_ran_is_erased_by_the_provider_who_means_it(api: Api) -> None:
    api.done("root", "POST", "/v1/tenants", {"display_name": "Short"}, tenant_id="short")
    assert api.ask("root", "POST", "/v1/tenants/short:erase", {"reason": "contract ended"}).status == 400
    assert api.ask("boss", "POST", "/v1/tenants/acme:erase", {"force": True}).status == 403
    plan = api.done("root", "POST", "/v1/tenants/short:erase", {"reason": "contract ended", "force": True})
    assert plan["lines"] == ["~ tenant short", "    texts: erased"]


def test_a_person_is_erased_by_the_provider_who_means_it_and_read_under_a_pseudonym(api: Api) -> None:
    api.done("boss", "POST", "/v1/tenants/acme/users", {"email": "gone@acme.test"}, user_id="leaver")
    path = "/v1/tenants/acme/users/leaver"
    assert api.ask("root", "POST", f"{path}:erase", {"reason": "asked"}).status == 400
    for who in ("boss", "alice"):
        assert api.ask(who, "POST", f"{path}:erase", {"force": True}).status == 403
    assert api.done("root", "POST", f"{path}:erase", {"validate_only": True})["lines"] == ["- user acme/leaver"]
    assert api.done("boss", "GET", path)["email"] == "gone@acme.test"
    (change,) = api.done("root", "POST", f"{path}:erase", {"reason": "asked", "force": True})["changes"]
    assert change["fields"][0].startswith("erased: shown as erased-")
    assert "gone@acme.test" not in json.dumps(api.done("boss", "GET", "/v1/tenants/acme/users"))


# ---- jobs ----


def test_a_job_is_submitted_followed_explained_told_and_read(api: Api) -> None:
    (job,) = api.submit("alice", "acme", ["sh", "-c", "echo hello"])
    done = api.until("alice", job["name"], "succeeded")
    assert (done["user"], done["queue"], done["exit_code"], done["request"]) == ("alice", "dev/half", 0, {"gpu": "0.5"})
    facts = api.done("alice", "GET", f"/v1/{job['name']}/facts")["facts"]
    assert [fact["type"] for fact in facts][:2] == ["job.admitted.v1", "lease.granted.v1"]
    assert api.done("alice", "GET", f"/v1/{job['name']}/logs")["text"] == "hello\n"
    assert api.done("alice", "GET", f"/v1/{job['name']}:explain")["state"] == "succeeded"
    listed = api.done("alice", "GET", "/v1/tenants/acme/jobs", filter="state = succeeded AND user = alice", page_size=1)
    assert listed["jobs"][0]["name"] == job["name"]


def test_the_same_id_is_the_same_job(api: Api) -> None:
    spec = {"id": new_job_id(), "command": ["true"]}
    submission = {"queue": "dev/half", "jobs": [spec], "wait": True}
    first, second = (api.done("alice", "POST", "/v1/tenants/acme/jobs:submit", submission)["jobs"] for _ in range(2))
    assert first[0]["name"] == second[0]["name"] == f"tenants/acme/jobs/{spec['id']}"


def test_the_same_id_with_another_command_is_refused_and_nothing_of_the_request_is_submitted(api: Api) -> None:
    known, fresh = {"id": new_job_id(), "command": ["true"]}, {"id": new_job_id(), "command": ["true"]}
    api.done("alice", "POST", "/v1/tenants/acme/jobs:submit", {"queue": "dev/half", "jobs": [known]})
    for jobs in ([fresh, known | {"command": ["false"]}], [known | {"command": ["false"]}]):  # judged or not yet
        response = api.ask("alice", "POST", "/v1/tenants/acme/jobs:submit", {"queue": "dev/half", "jobs": jobs, "wait": True})
        assert (response.status, response.reason) == (409, "ID_REUSED")
        assert response.body["details"][1]["field_violations"][0]["field"] == f"jobs[{len(jobs) - 1}].id"
    assert api.ask("alice", "GET", f"/v1/tenants/acme/jobs/{fresh['id']}").status == 404
    submit = ("submit", "--queue", "dev/half", "--id", known["id"], "--workdir", "", "--")
    assert api.run(*submit, "true", who="alice").strip() == known["id"]
    with pytest.raises(AssertionError, match="this id already names a job with other content; make a new ULID"):
        api.run(*submit, "false", who="alice")


def test_every_job_that_is_acknowledged_is_there_under_any_repetition(api: Api) -> None:
    """Thirty callers at once, whose jobs are gathered in a few messages; each repeats its first job, alone and beside a new one."""
    specs = [{"id": new_job_id(), "command": ["true"]} for _ in range(60)]
    acknowledged: set[str] = set()

    def submit(*jobs: dict[str, object]) -> None:
        submitted = api.done("alice", "POST", "/v1/tenants/acme/jobs:submit", {"queue": "dev/half", "jobs": jobs})
        acknowledged.update(job["name"] for job in submitted["jobs"])

    with ThreadPoolExecutor(30) as callers:
        for _ in range(2):
            list(callers.map(submit, specs[::2]))
        list(callers.map(submit, specs[::2], specs[1::2]))
    deadline = time.monotonic() + PATIENCE
    missing = set(acknowledged)
    while missing and time.monotonic() < deadline:
        missing = {name for name in missing if api.ask("alice", "GET", f"/v1/{name}").status != 200}
    assert (len(acknowledged), missing) == (60, set())


def test_a_service_account_submits_for_a_user_only_where_a_group_trusts_it(api: Api) -> None:
    (job,) = api.submit("ci", "acme", ["true"], user="alice")
    assert job["user"] == "alice"
    (admitted, *_) = api.done("alice", "GET", f"/v1/{job['name']}/facts")["facts"]
    assert admitted["text"].endswith("submitted by acme.ci")  # both names are recorded
    response = api.ask(
        "ci", "POST", "/v1/tenants/acme/jobs:submit", {"queue": "dev/half", "user": "boss", "jobs": [{"command": ["true"]}]}
    )
    assert response.status == 403
    response = api.ask(
        "alice", "POST", "/v1/tenants/acme/jobs:submit", {"queue": "dev/half", "user": "ci", "jobs": [{"command": ["true"]}]}
    )
    assert response.status == 403


def test_a_submit_that_is_only_tried_says_what_would_come_of_it_and_stores_nothing(api: Api) -> None:
    jobs = [{"command": ["true"], "name": "tried"}, {"command": ["true"], "request": {"gpu": "8"}}, {"command": ["true"]}]
    submission = {"queue": "dev/half", "jobs": jobs, "validate_only": True}
    tried = api.done("alice", "POST", "/v1/tenants/acme/jobs:submit", submission)["jobs"]
    assert [(job["state"], job.get("reason", "")) for job in tried] == [
        ("pending", ""),
        ("rejected", "BEYOND_PROFILE"),
        ("pending", ""),
    ]
    assert "profile half gives 0.5" in tried[1]["message"]
    assert api.ask("alice", "GET", f"/v1/{tried[0]['name']}").status == 404
    nowhere = api.done("alice", "POST", "/v1/tenants/acme/jobs:submit", submission | {"queue": "dev/none"})["jobs"]
    assert {job["reason"] for job in nowhere} == {"UNKNOWN_QUEUE"}
    (job,) = api.submit("alice", "acme", ["sleep", "60"])
    api.done("alice", "POST", f"/v1/{job['name']}:cancel", {"validate_only": True})
    assert api.ask("eve", "POST", f"/v1/{job['name']}:cancel", {"validate_only": True}).status == 403
    api.until("alice", job["name"], "running")
    api.done("alice", "POST", f"/v1/{job['name']}:cancel", {})


def test_a_job_is_its_owners_to_cancel_and_the_administrators(api: Api) -> None:
    has_joined(api, "newcomer")
    (job,) = api.submit("alice", "acme", ["sleep", "60"])
    assert api.ask("newcomer", "POST", f"/v1/{job['name']}:cancel", {}).status == 403
    assert api.ask("eve", "POST", f"/v1/{job['name']}:cancel", {}).status == 403
    api.done("boss", "POST", f"/v1/{job['name']}:cancel", {"reason": "the budget"})
    api.until("alice", job["name"], "cancelled")
    facts = api.done("alice", "GET", f"/v1/{job['name']}/facts")["facts"]
    assert any(fact["text"] == "acme.boss wants it to end: the budget" for fact in facts)


def test_many_jobs_are_cancelled_in_one_request_and_those_that_wait_never_start(api: Api) -> None:
    sweep = [job["name"] for job in api.submit("alice", "acme", *[["sleep", "60"]] * 20)]
    (other,) = api.submit("ci", "acme", ["sleep", "60"])
    eventually(lambda: sum(api.done("alice", "GET", f"/v1/{job}")["state"] == "running" for job in sweep) >= 2)
    path = "/v1/tenants/acme/jobs:cancel"
    for who, body, status in (
        ("alice", {"jobs": [*sweep, other["name"]]}, 403),
        ("alice", {"jobs": [*sweep, f"tenants/acme/jobs/{new_job_id()}"]}, 404),
        ("eve", {"jobs": sweep}, 403),
        ("root", {"jobs": [sweep[0].replace("acme", "emca")]}, 404),
        ("alice", {"jobs": []}, 400),
        ("alice", {"jobs": sweep[0]}, 400),
    ):
        assert api.ask(who, "POST", path, body).status == status, (who, body)
    assert api.done("alice", "POST", path, {"jobs": sweep, "validate_only": True})["jobs"] == sweep
    assert all(api.done("alice", "GET", f"/v1/{job}")["state"] in ("pending", "running") for job in sweep)

    assert api.done("boss", "POST", path, {"jobs": [*sweep, other["name"]], "reason": "the budget"})["jobs"] == [
        *sweep,
        other["name"],
    ]

    for job in (*sweep, other["name"]):
        api.until("boss", job, "cancelled")
    attempts = [len(api.done("alice", "GET", f"/v1/{job}").get("attempts", ())) for job in sweep]
    assert attempts == sorted(attempts, reverse=True), "a job behind the first that waited has started"
    assert attempts[-1] == 0
    facts = api.done("alice", "GET", f"/v1/{sweep[-1]}/facts")["facts"]
    assert any(fact["text"] == "acme.boss wants it to end: the budget" for fact in facts)
    assert "jobs" not in api.done("alice", "POST", path, {"jobs": sweep})  # they have ended already


@contextmanager
def watching(api: Api, who: str, path: str) -> Iterator[list[Any]]:
    """The lines of a stream, as they come."""
    lines: list[Any] = []
    connection = http.client.HTTPConnection(urlsplit(api.address).netloc, timeout=PATIENCE)
    connection.request("GET", path, headers={"authorization": f"Bearer {api.tokens[who]}"})
    answer = connection.getresponse()
    assert answer.status == 200

    def read() -> None:
        try:
            while line := answer.readline():
                lines.append(json.loads(line))
        except (AttributeError, OSError, ValueError, http.client.HTTPException):  # closed while it reads
            return

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        yield lines
    finally:
        connection.close()


def eventually(condition: Any) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(LOOK_EVERY)


def test_a_watch_tells_line_by_line_what_happens_to_a_tenants_jobs_and_to_no_others(api: Api) -> None:
    with watching(api, "alice", "/v1/tenants/acme/jobs:watch") as lines:
        eventually(lambda: any(line["type"] == "alive" for line in lines))
        (other,) = api.submit("eve", "emca", ["true"])
        (job,) = api.submit("alice", "acme", ["true"])
        eventually(lambda: any(line["type"] == "job.ended.v1" and line.get("job") == job["name"] for line in lines))
        mine = [line["type"] for line in lines if line.get("job") == job["name"]]
        assert mine[0] == "job.admitted.v1"
        assert not any("emca" in json.dumps(line) or other["name"].rpartition("/")[2] in json.dumps(line) for line in lines)


# ---- what is the provider's ----


def overviews(api: Api, since: str, answers: int) -> Iterator[Any]:
    """Some answers of a watch of every event; fewer if the connection breaks off."""
    connection = http.client.HTTPConnection(urlsplit(api.address).netloc, timeout=PATIENCE)
    try:
        path = f"/v1/overview:watch?every_event=true&since={since}"
        connection.request("GET", path, headers={"authorization": f"Bearer {api.tokens['root']}"})
        answer = connection.getresponse()
        for _ in range(answers if answer.status == 200 else 0):
            line = answer.readline()
            if not line:
                return
            yield json.loads(line)
    finally:
        connection.close()


def test_a_watch_that_is_cut_gives_every_event_once_also_when_gateway_and_governance_were_started_again(api: Api) -> None:
    since = begin = api.done("root", "GET", "/v1/overview")["sequence"]
    found: list[tuple[str, int, str, str]] = []

    def read(answers: int) -> None:
        nonlocal since
        with contextlib.suppress(OSError, http.client.HTTPException):
            for change in overviews(api, since, answers):
                assert "left_out" not in change
                events = change.get("events", [])
                found.extend((one["sequence"], one.get("number", 0), one["text"], one.get("rule", "")) for one in events)
                since = change["sequence"]

    jobs = []
    for answers, restarts in ((1, ""), (3, "gateway"), (2, "governance"), (1, "")):
        jobs += api.submit("alice", "acme", ["true"], ["true"])
        read(answers)
        if restarts:
            api.run("restart", restarts)
    for job in jobs:
        api.until("alice", job["name"], "succeeded")
    tip = int(api.done("root", "GET", "/v1/overview")["sequence"])
    until(lambda: read(1) or int(since) >= tip)
    until(lambda: int(api.done("root", "GET", "/v1/audit/lines", page_size=1)["sequence"]) >= int(since))
    lines, page = [], {"page_token": ""}
    while "page_token" in page:
        answer = api.done("root", "GET", "/v1/audit/lines", page_size=1000, **page)
        lines += answer["lines"]
        page = {"page_token": answer["next_page_token"]} if "next_page_token" in answer else {}
    all_lines = [(line["sequence"], line.get("place", 0), line["text"], line.get("rule", "")) for line in lines]
    assert found == [line for line in all_lines if int(begin) < int(line[0]) <= int(since)]


def test_a_node_is_cordoned_drained_and_taken_back(api: Api) -> None:
    node = api.done("root", "GET", "/v1/nodes")["nodes"][0]["name"]
    eventually(lambda: "leases" not in api.done("root", "GET", f"/v1/{node}"))
    tried = api.done("root", "POST", f"/v1/{node}:cordon", {"reason": "a fan", "validate_only": True})
    assert (tried["lines"][1], "applied" in tried) == ("    cordoned: no -> a fan", False)
    api.done("root", "POST", f"/v1/{node}:drain", {"reason": "a fan"})
    assert api.done("root", "GET", f"/v1/{node}")["state"] in ("draining", "drained")
    api.done("root", "POST", f"/v1/{node}:uncordon", {})
    assert api.done("root", "GET", f"/v1/{node}")["state"] == "ready"
    assert api.done("root", "POST", f"/v1/{node}:confirmEmpty", {})["changes"][0]["action"] == "keep"
    assert api.ask("boss", "POST", f"/v1/{node}:drain", {}).status == 403


def test_a_drain_is_scheduled_seen_before_and_cancelled(api: Api) -> None:
    node = api.done("root", "GET", "/v1/nodes")["nodes"][0]["name"]
    begins = datetime.now(UTC).replace(microsecond=0) + timedelta(days=1)
    at = begins.isoformat().replace("+00:00", "Z")
    plan = api.done("root", "POST", f"/v1/{node}:drain", {"reason": "a fan", "begin_time": at})
    assert plan["changes"][0]["fields"] == [f"drain: no -> at {at.replace('Z', '.000Z')}"]
    shown = api.done("root", "GET", f"/v1/{node}")
    assert (shown["state"], shown["maintenance"]) == (
        "ready",
        {"kind": "drain", "begin_time": at, "reason": "a fan", "scheduled_by": shown["maintenance"]["scheduled_by"]},
    )
    assert api.ask("root", "POST", f"/v1/{node}:drain", {"begin_time": "2020-01-01T00:00:00Z"}).status == 400
    assert api.ask("root", "POST", f"/v1/{node}:cordon", {"begin_time": at}).status == 400
    api.done("root", "POST", f"/v1/{node}:uncordon", {})
    assert "maintenance" not in api.done("root", "GET", f"/v1/{node}")


def test_usage_comes_from_the_books(api: Api) -> None:
    (job,) = api.submit("alice", "acme", ["true"])
    api.until("alice", job["name"], "succeeded")
    eventually(lambda: "lines" in api.done("alice", "GET", "/v1/tenants/acme/usage"))
    report = api.done("boss", "GET", "/v1/tenants/acme/usage", by=["user", "profile"])
    assert {"user": "alice", "profile": "half"} in [line["group"] for line in report["lines"]]
    daily = api.done("boss", "GET", "/v1/tenants/acme/usage", per="day", timezone="Europe/Berlin")
    assert all("cost" in line and "waiting_hours" in line for line in daily["lines"])
    assert api.ask("boss", "GET", "/v1/tenants/acme/usage", by="colour").status == 400


def test_the_history_is_the_providers_to_read(api: Api) -> None:
    page = api.done("viewer", "GET", "/v1/audit/records", page_size=3)
    assert [record["sequence"] for record in page["records"]] == ["1", "2", "3"]
    more = api.done("viewer", "GET", "/v1/audit/records", page_size=3, page_token=page["next_page_token"])
    assert more["records"][0]["sequence"] == "4"
    assert page["records"][2]["record"]["by"]
    first = api.done("viewer", "GET", "/v1/audit/state", at="1")
    now = api.done("viewer", "GET", "/v1/audit/state")
    assert ("pools" in first, now["pools"][0]["name"]) == (False, "pools/hq")
    assert {document["kind"] for document in now["documents"]} >= {"pool", "profile", "policy", "group"}
    page = api.done("viewer", "GET", "/v1/audit/state", page_size=1)
    assert len(page.get("active", [])) <= 1
    own = api.done("boss", "GET", "/v1/audit/state")
    assert {queue["name"].split("/")[1] for queue in own["queues"]} == {"acme"}
    changed = api.done("viewer", "GET", "/v1/audit/state:diff", before="1")
    assert {"kind": "pool", "name": "hq", "change": "added"}.items() <= next(
        change for change in changed["changes"] if change["kind"] == "pool"
    ).items()
    for at in ("0", "99999999", "2999-01-01T00:00:00Z", "1999-01-01T00:00:00Z", "soon"):
        assert api.ask("viewer", "GET", "/v1/audit/state", at=at).status in (400, 404), at
    assert api.ask("boss", "GET", "/v1/audit/records").status == 403


def test_verification_and_the_timeline_are_read_by_all_roles(api: Api) -> None:
    verified = until(lambda: api.done("viewer", "GET", "/v1/audit/verification"))
    assert int(verified["sequence"]) > 0
    assert (verified.get("found", "0"), verified.get("findings", [])) == ("0", [])
    line = api.done("viewer", "GET", "/v1/audit/timeline", bins=10)
    assert "hq" in [pool["pool"] for pool in line["pools"]]
    assert {len(column) for pool in line["pools"] for column in pool.values() if isinstance(column, list)} == {10}
    assert sum(line["changes"]) > 0
    assert [int(one) for one in line["sequence"]] == sorted(int(one) for one in line["sequence"])
    (job,) = api.submit("alice", "acme", ["true"])
    number = job["name"].rpartition("/")[2]
    eventually(
        lambda: api.ask("viewer", "GET", "/v1/preemptions", job=number).status == 200
    )  # the books know the job a little later
    assert api.done("viewer", "GET", "/v1/preemptions", job=number).get("preemptions", []) == []


def test_what_if_is_asked_of_the_real_history_by_the_provider_and_by_a_tenant_of_its_own(api: Api) -> None:
    before = api.done("viewer", "GET", "/v1/audit/state")["sequence"]
    (job,) = api.submit("alice", "acme", ["true"])
    api.until("alice", job["name"], "succeeded")
    now = api.done("viewer", "GET", "/v1/audit/state")["sequence"]
    dearer = {"changes": {"pools": [DOCUMENTS["pools"][0] | {"price": {"gpu": "250"}}]}, "since": "9", "until": now}
    report = api.done("viewer", "POST", "/v1/audit:whatif", dearer)
    total = report["total"]
    assert float(total["after"]["cost"]) > 50 * float(total["before"]["cost"]) > 0
    of_its_own = api.done(
        "viewer", "POST", "/v1/audit:whatif", dearer | {"since": before}
    )  # where no start and no cancellation meet
    assert of_its_own["recorded"]["starts"] == of_its_own["total"]["before"]["starts"] == 1
    assert {"acme/dev"} <= report["groups"].keys()
    own = {"tenant": "acme", "name": "dev", "group": "dev", "profiles": ["half"], "limit": {"gpu": "4"}}
    asked = {"parent": "tenants/acme", "changes": {"policies": [own]}, "since": "9", "until": now}
    seen = api.done("boss", "POST", "/v1/audit:whatif", asked)
    assert ({name.partition("/")[0] for name in seen["groups"]}, seen["pools"].keys()) == ({"acme"}, {"hq"})
    trial = {"submit": [{"name": "mine", "queue": "dev/half", "duration": "1m"}]}
    of_hers = api.done("alice", "POST", "/v1/audit:whatif", {"changes": trial, "parent": "tenants/acme", "span": "1h"})
    assert [(move["job"], move["after_is"]) for move in of_hers["moved"]] == [("mine", "started")]
    for who, body, status in (
        ("boss", dearer, 403),
        ("alice", asked, 403),
        ("alice", {"changes": trial}, 403),
        ("alice", {"changes": {"submit": [trial["submit"][0] | {"user": "boss"}]}, "parent": "tenants/acme"}, 403),
        ("boss", asked | {"parent": "tenants/emca"}, 403),
        ("boss", asked | {"changes": dearer["changes"]}, 400),
        ("boss", asked | {"changes": {"nodes": [{"name": "n"}]}}, 400),
        ("boss", asked | {"changes": {"submit": [{"name": "x", "queue": "dev/half", "tenant": "emca"}]}}, 400),
        ("root", dearer | {"changes": {}}, 400),
        ("root", dearer | {"changes": {"pools": [{"name": "hq", "colour": "red"}]}}, 400),
        ("root", dearer | {"changes": {"policies": [own | {"tenant": "nobody"}]}}, 400),
        ("root", dearer | {"since": now, "until": "9"}, 400),
        ("root", dearer | {"since": "2999-01-01T00:00:00Z"}, 400),
        ("root", dearer | {"since": "yesterday"}, 400),
    ):
        response = api.ask(who, "POST", "/v1/audit:whatif", body)
        assert response.status == status, (who, body, response)


MANY = {"submit": [{"name": "x", "queue": "dev/half", "user": "alice", "count": 100_000, "duration": "1m"}]}
"""Hypothetical jobs that are played for much longer than any of these tests waits."""


def players(api: Api) -> set[int]:
    """Copies of the process of this installation that answers what-ifs, and their copies: those that work out one."""
    found: dict[int, int] = {}
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            ours = f"HEADRACE_DATA={api.data}".encode() in (process / "environ").read_bytes()
            if ours and b"headrace.simulate" in (process / "cmdline").read_bytes():
                found[int(process.name)] = int((process / "stat").read_text().rpartition(")")[2].split()[1])
    return {process for process, parent in found.items() if parent in found}


def test_a_what_if_ends_with_its_caller_and_shows_who_waits(api: Api) -> None:
    body = json.dumps({"changes": MANY, "parent": "tenants/acme"}).encode()
    headers = {"authorization": f"Bearer {api.tokens['boss']}", "content-type": "application/json"}
    asking = [http.client.HTTPConnection(urlsplit(api.address).netloc, timeout=PATIENCE) for _ in range(3)]

    def shown(who: str = "root", **query: str) -> list[tuple[str, int]]:
        questions = api.done(who, "GET", "/v1/audit/whatifs", **query).get("questions", [])
        return [(question["caller"], question.get("position", 0)) for question in questions]

    for number, one in enumerate(asking, 1):
        one.request("POST", "/v1/audit:whatif", body, headers)
        until(lambda number=number: len(shown()) == number)
    until(lambda: bool(players(api)))
    first = players(api)
    assert shown() == shown("boss", parent="tenants/acme") == [("acme.boss", 0), ("acme.boss", 1), ("acme.boss", 2)]
    assert api.ask("boss", "GET", "/v1/audit/whatifs").status == 403
    assert shown("viewer", parent="tenants/emca") == []
    dearer = {"pools": [DOCUMENTS["pools"][0] | {"price": {"gpu": "250"}}]}
    assert "total" in api.done("viewer", "POST", "/v1/audit:whatif", {"changes": dearer, "span": "1m"})
    asking[2].close()
    until(lambda: len(shown()) == 2)
    asking[0].close()
    until(lambda: shown() == [("acme.boss", 0)] and not first & players(api))
    asking[1].close()
    until(lambda: not players(api))
    assert shown() == []


# ---- the gateway ----


def test_the_gateway_is_strict_and_speaks_like_the_api(api: Api) -> None:
    for verb, path, body, status in (
        ("GET", "/v1/nowhere", None, 404),
        ("PUT", "/v1/pools", {}, 405),
        ("QUERY", "/v1/pools", None, 405),
        ("QUERY", "/v1/pools", {}, 405),
        ("FROB", "/v1/pools", None, 405),
        ("FROB", "/v1/nowhere", None, 404),
        ("GET", "/v1/pools?colour=red", None, 400),
        ("PATCH", "/v1/pools/hq", {"colour": "red"}, 400),
        ("PATCH", "/v1/pools/hq", {"burst": {"node": {"wheels": 4}}}, 400),
        ("PATCH", "/v1/pools/hq", b'{"price": {}, "price": {}}', 400),
        ("PATCH", "/v1/pools/hq", {"burst": None}, 400),
        ("PATCH", "/v1/pools/hq", None, 400),
        ("POST", "/v1/documents:apply", {}, 400),
        ("PATCH", "/v1/pools/hq", b"[" * 10_000, 400),
        ("PATCH", "/v1/pools/hq", b'{"price": ', 400),
        ("PATCH", "/v1/pools/hq", b"\xff\xfe", 400),
        ("POST", "/v1/tenants/acme/jobs:submit", SUBMITTED % b'"caf\xe9"', 400),
        ("POST", "/v1/tenants/acme/jobs:submit", SUBMITTED % b'["caf\xe9"]', 400),
        ("POST", "/v1/tenants/acme/jobs:submit", SUBMITTED % b'["a\\u0000b"]', 400),
        ("POST", "/v1/tenants/acme/jobs:submit", SUBMITTED % b'"echo hello"', 400),
        (
            "POST",
            "/v1/tenants/acme/jobs:submit",
            {"queue": ["dev/half"], "user": "alice", "jobs": [{"command": ["true"]}]},
            400,
        ),
        ("POST", "/v1/tenants/acme/jobs:submit", {"queue": "dev/half", "user": "alice", "jobs": {"command": ["true"]}}, 400),
        *(("GET", f"/v1/tenants/nobody/{many}", None, 404) for many in LISTS),
        ("GET", "/v1/pools/%2e%2e%2fhq", None, 400),
        ("POST", "/v1/documents:apply", b'{"reason": "' + b"x" * (5 * 1024 * 1024) + b'"}', 413),
    ):
        response = api.ask("root", verb, path, body)
        assert response.status == status, (verb, path, response)
        assert all((response.body["code"], response.body["message"], response.reason)), (verb, path, response)
        assert ("allow" in response.headers) == (status == 405), (verb, path, response)


def test_a_text_in_place_of_a_list_is_refused_with_the_way_out(api: Api) -> None:
    response = api.ask(
        "alice", "POST", "/v1/tenants/acme/jobs:submit", {"queue": "dev/half", "jobs": [{"command": "echo hello"}]}
    )
    assert (response.status, response.body["message"]) == (
        400,
        'jobs.command: write a list such as ["echo", "hello"], not one value',
    )


def test_it_describes_itself_to_all_callers_and_tells_the_caller_who_they_are(api: Api) -> None:
    assert api.done("", "GET", "/openapi.json")["openapi"] == "3.1.0"
    well = api.ask("", "GET", "/healthz")
    assert (well.status, well.body) == (200, {"status": "SERVING"})
    me = api.done("alice", "GET", "/v1/me")
    groups = api.done("boss", "GET", "/v1/tenants/acme/groups")["groups"]
    assert {key: me.get(key) for key in ("role", "tenant", "handle", "groups")} == {
        "role": "tenant member",
        "tenant": "acme",
        "handle": "alice",
        "groups": sorted(group["name"].rpartition("/")[2] for group in groups if "alice" in group.get("members", ())),
    }
    assert "dev" in me["groups"]
    assert api.ask("", "GET", "/v1/me").status == 401


def test_whatever_is_asked_the_answer_is_one_of_the_documents(api: Api) -> None:
    maker = Maker(api.done("", "GET", "/openapi.json"))
    operations = {(verb.upper(), path): operation for verb, path, operation in maker.operations}
    callers = st.sampled_from(["root", "boss", "alice", "ci", "viewer"])

    @settings(max_examples=examples(300), deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(callers, maker.requests())
    def ask(who: str, request: Request) -> None:
        response = api.ask(who, request.verb, request.path, request.body, **request.query)
        assert response.status < 500, (request, response)
        if response.status >= 400:
            assert {"code", "message"} <= response.body.keys(), (request, response)
            return
        (operation,) = [
            found for (verb, path), found in operations.items() if verb == request.verb and maker.is_path(path, request.path)
        ][:1]
        content = operation["responses"]["200"]["content"]
        if "application/json" not in content:  # a file of the page
            assert isinstance(response.body, bytes), (request, response)
            return
        schema = content["application/json"]["schema"]
        assert maker.schema_errors(response.body, schema) == [], (request, response)

    ask()


@pytest.fixture
def documents(api: Api) -> None:
    """The documents as at the start: requests that were made up may have removed any of them."""
    api.done("root", "POST", "/v1/documents:apply", {"documents": DOCUMENTS})


@pytest.mark.usefixtures("documents")
async def test_grpc_goes_through_the_same_port(api: Api) -> None:
    bearer = (("authorization", f"Bearer {api.tokens['boss']}"),)
    async with grpc.aio.insecure_channel(urlsplit(api.address).netloc) as channel:
        get = channel.unary_unary(
            "/headrace.v1.Policies/GetPolicy",
            request_serializer=policies_pb2.GetPolicyRequest.SerializeToString,
            response_deserializer=policies_pb2.Policy.FromString,
        )
        policy = await get(policies_pb2.GetPolicyRequest(name="tenants/acme/policies/dev"), metadata=bearer)
        assert policy.group == "dev"
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await get(policies_pb2.GetPolicyRequest(name="tenants/emca/policies/dev"), metadata=bearer)
        assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
        watch = channel.unary_stream(
            "/headrace.v1.Jobs/WatchJobs",
            request_serializer=jobs_pb2.WatchJobsRequest.SerializeToString,
            response_deserializer=jobs_pb2.JobEvent.FromString,
        )
        async for event in watch(jobs_pb2.WatchJobsRequest(parent="tenants/acme"), metadata=bearer):
            assert event.type in ("job", "alive")
            break


@pytest.mark.usefixtures("documents")
@pytest.mark.parametrize("text", [False, True], ids=["bytes", "text"])
def test_a_browser_speaks_grpc_web_on_the_same_port(api: Api, text: bool) -> None:
    boss = GrpcWeb(api.address, api.tokens["boss"], text=text)
    asked = policies_pb2.GetPolicyRequest(name="tenants/acme/policies/dev")
    (policy,), ended = boss.call("/headrace.v1.Policies/GetPolicy", asked, policies_pb2.Policy)
    assert (policy.group, ended.status) == ("dev", 0)
    asked = policies_pb2.GetPolicyRequest(name="tenants/emca/policies/dev")
    answers, ended = boss.call("/headrace.v1.Policies/GetPolicy", asked, policies_pb2.Policy)
    assert (answers, ended.status) == ([], grpc.StatusCode.PERMISSION_DENIED.value[0])
    stranger = GrpcWeb(api.address, text=text)
    assert stranger.call("/headrace.v1.Policies/GetPolicy", asked, policies_pb2.Policy)[1].status == 16
    assert boss.call("/headrace.v1.Policies/Nothing", asked, policies_pb2.Policy)[1].status == 12
    watch = boss.frames("/headrace.v1.Jobs/WatchJobs", jobs_pb2.WatchJobsRequest(parent="tenants/acme"))
    kinds = {jobs_pb2.JobEvent.FromString(bytes(next(watch))).type for _ in range(1)}
    watch.close()
    assert kinds <= {"job", "alive"}
