"""How arrays and parts of them are written, and what ranges of numbers have in common."""

from __future__ import annotations

import pytest

from headrace.contracts.values.arrays import (
    ArrayError,
    ArrayRange,
    common,
    format_array,
    format_ranges,
    holds,
    merged,
    parse_array,
    parse_part,
    size,
    without,
)


@pytest.mark.parametrize(
    ("text", "array", "again"),
    [
        ("0-499%8", ArrayRange(first=0, last=499, at_once=8), "0-499%8"),
        ("1-9:2", ArrayRange(first=1, last=9, step=2), "1-9:2"),
        ("0-9:4%1", ArrayRange(first=0, last=8, step=4, at_once=1), "0-8:4%1"),
        ("7", ArrayRange(first=7, last=7), "7-7"),
    ],
)
def test_an_array_is_read_and_written_again(text, array, again):
    assert (parse_array(text), format_array(array)) == (array, again)


@pytest.mark.parametrize("text", ["", "a", "5-1", "0-9%0", "0-9:0", "0-100000", "-1-3", "0-9%", "1,2", "0-9999999"])
def test_a_malformed_array_is_refused(text):
    with pytest.raises(ArrayError):
        parse_array(text)


@pytest.mark.parametrize("text", ["0-9999999", "0-9:9999999", "0-9%9999999"])
def test_what_is_too_large_for_an_array_is_said_with_its_bound(text):
    with pytest.raises(ArrayError, match=f"^{text}: an index, a step and a bound are at most 999,999$"):
        parse_array(text)


def test_elements_are_numbered_in_the_order_of_their_indices():
    array = ArrayRange(first=3, last=11, step=4)
    assert [array.index(number) for number in range(array.count)] == [3, 7, 11]
    assert [array.number(index) for index in (2, 3, 4, 7, 11, 15)] == [-1, 0, -1, 1, 2, -1]
    assert (array.numbers(((4, 20),)), array.numbers(()), array.numbers(((0, 2),))) == (((1, 2),), ((0, 2),), ())
    assert array.indices(((1, 2),)) == ((7, 11),)


def test_a_part_is_read_as_sorted_ranges_without_overlap():
    assert parse_part("20,0-9,5-12") == ((0, 12), (20, 20))
    assert format_ranges(((0, 12), (20, 20))) == "0-12,20"
    for text in ("", "1-", "3-1", "a", ",".join(["1"] * 101)):
        with pytest.raises(ArrayError):
            parse_part(text)


def test_ranges_are_sets_of_numbers():
    one, other = ((0, 4), (8, 9)), ((3, 8),)
    assert merged([(5, 6), (0, 4)]) == ((0, 6),)
    assert common(one, other) == ((3, 4), (8, 8))
    assert without(one, other) == ((0, 2), (9, 9))
    assert (size(one), holds(one, 8), holds(one, 5)) == (7, True, False)
