"""What is kept counts for those ranked below only (R16, R18)."""

from __future__ import annotations

from dataclasses import replace

from headrace.contracts import facts as f
from headrace.contracts.documents import model as d
from headrace.contracts.values.amounts import GPU, GPU_UNITS
from headrace.domain.backfill.holds import as_seen_by, holds_before, rank_in_line, withhold
from headrace.domain.state.capacity import take
from headrace.domain.state.trial import Trial
from tests.unit.domain.site import HALF, Site, place, policy, pool, profile, slice_at
from tests.unit.domain.snapshot import differences, snapshot


def crowded() -> tuple[Site, object]:
    """A hall with one free GPU of two; both are kept for a job."""
    site = Site(policy("dev"), policy("ops", priority=5), pools=(pool(capacity={GPU: 3 * GPU_UNITS, "job": 9}),))
    site.node("n1", 2)
    site.run("r", place("n1", 0))
    holder = site.admit("h", "dev/two")
    site.append_facts(f.HoldPlacedV1(job=holder.key, pool="hall", places=(place("n1", 0, 1),)), by="allocator")
    return site, holder


def opens(site: Site) -> tuple[list[int], int]:
    return [device.open // GPU_UNITS for device in site.state.nodes["n1"].devices], site.state.pools["hall"].use[
        GPU
    ] // GPU_UNITS


def test_what_is_kept_is_out_of_reach_for_those_ranked_below_and_free_for_those_above():
    site, holder = crowded()
    below, above = site.admit("b"), site.admit("a", "ops/one")
    hall, seen = site.state.pools["hall"], []
    for job in (below, above, holder):
        with as_seen_by(site.state, job, hall, site.now):
            seen.append(opens(site))

    assert seen == [([0, 0], 2), ([0, 1], 1), ([0, 1], 1)]
    assert [hold.job.key for hold in holds_before(site.state, below, hall, site.now)] == [holder.key]
    assert holds_before(site.state, above, hall, site.now) == []


def test_nothing_is_left_of_it_afterwards():
    site, holder = crowded()
    below, hall, before = site.admit("b"), site.state.pools["hall"], None
    before = snapshot(site.state)
    with as_seen_by(site.state, below, hall, site.now):
        assert differences(snapshot(site.state), before) != []
    out = withhold(Trial(site.state), hall, site.state.holds[holder.key])
    out.undo()

    assert differences(snapshot(site.state), before) == []


def test_of_the_sums_no_more_is_kept_than_is_free_of_the_places_now():
    site, holder = crowded()
    hall = site.state.pools["hall"]
    out = withhold(Trial(site.state), hall, site.state.holds[holder.key])
    use = dict(hall.use)
    out.undo()

    assert (use[GPU], use["job"]) == (2 * GPU_UNITS, 2)


def test_a_kept_slice_counts_in_the_sums_once_nothing_lies_in_its_run_and_a_cut_gpu_with_no_more_than_one():  # R4
    site = Site()
    site.law(profile("cut", {GPU: HALF}, mig="3g.40gb"), policy("dev", profiles=(d.PolicyProfile(name="cut"),)))
    site.node("n1", 1, model="H100-80GB", mig=True)
    four = site.run("f", slice_at("n1", "4g.40gb", 0, 72_000), queue="dev/cut", mig="4g.40gb")
    holder = site.admit("h", "dev/cut", mig="3g.40gb")
    hall, seen = site.state.pools["hall"], []
    for start in (4, 0):
        site.append_facts(
            f.HoldPlacedV1(job=holder.key, pool="hall", places=(slice_at("n1", "3g.40gb", start, HALF),)), by="allocator"
        )
        out = withhold(Trial(site.state), hall, site.state.holds[holder.key])
        seen.append((hall.use[GPU], site.state.nodes["n1"].devices[0].layout))
        out.undo()
    site.leave(four)
    before = snapshot(site.state)
    withhold(Trial(site.state), hall, site.state.holds[holder.key]).undo()

    assert seen == [(GPU_UNITS, ((0, "4g.40gb"), (4, "3g.40gb"))), (72_000, ((0, "3g.40gb"), (0, "4g.40gb")))]
    assert differences(snapshot(site.state), before) == []


def test_what_is_granted_meanwhile_on_a_device_that_is_cut_stays_in_the_accounts_and_nothing_of_the_hold_does():  # R4, R16
    site = Site()
    site.law(profile("cut", {GPU: 36_000}, mig="2g.20gb"), policy("dev", profiles=(d.PolicyProfile(name="cut"),)))
    site.node("n1", 1, model="H100-80GB", mig=True)
    for start in (0, 2):
        site.run(f"r{start}", slice_at("n1", "2g.20gb", start, 36_000), queue="dev/cut", mig="2g.20gb")
    holder = site.admit("h", "dev/cut", mig="2g.20gb")
    site.append_facts(
        f.HoldPlacedV1(job=holder.key, pool="hall", places=(slice_at("n1", "2g.20gb", 4, 36_000),)), by="allocator"
    )
    hall, other = site.state.pools["hall"], site.admit("o", "dev/cut", mig="1g.20gb")
    out, seen = withhold(Trial(site.state), hall, site.state.holds[holder.key]), []
    seen.append((hall.use[GPU], hall.leased[GPU], dict(hall.leased_minus_use)))
    take(site.state, other, hall, slice_at("n1", "1g.20gb", 6, 31_500))
    seen.append((hall.use[GPU], hall.leased[GPU], dict(hall.leased_minus_use)))
    out.undo()
    seen.append((hall.use[GPU], hall.leased[GPU], dict(hall.leased_minus_use)))

    assert seen == [(108_000, 108_000, {}), (GPU_UNITS, GPU_UNITS, {}), (103_500, 103_500, {})]


def test_who_stands_in_no_line_has_no_rank_and_is_kept_from_nothing():
    site, _ = crowded()
    aside = site.admit("w", after=(f.admission.Dependency(job=site.admit("d").key, when="any"),))
    hall = site.state.pools["hall"]

    assert rank_in_line(site.state, aside, hall) is None
    assert holds_before(site.state, aside, hall, site.now) == []


def test_who_is_not_there_and_only_asked_about_is_kept_from_what_is_kept_for_those_before_it():
    site, holder = crowded()
    hall, real = site.state.pools["hall"], site.admit("b")
    asked = replace(real, order=(site.state.sequence + 1, 0))
    urgent = replace(asked, priority=9)

    assert rank_in_line(site.state, real, hall) < rank_in_line(site.state, asked, hall)
    assert [hold.job for hold in holds_before(site.state, asked, hall, site.now)] == [holder]
    assert holds_before(site.state, urgent, hall, site.now) == []
