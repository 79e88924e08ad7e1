"""Which nodes have to be seen to find what makes wait for the least, in the order in which they might."""

from __future__ import annotations

from headrace.contracts.values.amounts import GPU_UNITS
from headrace.contracts.values.durations import MINUTE
from headrace.domain.backfill.candidate_nodes import UNKNOWN, offers, offers_among
from headrace.domain.model.requests import make_request
from tests.unit.domain.site import START, Site, gpus, place


def full(*limits: int | None) -> Site:
    """A node of two devices for each, both held by one job with that time limit."""
    site = Site()
    for number, limit in enumerate(limits):
        site.node(f"n{number}", 2)
        site.run(f"r{number}", place(f"n{number}", 0, 1), queue="dev/two", time_limit=limit)
    return site


def test_nodes_come_by_what_has_to_come_free_then_by_who_is_known_to_end_first_then_by_name():
    site = full(None, 3 * MINUTE, None, MINUTE)
    site.node("n9", 1)
    site.node("n8", 2)
    site.run("h", place("n8", 0))

    assert list(offers(site.state, site.state.pools["hall"], site.admit("w", "dev/two").request.shape)) == [
        ((0, 0), "n9"),  # it has too few devices, which is seen when it is looked at
        ((GPU_UNITS, UNKNOWN), "n8"),
        ((2 * GPU_UNITS, START + MINUTE), "n3"),
        ((2 * GPU_UNITS, START + 3 * MINUTE), "n1"),
        ((2 * GPU_UNITS, UNKNOWN), "n0"),
        ((2 * GPU_UNITS, UNKNOWN), "n2"),
    ]


def test_who_walks_a_ladder_is_known_to_end_and_who_is_in_no_pool_of_this_does_not_count():
    site = full(None, None)
    job = site.state.jobs["default.ann.r1"]
    site.stop(job, "cancelled")
    expected_end = job.stop_at + job.stop.callback_grace + job.stop.term_grace

    shape = site.admit("w", "dev/half").request.shape
    found = list(offers(site.state, site.state.pools["hall"], shape))
    assert found == [((GPU_UNITS // 2, expected_end), "n1"), ((GPU_UNITS // 2, UNKNOWN), "n0")]


def test_where_the_next_end_is_unknown_nodes_come_by_what_has_to_come_free_alone():
    site = full(MINUTE, None)
    site.node("n2", 1)

    found = list(offers(None, site.state.pools["hall"], site.admit("w").request.shape))
    assert found == [((0, 0), "n2"), ((GPU_UNITS, 0), "n0"), ((GPU_UNITS, 0), "n1")]


def test_of_given_nodes_those_that_suit_come_by_the_units_that_have_to_come_free():  # R40
    site = Site()
    for name, count in (("n1", 2), ("n2", 2), ("n3", 2), ("n4", 0)):
        site.node(name, count)
    site.run("a", place("n1", 0, 1))
    site.run("b", place("n2", 0))
    hall, two = site.state.pools["hall"], make_request(gpus(2), 1, None).shape

    found = list(offers_among(hall, two, ["n1", "n2", "n4", "gone"]))

    assert found == [((0, 0), "n4"), ((GPU_UNITS, 0), "n2"), ((2 * GPU_UNITS, 0), "n1")]
    assert found == [((units, 0), name) for (units, _), name in offers(None, hall, two) if name != "n3"]
