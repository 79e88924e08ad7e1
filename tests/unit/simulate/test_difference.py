"""Two outcomes side by side."""

from __future__ import annotations

import pytest
from msgspec import structs

from headrace.contracts.messages.whatif import Moved, OutcomeNumbers, PoolNumbers, memory_limit
from headrace.contracts.values.amounts import GPU_UNITS
from headrace.contracts.values.durations import HOUR, MINUTE, SECOND
from headrace.simulate.difference import MOVED_MAX, SHOWN_MAX, Side, as_text, called, difference
from headrace.simulate.outcome import JobOutcome
from headrace.simulate.usage_cost import Tally, Used, UsePlace

DEV = ("default", "dev", "one")
AT = 1_000 * SECOND


UNUSED = Tally({}, {})


def compared(before, after, span=HOUR, tallies=(UNUSED, UNUSED)):
    return difference(Side(before, tallies[0], {}), Side(after, tallies[1], {}), (AT, AT + span), 0)


def job_outcome(start=None, **more):
    return JobOutcome(
        more.pop("queue", DEV),
        more.pop("group", ""),
        AT,
        started_at=None if start is None else AT + start,
        starts=start is not None,
        **more,
    )


def test_numbers_are_of_each_policy_and_of_all():
    found = compared(
        {"a": job_outcome(10 * SECOND), "b": job_outcome(20 * SECOND, preemptions=2, lost=HOUR * GPU_UNITS)},
        {
            "a": job_outcome(MINUTE),
            "b": job_outcome(),
            "c": job_outcome(queue=("acme", "ops", "two"), refused="NOT_ALLOWED", over=True),
        },
    )
    assert found.policies["dev"].before == OutcomeNumbers(
        starts=2, wait_mean=15, wait_p95=20, wait_max=20, preemptions=2, lost=3_600
    )
    assert found.policies["dev"].after == OutcomeNumbers(starts=1, waiting=1, wait_mean=60, wait_p95=60, wait_max=60)
    assert found.policies["acme/ops"].after == found.policies["acme/ops"].before.__class__(refused=1)
    assert found.total.after == OutcomeNumbers(starts=1, waiting=1, refused=1, wait_mean=60, wait_p95=60, wait_max=60)


def test_use_and_cost_are_of_each_group_policy_and_pool():
    dev, ops = UsePlace("default", "dev", "lab", "hall"), UsePlace("default", "ops", "lab", "cloud")
    gpu_hour = HOUR * GPU_UNITS
    tallies = (
        Tally({dev: Used(gpu_hour, gpu_hour, 7_500_000)}, {"hall": 4 * gpu_hour}),
        Tally({dev: Used(gpu_hour, 0, 2_500_000), ops: Used(0, gpu_hour, 4_100_000)}, {"hall": 3 * gpu_hour, "cloud": 0}),
    )
    found = compared({"a": job_outcome(5, group="lab")}, {"a": job_outcome(5, group="lab")}, tallies=tallies)
    assert list(found.groups) == ["lab"]
    assert found.groups["lab"].before == OutcomeNumbers(starts=1, reserved=3_600, borrowed=3_600, cost="7.500000")
    assert found.groups["lab"].after == OutcomeNumbers(starts=1, reserved=3_600, borrowed=3_600, cost="6.600000")
    assert {name: (sides.before.cost, sides.after.cost) for name, sides in found.policies.items()} == {
        "dev": ("7.500000", "2.500000"),
        "ops": ("0.000000", "4.100000"),
    }
    assert found.pools["hall"].before == PoolNumbers(had=14_400, used=7_200, percent="50.0", cost="7.500000")
    assert found.pools["hall"].after == PoolNumbers(had=10_800, used=3_600, percent="33.3", cost="2.500000")
    assert found.pools["cloud"].after == PoolNumbers(had=0, used=3_600, percent="0.0", cost="4.100000")
    assert "hall   4.00 -> 3.00  2.00 -> 1.00  50.0 -> 33.3  7.50 -> 2.50" in as_text(found, "what if")


def test_what_the_ledger_says_stands_beside_what_came_of_it_again():
    found = structs.replace(
        compared({"a": job_outcome(MINUTE)}, {"a": job_outcome(MINUTE)}), recorded=OutcomeNumbers(starts=2, wait_mean=61)
    )
    assert as_text(found, "what if").endswith(
        "in brackets those of its unchanged replay: starts 2 (1), mean wait 1m1s (1m), preempted 0 (0), used GPU-h 0.00 (0.00)."
    )


def test_the_jobs_whose_start_moved_most_come_first_and_never_is_far():
    found = compared(
        {
            "a": job_outcome(10 * SECOND),
            "b": job_outcome(10 * SECOND),
            "c": job_outcome(MINUTE),
            "d": job_outcome(5),
            "e": job_outcome(had_started=True),
        },
        {
            "a": job_outcome(),
            "b": job_outcome(20 * SECOND),
            "c": job_outcome(SECOND),
            "d": job_outcome(5),
            "e": job_outcome(),
            "f": job_outcome(refused="NOT_ALLOWED", over=True),
        },
    )
    assert [row.job for row in found.moved] == ["a", "c", "b", "f"]
    assert found.moved[0] == Moved(
        job="a", queue="dev/one", before=10 * SECOND, after=None, before_is="started", after_is="waiting"
    )
    assert (found.moved[3].before_is, found.moved[3].after_is) == ("not there", "NOT_ALLOWED")


def test_only_the_first_of_very_many_are_shown():
    many = {f"j{number}": job_outcome(SECOND) for number in range(MOVED_MAX + 5)}
    found = compared(many, {name: job_outcome() for name in many})
    assert (len(found.moved), found.moved_in_all) == (MOVED_MAX, MOVED_MAX + 5)
    assert f"\nand {MOVED_MAX + 5 - SHOWN_MAX} more; --json" in as_text(found, "what if")


def test_where_nothing_moves_that_is_said():
    same = {"a": job_outcome(10 * SECOND)}
    assert as_text(compared(same, same), "what if").endswith("\n\nNo start moves.")


def test_a_job_without_a_name_is_called_by_its_user_and_id():
    job = "01k00000000000000000000000"
    assert (called(f"default.ann.{job}"), called(f"acme.ann.{job}")) == (f"ann.{job}", f"acme.ann.{job}")


def test_the_memory_of_a_what_if_is_said_by_the_environment_and_a_limit_that_cannot_be_is_refused():
    assert memory_limit({}) == ("4GiB", 4 * 1024**3)
    assert memory_limit({"HEADRACE_WHATIF_MEMORY": "512MiB"}) == ("512MiB", 512 * 1024**2)
    with pytest.raises(ValueError, match="^HEADRACE_WHATIF_MEMORY: invalid amount of memory 'much': use 64GiB or 512MiB$"):
        memory_limit({"HEADRACE_WHATIF_MEMORY": "much"})
    with pytest.raises(
        ValueError, match="^HEADRACE_WHATIF_MEMORY: 1MiB is too little for any question; write at least 128MiB$"
    ):
        memory_limit({"HEADRACE_WHATIF_MEMORY": "1MiB"})
