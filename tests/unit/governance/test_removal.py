from __future__ import annotations

import pytest

from headrace.contracts import facts as f
from headrace.contracts.messages.queries import Change, DeleteRequest
from headrace.governance.removal import Removal, remove

OLD = """
tenants: [{name: acme, shares: [{pool: east}]}, {name: idle}, {name: let-in}]
users: [{tenant: acme, handle: ann}, {tenant: acme, handle: bob}]
groups: [{tenant: acme, name: web, members: [ann]}, {tenant: acme, name: spare}, {tenant: acme, name: kept-out}]
pools:
  - {name: north, selector: {site: north}}
  - {name: south, selector: {site: south}, access: {allow: [let-in], deny: [acme/kept-out]}, dedicated_to: {policy: acme/web}}
profiles: [{tenant: acme, name: own, request: {gpu: 1}, pools: [east]}, {name: spare, request: {gpu: 1}, pools: [west]}]
policies:
  - {tenant: acme, name: web, group: web, profiles: [own], per_pool: {west: {limit: {gpu: 1}}}}
  - {tenant: acme, name: alone, group: web, profiles: []}
"""


@pytest.fixture
def old(site):
    site.write(OLD)
    return site


def closed(kind, name, mode, tenant="", **more):
    return f.ObjectClosedV1(author="default.admin", kind=kind, tenant=tenant, name=name, mode=mode, **more)


def ask(installation, kind, name, **fields):
    return remove(installation.state, DeleteRequest(kind=kind, name=name, **fields), "default.admin")


@pytest.mark.parametrize(
    ("kind", "name", "fact"),
    [
        ("tenant", "idle", f.TenantDeletedV1(author="default.admin", reason="gone", name="idle")),
        ("user", "acme/bob", f.UserDeletedV1(author="default.admin", reason="gone", tenant="acme", handle="bob")),
        ("group", "acme/spare", f.GroupDeletedV1(author="default.admin", reason="gone", tenant="acme", name="spare")),
        ("pool", "north", f.PoolDeletedV1(author="default.admin", reason="gone", name="north")),
        ("profile", "spare", f.ProfileDeletedV1(author="default.admin", reason="gone", tenant="", name="spare")),
        ("policy", "acme/alone", f.PolicyDeletedV1(author="default.admin", reason="gone", tenant="acme", name="alone")),
    ],
)
def test_what_is_neither_used_nor_named_can_go(old, kind, name, fact):
    change = Change(kind=kind, name=name, action="delete", revision=4)
    assert ask(old, kind, name, reason="gone") == Removal((change,), (fact,))
    old.append_facts(fact)
    assert ask(old, kind, name).code == "NOT_FOUND"


@pytest.mark.parametrize(
    ("kind", "name", "named_by"),
    [
        (
            "tenant",
            "acme",
            (
                "user acme/ann, user acme/bob, group acme/web, group acme/spare, group acme/kept-out, profile acme/own, "
                "policy acme/web, policy acme/alone"
            ),
        ),
        ("tenant", "let-in", "pool south"),
        ("user", "acme/ann", "group acme/web"),
        ("group", "acme/web", "policy acme/web, policy acme/alone"),
        ("group", "acme/kept-out", "pool south"),
        ("pool", "west", "profile one, profile three, profile both, profile spare, policy acme/web"),
        ("pool", "east", "profile both, profile acme/own, tenant acme"),
        ("profile", "acme/own", "policy acme/web"),
        ("policy", "acme/web", "pool south"),
    ],
)
def test_what_others_name_cannot_go(old, kind, name, named_by):
    assert ask(old, kind, name) == Removal(
        code="REFUSED", error=f"{kind} {name} is named by {named_by}: change or delete those first (R11)"
    )


@pytest.mark.parametrize(
    ("kind", "name", "in_use"),
    [
        ("policy", "acme/web", "pending=2 running=1"),
        ("profile", "acme/own", "pending=2 running=1"),
        ("tenant", "acme", "pending=2 running=1"),
        ("user", "acme/ann", "pending=1 running=1"),
        ("user", "acme/bob", "pending=1 running=0"),
        ("pool", "east", "pending=2 running=1"),
    ],
)
def test_what_jobs_are_under_cannot_go_and_the_counts_are_told(old, kind, name, in_use):
    old.job("web/own", tenant="acme", on="e1")
    old.job("web/own", tenant="acme")
    old.job("web/own", tenant="acme", user="bob")
    removal = ask(old, kind, name)
    assert removal.code == "REFUSED"
    assert removal.error.startswith(f"{kind} {name} is in use ({in_use})")
    assert f"pending={removal.pending} running={removal.running}" == in_use
    assert removal.facts == ()


def test_both_reasons_stand_in_one_line(old):
    old.job("web/own", tenant="acme")
    assert ask(old, "profile", "own", tenant="acme").error == (
        "profile acme/own is in use (pending=1 running=0) and named by policy acme/web: "
        "cancel its jobs or let them end, or choose a mode: freeze, drain, cancel, and change or delete those first (R11)"
    )


def test_a_pool_in_which_something_runs_cannot_go_although_no_document_names_it_any_more(site):
    site.write("policies: [{name: p, group: all, profiles: [both]}]")
    site.job("p/both", on="e1")
    site.write("profiles: [{name: both, request: {gpu: 1}, pools: [west]}]")
    assert ask(site, "pool", "east").error == (
        "pool east is in use (pending=0 running=1): "
        "cancel its jobs or let them end, or choose a mode: freeze, drain, cancel (R11)"
    )


def test_ended_jobs_are_in_no_ones_way(site):
    site.write("policies: [{name: p, group: all, profiles: [one]}]")
    key = site.job("p/one")
    site.append_facts(f.JobEndedV1(job=key, attempt=0, state="cancelled", cause="cancelled"), by="allocator")
    assert ask(site, "policy", "p").error == ""


@pytest.mark.parametrize(
    ("fields", "code", "error"),
    [
        ({"kind": "polcy", "name": "x"}, "INVALID", "kind: there is no kind polcy; did you mean policy?"),
        (
            {"kind": "policy", "name": "wbe", "tenant": "acme"},
            "NOT_FOUND",
            "there is no policy acme/wbe; did you mean acme/web?",
        ),
        ({"kind": "policy", "name": "web"}, "NOT_FOUND", "there is no policy default/web; did you mean acme/web?"),
        (
            {"kind": "user", "name": "acme/ann", "mode": "drain"},
            "INVALID",
            "mode: a user has none; take the user out of its groups and cancel the jobs, then delete without a mode",
        ),
        (
            {"kind": "policy", "name": "acme/web", "mode": "dry"},
            "INVALID",
            "mode: there is no mode dry; there are cancel, drain, freeze",
        ),
        (
            {"kind": "policy", "name": "acme/alone", "revision": 3},
            "STALE",
            "policy acme/alone is at revision 4, the deletion is based on 3: get it again",
        ),
        ({"kind": "policy", "name": "acme/alone", "revision": 4}, "", ""),
    ],
)
def test_what_cannot_be_understood_or_is_overtaken(old, fields, code, error):
    removal = remove(old.state, DeleteRequest(**fields), "default.admin")
    assert (removal.code, removal.error, bool(removal.facts)) == (code, error, not code)


def test_by_a_mode_it_is_closed_now_whatever_is_under_it_or_names_it(old):
    old.job("web/own", tenant="acme", on="e1")
    old.job("web/own", tenant="acme")
    fields = ("closed: no -> freeze",)
    change = Change(kind="profile", name="acme/own", action="update", fields=fields, revision=4)
    fact = closed("profile", "own", "freeze", "acme", reason="ticket")
    assert ask(old, "profile", "acme/own", mode="freeze", reason="ticket") == Removal((change,), (fact,), running=1, pending=1)
    old.append_facts(fact)
    again = Change(kind="profile", name="acme/own", action="keep", revision=4)
    assert ask(old, "profile", "acme/own", mode="freeze") == Removal((again,), running=1, pending=1)
    drained = ask(old, "profile", "acme/own", mode="drain")
    assert drained.facts == (closed("profile", "own", "drain", "acme"),)
    assert drained.changes[0].fields == ("closed: freeze -> drain", "with it: policy acme/web loses it")


@pytest.mark.parametrize(
    ("kind", "name", "mode", "error"),
    [
        ("policy", "acme/web", "drain", "policy acme/web cannot be deleted: it is named by pool south"),
        ("tenant", "let-in", "cancel", "tenant let-in cannot be deleted: it is named by pool south"),
        ("group", "acme/web", "drain", "group acme/web cannot be deleted: it is named by pool south"),
        (
            "pool",
            "west",
            "drain",
            (
                "pool west cannot be deleted: it is the only pool of profile one, it is the only pool of profile three, "
                "it is the only pool of profile spare"
            ),
        ),
    ],
)
def test_what_could_never_go_is_not_drained(old, kind, name, mode, error):
    removal = ask(old, kind, name, mode=mode)
    assert (removal.code, removal.facts) == ("REFUSED", ())
    assert removal.error == f"{error}: change or delete those first (R11)"
    assert ask(old, kind, name, mode="freeze").code == ""
