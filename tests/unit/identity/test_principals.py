"""What a bearer is today, by what the ledger says."""

from __future__ import annotations

import pytest

from headrace.contracts import facts as f
from headrace.contracts.documents.model import Group, Tenant, User
from headrace.contracts.messages.tokens import TokenRole
from headrace.identity.caller import Caller, Denied, Role, Unauthenticated
from headrace.identity.principals import REVOKED, UNKNOWN, UNVOUCHED, IssuedToken, ProviderToken, act_for, is_stated, resolve
from tests.unit.identity.issuing import NOW, SECOND, Ledger, grant

ENDS = (NOW + 600) * SECOND


@pytest.fixture
def ledger():
    return Ledger()


def given(ledger, **fields):
    """Who shows a token of ours that was made so."""
    made = grant(**fields)
    ledger.give(made)
    return resolve(ledger.state, IssuedToken(made.id, made.expires_at * SECOND))


def theirs(**fields):
    whole = {
        "subjects": ("corp|4711",),
        "tenant": "acme",
        "handle": "ann",
        "role": None,
        "groups": None,
        "token": "theirs",
        "issued_at": NOW * SECOND,
        "expires_at": ENDS,
    }
    return ProviderToken(**{**whole, **fields})


@pytest.mark.parametrize(
    ("fields", "caller"),
    [
        ({}, Caller(Role.TENANT_MEMBER, "acme", "ann", ("audio", "vision"))),
        ({"handle": "lea"}, Caller(Role.TENANT_ADMIN, "acme", "lea")),
        ({"handle": "carla"}, Caller(Role.TENANT_MEMBER, "acme", "carla")),
        ({"role": TokenRole.SERVICE_ACCOUNT, "handle": "ci"}, Caller(Role.SERVICE_ACCOUNT, "acme", "ci", ("vision",))),
        ({"role": TokenRole.NODE, "tenant": "", "handle": "gpu01"}, Caller(Role.NODE, "", "gpu01")),
        ({"role": TokenRole.ADMIN, "tenant": "default", "handle": "ops"}, Caller(Role.PROVIDER_ADMIN, "default", "ops")),
        ({"role": TokenRole.VIEWER, "tenant": "default", "handle": "eye"}, Caller(Role.PROVIDER_VIEWER, "default", "eye")),
    ],
)
def test_a_token_of_ours_is_whom_the_ledger_says(ledger, fields, caller):
    known = Caller(caller.role, caller.tenant, caller.handle, caller.groups, token="t1", expires_at=ENDS)
    assert given(ledger, **fields) == known


@pytest.mark.parametrize(
    "fields", [{"handle": "nobody"}, {"role": TokenRole.SERVICE_ACCOUNT, "handle": "ann"}, {"tenant": "gone"}]
)
def test_a_token_for_whom_no_document_speaks_of_is_good_for_nothing(ledger, fields):
    with pytest.raises(Unauthenticated, match=UNKNOWN[:30]):
        given(ledger, **fields)


def test_a_token_that_was_signed_but_never_stated_is_good_for_nothing(ledger):
    with pytest.raises(Unauthenticated, match=REVOKED[:20]):
        resolve(ledger.state, IssuedToken("forged", ENDS))


@pytest.mark.parametrize(
    "fact",
    [
        f.TokenRevokedV1(author="a.b", token="t1"),
        f.TokenRevokedV1(author="a.b", tenant="acme", handle="ann"),
        f.UserDeletedV1(author="a.b", tenant="acme", handle="ann"),
        f.TenantDeletedV1(author="a.b", name="acme"),
    ],
)
def test_a_revocation_holds_at_once(ledger, fact):
    given(ledger)
    ledger.append_facts(fact)
    with pytest.raises(Unauthenticated):
        resolve(ledger.state, IssuedToken("t1", ENDS))


def test_a_new_member_has_the_group_and_a_former_one_nothing_by_that_act_alone(ledger):
    given(ledger, handle="bob")
    ledger.append_facts(f.GroupAppliedV1(author="a.b", group=Group(tenant="acme", name="audio", members=("bob",))))
    assert resolve(ledger.state, IssuedToken("t1", ENDS)).groups == ("audio", "vision")
    for name in ("audio", "vision"):
        ledger.append_facts(f.GroupAppliedV1(author="a.b", group=Group(tenant="acme", name=name)))
    with pytest.raises(Unauthenticated):
        resolve(ledger.state, IssuedToken("t1", ENDS))


def test_an_administrator_is_one_as_long_as_the_tenants_document_says_so(ledger):
    assert given(ledger, handle="lea").role is Role.TENANT_ADMIN
    ledger.append_facts(
        f.TenantAppliedV1(author="a.b", tenant=Tenant(name="acme")),
        f.UserAppliedV1(author="a.b", user=User(tenant="acme", handle="lea")),
    )
    assert resolve(ledger.state, IssuedToken("t1", ENDS)).role is Role.TENANT_MEMBER


@pytest.mark.parametrize(
    ("fields", "caller"),
    [
        ({}, (Role.TENANT_MEMBER, "acme", "ann", ("audio", "vision"))),
        ({"subjects": ("corp|0815",), "handle": ""}, (Role.TENANT_MEMBER, "acme", "carla", ())),
        ({"handle": "ci"}, (Role.SERVICE_ACCOUNT, "acme", "ci", ("vision",))),
        ({"handle": "lea"}, (Role.TENANT_ADMIN, "acme", "lea", ())),
        ({"handle": "new", "groups": ("vision", "not-a-group")}, (Role.TENANT_MEMBER, "acme", "new", ("vision",))),
        ({"handle": "ann", "groups": ("audio",)}, (Role.TENANT_MEMBER, "acme", "ann", ("audio",))),
        ({"handle": "new", "role": Role.TENANT_ADMIN}, (Role.TENANT_ADMIN, "acme", "new", ())),
        ({"handle": "ops", "role": Role.PROVIDER_ADMIN}, (Role.PROVIDER_ADMIN, "default", "ops", ())),
    ],
)
def test_a_providers_token_is_whom_documents_and_claims_say(ledger, fields, caller):
    found = resolve(ledger.state, theirs(**fields))
    assert (found.role, found.tenant, found.handle, found.groups) == caller


@pytest.mark.parametrize(
    "fields",
    [
        {"handle": "new"},
        {"handle": "new", "groups": ("not-a-group",)},
        {"handle": "carla"},  # that handle is the person's with another subject
        {"handle": "A.B"},
        {"handle": "*"},
        {"tenant": "no-such"},
        {"tenant": ""},
    ],
)
def test_a_providers_token_that_names_no_known_user_lets_no_caller_in(ledger, fields):
    with pytest.raises(Unauthenticated, match=UNKNOWN[:30]):
        resolve(ledger.state, theirs(**fields))


@pytest.mark.parametrize("revoked", [{"token": "theirs"}, {"tenant": "acme", "handle": "ann"}])
def test_a_providers_token_can_be_revoked_here(ledger, revoked):
    assert resolve(ledger.state, theirs()).handle == "ann"
    ledger.append_facts(f.TokenRevokedV1(author="a.b", **revoked))
    with pytest.raises(Unauthenticated, match=REVOKED[:20]):
        resolve(ledger.state, theirs())
    later = theirs(token="next", issued_at=(NOW + 60) * SECOND)
    assert resolve(ledger.state, later).handle == "ann"


def test_a_service_account_acts_for_a_member_where_a_group_of_both_trusts_it(ledger):
    ci = given(ledger, role=TokenRole.SERVICE_ACCOUNT, handle="ci")
    acting = act_for(ledger.state, ci, "vision", "bob")
    assert (acting.author, acting.acting_for) == ("acme.ci", "bob")


@pytest.mark.parametrize(
    ("role", "handle", "user"),
    [
        (TokenRole.SERVICE_ACCOUNT, "ci", "carla"),
        (TokenRole.SERVICE_ACCOUNT, "cd", "bob"),
        (TokenRole.USER, "ann", "bob"),
        (TokenRole.USER, "lea", "bob"),
    ],
)
def test_only_trusted_accounts_act_for_others(ledger, role, handle, user):
    caller = given(ledger, role=role, handle=handle)
    with pytest.raises(Denied, match="on_behalf_of"):
        act_for(ledger.state, caller, "vision", user)


def claimed(ledger, *groups, issued_at=NOW * SECOND, until=ENDS):
    ledger.append_facts(f.MembershipClaimedV1(tenant="acme", handle="new", groups=groups, issued_at=issued_at, until=until))


def test_what_a_token_claims_is_to_be_stated_until_the_ledger_has_it(ledger):
    token = theirs(handle="new", groups=("vision",))
    caller = resolve(ledger.state, token)
    assert (caller.claimed_at, is_stated(ledger.state, caller)) == (token.issued_at, False)
    claimed(ledger, "vision", issued_at=token.issued_at, until=token.expires_at)
    assert is_stated(ledger.state, resolve(ledger.state, token))
    ledger.append_facts(f.GroupAppliedV1(author="a.b", group=Group(tenant="acme", name="vision-2")))
    wider = resolve(ledger.state, theirs(handle="new", groups=("vision", "vision-2")))
    assert not is_stated(ledger.state, wider)


def test_of_two_tokens_the_newer_says_who_is_in_which_group(ledger):
    claimed(ledger, "audio", issued_at=(NOW + 60) * SECOND)
    caller = resolve(ledger.state, theirs(handle="new", groups=("vision",)))
    assert (caller.groups, is_stated(ledger.state, caller)) == (("audio",), True)


def test_of_whom_documents_speak_nothing_has_to_be_stated(ledger):
    assert is_stated(ledger.state, resolve(ledger.state, theirs()))
    assert is_stated(ledger.state, given(ledger))


def bound(tenant, handle, subject="corp|4711", **fields):
    """A person in a document, as its tenant's administrator writes it; vouched for where `fields` say so."""
    return f.UserAppliedV1(author="acme.lea", user=User(tenant=tenant, handle=handle, subject=subject), **fields)


@pytest.fixture
def raised(ledger):
    """The same from level 2 on."""
    ledger.append_facts(f.InstallationLevelV1(level=2, release="0.2.0"))
    return ledger


def test_a_tenant_that_binds_the_subject_of_another_changes_nothing_for_that_person(raised):
    raised.append_facts(f.TenantAppliedV1(author="a.b", tenant=Tenant(name="evil", admins=("eve",))), bound("evil", "puppet"))
    found = resolve(raised.state, theirs())
    assert (found.tenant, found.handle) == ("acme", "ann")
    with pytest.raises(Unauthenticated, match=UNVOUCHED[:40]):
        resolve(raised.state, theirs(tenant="", handle=""))


def test_a_subject_counts_where_the_token_names_the_tenant_or_the_provider_vouches_for_it(raised):
    raised.append_facts(bound("other", "anna"))
    assert resolve(raised.state, theirs(tenant="other", handle="x")).handle == "anna"
    raised.append_facts(bound("other", "anna", vouched=True))
    found = resolve(raised.state, theirs())
    assert (found.tenant, found.handle) == ("other", "anna")
    raised.append_facts(f.UserDeletedV1(author="a.b", tenant="other", handle="anna"), bound("other", "anna"))
    assert resolve(raised.state, theirs()).tenant == "acme"


@pytest.mark.parametrize(("author", "tenant"), [("default.root", "other"), ("other.boss", "acme")])
def test_what_release_0_1_0_wrote_is_vouched_for_where_the_author_can_only_be_the_provider(ledger, author, tenant):
    ledger.append_facts(f.UserAppliedV1(author=author, user=User(tenant="other", handle="anna", subject="corp|4711")))
    assert resolve(ledger.state, theirs()).tenant == tenant


def test_no_document_renames_an_administrator_of_the_provider(raised):
    admin = theirs(handle="root", role=Role.PROVIDER_ADMIN)
    for written in (bound("acme", "puppet"), bound("default", "puppet", vouched=True), bound("default", "root", "corp|other")):
        raised.append_facts(written)
        found = resolve(raised.state, admin)
        assert (found.tenant, found.handle) == ("default", "root")
    raised.append_facts(bound("default", "root", "corp|other", vouched=True))
    with pytest.raises(Unauthenticated):
        resolve(raised.state, admin)  # by the provider's own word that handle is another person's


def test_an_administrator_of_whom_the_claims_give_no_name_is_called_as_the_provider_wrote(raised):
    nameless = theirs(handle="", role=Role.PROVIDER_ADMIN)
    raised.append_facts(bound("default", "root"))
    with pytest.raises(Unauthenticated):
        resolve(raised.state, nameless)
    raised.append_facts(bound("default", "root", vouched=True))
    assert resolve(raised.state, nameless).handle == "root"
