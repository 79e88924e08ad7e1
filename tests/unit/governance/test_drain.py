from __future__ import annotations

import pytest

from headrace.contracts import facts as f
from headrace.governance.drain import DrainTracker, cascade
from headrace.governance.objects import ObjectName

ADMIN = "default.admin"
DOCUMENTS = """
tenants: [{name: acme, shares: [{pool: east, limit: {gpu: 2}}]}]
users: [{tenant: acme, handle: ann}]
groups: [{tenant: acme, name: web, members: [ann]}]
profiles: [{tenant: acme, name: own, request: {gpu: 1}, pools: [east]}]
policies: [{tenant: acme, name: web, group: web, profiles: [own, both], per_pool: {east: {limit: {gpu: 1}}}}]
"""


@pytest.fixture
def old(site):
    site.write(DOCUMENTS)
    return site


def close(site, kind, name, mode, tenant=""):
    site.append_facts(f.ObjectClosedV1(author=ADMIN, kind=kind, tenant=tenant, name=name, mode=mode))


def end(site, key, *, state="cancelled"):
    site.append_facts(f.JobEndedV1(job=key, attempt=0, state=state, cause=state), by="allocator")


def written(facts):
    return [f.fact_type(type(fact)) for fact in facts]


def test_with_a_tenant_goes_what_it_owns_policies_first(old):
    goes = cascade(old.state, ObjectName("tenant", "", "acme"), ADMIN)
    assert written(goes.facts) == ["policy.deleted.v1", "profile.deleted.v1", "group.deleted.v1", "user.deleted.v1"]
    assert goes.lines == (
        "policy acme/web is deleted",
        "profile acme/own is deleted",
        "group acme/web is deleted",
        "user acme/ann is deleted",
    )
    assert goes.in_the_way == ()


def test_policies_lose_a_profile_that_goes(old):
    goes = cascade(old.state, ObjectName("profile", "", "both"), ADMIN)
    (fact,) = goes.facts
    assert [link.name for link in fact.policy.profiles] == ["own"]
    assert goes.lines == ("policy acme/web loses it",)


def test_profiles_policies_and_shares_lose_a_pool_that_goes(old):
    old.write("profiles: [{tenant: acme, name: own, request: {gpu: 1}, pools: [east, west]}]")
    goes = cascade(old.state, ObjectName("pool", "", "east"), ADMIN)
    assert goes.in_the_way == ()
    shares, both, own, policy = goes.facts
    assert (shares.tenant.shares, both.profile.pools, own.profile.pools, policy.policy.per_pool) == (
        (),
        ("west",),
        ("west",),
        {},
    )


def test_a_pool_on_which_reservations_rest_stays(old):
    old.node("e1", site="east", gpus=2)
    old.node("w1", site="west", gpus=1)
    old.write("profiles: [{tenant: acme, name: own, request: {gpu: 1}, pools: [east, west]}]")
    old.write("policies: [{tenant: acme, name: web, group: web, profiles: [own], reservation: {gpu: 3}}]")
    (line,) = cascade(old.state, ObjectName("pool", "", "east"), ADMIN).in_the_way
    assert "R8" in line


def test_what_is_written_anew_stays_closed_if_it_was(old):
    close(old, "policy", "web", "freeze", "acme")
    facts = cascade(old.state, ObjectName("profile", "", "both"), ADMIN).facts
    assert written(facts) == ["policy.applied.v1", "object.closed.v1"]
    old.append_facts(*facts)
    assert old.state.terms.closings["policy", "acme", "web"].mode == "freeze"


def test_what_is_drained_goes_when_what_runs_has_ended_even_if_jobs_wait(old):
    running, _waiting = old.job("web/own", tenant="acme", on="e1"), old.job("web/own", tenant="acme")
    close(old, "profile", "own", "drain", "acme")
    ends = DrainTracker(old.state)
    assert ends.due() == ()
    old.release(running)
    assert written(ends.due()) == ["policy.applied.v1", "profile.deleted.v1"]


def test_what_is_cancelled_goes_when_no_job_waits_any_more_either(old):
    waiting = old.job("web/own", tenant="acme")
    close(old, "policy", "web", "cancel", "acme")
    ends = DrainTracker(old.state)
    assert ends.due() == ()
    end(old, waiting)
    assert ends.due() == (f.PolicyDeletedV1(author=ADMIN, reason="its jobs are cancelled", tenant="acme", name="web"),)


def test_what_is_frozen_stays(old):
    close(old, "policy", "web", "freeze", "acme")
    assert DrainTracker(old.state).due() == ()


def test_what_has_come_in_the_way_since_keeps_it_until_documents_change(old):
    close(old, "policy", "web", "drain", "acme")
    old.write("pools: [{name: south, selector: {site: south}, dedicated_to: {policy: acme/web}}]")
    ends = DrainTracker(old.state)
    assert ends.due() == ()
    assert ends.due() == ()
    old.write("pools: [{name: south, selector: {site: south}}]")
    assert written(ends.due()) == ["policy.deleted.v1"]


def test_a_pool_is_in_use_while_something_is_held_in_it(old):
    old.write("profiles: [{tenant: acme, name: own, request: {gpu: 1}, pools: [east, west]}]")
    running = old.job("web/own", tenant="acme", on="e1")
    close(old, "pool", "east", "drain")
    ends = DrainTracker(old.state)
    assert ends.due() == ()
    old.release(running)
    assert written(ends.due())[-1] == "pool.deleted.v1"
