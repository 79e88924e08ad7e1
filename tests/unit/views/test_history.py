"""Which records were about a job."""

from __future__ import annotations

from headrace.views.history import History


def test_the_records_about_a_job_are_known_in_order():
    history = History()
    history.note(["a", "b"], 1)
    history.note(["a"], 4)
    assert (history.of("a"), history.of("b"), history.of("c")) == ((1, 4), (1,), ())


def test_the_job_heard_of_first_is_forgotten_first():
    history = History(jobs_max=2)
    for sequence, job in enumerate(["a", "b", "a", "c"], 1):
        history.note([job], sequence)
    assert (history.of("a"), history.of("b"), history.of("c")) == ((), (2,), (4,))


def test_of_an_endless_story_the_beginning_and_the_end_remain():
    history = History(records_max=3)
    for sequence in range(1, 7):
        history.note(["a"], sequence)
    assert history.of("a") == (1, 5, 6)


def test_what_was_noted_elsewhere_of_earlier_records_goes_before():
    earlier, history = History(), History()
    earlier.note(["a", "b"], 1)
    earlier.note(["a"], 2)
    history.note(["a", "c"], 5)
    history.precede(earlier)
    assert (history.of("a"), history.of("b"), history.of("c")) == ((1, 2, 5), (1,), (5,))
