"""`headrace token`."""

from __future__ import annotations

import json

import pytest

from headrace.client import Refused
from headrace.contracts.messages.queries import ApplyAnswer, Change
from headrace.contracts.messages.tokens import RevokeRequest, TokenAnswer, TokenRequest, TokensAnswer, TokenView
from headrace.contracts.values.durations import DAY

MADE = TokenAnswer(token="aaa.bbb.ccc", id="t1", expires_at=5)


@pytest.mark.parametrize(
    ("line", "request_"),
    [
        ("--user alice", TokenRequest(role="user", handle="alice", tenant="default")),
        ("--user alice --tenant acme", TokenRequest(role="user", handle="alice", tenant="acme")),
        (
            "--service-account ci --expires 90d",
            TokenRequest(role="service-account", handle="ci", tenant="default", lifetime=90 * DAY),
        ),
        ("--node gpu01 --reason new", TokenRequest(role="node", handle="gpu01", reason="new")),
        ("--admin", TokenRequest(role="admin", handle="admin")),
        ("--viewer eye", TokenRequest(role="viewer", handle="eye")),
    ],
)
def test_a_token_is_asked_for_as_typed_and_printed_alone(headrace, line, request_):
    ran = headrace(f"token create {line}", create_token=MADE)
    assert (ran.code, ran.out) == (0, "aaa.bbb.ccc\n")
    assert ran.calls == [("create_token", (request_,), {})]


def test_who_may_not_see_all_tokens_is_shown_those_of_their_tenant(headrace):
    denied = Refused("NOT_ALLOWED", "you may not do this here")
    ran = headrace("token list", tokens=[denied, TokensAnswer()])
    assert ran.calls == [("tokens", ("",), {}), ("tokens", ("default",), {})]
    assert headrace("token list --tenant acme", tokens=denied)[:3] == (1, "", "headrace: you may not do this here\n")


def test_a_program_gets_the_id_as_well(headrace):
    assert json.loads(headrace("token create --user alice --json", create_token=MADE).out)["id"] == "t1"


@pytest.mark.parametrize("line", ["", "--user a --node b", "--user a --expires soon", "--group a"])
def test_whom_a_token_is_for_has_to_be_said_once(headrace, line):
    assert headrace(f"token create {line}").code == 2


def test_tokens_are_listed(headrace):
    view = TokenView(
        id="t1", role="user", tenant="acme", handle="ann", author="a.b", created_at=1_000_000, expires_at=2_000_000
    )
    ran = headrace("token list --tenant acme", tokens=TokensAnswer(tokens=(view,)))
    assert ran.calls == [("tokens", ("acme",), {})]
    assert ran.out.splitlines()[0].split() == ["ID", "ROLE", "TENANT", "NAME", "BY", "MADE", "EXPIRES"]
    assert ran.out.splitlines()[1].split()[:5] == ["t1", "user", "acme", "ann", "a.b"]
    assert headrace("token list", tokens=TokensAnswer()).out == "No tokens; `headrace token create` makes one.\n"


@pytest.mark.parametrize(
    ("line", "request_"),
    [
        ("t1 --reason lost", RevokeRequest(token="t1", reason="lost")),
        ("--user ann --tenant acme", RevokeRequest(tenant="acme", handle="ann")),
        ("--service-account ci", RevokeRequest(tenant="default", handle="ci")),
        ("--node gpu01", RevokeRequest(handle="gpu01")),
    ],
)
def test_a_token_or_all_of_a_bearer_are_revoked(headrace, line, request_):
    answer = ApplyAnswer(changes=(Change(kind="token", name="t1", action="delete"),), applied=True)
    ran = headrace(f"token revoke {line}", revoke=answer)
    assert (ran.code, ran.out) == (0, "t1 is revoked\n")
    assert ran.calls == [("revoke", (request_,), {})]


def test_a_token_that_was_revoked_before_is_said_to_be(headrace):
    answer = ApplyAnswer(changes=(Change(kind="token", name="t1", action="keep"),), applied=True)
    assert headrace("token revoke t1", revoke=answer).out == "t1 was revoked before\n"


def test_nothing_is_revoked_where_nothing_is_named(headrace):
    ran = headrace("token revoke")
    assert (ran.code, ran.calls) == (1, [])
    assert "name a token by its id" in ran.err
