"""What stands on FEED."""

from __future__ import annotations

from headrace.contracts.transport.codec import decode
from headrace.feed.outgoing_message import FeedPosition, JobStarted, started


def test_places_are_in_the_order_in_which_they_are_told_and_are_read_from_a_message():
    assert sorted([FeedPosition(3, 1), FeedPosition(2, 9), FeedPosition(2, 10)]) == [
        FeedPosition(2, 9),
        FeedPosition(2, 10),
        FeedPosition(3, 1),
    ]
    assert decode(b'{"type":"x","at":1,"sequence":7,"number":2,"job":"j"}', FeedPosition) == FeedPosition(7, 2)


def test_a_job_that_started_is_remembered_as_it_was_then(hall):
    job = hall.job(1)
    hall.admit(job)
    hall.grant(job, ("gpu01", "g0"))
    hall.start(job)
    then = started(hall.state.jobs[job])
    hall.end(job, exit_code=1)
    assert then == JobStarted(job, 1, ("gpu01",), "hall")
