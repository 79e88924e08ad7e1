"""Which installation is meant: arguments before the environment, that before the current context, that before this machine."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode

import pytest

from headrace.client.api import ApiTarget
from headrace.client.client import connect
from headrace.client.contexts import (
    Chosen,
    Context,
    Contexts,
    Targets,
    chosen_context,
    find_targets,
    only_here,
    read_contexts,
    write_contexts,
)
from headrace.client.errors import Refused, Unreachable

WORK, HOME = Context(server="https://work", token="t1"), Context(server="https://home", token="t2", tenant="acme", user="ann")


def bearer(**claims):
    return f"e.{urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip('=')}.s"


@pytest.fixture
def environment(tmp_path):
    path = tmp_path / "config" / "contexts.json"
    write_contexts(path, Contexts(current="work", contexts={"work": WORK, "home": HOME}))
    return {"HEADRACE_CONTEXTS": str(path)}


@pytest.fixture
def data(tmp_path):
    folder = tmp_path / "data"
    (folder / "credentials").mkdir(parents=True)
    login = {"name": "owner", "password": "secret", "kind": "admin", "tenant": "default", "user": "root"}
    (folder / "credentials" / "owner.json").write_text(json.dumps(login))
    endpoint = {"url": "nats://x", "credentials": "credentials/owner.json", "api": "http://127.0.0.1:1"}
    (folder / "endpoint.json").write_text(json.dumps(endpoint | {"local": str(folder / "local.sock")}))
    return folder


def test_the_file_is_for_its_owner_alone_and_not_read_otherwise(environment, tmp_path):
    path = tmp_path / "config" / "contexts.json"
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert read_contexts(path).contexts == {"work": WORK, "home": HOME}
    path.chmod(0o640)
    with pytest.raises(Unreachable, match="can be read by others, and has tokens: `chmod 600"):
        read_contexts(path)


def test_a_file_that_is_damaged_is_told(tmp_path):
    path = tmp_path / "contexts.json"
    path.touch(0o600)
    path.write_text("{")
    with pytest.raises(Unreachable, match="contexts.json is damaged"):
        read_contexts(path)
    assert read_contexts(tmp_path / "none.json") == Contexts()


@pytest.mark.parametrize(
    ("chosen", "more", "found"),
    [
        (Chosen(), {}, WORK),
        (Chosen(context="home"), {}, HOME),
        (Chosen(context="local"), {}, None),
        (Chosen(), {"HEADRACE_CONTEXT": "home"}, HOME),
        (Chosen(data="/d"), {"HEADRACE_CONTEXT": "home"}, None),
        (Chosen(), {"HEADRACE_DATA": "/d"}, None),
        (Chosen(), {"HEADRACE_SERVER": "https://other"}, Context(server="https://other")),
        (Chosen(server="https://home/"), {}, HOME),
        (Chosen(server="https://home"), {"HEADRACE_TOKEN": "t"}, Context(server="https://home")),
    ],
)
def test_the_first_that_is_given_counts(environment, chosen, more, found):
    assert chosen_context(chosen, environment | more) == found


def test_an_unknown_context_is_told_with_those_that_there_are(environment):
    with pytest.raises(Refused, match="context: unknown context 'nowhere'; there are home, work"):
        chosen_context(Chosen(context="nowhere"), environment)


def test_a_context_is_the_api_alone_unless_nats_is_named_as_well(environment):
    found = find_targets(Chosen(context="home"), environment)
    assert found == Targets(ApiTarget(server="https://home", token="t2"), None, "acme", "ann")
    both = find_targets(
        Chosen(),
        environment | {"HEADRACE_URL": "nats://y", "HEADRACE_SERVER": "https://a", "HEADRACE_TOKEN": bearer(handle="bob")},
    )
    assert (both.nats.url, both.api.server, both.user) == ("nats://y", "https://a", "bob")


def test_whom_a_token_speaks_for_is_read_from_it_and_may_be_unknown(environment):
    token = bearer(role="user", tenant="acme", handle="bob")
    found = find_targets(Chosen(server="https://a"), environment | {"HEADRACE_TOKEN": token})
    assert (found.tenant, found.user) == ("acme", "bob")
    found = find_targets(Chosen(server="https://a"), environment | {"HEADRACE_TOKEN": "x.y.z"})
    assert (found.tenant, found.user) == ("", "")


def test_a_server_without_a_token_is_refused_with_the_way_out(environment):
    with pytest.raises(Unreachable, match="no token for https://a: set HEADRACE_TOKEN"):
        find_targets(Chosen(server="https://a"), environment)


def test_on_this_machine_the_owners_login_is_shown_at_the_socket_and_a_token_of_the_environment_before_it(data):
    found = find_targets(Chosen(data=data), {})
    assert found.api == ApiTarget(socket=str(data / "local.sock"), token="secret")
    assert (found.nats.url, found.tenant, found.user) == ("nats://x", "default", "root")
    token = bearer(tenant="acme", handle="bob")
    (data / "local.sock").touch()
    assert find_targets(Chosen(data=data), {"HEADRACE_TOKEN": token}).api == ApiTarget(
        socket=str(data / "local.sock"), token=token
    )


def test_the_owners_login_is_never_shown_at_a_port(data):
    endpoint = json.loads((data / "endpoint.json").read_text())
    (data / "endpoint.json").write_text(json.dumps(endpoint | {"local": ""}))
    assert find_targets(Chosen(data=data), {}).api is None
    token = bearer(tenant="acme", handle="bob")
    assert find_targets(Chosen(data=data), {"HEADRACE_TOKEN": token}).api == ApiTarget(server="http://127.0.0.1:1", token=token)


def test_while_an_installation_starts_its_api_is_said_to_come(data):
    (data / "endpoint.json").write_text(json.dumps({"url": "nats://x", "credentials": "credentials/owner.json"}))
    with pytest.raises(Unreachable) as refusal:
        _ = connect(data=data).called
    assert str(refusal.value) == (
        f"the API of Headrace in {data} has not started yet: `headrace up` says when everything is ready"
    )


def test_where_only_nats_is_named_the_api_is_unknown(data):
    environment = {"HEADRACE_URL": "nats://y", "HEADRACE_TOKEN": bearer(tenant="acme", handle="bob")}
    found = find_targets(Chosen(), environment)
    assert (found.api, found.nats.url) == (None, "nats://y")


@pytest.mark.parametrize(
    ("url", "api", "is_here"),
    [
        ("nats://127.0.0.1:4222", "http://127.0.0.1:8080", True),
        ("nats://127.0.0.1:4222,nats://127.0.0.1:4223", "", True),
        ("tls://gpus.example:4222", "https://127.0.0.1:8080", False),
        ("nats://127.0.0.1:4222", "https://gpus.example:8080", False),
    ],
)
def test_an_installation_is_on_this_machine_only_if_it_listens_on_the_loopback_only(data, url, api, is_here):
    (data / "endpoint.json").write_text(json.dumps({"url": url, "credentials": "", "api": api}))
    assert only_here(environment={"HEADRACE_DATA": str(data)}) == (data.stat().st_uid if is_here else None)


def test_another_installation_is_not_on_this_machine(data, environment, tmp_path):
    (data / "endpoint.json").write_text(json.dumps({"url": "nats://127.0.0.1:1", "credentials": ""}))
    assert only_here(context="home", environment=environment) is None
    assert only_here(server="https://x", environment=environment) is None
    assert only_here(environment={"HEADRACE_DATA": str(data), "HEADRACE_URL": "nats://x"}) is None
    assert only_here(environment={"HEADRACE_DATA": str(tmp_path / "none"), "HEADRACE_CONTEXTS": str(tmp_path / "c")}) is None
