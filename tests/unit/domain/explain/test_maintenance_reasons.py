"""What keeps a job from nodes and pools with maintenance ahead, in words, and the time limit that would help (R41)."""

from __future__ import annotations

from headrace.contracts import facts as f
from headrace.contracts.values.durations import HOUR, MINUTE, SECOND
from headrace.contracts.values.reasons import WaitReason
from headrace.domain.explain.explain import explain
from headrace.domain.explain.maintenance_reasons import kept_away_by, limit_before, shorter_limits
from headrace.domain.explain.wait_reasons import wait_of
from tests.unit.domain.site import START, Site, place

AHEAD = f.MaintenanceStatedV1(pool="hall", begins=START + 2 * HOUR, ends=START + 3 * HOUR, reason="switches")


def drain(node: str, hours: int) -> f.NodeDrainScheduledV1:
    return f.NodeDrainScheduledV1(author="a.b", reason="fans", node=node, begins=START + hours * HOUR)


def hall(*facts: f.AnyFact, nodes: int = 1) -> Site:
    site = Site()
    for number in range(1, nodes + 1):
        site.node(f"n{number}", 1)
    site.append_facts(*facts)
    return site


def reason_for(site: Site, job) -> str | None:
    return kept_away_by(site.state, job, site.state.pools["hall"], site.now)


def test_a_window_is_named_with_the_time_limit_that_would_help():
    site = hall(AHEAD)
    endless, long, short = site.admit("e"), site.admit("l", time_limit=3 * HOUR), site.admit("s", time_limit=HOUR)
    when = "the maintenance of pool hall is from 1970-01-12T15:46:40.000Z to 1970-01-12T16:46:40.000Z (switches)"
    helps = "jobs with --time-limit 1h58m or less may start there before"
    assert reason_for(site, endless) == f"{when}; it has no time limit; {helps}"
    assert reason_for(site, long) == f"{when}; it may take 3h1m30s with the grace to stop; {helps}"
    assert reason_for(site, short) is None
    assert [wait_of(site.state, job, site.now).reason for job in (endless, long)] == [WaitReason.MAINTENANCE] * 2


def test_in_a_window_its_end_is_named():
    site = hall(f.MaintenanceStatedV1(pool="hall", begins=START, ends=START + HOUR, begun=True))
    assert reason_for(site, site.admit("e")) == "pool hall is in maintenance until 1970-01-12T14:46:40.000Z"


def test_nodes_that_will_be_drained_are_named_where_they_alone_have_room():
    site = hall(drain("n1", 1), drain("n2", 2), nodes=2)
    job = site.admit("j")
    assert reason_for(site, job) == (
        "node n2 is drained from 1970-01-12T15:46:40.000Z on, by a.b; node n1 is drained from 1970-01-12T14:46:40.000Z on, by a.b; "
        "it has no time limit; jobs with --time-limit 1h58m or less may start there before"
    )
    site.node("n3", 1)
    assert reason_for(site, job) is None


def test_where_nodes_that_will_be_drained_have_no_room_they_are_not_in_the_way():
    site = hall(drain("n1", 1))
    site.grant(site.admit("holder", time_limit=MINUTE), place("n1", 0))
    assert reason_for(site, site.admit("j")) is None


def test_limits_are_in_whole_minutes_or_seconds_and_leave_the_grace_out():
    job = hall().admit("j")
    found = [limit_before(job, begins, 0) for begins in (HOUR, 2 * MINUTE, 91 * SECOND + 1, 91 * SECOND, 90 * SECOND, 0)]
    assert found == [58 * MINUTE, 30 * SECOND, SECOND, SECOND, None, None]


def test_a_shorter_time_limit_is_the_cheapest_change():
    site = hall(drain("n1", 1))
    job = site.admit("j")
    assert shorter_limits(site.state, job, site.now) == [58 * MINUTE]
    view = explain(site.state, job, site.now)
    assert (view.cheapest.kind, view.cheapest.text, view.cheapest.start) == (
        "time",
        "submit it with --time-limit 58m or less",
        site.now,
    )
