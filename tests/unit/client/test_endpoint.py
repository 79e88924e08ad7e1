"""Which installation, and which login: given, from the environment, or from the files that `up` writes."""

from __future__ import annotations

import json
from pathlib import Path

import jwt
import pytest

from headrace.client.endpoint import ConnectionTarget, Login, data_directory, find, read_login
from headrace.client.errors import Unreachable

OWNER = Login(name="owner", password="secret", kind="admin", tenant="default", user="ada")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory as `headrace up` leaves it."""
    (tmp_path / "credentials").mkdir()
    (tmp_path / "endpoint.json").write_text(
        json.dumps({"url": "nats://127.0.0.1:4222", "credentials": "credentials/owner.json"})
    )
    owner = {"name": "owner", "password": "secret", "kind": "admin", "tenant": "default", "user": "ada"}
    (tmp_path / "credentials" / "owner.json").write_text(json.dumps(owner))
    return tmp_path


def test_the_data_directory_is_what_is_given_else_what_the_environment_says_else_at_home():
    home = Path("~/.local/share/headrace").expanduser()
    assert data_directory("/given", {"HEADRACE_DATA": "/said"}) == Path("/given")
    assert data_directory(None, {"HEADRACE_DATA": "/said"}) == Path("/said")
    assert data_directory(None, {}) == home


def test_the_installation_of_this_machine_is_found_by_its_endpoint_file(data):
    assert find(data=data, environment={}) == ConnectionTarget("nats://127.0.0.1:4222", OWNER)


def test_the_environment_names_an_installation_elsewhere(data, tmp_path):
    login = tmp_path / "alice.json"
    login.write_text('{"name": "acme-alice", "password": "p", "tenant": "acme", "user": "alice"}')
    environment = {"HEADRACE_URL": "nats://elsewhere:4222", "HEADRACE_CREDENTIALS": str(login)}
    alice = Login(name="acme-alice", password="p", tenant="acme", user="alice")
    assert find(environment=environment) == ConnectionTarget("nats://elsewhere:4222", alice)
    assert find("nats://nearer:1", environment=environment) == ConnectionTarget("nats://nearer:1", alice)
    assert find(data=data, environment={"HEADRACE_CREDENTIALS": str(login)}) == ConnectionTarget("nats://127.0.0.1:4222", alice)


def token(**claims):
    return jwt.encode(claims, "a secret that is long enough for HS256", algorithm="HS256")


def test_a_token_is_a_login_and_says_whose_it_is(data):
    made = token(role="user", tenant="acme", handle="alice")
    alice = Login(name="acme_alice", password=made, tenant="acme", user="alice")
    environment = {"HEADRACE_TOKEN": made, "HEADRACE_CREDENTIALS": "/nowhere", "HEADRACE_USER": "mallory"}
    assert find("nats://elsewhere:4222", environment=environment) == ConnectionTarget("nats://elsewhere:4222", alice)
    assert find(data=data, environment=environment) == ConnectionTarget("nats://127.0.0.1:4222", alice)
    assert find(data=data, credentials=data / "credentials" / "owner.json", environment=environment).login == OWNER


def test_a_providers_token_is_whose_the_environment_says(data):
    theirs = token(sub="4711")
    environment = {"HEADRACE_TOKEN": theirs, "HEADRACE_TENANT": "acme", "HEADRACE_USER": "ann"}
    assert find(data=data, environment=environment).login == Login(name="acme_ann", password=theirs, tenant="acme", user="ann")
    with pytest.raises(Unreachable, match="set HEADRACE_TENANT and HEADRACE_USER"):
        find(data=data, environment={"HEADRACE_TOKEN": theirs})


def test_where_nothing_is_installed_the_error_says_how_to_start(tmp_path):
    with pytest.raises(Unreachable, match=r"no Headrace in .*Start one with `headrace up`"):
        find(data=tmp_path / "nothing", environment={})


def test_an_address_without_a_login_is_told_apart(tmp_path):
    with pytest.raises(Unreachable, match="HEADRACE_CREDENTIALS has to name a login file"):
        find(data=tmp_path, environment={"HEADRACE_URL": "nats://elsewhere:4222"})


@pytest.mark.parametrize(("content", "message"), [(None, "cannot be read"), ("{", "is damaged"), ('{"name": 1}', "is damaged")])
def test_a_login_that_cannot_be_read_is_one_line(tmp_path, content, message):
    path = tmp_path / "login.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(Unreachable, match=message):
        read_login(path)
