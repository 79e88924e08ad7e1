"""The API's local socket: who is not the owner has to show a token there as well, and the owner's login counts nowhere else."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.integration.api import Api, installation
from tests.patience import PATIENCE


class UnixConnection(http.client.HTTPConnection):
    """HTTP on a unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=PATIENCE)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(PATIENCE)
        self.sock.connect(self._path)


@pytest.fixture(scope="module")
def api() -> Iterator[Api]:
    with installation() as made:
        yield made


@pytest.fixture(scope="module")
def password(api: Api) -> str:
    return str(json.loads((api.data / "credentials" / "owner.json").read_text())["password"])


def ask(api: Api, token: str | None, path: str, *, local: bool, verb: str = "GET", **headers: str) -> tuple[int, str]:
    """(status, reason or the body's first words) of one request."""
    endpoint = json.loads((api.data / "endpoint.json").read_text())
    connection = (
        UnixConnection(endpoint["local"])
        if local
        else http.client.HTTPConnection(urlsplit(api.address).netloc, timeout=PATIENCE)
    )
    shown = {} if token is None else {"authorization": f"Bearer {token}"}
    try:
        connection.request(verb, path, b"{}" if verb == "POST" else None, shown | headers)
        answer = connection.getresponse()
        body = json.loads(answer.read())
    finally:
        connection.close()
    return answer.status, body["details"][0]["reason"] if answer.status >= 300 else "done"


DENIED = (401, "UNAUTHENTICATED")


@pytest.mark.parametrize("token", [None, "", "nonsense", "aaa.bbb.ccc"])
def test_every_client_of_the_socket_has_to_show_a_token(api: Api, token: str | None) -> None:
    assert ask(api, token, "/v1/pools", local=True) == DENIED


def test_the_owners_login_counts_at_the_socket_and_nowhere_else_whatever_headers_are_sent(api: Api, password: str) -> None:
    assert ask(api, password, "/v1/tokens", local=True) == (200, "done")
    assert ask(api, password, "/v1/tokens", local=False) == DENIED
    for name in ("headrace-local", "Headrace-Local", "HEADRACE-LOCAL"):
        assert ask(api, password, "/v1/tokens", local=False, **{name: "1"}) == DENIED
    assert ask(api, password[:-1], "/v1/tokens", local=True) == DENIED
    operator = json.loads((api.data / "credentials" / "operator.json").read_text())["password"]
    assert ask(api, operator, "/v1/tokens", local=True) == DENIED


ROLES = (
    ("GET", "/v1/tenants/acme/jobs"),
    ("GET", "/v1/tenants/emca/jobs"),
    ("GET", "/v1/tenants/emca/usage"),
    ("GET", "/v1/usage"),
    ("GET", "/v1/audit/lines"),
    ("GET", "/v1/tenants/emca/audit/lines"),
    ("GET", "/v1/tenants/emca/statement?month=2026-10"),
    ("GET", "/v1/audit/records?exact=true"),
    ("GET", "/v1/audit/state?parent=tenants/emca"),
    ("GET", "/v1/documents?kind=tenant&name=emca"),
    ("GET", "/v1/documents?kind=policy"),
    ("GET", "/v1/tokens"),
    ("GET", "/v1/nodes"),
    ("POST", "/v1/nodes/box:cordon"),
    ("POST", "/v1/documents:delete"),
)


@pytest.mark.parametrize("who", ["alice", "boss", "eve", "ci", "viewer", "root"])
def test_roles_decide_alike_on_both_ways_in(api: Api, who: str) -> None:
    if who not in api.tokens:
        tenant = "emca" if who == "eve" else "acme"
        role = "--service-account" if who == "ci" else "--user"
        api.tokens[who] = api.run("token", "create", role, who, "--tenant", tenant).strip()
    addresses = [
        (ask(api, api.tokens[who], path, local=True, verb=verb), ask(api, api.tokens[who], path, local=False, verb=verb))
        for verb, path in ROLES
    ]
    assert [local for local, _ in addresses] == [remote for _, remote in addresses]
    seen = {path: local[0] for (_, path), (local, _) in zip(ROLES, addresses, strict=True)}
    provider = who in ("viewer", "root")
    assert seen["/v1/tenants/emca/jobs"] == (200 if provider or who == "eve" else 403)
    assert seen["/v1/usage"] == seen["/v1/audit/lines"] == seen["/v1/audit/records?exact=true"] == (200 if provider else 403)
    assert seen["/v1/tokens"] == (200 if provider else 403)
    assert seen["/v1/audit/state?parent=tenants/emca"] == (200 if provider or who == "eve" else 403)
    assert seen["/v1/nodes/box:cordon"] == (200 if who == "root" else 403)
    assert seen["/v1/documents?kind=tenant&name=emca"] == (200 if provider or who == "eve" else 404)


def test_another_tenants_token_sees_nothing_by_the_command_line(api: Api) -> None:
    api.give_tokens(eve="emca", alice="acme")
    (job,) = api.submit("alice", "acme", ["true"])
    name = job["name"].rpartition("/")[2]
    assert name in api.run("jobs", "--json", who="alice")
    assert name not in api.run("jobs", "--json", who="eve")
    assert json.loads(api.run("get", "policy", "--json", who="eve"))[0]["name"] == "emca/dev"


def test_the_socket_is_the_owners_alone(api: Api) -> None:
    local = Path(json.loads((api.data / "endpoint.json").read_text())["local"])
    assert (local.stat().st_mode & 0o777, local.parent.stat().st_mode & 0o777) == (0o600, 0o700)
