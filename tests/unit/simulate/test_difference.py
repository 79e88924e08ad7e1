"""Two outcomes side by side."""

from __future__ import annotations

from headrace.contracts.amounts import GPU_UNITS
from headrace.contracts.durations import HOUR, MINUTE, SECOND
from headrace.simulate.difference import MOVED_MAX, SHOWN_MAX, Moved, Numbers, as_text, called, difference
from headrace.simulate.outcome import Outcome, Tale

DEV = ("default", "dev", "one")
AT = 1_000 * SECOND


def compared(before, after, span=HOUR):
    return difference(Outcome(before), Outcome(after), ({}, {}), (AT, AT + span), 0)


def tale(start=None, **more):
    return Tale(more.pop("queue", DEV), AT, started_at=None if start is None else AT + start, starts=start is not None, **more)


def test_numbers_are_of_each_policy_and_of_all():
    found = compared(
        {"a": tale(10 * SECOND), "b": tale(20 * SECOND, preemptions=2, lost=HOUR * GPU_UNITS)},
        {"a": tale(MINUTE), "b": tale(), "c": tale(queue=("acme", "ops", "two"), refused="NOT_ALLOWED", over=True)},
    )
    assert found.policies["dev"].before == Numbers(starts=2, wait_mean=15, wait_max=20, preemptions=2, lost=3_600)
    assert found.policies["dev"].after == Numbers(starts=1, waiting=1, wait_mean=60, wait_max=60)
    assert found.policies["acme/ops"].after == found.policies["acme/ops"].before.__class__(refused=1)
    assert found.total.after == Numbers(starts=1, waiting=1, refused=1, wait_mean=60, wait_max=60)


def test_the_jobs_whose_start_moved_most_come_first_and_never_is_far():
    found = compared(
        {"a": tale(10 * SECOND), "b": tale(10 * SECOND), "c": tale(MINUTE), "d": tale(5), "e": tale(had_started=True)},
        {
            "a": tale(),
            "b": tale(20 * SECOND),
            "c": tale(SECOND),
            "d": tale(5),
            "e": tale(),
            "f": tale(refused="NOT_ALLOWED", over=True),
        },
    )
    assert [row.job for row in found.moved] == ["a", "c", "b", "f"]
    assert found.moved[0] == Moved(
        job="a", queue="dev/one", before=10 * SECOND, after=None, before_is="started", after_is="waiting"
    )
    assert (found.moved[3].before_is, found.moved[3].after_is) == ("not there", "NOT_ALLOWED")


def test_only_the_first_of_very_many_are_shown():
    many = {f"j{number}": tale(SECOND) for number in range(MOVED_MAX + 5)}
    found = compared(many, {name: tale() for name in many})
    assert (len(found.moved), found.moved_in_all) == (MOVED_MAX, MOVED_MAX + 5)
    assert f"\nand {MOVED_MAX + 5 - SHOWN_MAX} more; --json" in as_text(found, "what if")


def test_where_nothing_moves_that_is_said():
    same = {"a": tale(10 * SECOND)}
    assert as_text(compared(same, same), "what if").endswith("\n\nNo start moves.")


def test_a_job_without_a_name_is_called_by_its_user_and_id():
    job = "01k00000000000000000000000"
    assert (called(f"default.ann.{job}"), called(f"acme.ann.{job}")) == (f"ann.{job}", f"acme.ann.{job}")
