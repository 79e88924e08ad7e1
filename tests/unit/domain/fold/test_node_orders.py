"""Drains that are scheduled, windows that are stated, and what they make of nodes and of the line (R41)."""

from __future__ import annotations

from headrace.contracts import facts as f
from headrace.contracts.documents.model import MaintenanceWindow
from headrace.contracts.values.durations import HOUR, SECOND
from headrace.domain.snapshots.snapshot import dump, load
from tests.unit.domain.site import START, Site, place, pool
from tests.unit.domain.snapshot import differences, snapshot

SCHEDULED = f.NodeDrainScheduledV1(author="a.b", reason="fans", node="n1", begins=START + 2 * HOUR)
AHEAD = f.MaintenanceStatedV1(pool="hall", begins=START + 2 * HOUR, ends=START + 3 * HOUR, reason="switches")
UNDER_WAY = f.MaintenanceStatedV1(pool="hall", begins=START, ends=START + HOUR, begun=True)
NONE = f.MaintenanceStatedV1(pool="hall")


def site_with(*facts: f.AnyFact) -> Site:
    site = Site()
    for name in ("n1", "n2"):
        site.node(name)
    site.append_facts(*facts)
    return site


def parted(site: Site, *jobs) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """From which nodes and pools jobs are kept away."""
    return [(job.avoiding, job.outlasts) for job in jobs]


def read_again(site: Site) -> None:
    """A snapshot of the state gives the same state."""
    assert differences(snapshot(load(dump(site.state))), snapshot(site.state)) == []


def test_who_would_outlast_a_drain_is_kept_from_the_node_and_shorter_ones_are_not():
    site = site_with()
    endless, long, short = site.admit("e"), site.admit("l", time_limit=2 * HOUR), site.admit("s", time_limit=HOUR)
    site.append_facts(SCHEDULED)

    assert site.state.maintenance.drains == {"n1": site.state.maintenance.drains["n1"]}
    assert parted(site, endless, long, short) == [(("n1",), ()), (("n1",), ()), ((), ())]
    assert site.state.pending.group_of(long) is site.state.pending.group_of(endless)
    assert site.state.pending.group_of(short) is not site.state.pending.group_of(endless)
    site.state.pass_time(START + HOUR - 90 * SECOND)
    assert parted(site, short) == [((), ())]
    site.state.pass_time(START + HOUR - 90 * SECOND + 1)
    assert parted(site, short) == [(("n1",), ())]
    read_again(site_with(SCHEDULED))


def test_a_drain_is_moved_cancelled_by_uncordoning_or_replaced_by_one_at_once():
    site = site_with(SCHEDULED)
    job = site.admit("j")
    site.append_facts(f.NodeDrainScheduledV1(author="c.d", node="n1", begins=START + 9 * HOUR))
    drain = site.state.maintenance.drains["n1"]
    assert (drain.begins, drain.author, drain.reason) == (START + 9 * HOUR, "c.d", "")
    site.append_facts(f.NodeUncordonedV1(author="a.b", node="n1"))
    assert (site.state.maintenance.drains, parted(site, job)) == ({}, [((), ())])
    site.append_facts(SCHEDULED)
    site.append_facts(f.NodeDrainOrderedV1(author="a.b", node="n1"))
    assert (site.state.maintenance.drains, site.state.nodes["n1"].draining, parted(site, job)) == ({}, True, [((), ())])


def test_a_drain_that_begins_is_one_by_its_author_for_the_reason_given():
    site = site_with(SCHEDULED)
    site.append_facts(f.NodeDrainBeganV1(node="n1"), by="allocator")
    node = site.state.nodes["n1"]
    assert (node.draining, node.cordoned, node.cordoned_by, list(site.state.draining)) == (True, "fans", "a.b", ["n1"])
    assert not site.state.maintenance


def test_facts_about_nodes_and_pools_that_are_not_there_change_nothing():
    site = Site()
    site.append_facts(SCHEDULED, f.NodeDrainBeganV1(node="n1"), f.MaintenanceStatedV1(pool="x", begins=1, ends=2))
    assert not site.state.maintenance


def test_a_window_ahead_keeps_who_would_outlast_it_from_the_pool_and_nodes_stay_in_service():
    site = site_with(AHEAD)
    endless, short = site.admit("e"), site.admit("s", time_limit=HOUR)
    assert parted(site, endless, short) == [((), ("hall",)), ((), ())]
    assert all(node.grantable for node in site.state.nodes.values())
    site.append_facts(NONE)
    assert parted(site, endless, short) == [((), ()), ((), ())]
    read_again(site_with(AHEAD))


def test_in_a_window_no_node_takes_jobs_and_at_its_end_all_do_but_those_drained_by_order():
    site = site_with(f.NodeDrainOrderedV1(author="a.b", node="n2"), UNDER_WAY)
    job = site.admit("s", time_limit=SECOND)
    assert [node.grantable for node in site.state.nodes.values()] == [False, False]
    assert (list(site.state.draining), parted(site, job)) == (["n2", "n1"], [((), ("hall",))])
    site.append_facts(f.NodeUncordonedV1(author="a.b", node="n1"))
    assert list(site.state.draining) == ["n2", "n1"]
    read_again(site)
    site.append_facts(NONE)
    assert [node.grantable for node in site.state.nodes.values()] == [True, False]
    assert (list(site.state.draining), parted(site, job)) == (["n2"], [((), ())])


def test_nodes_that_come_into_a_window_take_no_jobs_and_those_that_leave_it_do():
    site = site_with(UNDER_WAY)
    site.node("n3")
    assert not site.state.nodes["n3"].grantable
    site.law(pool("annex"))
    site.node("n3", pool="annex")
    assert (site.state.nodes["n3"].grantable, site.state.nodes["n3"].pool) == (True, "annex")
    site.append_facts(f.PoolDeletedV1(author="a.b", name="hall"))
    assert [(node.maintenance, node.pool) for node in site.state.nodes.values()] == [(None, ""), (None, ""), (None, "annex")]
    assert (site.state.draining, bool(site.state.maintenance)) == ({}, False)


def test_a_pool_is_planned_while_its_document_has_windows():
    site = Site()
    window = MaintenanceWindow(begins=START, ends=START + HOUR)
    site.law(pool(maintenance=(window,)))
    assert site.state.maintenance.planned == {"hall"}
    site.law(pool())
    assert site.state.maintenance.planned == set()


def test_a_job_that_runs_is_kept_from_nothing_and_is_again_when_it_waits_again():
    site = site_with(SCHEDULED)
    job = site.admit("j")
    site.grant(job, place("n2", 0))
    assert parted(site, job) == [((), ())]
    site.append_facts(
        f.LeaseEndedV1(job=job.key, attempt=1, outcome="exited", exit_code=1, exited_at=site.now, at=site.now), by="node.n2"
    )
    site.append_facts(f.JobRequeuedV1(job=job.key, attempt=1, cause="failed"), by="allocator")
    assert parted(site, job) == [(("n1",), ())]
