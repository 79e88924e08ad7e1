"""Who may be given a token, and how one is taken away."""

from __future__ import annotations

import pytest

from headrace.contracts import facts as f
from headrace.contracts.messages.tokens import (
    LIFETIME,
    LIFETIME_MAX,
    Grant,
    RevokeRequest,
    TokenRequest,
    TokenRole,
    TokensRequest,
)
from headrace.contracts.values.durations import DAY, SECOND
from headrace.governance.tokens import grant_of, granting, revoking, tokens_of

NOW = 1_800_000_000 * SECOND
SITE = """
tenants: [{name: acme, admins: [lea]}]
groups: [{tenant: acme, name: vision, members: [ann], service_accounts: [ci]}]
"""


@pytest.fixture
def acme(installation):
    installation.write(SITE)
    return installation


def made(name="t1", role="user", tenant="acme", handle="ann"):
    return f.TokenCreatedV1(author="a.b", token=name, role=role, tenant=tenant, handle=handle, expires_at=NOW + DAY)


@pytest.mark.parametrize(
    ("fields", "granted"),
    [
        ({"role": "user", "tenant": "acme", "handle": "ann"}, (TokenRole.USER, "acme", "ann")),
        ({"role": "user", "handle": "ann"}, (TokenRole.USER, "default", "ann")),
        ({"role": "node", "tenant": "acme", "handle": "gpu01"}, (TokenRole.NODE, "", "gpu01")),
        ({"role": "admin", "tenant": "acme", "handle": "ops"}, (TokenRole.ADMIN, "default", "ops")),
    ],
)
def test_what_is_asked_for_is_granted_from_now_on(fields, granted):
    begins = NOW // SECOND
    assert grant_of(TokenRequest(**fields), "t1", NOW) == Grant("t1", *granted, begins, begins + LIFETIME // SECOND)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"role": "root", "handle": "ann"}, "role: there is no role root; there are"),
        ({"role": "user", "handle": "a.b"}, "handle: 'a.b' is not a name"),
        ({"role": "user", "handle": "*"}, "handle: '*' is not a name"),
        ({"role": "user", "handle": "ann", "lifetime": -1}, "expires: a token lives for 1s to 366d"),
        ({"role": "user", "handle": "ann", "lifetime": LIFETIME_MAX + 1}, "expires: a token lives for 1s to 366d"),
    ],
)
def test_what_cannot_be_granted_is_named(fields, says):
    assert grant_of(TokenRequest(**fields), "t1", NOW).startswith(says)


@pytest.mark.parametrize(
    ("role", "handle", "known"),
    [
        ("user", "ann", True),
        ("user", "lea", True),
        ("user", "ci", False),
        ("service-account", "ci", True),
        ("service-account", "ann", False),
        ("node", "gpu99", True),
        ("admin", "anybody", True),
    ],
)
def test_a_token_is_given_to_whom_documents_speak_of(acme, role, handle, known):
    grant = grant_of(TokenRequest(role=role, tenant="acme", handle=handle), "t1", NOW)
    decision = granting(grant, "default.root", "r" * 900, by_provider=True)(acme.state, NOW)
    if known:
        (fact,) = decision.facts
        assert (fact.token, fact.role, fact.tenant, fact.handle) == ("t1", role, grant.tenant, handle)
        assert (fact.author, fact.reason, fact.expires_at) == ("default.root", "r" * 500, grant.expires_at * SECOND)
    else:
        assert (decision.code, decision.facts) == ("NOT_FOUND", ())


def test_a_token_is_revoked_once(acme):
    acme.append_facts(made())
    (fact,) = revoking(RevokeRequest(token="t1", reason="lost"), "default.root")(acme.state, NOW).facts
    assert fact == f.TokenRevokedV1(author="default.root", reason="lost", token="t1")
    acme.append_facts(fact)
    again = revoking(RevokeRequest(token="t1"), "default.root")(acme.state, NOW)
    assert (again.facts, again.answer.changes[0].action) == ((), "keep")


def test_all_of_a_bearer_and_tokens_of_others_can_be_revoked(acme):
    (fact,) = revoking(RevokeRequest(tenant="acme", handle="ann"), "default.root")(acme.state, NOW).facts
    assert (fact.token, fact.tenant, fact.handle) == ("", "acme", "ann")
    (fact,) = revoking(RevokeRequest(token="from-elsewhere"), "default.root")(acme.state, NOW).facts
    assert fact.token == "from-elsewhere"


@pytest.mark.parametrize(
    "request_",
    [RevokeRequest(), RevokeRequest(token="t1", handle="ann"), RevokeRequest(token="x" * 201), RevokeRequest(handle="*")],
)
def test_what_names_no_token_revokes_none(acme, request_):
    decision = revoking(request_, "default.root")(acme.state, NOW)
    assert (decision.code, decision.facts) == ("INVALID", ())


def test_a_tenants_administrator_revokes_the_tenants_tokens_only(acme):
    acme.append_facts(made("t1"), made("t2", tenant="other"))
    for request, allowed in (
        (RevokeRequest(token="t1"), True),
        (RevokeRequest(token="t2"), False),
        (RevokeRequest(token="no-such"), False),
        (RevokeRequest(tenant="acme", handle="ann"), True),
        (RevokeRequest(tenant="other", handle="ann"), False),
    ):
        decision = revoking(request, "acme.lea", within="acme")(acme.state, NOW)
        assert bool(decision.facts) is allowed
        assert allowed or decision.error == "no token of this name belongs to acme"


def test_tokens_are_listed_newest_first_by_tenant(acme):
    acme.append_facts(made("t1"), made("t2", tenant="other"), made("t3"))
    assert [view.id for view in tokens_of(acme.state, TokensRequest()).tokens] == ["t3", "t2", "t1"]
    assert [view.id for view in tokens_of(acme.state, TokensRequest(tenant="other")).tokens] == ["t2"]


@pytest.mark.parametrize("role", ["user", "service-account"])
def test_only_the_provider_gives_a_tenants_people_the_handle_of_an_administrator(acme, role):
    acme.write("groups: [{name: all, members: [ops], service_accounts: [ops]}]")
    grant = grant_of(TokenRequest(role=role, tenant="default", handle="ops"), "t2", NOW)
    assert granting(grant, "default.lea", "", by_provider=False)(acme.state, NOW).code == ""
    acme.append_facts(made("t1", role="admin", tenant="default", handle="ops"))
    refused = granting(grant, "default.lea", "", by_provider=False)(acme.state, NOW)
    assert (refused.code, refused.facts) == ("NOT_ALLOWED", ())
    assert granting(grant, "default.root", "", by_provider=True)(acme.state, NOW).code == ""
    acme.append_facts(f.TokenRevokedV1(author="default.root", token="t1"))
    assert granting(grant, "default.lea", "", by_provider=False)(acme.state, NOW).code == ""


@pytest.mark.parametrize(
    ("role", "given"), [("user", False), ("service-account", False), ("viewer", False), ("admin", True), ("node", True)]
)
def test_where_only_the_owner_is_let_in_no_other_user_is_given_a_token(acme, role, given):
    handle = "ci" if role == "service-account" else "ann"
    grant = grant_of(TokenRequest(role=role, tenant="acme", handle=handle), "t1", NOW)
    decision = granting(grant, "default.root", "", by_provider=True, alone="they run as ada")(acme.state, NOW)
    assert bool(decision.facts) == given
    if not given:
        assert decision.code == "NOT_ALLOWED"
        assert (
            "(they run as ada), so only the owner and administrators can log in: `headrace up --jobs-are-trusted`"
            in decision.error
        )
