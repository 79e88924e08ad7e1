"""What administrators wrote becomes true, whatever is under way."""

import pytest

from headrace.contracts import facts as f
from headrace.contracts.documents.model import Policy, Pool, Profile, Scope, Share, Tenant
from headrace.contracts.values.amounts import GPU, GPU_UNITS
from headrace.domain.model.job_states import JobState
from headrace.domain.snapshots.snapshot import copy_of
from tests.unit.domain.hall import Hall, gpus
from tests.unit.domain.site import Site, policy


def test_a_node_belongs_to_the_pool_whose_selector_it_matches_and_follows_the_selector():
    hall = Hall(nodes=2, devices=4)
    assert (sorted(hall.pool.nodes), hall.pool.known[GPU]) == (["n1", "n2"], 8 * GPU_UNITS)
    hall.append_facts("governance", f.PoolAppliedV1(author="a.b", pool=Pool(name="hall", selector={"site": "elsewhere"})))
    assert (hall.pool.nodes, hall.pool.known[GPU]) == ({}, 0)


def test_a_node_that_holds_leases_stays_where_it_is():
    hall = Hall()
    hall.policy("p")
    hall.run("p", "j", ("n1", 0, 1))
    hall.append_facts("governance", f.PoolAppliedV1(author="a.b", pool=Pool(name="hall", selector={"site": "elsewhere"})))
    assert list(hall.pool.nodes) == ["n1"]


def test_an_objects_revision_is_the_sequence_that_last_wrote_it():
    hall = Hall()
    policy = hall.policy("p")
    assert (policy.revision, hall.state.profiles["", "p"].revision) == (hall.sequence, hall.sequence)


def test_a_policy_without_any_reservation_block_has_reservation_zero_and_one_with_a_pools_block_has_only_that():
    hall = Hall()
    assert hall.policy("none").wide.reservation == {}
    per_pool = {"hall": Scope(reservation=gpus(2), limit=gpus(3))}
    document = Policy(tenant="acme", name="pooled", profiles=(), per_pool=per_pool)
    hall.append_facts("governance", f.PolicyAppliedV1(author="a.b", policy=document))
    pooled = hall.state.policies["acme", "pooled"]
    assert (pooled.wide.reservation, pooled.scopes["hall"].reservation, pooled.scopes["hall"].limit) == (None, gpus(2), gpus(3))


def test_accounts_are_open_in_every_pool_that_jobs_of_a_policy_may_go_to():
    def at(*pools: str) -> Profile:
        return Profile(name="one", request=gpus(1), pools=pools)

    site = Site(policy("dev"))
    dev, key = site.state.policies["default", "dev"], ("default", "dev")
    seen = [sorted(dev.scopes)]
    site.law(at("hall", "annex"))
    seen += [sorted(dev.scopes), sorted(copy_of(site.state).policies[key].scopes)]
    assert seen == [["hall"], ["annex", "hall"], ["annex", "hall"]]

    site.law(Profile(name="unlinked", request=gpus(1), pools=("cellar",)))
    site.admit("a", "dev/unlinked")
    seen = [sorted(dev.scopes), sorted(copy_of(site.state).policies[key].scopes)]
    site.law(Profile(name="unlinked", request=gpus(1), pools=("cellar", "attic")))
    assert (*seen, sorted(dev.scopes)) == (["annex", "cellar", "hall"],) * 2 + (["annex", "attic", "cellar", "hall"],)


@pytest.mark.parametrize("is_deleted", [False, True], ids=["a policy", "a deleted policy"])
def test_a_new_share_starts_with_what_the_tenants_policies_hold_already(is_deleted):
    hall = Hall()
    hall.policy("p")
    hall.run("p", "j", ("n1", 0, 3), preemptible=False)
    if is_deleted:
        hall.append_facts("governance", f.PolicyDeletedV1(author="a.b", tenant="acme", name="p"))
    tenant = Tenant(name="acme", shares=(Share(pool="hall", reservation=gpus(4)),))
    hall.append_facts("governance", f.TenantAppliedV1(author="a.b", tenant=tenant))
    share = hall.state.shares["acme", "hall"]
    assert [account[GPU] for account in (share.leased, share.use, share.firm)] == [3 * GPU_UNITS] * 3
    hall.append_facts("governance", f.TenantAppliedV1(author="a.b", tenant=Tenant(name="acme")))
    assert hall.state.shares == {}


def test_a_pool_that_is_held_stays_although_it_was_deleted_meanwhile():
    hall = Hall()
    hall.policy("p")
    job = hall.run("p", "j", ("n1", 0, 1))
    hall.append_facts("governance", f.PoolDeletedV1(author="a.b", name="hall"))
    assert "hall" in hall.state.pools
    hall.end(job)
    hall.append_facts("governance", f.PoolDeletedV1(author="a.b", name="hall"))
    assert (hall.state.pools, hall.state.nodes["n1"].pool) == ({}, "")


def test_a_job_admitted_while_its_policy_was_being_deleted_is_not_lost():
    hall = Hall()
    policy = hall.policy("p")
    hall.append_facts("governance", f.PolicyDeletedV1(author="a.b", tenant="acme", name="p"))
    job = hall.admit("p", "j")
    assert (job.policy, job.state, hall.state.documents_sequence) == (policy, JobState.PENDING, hall.sequence)


def test_nothing_is_granted_on_a_cordoned_node():
    hall = Hall()
    hall.append_facts("governance", f.NodeCordonedV1(author="acme.root", node="n1"))
    node = hall.state.nodes["n1"]
    assert (node.cordoned, node.grantable, node.healthy) == ("cordoned by acme.root", False, True)
    hall.append_facts("governance", f.NodeUncordonedV1(author="acme.root", node="n1"))
    assert node.grantable
