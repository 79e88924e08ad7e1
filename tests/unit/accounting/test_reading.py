"""Which pieces of time are read from where; what they add up to is looked at with a database, in the integration tests."""

from __future__ import annotations

import pytest

from headrace.accounting.reading import Reader
from headrace.contracts.durations import DAY, HOUR


def split(fields: tuple[str, ...], bounds: list[int], moments: tuple[int, ...] = ()) -> tuple[object, object]:
    return Reader(None, "acme", fields, bounds)._split(moments)


def test_whole_days_are_read_from_their_sums_and_the_ends_from_the_intervals() -> None:
    days, left = split(("group",), [DAY - HOUR, 3 * DAY + HOUR, 4 * DAY])
    assert days == [(0, 1, 3)]
    assert left == [[DAY - HOUR, DAY], [3 * DAY, 3 * DAY + HOUR, 4 * DAY]]


@pytest.mark.parametrize("field", ["node", "job", "label:project"])
def test_what_the_sums_do_not_know_is_read_from_the_intervals_alone(field: str) -> None:
    assert split((field,), [0, DAY, 2 * DAY]) == ([], [[0, DAY, 2 * DAY]])


def test_what_is_left_over_is_cut_where_a_price_changed() -> None:
    assert split(("job",), [0, DAY], (5, DAY, 2 * DAY)) == ([], [[0, 5, DAY]])
    assert split(("group",), [0, DAY], (5,)) == ([(0, 0, 1)], [])
