"""A tenant's texts are erased when they are not needed any more."""

from __future__ import annotations

import pytest

from headrace.contracts import facts as f
from headrace.contracts.messages.queries import EraseRequest
from headrace.governance.erasure import erasing, owner_of, pseudonym


@pytest.fixture
def busy(site):
    site.write("policies: [{name: p, group: all, profiles: [one]}]")
    return site


def test_a_tenant_without_jobs_is_erased_and_asked_again_once_more(busy):
    for _ in range(2):
        (fact,) = erasing(EraseRequest(tenant="gone", reason="r" * 900), "default.root")(busy.state, 0).facts
        assert fact == f.TenantErasedV1(author="default.root", reason="r" * 500, tenant="gone")
        busy.append_facts(fact)


def test_jobs_that_have_not_ended_keep_their_texts(busy):
    key = busy.job("p/one", on="w1")
    decision = erasing(EraseRequest(tenant="default"), "default.root")(busy.state, 0)
    assert (decision.code, decision.facts) == ("REFUSED", ())
    assert decision.error.startswith("tenant: 1 jobs of default have not ended")
    assert erasing(EraseRequest(tenant="defaul"), "default.root")(busy.state, 0).facts
    busy.release(key)
    assert erasing(EraseRequest(tenant="default"), "default.root")(busy.state, 0).facts


@pytest.mark.parametrize("tenant", ["", "../x", "*", "A"])
def test_what_is_not_a_tenant_erases_nothing(busy, tenant):
    decision = erasing(EraseRequest(tenant=tenant), "default.root")(busy.state, 0)
    assert (decision.code, decision.facts) == ("INVALID", ())


def test_a_person_without_jobs_and_rights_is_erased_under_the_first_name_in_the_place_of_theirs(busy):
    busy.write("users: [{handle: zoe, email: zoe@example.com}]")
    request = EraseRequest(tenant="default", user="zoe", reason="asked")
    for called in (pseudonym("1"), pseudonym("2")):
        decision = erasing(request, "default.root", called)(busy.state, 0)
        (fact,) = decision.facts
        fields = {"author": "default.root", "reason": "asked", "tenant": "default", "handle": "zoe"}
        assert fact == f.UserErasedV1(**fields, pseudonym="erased-1")
        busy.append_facts(fact)
    assert ("default", "zoe") not in busy.state.users
    assert busy.state.tokens.erased == {("default", "zoe"): "erased-1"}
    assert busy.state.tokens.is_outdated(("default", "zoe"), 1, 0)
    assert [owner_of(each) for each in (request, EraseRequest(tenant="acme"))] == ["default.zoe", "acme"]


def test_who_has_jobs_or_rights_is_not_erased(busy):
    key = busy.job("p/one", on="w1")
    user = key.split(".")[1]
    request = EraseRequest(tenant="default", user=user)
    error = erasing(request, "default.root", "x")(busy.state, 0).error
    assert error == f"user: 1 jobs of {user} have not ended and need what they run; cancel them first"
    busy.release(key)
    busy.write(f"tenants: [{{name: default, admins: [{user}]}}]")
    decision = erasing(request, "default.root", "x")(busy.state, 0)
    assert (decision.code, decision.facts) == ("REFUSED", ())
    assert decision.error == f"user: group all, tenant default (admins) still names {user}; apply it without, then erase"


def test_who_has_no_key_is_erased_where_the_ledger_speaks_of_them(busy):
    def code(tenant, user=""):
        return erasing(EraseRequest(tenant=tenant, user=user), "default.root", "x", has_key=False)(busy.state, 0).code

    busy.write("users: [{tenant: acme, handle: ann}]")
    key = busy.job("p/one", on="w1")
    busy.release(key)
    busy.write("groups: [{name: all, members: []}]")
    busy.append_facts(f.UserErasedV1(author="a.b", tenant="gone", handle="eve", pseudonym="x"))
    known = [("default", ""), ("acme", ""), ("acme", "ann"), ("default", key.split(".")[1]), ("gone", "eve")]
    assert [code(*each) for each in known] == [""] * 5
    assert [code(*each) for each in (("acmee", ""), ("acme", "anne"), ("default", "eve"))] == ["NOT_FOUND"] * 3


@pytest.mark.parametrize("user", ["../x", "*", "A"])
def test_what_is_not_a_person_erases_no_person(busy, user):
    decision = erasing(EraseRequest(tenant="default", user=user), "default.root", "x")(busy.state, 0)
    assert (decision.code, decision.error) == ("INVALID", f"user: {user!r} is not a name")
