from __future__ import annotations

import pytest

from headrace.contracts import facts as f
from headrace.contracts.documents.model import KINDS, Documents, Group, Policy, Pool, Profile, Tenant, User
from headrace.governance.objects import ObjectName, applied, current, deleted, full_name, name_of, names, placed

EVERYTHING = {
    "tenant": Tenant(name="acme"),
    "user": User(tenant="acme", handle="ann"),
    "group": Group(tenant="acme", name="ai"),
    "pool": Pool(name="west", selector={"site": "west"}),
    "profile": Profile(name="half", request={"gpu": 63_000}, pools=("west",)),
    "policy": Policy(tenant="acme", name="ai", group="ai", profiles=()),
}
NAMES = {
    "tenant": ObjectName("tenant", "", "acme"),
    "user": ObjectName("user", "acme", "ann"),
    "group": ObjectName("group", "acme", "ai"),
    "pool": ObjectName("pool", "", "west"),
    "profile": ObjectName("profile", "", "half"),
    "policy": ObjectName("policy", "acme", "ai"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_an_object_is_found_by_the_name_of_its_document_until_it_is_deleted(installation, kind):
    document, name = EVERYTHING[kind], NAMES[kind]
    assert name_of(document) == name
    assert current(installation.state, name) is None
    installation.append_facts(applied(document, "default.admin"))
    assert current(installation.state, name) == (document, 1)
    assert list(names(installation.state, kind)) == [name]
    installation.append_facts(deleted(name, "default.admin"))
    assert current(installation.state, name) is None


@pytest.mark.parametrize("kind", KINDS)
def test_facts_carry_author_and_reason(kind):
    for fact in (applied(EVERYTHING[kind], "acme.ann", "because"), deleted(NAMES[kind], "acme.ann", "because")):
        assert (fact.author, fact.reason) == ("acme.ann", "because")


def test_a_tenants_profile_is_another_one_than_the_providers_of_that_name():
    own = Profile(tenant="acme", name="half", request={}, pools=("west",))
    assert name_of(own) == ObjectName("profile", "acme", "half")
    assert deleted(name_of(own), "a.b") == f.ProfileDeletedV1(author="a.b", tenant="acme", name="half")


@pytest.mark.parametrize(
    ("kind", "text", "tenant", "name"),
    [
        ("policy", "rnd", "", ObjectName("policy", "default", "rnd")),
        ("policy", "rnd", "acme", ObjectName("policy", "acme", "rnd")),
        ("policy", "acme/rnd", "", ObjectName("policy", "acme", "rnd")),
        ("profile", "half", "", ObjectName("profile", "", "half")),
        ("profile", "half", "acme", ObjectName("profile", "acme", "half")),
        ("pool", "west", "acme", ObjectName("pool", "", "west")),
        ("tenant", "acme", "", ObjectName("tenant", "", "acme")),
    ],
)
def test_short_names_mean_the_default_tenant_or_the_provider(kind, text, tenant, name):
    assert full_name(kind, text, tenant) == name


def test_names_are_shown_with_their_tenant():
    name = ObjectName("policy", "acme", "rnd")
    assert (name.full, name.key, str(name)) == ("acme/rnd", "policy/acme/rnd", "policy acme/rnd")
    assert (NAMES["pool"].full, NAMES["pool"].key, str(NAMES["pool"])) == ("west", "pool/west", "pool west")


def test_documents_come_in_the_order_in_which_kinds_depend_on_each_other():
    documents = Documents(
        policies=(EVERYTHING["policy"],),
        users=(EVERYTHING["user"], User(handle="bob")),
        tenants=(EVERYTHING["tenant"],),
    )
    assert [(str(one.name), one.place) for one in placed(documents)] == [
        ("tenant acme", ("tenants", 0)),
        ("user acme/ann", ("users", 0)),
        ("user default/bob", ("users", 1)),
        ("policy acme/ai", ("policies", 0)),
    ]
