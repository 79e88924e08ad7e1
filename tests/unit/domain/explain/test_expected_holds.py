"""What will be kept for those who wait too long (R16), while time goes on."""

from __future__ import annotations

from headrace.contracts import facts as f
from headrace.contracts.values.durations import SECOND
from headrace.domain.backfill.backfill_placement import Occupant
from headrace.domain.backfill.candidate_nodes import UNKNOWN
from headrace.domain.explain import expected_holds as module
from headrace.domain.explain.expected_holds import ExpectedHolds, Occupancy
from headrace.domain.explain.expected_maintenance import ExpectedMaintenance
from headrace.domain.queueing.queue_projection import QueueProjection
from headrace.domain.state.trial import Trial
from tests.unit.domain.site import START, Site, place, pool
from tests.unit.domain.snapshot import differences, snapshot

LATER = START + 50 * SECOND


def crowded() -> tuple[Site, dict[str, object]]:
    """Two GPUs that are taken, and three jobs that wait for both; the last has not waited long when it is `LATER`."""
    site = Site(pools=(pool(backfill_for=30 * SECOND),))
    site.node()
    site.run("r", place("n1", 0, 1), time_limit=90 * SECOND)
    waiting = {"low": site.admit("low", "dev/two"), "high": site.admit("high", "dev/two", priority=1)}
    site.now += 25 * SECOND
    waiting["late"] = site.admit("late", "dev/two", priority=2)
    return site, waiting


def expected(site: Site, job) -> tuple[ExpectedHolds, QueueProjection, dict]:
    line = QueueProjection(site.state, job, site.state.pools)
    requests = {"hall": [(request, 0) for request in line.requests]}
    maintenance = ExpectedMaintenance(site.state, Trial(site.state), site.state.pools)
    return ExpectedHolds(site.state, site.state.pools, line, Occupancy(), maintenance), line, requests


def names(holds: ExpectedHolds) -> list[str]:
    return [key.rpartition(".")[2] for _, key in holds.in_order("hall")]


def test_who_is_due_first_is_first_kept_something_for_and_who_is_not_due_nothing():
    site, waiting = crowded()
    gangs = site.admit("gang", "dev/gang")
    holds, _, requests = expected(site, gangs)
    seen = []
    for moment in (START + 29 * SECOND, LATER, LATER + 10 * SECOND):
        holds.update(requests, moment)
        seen.append(names(holds))

    assert seen == [[], [], ["late"]]
    assert waiting["late"].pending_since == START + 25 * SECOND


def test_of_a_group_the_next_is_kept_something_for_when_the_one_before_has_started():
    site, waiting = crowded()
    holds, line, requests = expected(site, waiting["low"])
    holds.update(requests, LATER + 10 * SECOND)
    assert names(holds) == ["late"]
    holds.end(waiting["late"])
    line.leave(line.first("hall", waiting["late"].request))
    holds.update(requests, LATER + 10 * SECOND)

    assert names(holds) == ["high"]


def test_what_is_shown_is_out_of_reach_and_afterwards_everything_is_as_it_was():
    site, waiting = crowded()
    before = snapshot(site.state)
    holds, _, requests = expected(site, waiting["low"])
    holds.update(requests, LATER + 10 * SECOND)
    device = site.state.nodes["n1"].devices[0]
    seen = [device.nominated]
    holds.show("hall", [waiting["late"].key])
    seen.append(device.nominated)
    holds.hide()

    assert seen == [0, 126_000]
    assert differences(before, snapshot(site.state)) == []


def test_what_is_kept_now_is_kept_until_something_that_stays_lies_there():
    site, waiting = crowded()
    site.append_facts(f.HoldPlacedV1(job=waiting["late"].key, pool="hall", places=(place("n1", 0, 1),)), by="allocator")
    holds, _, requests = expected(site, waiting["low"])
    holds.update(requests, site.now)
    seen = [names(holds)]
    site.state.nodes["n1"].cordoned = "c"
    holds.update(requests, site.now)

    assert [*seen, names(holds)] == [["late"], []]


def test_after_a_number_of_nodes_nothing_more_is_kept(monkeypatch):
    site, waiting = crowded()
    monkeypatch.setattr(module, "NODES_MAX", 0)
    holds, _, requests = expected(site, waiting["low"])
    holds.update(requests, LATER + 10 * SECOND)

    assert names(holds) == []


def test_who_has_left_holds_nothing_and_who_came_does_until_its_limit():
    site, waiting = crowded()
    node, on = site.state.nodes["n1"], Occupancy()
    (held,) = on(node)
    on.leave(site.state.jobs["default.ann.r"], [held.place])
    seen = [list(on(node))]
    firm = site.admit("firm", preemptible=False)
    limited = site.admit("limited", time_limit=SECOND)
    came = waiting["low"], firm, limited
    for job in came:
        on.come(job, [place("n1", 0)], START)
    seen.append(on(node))
    on.leave(firm, [place("n1", 0)])

    ends = [UNKNOWN, None, START + SECOND]
    assert seen == [[], [Occupant(place("n1", 0), end, job, START) for end, job in zip(ends, came, strict=True)]]
    assert [one.end for one in on(node)] == [UNKNOWN, START + SECOND]
