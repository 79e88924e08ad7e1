"""Whether a waiting job could take something back, and if not, which rule forbids it (R23 - R26)."""

from __future__ import annotations

from headrace.contracts import facts as f
from headrace.contracts.documents.model import PreemptionTerms
from headrace.contracts.messages.explanation import Holder, ReclaimView
from headrace.contracts.values.durations import SECOND
from headrace.domain.explain.expected_ends import ExpectedEnds
from headrace.domain.explain.reclaim_reasons import FITS_WITHOUT, KEPT, NOT_YET, reclaim_in
from tests.unit.domain.site import Site, gpus, place, policy
from tests.unit.domain.snapshot import differences, snapshot


def asked(site, job):
    before = snapshot(site.state)
    view = reclaim_in(site.state, job, site.state.pools["hall"], site.now, ExpectedEnds(site.state, site.now))
    assert differences(before, snapshot(site.state)) == []
    return view


def borrowed(**owner):
    """One GPU, borrowed by `dev` from `ops`."""
    terms = PreemptionTerms(callback_grace=20 * SECOND, term_grace=5 * SECOND)
    site = Site(policy(preemption=terms), policy("ops", **owner))
    site.node(count=1)
    return site, site.run("a", place("n1", 0))


def test_what_is_borrowed_can_be_taken_back_by_the_end_of_the_grace():
    site, victim = borrowed(reservation=gpus(1))
    assert asked(site, site.admit("b", "ops/one")) == ReclaimView(
        could=True,
        why="enough is borrowed in pool hall",
        cause="reclaim",
        at=site.now + 25 * SECOND,
        victims=(Holder(job=victim.key, request=gpus(1), pool="hall", nodes=("n1",)),),
    )


def test_beyond_its_reservation_it_takes_nothing_back_and_the_numbers_say_so():  # R23
    site, _ = borrowed(reservation=gpus(1))
    assert asked(site, site.admit("b", "ops/two")) == ReclaimView(
        could=False,
        why="it would be beyond its reservation: policy default/ops uses 0 gpu of a reservation of 1, it asks for 2",
    )


def test_where_no_policy_is_above_its_reservation_there_is_nothing_to_take_back():  # R24
    site = Site(policy(reservation=gpus(1)), policy("ops", reservation=gpus(1)))
    site.node(count=1)
    site.run("a", place("n1", 0))
    view = asked(site, site.admit("b", "ops/one"))
    assert view == ReclaimView(could=False, why="no policy in pool hall holds more than its reservation")


def test_its_own_limit_preempts_no_job():  # R23
    site, _ = borrowed(reservation={}, limit=gpus(0))
    why = asked(site, site.admit("b", "ops/one")).why
    assert why.startswith(
        "its policy's own limit is in the way, for which no other job has to yield: policy default/ops uses 0 gpu"
    )


def test_those_who_are_protected_may_be_taken_later():  # R25
    terms = PreemptionTerms(min_runtime=60 * SECOND, callback_grace=20 * SECOND, term_grace=5 * SECOND)
    site = Site(policy(preemption=terms), policy("ops", reservation=gpus(1)))
    site.node(count=1)
    site.run("a", place("n1", 0))
    view = asked(site, site.admit("b", "ops/one"))
    assert (view.could, view.at) == (True, site.now + 85 * SECOND)
    assert view.why.startswith("those who could yield have not had their minimum run time")


def test_one_that_has_room_need_not_and_one_that_places_are_kept_for_has():
    site, victim = borrowed(reservation=gpus(1))
    site.node("n2", 1)
    job = site.admit("b", "ops/one")
    assert asked(site, job) == ReclaimView(could=False, why=FITS_WITHOUT)
    site.order(job, (victim,), place("n1", 0))
    assert asked(site, job) == ReclaimView(could=True, why=KEPT, cause="reclaim")


def test_one_that_could_not_start_takes_nothing_back():  # R33
    site, _ = borrowed(reservation=gpus(1))
    site.append_facts(f.PolicyGatedV1(tenant="default", policy="ops", shut=True), by="allocator")
    assert asked(site, site.admit("b", "ops/one")) == ReclaimView(could=False, why=NOT_YET)
