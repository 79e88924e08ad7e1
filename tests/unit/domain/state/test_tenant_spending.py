"""What a tenant's jobs cost on nodes that pools create, and its cap."""

from __future__ import annotations

from headrace.contracts.documents import model as d
from headrace.contracts.values.amounts import GPU_UNITS
from headrace.contracts.values.durations import DAY, HOUR, MINUTE
from headrace.contracts.values.money import MILLION
from headrace.domain.model.calendar import period_of
from headrace.domain.placement.offers import affordable_to
from headrace.domain.snapshots.snapshot import copy_of
from headrace.domain.state.tenant_spending import cap_of, hourly_cost, spent_by
from tests.unit.domain.site import place
from tests.unit.provisioner.cloud import Cloud

OFFERS = (d.Offer(name="one", price="6"),)
MINE = ("default", "cloud")


def capped(cap: str = "10", **fields: object) -> Cloud:
    """A cloud of two GPUs a node at 6 an hour, in which the tenant may spend `cap`."""
    site = Cloud(offers=OFFERS, **fields)
    site.now = period_of("month", None, site.now + 40 * DAY)[0] + DAY
    site.law(d.Tenant(name="default", shares=(d.Share(pool="cloud", cap=cap),)))
    return site


def running(site: Cloud, name: str, node: str, gpus: int = 1, units: int = GPU_UNITS):
    job = site.admit(name)
    site.grant(job, place(node, *range(gpus), units=units), pool="cloud")
    return job


def test_a_job_costs_its_part_of_the_instance_from_its_grant_on_to_its_end() -> None:
    site = capped()
    (node,) = site.joined()
    site.wait(HOUR)  # what is idle is not the tenant's
    half = running(site, "a", node)
    assert (cap_of(site.state, *MINE), hourly_cost(site.state, half.leases[0])) == (10 * MILLION, 3 * MILLION)
    site.wait(2 * HOUR)
    assert spent_by(site.state, *MINE, site.now) == 6 * MILLION
    site.leave(half)
    site.wait(HOUR)
    assert spent_by(site.state, *MINE, site.now) == 6 * MILLION
    assert spent_by(copy_of(site.state), *MINE, site.now) == 6 * MILLION


def test_a_part_of_a_gpu_costs_that_part_and_nothing_is_spent_where_nodes_are_ones_own() -> None:
    site = capped()
    (node,) = site.joined()
    part = running(site, "a", node, units=GPU_UNITS // 2)
    site.node("n1")
    other = site.admit("b")
    site.grant(other, place("n1", 0))
    assert [hourly_cost(site.state, job.leases[0]) for job in (part, other)] == [1_500_000, 0]


def test_each_month_begins_with_nothing_spent() -> None:
    site = capped()
    (node,) = site.joined()
    job = running(site, "a", node, gpus=2)
    following = period_of("month", None, site.now)[1]
    site.now = following + HOUR
    assert spent_by(site.state, *MINE, site.now) == 6 * MILLION
    site.leave(job)
    assert spent_by(site.state, *MINE, site.now) == 6 * MILLION
    site.now = period_of("month", None, site.now)[1]
    assert spent_by(site.state, *MINE, site.now) == 0


def test_a_cap_pays_for_nodes_to_the_end_of_their_estimate() -> None:
    site = capped(cap="10", min_life=HOUR)
    assert affordable_to(site.state, "default", site.pool, site.now) == 1
    (node,) = site.joined()
    running(site, "a", node, gpus=2)
    site.wait(41 * MINUTE)
    assert affordable_to(site.state, "default", site.pool, site.now) == 0
    assert affordable_to(site.state, "other", site.pool, site.now) > 1_000


def test_what_the_tenants_jobs_will_cost_on_instances_that_are_there_is_taken_off_its_cap() -> None:
    site = capped(cap="11.99", min_life=HOUR)
    assert affordable_to(site.state, "default", site.pool, site.now) == 1
    (node,) = site.joined()
    running(site, "a", node, gpus=2)
    assert affordable_to(site.state, "default", site.pool, site.now) == 0
