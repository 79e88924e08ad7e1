from __future__ import annotations

import pytest

from headrace.contracts.api import tokens_pb2 as pb
from headrace.contracts.values.durations import DAY
from headrace.governance.api import tokens
from headrace.governance.api.errors import ApiError
from headrace.identity.caller import Caller, Denied, Role
from headrace.service.answering import Refused
from tests.unit.governance.api.conftest import NOW

LEA = Caller(Role.TENANT_ADMIN, "default", "lea")
VIEWER = Caller(Role.PROVIDER_VIEWER, "default", "auditor")


@pytest.fixture
def make(site, call):
    """A token for a user of the tenant `default` or `acme`, of the provider, or a node."""
    site.write("groups: [{tenant: acme, name: dev, members: [bob]}]\ntenants: [{name: acme}]")
    site.write("groups: [{name: all, members: [ann, lea], service_accounts: [ci]}]\ntenants: [{name: default, admins: [lea]}]")

    async def made(role, handle, parent="", *, caller=None, **more):
        request = pb.CreateTokenRequest(
            parent=parent, token=pb.Token(role=role, handle=handle, lifetime=more.pop("lifetime", "")), **more
        )
        return await tokens.create_token(request, call("CreateToken", *([caller] if caller else [])))

    return made


async def names(call, parent="", caller=None, **more):
    asked = pb.ListTokensRequest(parent=parent, **more)
    return [one.name for one in (await tokens.list_tokens(asked, call("ListTokens", *([caller] if caller else [])))).tokens]


async def test_a_token_is_told_once_and_listed_without_what_its_bearer_shows(make, call, backend):
    made = await make("user", "ann", "tenants/default", lifetime="90d", reason="a laptop", caller=LEA)
    assert (made.bearer, made.author, made.expire_time.seconds) == (
        "the.signed.token",
        "default.lea",
        (NOW + 90 * DAY) // 1_000_000,
    )
    assert made.name == f"tenants/default/tokens/{backend.signed[0].id}"
    found = await tokens.get_token(pb.GetTokenRequest(name=made.name), call("GetToken", LEA))
    assert (found.name, found.role, found.handle, found.bearer) == (made.name, "user", "ann", "")
    assert await names(call, "tenants/default", LEA) == [made.name]


async def test_who_only_tries_is_given_none(make, call, backend):
    made = await make("user", "ann", "tenants/default", validate_only=True)
    assert (made.bearer, backend.signed, await names(call)) == ("", [], [])
    with pytest.raises(Refused, match="there is no user default/stranger"):
        await make("user", "stranger", "tenants/default", validate_only=True)


@pytest.mark.parametrize(
    ("role", "handle", "parent", "more", "complaint"),
    [
        ("boss", "ann", "tenants/default", {}, "token.role: there is no role boss"),
        ("user", "Ann!", "tenants/default", {}, "token.handle: 'Ann!' is not a name"),
        ("user", "ann", "tenants/default", {"lifetime": "soon"}, "token.lifetime: "),
        ("user", "ann", "tenants/default", {"lifetime": "367d"}, "token.lifetime: a token lives for 1s to 366d"),
        ("user", "ann", "", {}, "token.role: tokens of this role are made under /v1/tenants/acme/tokens"),
        ("node", "gpu01", "tenants/default", {}, "token.role: tokens of this role are made under /v1/tokens"),
        ("user", "ann", "pools/x", {}, "parent: 'pools/x' does not match this kind of name"),
    ],
)
async def test_what_is_wrong_is_told_by_its_field(make, role, handle, parent, more, complaint):
    with pytest.raises(ApiError) as fault:
        await make(role, handle, parent, **more)
    assert fault.value.message.startswith(complaint)


async def test_a_tenants_administrator_makes_sees_and_ends_what_is_the_tenants_alone(make, call):
    await make("admin", "lea")
    await make("node", "gpu01")
    theirs = await make("user", "bob", "tenants/acme")
    own = await make("service-account", "ci", "tenants/default")
    assert len(await names(call)) == 4
    assert await names(call, "tenants/default", LEA) == [own.name]
    for role, parent in (("admin", "tenants/default"), ("node", "tenants/default")):
        with pytest.raises(Denied):
            await make(role, "lea", parent, caller=LEA)
    for name in (f"tenants/default/tokens/{theirs.name.rpartition('/')[2]}", "tenants/default/tokens/none", theirs.name + "x"):
        with pytest.raises(ApiError, match="there is no token"):
            await tokens.revoke_token(pb.RevokeTokenRequest(name=name), call("RevokeToken", LEA))
    with pytest.raises(ApiError, match="there is no bearer 'lea'"):  # of whom the provider has one, too
        await tokens.revoke_bearer(pb.RevokeBearerRequest(parent="tenants/default", handle="lea"), call("RevokeBearer", LEA))
    with pytest.raises(ApiError, match="there is no bearer 'root'"):
        await tokens.revoke_bearer(pb.RevokeBearerRequest(parent="tenants/default", handle="root"), call("RevokeBearer", LEA))
    plan = await tokens.revoke_token(pb.RevokeTokenRequest(name=own.name, reason="lost"), call("RevokeToken", LEA))
    assert plan.applied
    found = await tokens.get_token(pb.GetTokenRequest(name=own.name), call("GetToken", VIEWER))
    assert found.HasField("revoke_time")


async def test_all_that_a_bearer_has_ends_at_once(make, call, site):
    mine = [await make("user", "ann", "tenants/default") for _ in range(2)]
    other = await make("user", "lea", "tenants/default")
    asked = pb.RevokeBearerRequest(parent="tenants/default", handle="ann", validate_only=True)
    assert not (await tokens.revoke_bearer(asked, call("RevokeBearer", LEA))).applied
    asked.validate_only = False
    assert (await tokens.revoke_bearer(asked, call("RevokeBearer", LEA))).applied
    good = [
        view.name
        for view in (await tokens.list_tokens(pb.ListTokensRequest(filter='revoke_time = ""'), call("ListTokens"))).tokens
    ]
    assert good == [other.name]
    assert site.state.tokens.is_outdated(("default", "ann"), site.state.sequence - 1, 0)
    assert len(mine) == 2


async def test_lists_come_in_pages(make, call):
    made = sorted([(await make("user", "ann", "tenants/default")).name for _ in range(3)])
    first = await tokens.list_tokens(pb.ListTokensRequest(page_size=2), call("ListTokens"))
    rest = await tokens.list_tokens(pb.ListTokensRequest(page_size=2, page_token=first.next_page_token), call("ListTokens"))
    assert ([one.name for one in first.tokens], [one.name for one in rest.tokens]) == (made[:2], made[2:])
    assert rest.next_page_token == ""
