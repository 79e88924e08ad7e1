"""What operators approve of nodes' claims."""

from __future__ import annotations

import pytest

from headrace.contracts import facts as f
from headrace.contracts.facts.nodes import Device
from headrace.contracts.messages.tokens import ApproveNodeRequest, Grant, NodeClaims, TokenRequest, TokenRole
from headrace.governance.approvals import approving, claims_error
from headrace.governance.tokens import grant_of, granting

ADMIN = "default.admin"
LEVEL_2 = f.InstallationLevelV1(level=2, release="0.2.0")


@pytest.fixture
def raised(site):
    """An installation at level 2."""
    site.append_facts(LEVEL_2)
    return site


def registered(hall, node, gpus=2, **labels):
    devices = tuple(Device(device=f"gpu{number}", model="H100-80GB", memory=81_920) for number in range(gpus))
    fact = f.NodeRegisteredV1(node=node, labels=labels, devices=devices, cpu=1, memory=1, isolation="driver", reads=2, at=1)
    hall.append_facts(fact, by=f"node.{node}")


def decided(site, operation):
    """The decision; what was stated is law."""
    decision = operation(site.state, 0)
    if decision.facts:
        site.append_facts(*decision.facts)
    return decision


def token(site, node, claims=None):
    grant = Grant(f"t-{len(site.state.tokens.known)}", TokenRole.NODE, "", node, 0, 10**6)
    return decided(site, granting(grant, ADMIN, "new", by_provider=True, claims=claims))


def approve(site, node, **claims):
    return decided(site, approving(ApproveNodeRequest(node=node, claims=NodeClaims(**claims), reason="seen"), ADMIN))


def approved(node, labels, gpus, isolation, *, joins=True, reason="seen"):
    return f.NodeApprovedV1(author=ADMIN, reason=reason, node=node, labels=labels, gpus=gpus, isolation=isolation, joins=joins)


def stands(site, node):
    there = site.state.nodes[node]
    return (there.pool, len(there.devices), there.isolation)


def test_a_token_without_claims_lets_a_node_into_no_pool_until_it_is_approved(raised):
    assert token(raised, "gpu01").facts[1:] == (approved("gpu01", {}, 0, "none", joins=False, reason="new"),)
    registered(raised, "gpu01", site="west")
    assert stands(raised, "gpu01") == ("", 0, "none")
    decision = approve(raised, "gpu01")
    assert decision.facts == (approved("gpu01", {"site": "west"}, 2, "driver"),)
    assert decision.answer.changes[0].fields == (
        "labels: none -> site=west",
        "gpus: 0 -> 2",
        "isolation: none -> driver",
        "may join a pool: no -> yes",
    )
    assert stands(raised, "gpu01") == ("west", 2, "driver")
    assert approve(raised, "gpu01").answer.changes[0].action == "keep"


def test_a_token_with_claims_needs_no_approval_and_what_is_beyond_it_does(raised):
    claims = NodeClaims(labels={"site": "west"}, gpus=2, isolation="driver")
    assert token(raised, "gpu01", claims).facts[1:] == (approved("gpu01", {"site": "west"}, 2, "driver", reason="new"),)
    registered(raised, "gpu01", site="west")
    assert stands(raised, "gpu01") == ("west", 2, "driver")
    registered(raised, "gpu01", gpus=1_000, site="east")
    assert stands(raised, "gpu01") == ("", 2, "driver")


def test_another_token_of_a_node_leaves_what_was_approved(raised):
    token(raised, "gpu01", NodeClaims(labels={"site": "west"}, gpus=2, isolation="driver"))
    assert token(raised, "gpu01").facts[1:] == ()
    registered(raised, "own", site="west")
    assert token(raised, "own").facts[1:] == (approved("own", {"site": "west"}, 2, "driver", reason="new"),)
    assert stands(raised, "own") == ("west", 2, "driver")


def test_a_token_with_some_claims_leaves_the_rest_as_it_was_approved(raised):
    token(raised, "gpu01", NodeClaims(labels={"site": "west"}, gpus=2, isolation="driver"))
    more = token(raised, "gpu01", NodeClaims(gpus=4))
    assert more.facts[1:] == (approved("gpu01", {"site": "west"}, 4, "driver", reason="new"),)
    assert token(raised, "gpu01", NodeClaims(gpus=4)).facts[1:] == ()
    registered(raised, "own", site="west")
    assert token(raised, "own", NodeClaims(gpus=1)).facts[1:] == (approved("own", {"site": "west"}, 1, "driver", reason="new"),)


def test_claims_without_a_field_are_empty(raised):
    token(raised, "gpu01", NodeClaims(labels={"site": "west"}, gpus=2, isolation="driver"))
    assert token(raised, "gpu01", NodeClaims()).facts[1:] == ()
    grant = grant_of(TokenRequest(role="user", handle="ann", claims=NodeClaims()), "t1", 10**15)
    assert isinstance(grant, Grant)


def test_a_field_that_is_said_is_approved_alone(raised):
    token(raised, "gpu01", NodeClaims(labels={"site": "west"}, gpus=2, isolation="driver"))
    registered(raised, "gpu01", gpus=4, site="west")
    assert approve(raised, "gpu01", gpus=3).facts == (approved("gpu01", {"site": "west"}, 3, "driver"),)
    assert stands(raised, "gpu01") == ("west", 3, "driver")
    assert approve(raised, "gpu01", isolation="watchdog").answer.changes[0].fields == ("isolation: driver -> watchdog",)


def test_the_owners_node_is_believed_until_an_operator_says_otherwise(raised):
    registered(raised, "own", gpus=4, site="west")
    assert approve(raised, "own").answer.changes[0].action == "keep"
    assert approve(raised, "own", gpus=1).facts == (approved("own", {"site": "west"}, 1, "driver"),)
    assert stands(raised, "own") == ("west", 1, "driver")


def test_a_node_that_has_not_come_yet_is_approved_by_what_is_said(raised):
    token(raised, "gpu01")
    refused = approve(raised, "gpu01")
    assert (refused.code, refused.error) == (
        "REFUSED",
        "gpu01 has not registered yet; say what it may claim with --labels, --gpus and --isolation",
    )
    assert approve(raised, "gpu01", gpus=2, labels={"site": "*"}).facts == (approved("gpu01", {"site": "*"}, 2, "none"),)
    assert approve(raised, "gpu02").code == "NOT_FOUND"


@pytest.mark.parametrize(
    ("claims", "error"),
    [
        (
            NodeClaims(labels={"a": ""}),
            "labels: 'a': write KEY=VALUE, each of 1 to 127 printable characters; the value * stands for any",
        ),
        (NodeClaims(labels={str(number): "x" for number in range(65)}), "labels: write at most 64"),
        (NodeClaims(gpus=-1), "gpus: write 0 to 1024"),
        (NodeClaims(gpus=1_025), "gpus: write 0 to 1024"),
        (NodeClaims(isolation="kernal"), "isolation: there is no level kernal; did you mean kernel?"),
        (NodeClaims(labels={"site": "hq"}, gpus=0, isolation="none"), ""),
    ],
)
def test_claims_that_make_no_sense_are_refused_with_the_field(claims, error):
    assert claims_error(claims) == error


def test_only_a_nodes_token_has_claims():
    request = TokenRequest(role="user", handle="ann", claims=NodeClaims(gpus=1))
    assert grant_of(request, "t1", 10**15) == "claims: labels, GPUs and isolation belong to tokens of nodes only"
    request = TokenRequest(role="node", handle="gpu01", claims=NodeClaims(gpus=-1))
    assert grant_of(request, "t1", 10**15) == "gpus: write 0 to 1024"


def test_below_level_2_a_token_is_made_as_before_and_claims_are_refused_with_the_way_out(site):
    assert [type(fact) for fact in token(site, "gpu01").facts] == [f.TokenCreatedV1]
    refused = token(site, "gpu02", NodeClaims(gpus=1))
    assert (refused.code, refused.facts) == ("REFUSED", ())
    assert "`headrace status` says what keeps it there" in refused.error
    assert approve(site, "w1").code == "REFUSED"


def test_nodes_and_tokens_of_release_0_1_0_keep_what_they_had(site):
    token(site, "gpu01")
    token(site, "gpu02")
    registered(site, "gpu01", site="west")
    site.append_facts(LEVEL_2)
    assert stands(site, "gpu01") == ("west", 2, "driver")
    registered(site, "gpu01", gpus=1_000, site="west")
    registered(site, "gpu02", gpus=3, site="east")
    assert (stands(site, "gpu01"), stands(site, "gpu02")) == (("west", 2, "driver"), ("east", 3, "driver"))
    registered(site, "gpu02", gpus=4, site="west")
    assert stands(site, "gpu02") == ("", 3, "driver")
    registered(site, "w1", gpus=11, site="west")
    assert stands(site, "w1") == ("west", 11, "driver")
