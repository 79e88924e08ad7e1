"""What can be read off the state without a rule: kinds of job states, what is open, who is called what, what has changed."""

from __future__ import annotations

from headrace.contracts import facts as f
from headrace.contracts.documents import model as d
from headrace.domain.model.job_states import FINAL, HOLDING, JobState
from headrace.domain.state.state import State
from tests.unit.domain.site import Site, gpus, place, policy, profile


def test_every_job_waits_holds_leases_or_is_out():
    assert {JobState.PENDING} | HOLDING | FINAL == set(JobState)
    assert (JobState.PENDING in HOLDING | FINAL, HOLDING & FINAL) == (False, frozenset())


def test_a_node_knows_the_name_of_its_pool_and_the_state_has_the_pool():
    site = Site()
    site.node("n1", 1)
    node = site.state.nodes["n1"]
    there = [(node.pool, site.state.pool_of(node) is site.state.pools["hall"])]
    site.append_facts(f.PoolDeletedV1(author="a.b", name="hall"))
    assert [*there, (node.pool, site.state.pool_of(node))] == [("hall", True), ("", None)]


def test_two_states_share_nothing():
    one, other = Site().state, State()
    assert (one.jobs is other.jobs, one.pending is other.pending, other.pools) == (False, False, {})


def test_a_tenants_own_profile_hides_the_providers_of_the_same_name():
    site = Site(policy("dev", tenant="acme"))
    own = profile("one", gpus(2), tenant="acme")
    site.law(own)
    assert (site.state.profile("acme", "one"), site.state.profile("default", "one")) == (own, profile("one"))
    site.append_facts(f.ProfileDeletedV1(author="a.b", tenant="acme", name="one"))
    assert [site.state.profile("acme", name) for name in ("one", "none")] == [profile("one"), None]


def test_groups_belong_to_their_tenant():
    site, crew = Site(), d.Group(tenant="acme", name="crew", members=("eve",))
    site.law(crew)
    assert [site.state.group(tenant, "crew") for tenant in ("acme", "default")] == [crew, None]


def test_the_default_tenant_always_exists_and_others_once_they_are_written():
    site = Site(tenants=(d.Tenant(name="acme"),))
    assert [site.state.has_tenant(name) for name in ("default", "acme", "nobody")] == [True, True, False]


def changed_names(site: Site) -> tuple[list[str], list[str]]:
    """Names of the groups' profiles and of the policies that have changed since the last look."""
    changes = site.state.pending.changes
    site.state.pending.watch()
    return [group.profile for group in changes.groups], [one.document.name for one in changes.policies]


def test_a_reader_is_told_each_change_once():
    site = Site(policy("dev"), policy("ops"))
    site.node()
    site.state.pending.watch()
    seen = [changed_names(site)]
    job = site.admit("a")
    site.admit("b", "ops/two")
    seen.append(changed_names(site))
    site.grant(job, place("n1", 0))
    seen.append(changed_names(site))
    seen.append(changed_names(site))
    assert seen == [([], []), (["one", "two"], []), (["one"], ["dev"]), ([], [])]


def test_without_a_reader_nothing_is_collected():
    site = Site()
    site.node()
    site.grant(site.admit("one"), place("n1", 0))
    assert site.state.pending.changes is None
