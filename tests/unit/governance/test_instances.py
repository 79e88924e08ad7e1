"""Logins of instances: only for those that are to join, believed as far as their pool promises, revoked when they have ended."""

from __future__ import annotations

from headrace.contracts import facts as f
from headrace.contracts.messages.tokens import NodeClaims, TokenRequest
from headrace.contracts.values.durations import DAY, HOUR
from headrace.governance.instances import AUTHOR, logins_of_ended, token_request
from tests.unit.provisioner.cloud import BOOT, NODE, Cloud


def test_an_instance_that_is_to_join_gets_a_login_with_what_its_pool_promises():
    site = Cloud()
    (name,) = site.ordered()
    assert token_request(site.state, name) == TokenRequest(
        role="node",
        handle=name,
        lifetime=30 * DAY,
        reason="pool cloud",
        claims=NodeClaims(labels={"pool": "cloud"}, gpus=NODE.gpus, isolation="hardware"),
    )
    short = Cloud(max_life=HOUR)
    (name,) = short.ordered()
    assert token_request(short.state, name).lifetime == HOUR + 2 * BOOT


def test_no_other_instance_gets_one():
    site = Cloud()
    (name,) = site.ordered()
    site.refused(name)
    assert [token_request(site.state, one) for one in (name, "cloud-x")] == [None, None]


def test_the_login_of_an_instance_that_has_ended_is_revoked_once():
    site = Cloud()
    (name,) = site.joined()
    token = {"role": "node", "tenant": "", "handle": name, "expires_at": site.now + DAY}
    site.append_facts(f.TokenCreatedV1(author=AUTHOR, token="t1", **token))
    assert list(logins_of_ended(site.state)) == []
    site.append_facts(f.InstanceEndedV1(instance=name, cause="idle", at=site.now), by="provisioner")
    revoked = [f.TokenRevokedV1(author=AUTHOR, reason="its instance has ended", token="t1")]
    assert list(logins_of_ended(site.state)) == revoked
    site.append_facts(*revoked)
    assert list(logins_of_ended(site.state)) == []
