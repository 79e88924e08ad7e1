from __future__ import annotations

from headrace.contracts import facts as f
from headrace.contracts.facts.fact import Ladder
from headrace.governance.dependents import jobs_under, naming_party, referring
from headrace.governance.objects import ObjectName


def test_a_group_has_no_jobs_of_its_own_because_admitted_jobs_stay(site):
    site.write("policies: [{name: p, group: all, profiles: [one]}]")
    site.job("p/one", on="w1")
    assert jobs_under(site.state, ObjectName("group", "default", "all")) == (0, 0)
    assert jobs_under(site.state, ObjectName("policy", "default", "p")) == (1, 0)


def test_a_suspended_job_that_moves_is_under_both_pools(site):
    """R29: it still holds something where it was suspended, and places are kept for it in the other pool."""
    site.write("""
    pools: [{name: west, selector: {site: west}}, {name: east, selector: {site: east}}]
    policies: [{name: p, group: all, profiles: [one], preemption: {on_preempt: suspend}}]
    """)
    job = site.job("p/one", on="w1")
    stop = Ladder(cause="preempted", callback_grace=0, term_grace=0, then="suspend")
    site.append_facts(f.StopOrderedV1(job=job, attempt=1, ladder=stop), by="allocator")
    site.append_facts(f.LeaseSuspendedV1(job=job, attempt=1, at=0), by="node.w1")
    site.append_facts(f.MoveOrderedV1(job=job, attempt=1, pool="east", places=()), by="allocator")
    assert [sum(jobs_under(site.state, ObjectName("pool", "", pool))) for pool in ("west", "east")] == [1, 1]


def test_who_names_an_object_is_told_by_kind_and_name(site):
    site.write("policies: [{name: p, group: all, profiles: [one]}]")
    assert list(referring(site.state, ObjectName("profile", "", "one"))) == ["policy default/p"]
    assert list(referring(site.state, ObjectName("group", "default", "all"))) == ["policy default/p"]


def test_pools_name_parties_in_their_access_and_as_owners(site):
    site.write("""
    policies: [{name: p, group: all, profiles: [one]}]
    pools: [{name: west, selector: {site: west}, access: {deny: [default/all]}, dedicated_to: {policy: p}}]
    """)
    assert list(naming_party(site.state, ObjectName("group", "default", "all"))) == ["pool west"]
    assert list(naming_party(site.state, ObjectName("policy", "default", "p"))) == ["pool west"]
    assert list(naming_party(site.state, ObjectName("profile", "", "one"))) == []
