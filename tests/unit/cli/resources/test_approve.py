"""`headrace node approve`, and the claims of `headrace token create --node`."""

from __future__ import annotations

import json

import pytest

from headrace.contracts.messages.queries import ApplyAnswer, Change
from headrace.contracts.messages.tokens import ApproveNodeRequest, NodeClaims, TokenAnswer, TokenRequest

UPDATED = ApplyAnswer(
    changes=(Change(kind="node", name="gpu01", action="update", fields=("gpus: 0 -> 8", "isolation: none -> kernel")),),
    applied=True,
)
KEPT = ApplyAnswer(changes=(Change(kind="node", name="gpu01", action="keep"),), applied=True)


@pytest.mark.parametrize(
    ("words", "request_"),
    [
        ("", ApproveNodeRequest(node="gpu01")),
        ("--gpus 8 --reason seen", ApproveNodeRequest(node="gpu01", claims=NodeClaims(gpus=8), reason="seen")),
        (
            "--labels site=hq,gpu.driver=* --isolation kernel",
            ApproveNodeRequest(node="gpu01", claims=NodeClaims(labels={"site": "hq", "gpu.driver": "*"}, isolation="kernel")),
        ),
        ("--labels=", ApproveNodeRequest(node="gpu01", claims=NodeClaims(labels={}))),
    ],
)
def test_a_node_is_approved_as_typed_and_what_has_changed_is_told(headrace, words, request_):
    ran = headrace(f"node approve gpu01 {words}", approve=UPDATED)
    assert ran[:3] == (0, "gpu01: gpus: 0 -> 8\ngpu01: isolation: none -> kernel\n", "")
    assert ran.calls == [("approve", (request_,), {})]


def test_an_approval_that_was_given_before_says_so(headrace):
    assert headrace("node approve gpu01", approve=KEPT)[:3] == (0, "gpu01: nothing has changed\n", "")
    assert json.loads(headrace("node approve gpu01 --json", approve=KEPT).out)["applied"] is True


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        ("--isolation kernal", 2, "argument --isolation: unknown level 'kernal'"),
        ("--gpus -1", 2, "argument --gpus: invalid number '-1': write a whole number from 0 on"),
        ("--labels site", 2, "argument --labels: expected KEY=VALUE, not 'site'"),
    ],
)
def test_claims_that_make_no_sense_are_one_line(headrace, words, code, error):
    ran = headrace(f"node approve gpu01 {words}", approve=UPDATED)
    assert (ran.code, error in ran.err, len(ran.err.splitlines())) == (code, True, 1)


def test_a_nodes_token_says_what_the_node_may_claim(headrace):
    answer = TokenAnswer(token="a.b.c", id="t1", expires_at=5)
    ran = headrace("token create --node gpu01 --labels site=hq --gpus 8 --isolation driver", create_token=answer)
    claims = NodeClaims(labels={"site": "hq"}, gpus=8, isolation="driver")
    request = TokenRequest(role="node", handle="gpu01", claims=claims)
    assert ran.calls == [("create_token", (request,), {})]
    assert headrace("token create --user ann --gpus 8", create_token=answer)[:3] == (
        1,
        "",
        "headrace: --labels, --gpus and --isolation are for tokens of --node\n",
    )
