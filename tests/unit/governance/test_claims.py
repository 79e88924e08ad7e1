from __future__ import annotations

from headrace.contracts import facts as f
from headrace.governance.claims import claiming
from headrace.identity.caller import Caller, Role

ANN = Caller(Role.TENANT_MEMBER, "default", "ann", ("all",), expires_at=900, claimed_at=100)


def test_what_a_token_claims_is_stated_once(installation):
    decision = claiming(ANN)(installation.state, 0)
    assert decision.facts == (f.MembershipClaimedV1(tenant="default", handle="ann", groups=("all",), issued_at=100, until=900),)
    installation.append_facts(*decision.facts)
    assert claiming(ANN)(installation.state, 0).facts == ()
    assert claiming(Caller(Role.TENANT_MEMBER, "default", "bob", ("all",)))(installation.state, 0).facts == ()
