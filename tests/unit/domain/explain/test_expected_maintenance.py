"""Maintenance in forecasts (R41)."""

from __future__ import annotations

from headrace.contracts import facts as f
from headrace.contracts.documents.model import MaintenanceWindow
from headrace.contracts.values.durations import DAY, HOUR, MINUTE
from headrace.domain.explain.expected_maintenance import ExpectedMaintenance
from headrace.domain.explain.forecast import AS_PLANNED, TOO_LONG, Forecast, expected_start
from headrace.domain.state.trial import Trial
from tests.unit.domain.site import START, Site, place, pool
from tests.unit.domain.snapshot import differences, snapshot

WINDOW = MaintenanceWindow(begins=START + 2 * HOUR, ends=START + 3 * HOUR)
AHEAD = f.MaintenanceStatedV1(pool="hall", begins=START + 2 * HOUR, ends=START + 3 * HOUR)


def hall(*windows: MaintenanceWindow, nodes: int = 1) -> Site:
    site = Site(pools=(pool(maintenance=windows),))
    for number in range(1, nodes + 1):
        site.node(f"n{number}", 1)
    return site


def forecast(site: Site, job) -> Forecast:
    before = snapshot(site.state)
    found = expected_start(site.state, job, [site.state.pools["hall"]], site.now)
    assert differences(snapshot(site.state), before) == []
    return found


def test_who_would_outlast_a_window_starts_at_its_end_and_shorter_ones_now():
    site = hall(WINDOW)
    site.append_facts(AHEAD, by="allocator")
    endless, short = site.admit("e"), site.admit("s", time_limit=HOUR)
    assert forecast(site, endless).start == START + 3 * HOUR
    assert AS_PLANNED in forecast(site, endless).assumption
    site.append_facts(f.JobCancelRequestedV1(job=endless.key, by="default.ann"), by="admission")
    assert forecast(site, short).start == START


def test_who_waits_for_a_job_that_ends_too_late_before_a_drain_waits_for_the_other_node():
    site = hall(nodes=2)
    for node, limit in (("n1", HOUR), ("n2", 4 * HOUR)):
        holder = site.admit(node, time_limit=limit)
        site.grant(holder, place(node, 0))
        site.append_facts(f.LeaseStartedV1(job=holder.key, attempt=1, at=site.now), by=f"node.{node}")
    site.append_facts(f.NodeDrainScheduledV1(author="a.b", node="n1", begins=START + 2 * HOUR))
    short = site.admit("s", time_limit=30 * MINUTE)
    assert forecast(site, short).start == START + HOUR
    site.append_facts(f.JobCancelRequestedV1(job=short.key, by="default.ann"), by="admission")
    site.append_facts(f.JobEndedV1(job=short.key, attempt=0, state="cancelled", cause="cancelled"), by="allocator")
    assert forecast(site, site.admit("l", time_limit=90 * MINUTE)).start == START + 4 * HOUR


def test_who_is_too_long_for_every_week_never_starts_and_is_told_what_helps():
    site = hall(MaintenanceWindow(days=("sat",), opens=0, closes=60))
    site.append_facts(f.MaintenanceStatedV1(pool="hall", begins=START + 4 * DAY, ends=START + 5 * DAY), by="allocator")
    assert forecast(site, site.admit("e")) == Forecast(None, TOO_LONG)


def test_what_a_job_sees_of_maintenance_is_as_before_afterwards():
    site = hall(WINDOW)
    job = site.admit("e")
    with Trial(site.state) as trial:
        maintenance = ExpectedMaintenance(site.state, trial, site.state.pools)
        maintenance.turn("hall", START)
        with maintenance.seen_by(job, START):
            assert (job.avoiding, job.outlasts) == ((), ("hall",))
        assert (job.avoiding, job.outlasts) == ((), ())
        assert [maintenance.may_start(job, "hall", moment) for moment in (START, START + 3 * HOUR)] == [False, False]
        maintenance.turn("hall", START + 3 * HOUR)
        assert maintenance.may_start(job, "hall", START + 3 * HOUR)
