"""Orders while the API is away: on the installation's machine *governance* is asked itself, elsewhere the failure is told."""

from __future__ import annotations

import socket
from contextlib import asynccontextmanager

import pytest

from headrace.cli import away
from headrace.cli.main import main
from headrace.client import Refused, Unreachable
from headrace.supervisor import api_away

AWAY = Unreachable("the API does not answer at /d/gateway/local.sock")


@pytest.fixture
def direct(monkeypatch):
    """What *governance* itself was asked on this machine."""
    asked = []

    class Direct:
        async def call(self, method, request):
            asked.append((method, request))
            return {"changes": [{"kind": "token", "name": "t1", "action": "update"}], "applied": True}

    @asynccontextmanager
    async def governance(installation):
        assert installation == "the installation"
        yield Direct()

    monkeypatch.setattr(away, "_installation", lambda _: "the installation")
    monkeypatch.setattr(api_away, "_governance", governance)
    return asked


@pytest.mark.parametrize(
    ("line", "answers", "method", "request_"),
    [
        ("node uncordon gpu01 --reason fan", "node_order", "UncordonNode", {"name": "nodes/gpu01", "reason": "fan"}),
        ("node cordon gpu01", "node_order", "CordonNode", {"name": "nodes/gpu01", "reason": ""}),
        ("token revoke t1", "revoke", "RevokeToken", {"name": "tokens/t1", "reason": ""}),
        (
            "token revoke --user ann --tenant acme --reason gone",
            "revoke",
            "RevokeBearer",
            {"handle": "ann", "parent": "tenants/acme", "reason": "gone"},
        ),
        ("token revoke --node gpu01", "revoke", "RevokeBearer", {"handle": "gpu01", "reason": ""}),
    ],
)
def test_the_owners_order_goes_to_governance_itself(headrace, direct, line, answers, method, request_):
    ran = headrace(line, **{answers: AWAY})
    assert (ran.code, ran.err) == (0, f"headrace: {AWAY}; asking governance directly\n")
    assert direct == [(method, request_)]


def test_a_refusal_is_not_asked_again(headrace, direct):
    ran = headrace("node uncordon gpu01", node_order=Refused("NOT_FOUND", "there is no node gpu01"))
    assert (ran.code, ran.err, direct) == (1, "headrace: there is no node gpu01\n", [])


def test_elsewhere_it_is_told_that_the_api_is_away(headrace, monkeypatch):
    monkeypatch.setattr(away, "_installation", lambda _: None)
    ran = headrace("node uncordon gpu01", node_order=AWAY)
    assert (ran.code, ran.err) == (1, f"headrace: {AWAY}\n")


def test_a_gateway_that_takes_the_connection_and_does_not_answer_is_away_after_seconds(direct, monkeypatch, capsys):
    monkeypatch.setattr(away, "ANSWER_WITHIN", 0.05)
    monkeypatch.setenv("HEADRACE_TOKEN", "a.b.c")
    with socket.create_server(("127.0.0.1", 0)) as hung:
        called = f"http://127.0.0.1:{hung.getsockname()[1]}"
        code = main(["--server", called, "node", "cordon", "gpu01"])
    away_for = f"{called} has not answered within 0.05 s; `headrace status` shows what is not running"
    assert (code, capsys.readouterr().err) == (0, f"headrace: {away_for}; asking governance directly\n")
    assert direct == [("CordonNode", {"name": "nodes/gpu01", "reason": ""})]
