"""Two lists of marks side by side."""

from __future__ import annotations

from random import Random

import pytest

from headrace.audit.seals import MARK
from headrace.audit.sequence_diff import SEARCH_WINDOW, Walk, differences


def mark(letter, time=0):
    return letter.encode().ljust(MARK - 1, b".") + bytes([time])


def difference(sealed, there, count=None, first=1, sequences=None):
    """The findings as short text, of letters; `count` of what was sealed, the rest only shows where it goes on."""
    walk = Walk([mark(x) for x in sealed], [mark(x) for x in there], len(sealed) if count is None else count)
    found = differences(walk, first, sequences or range(1, len(there) + 1))
    return [
        f"{each.kind} {each.sequence}" + (f"-{each.through}" if each.through > each.sequence else "") for each in found
    ], walk


@pytest.mark.parametrize(
    ("sealed", "there", "findings"),
    [
        ("abcdef", "abcdef", []),
        ("abcdef", "abXdef", ["changed 3"]),
        ("abcdef", "XYcdef", ["changed 1", "changed 2"]),
        ("abcdef", "abdef", ["removed 3"]),
        ("abcdef", "aef", ["removed 2-4"]),
        ("abcdef", "abcd", ["removed 5-6"]),
        ("abcdef", "", ["removed 1-6"]),
        ("abcdef", "abcXdef", ["inserted 4"]),
        ("abcdef", "Xabcdef", ["inserted 1"]),
        ("abcdef", "abccdef", ["repeated 4"]),
        ("abcdef", "abcdaef", ["repeated 5"]),
        ("abcdef", "abdcef", ["moved 3"]),
        ("abcdef", "bcdefa", ["removed 1"]),  # what stands behind the last belongs to what comes next
        ("abcdef", "bacdef", ["moved 1"]),
        ("abcdef", "aXcdf", ["changed 2", "removed 5"]),
        ("abcdef", "UVWXYZ", [f"changed {n}" for n in range(1, 7)]),
        ("abcdef", "UVW", ["changed 1", "changed 2", "changed 3", "removed 4-6"]),
    ],
)
def test_what_was_done_is_told_where_it_was_done(sealed, there, findings):
    assert difference(sealed, there)[0] == findings


def test_the_next_stretch_says_where_this_one_ends():
    findings, walk = difference("abcd" + "efgh", "abc" + "efgh", count=4)
    assert (findings, walk.passed) == (["removed 4"], 3)
    findings, walk = difference("abcd" + "efgh", "abcdXY" + "efgh", count=4)
    assert (findings, walk.passed) == ([], 4)


def test_holes_in_the_sequences_are_not_differences_of_their_own():
    assert difference("abcdef", "abdef", first=11, sequences=[11, 12, 14, 15, 16])[0] == ["removed 13"]


def test_another_time_alone_is_told_as_that():
    walk = Walk([mark("a"), mark("b")], [mark("a"), mark("b", 1)], 2)
    (found,) = differences(walk, 1, [1, 2])
    assert (found.kind, found.sequence, found.text) == (
        "restamped",
        2,
        "record 2 was stored at another time when it was sealed",
    )


def test_texts_name_what_was_where():
    walk = Walk([mark(x) for x in "abcdef"], [mark(x) for x in "acdXf"], 6)
    assert [found.text for found in differences(walk, 1, range(1, 6))] == [
        "record 2, which was sealed, is gone",
        "record 4 is not what was sealed as record 5",
    ]


def test_where_nothing_is_the_same_any_more_it_goes_no_further_than_it_looks():
    sealed = [mark(f"s{n}") for n in range(2 * SEARCH_WINDOW)]
    walk = Walk(sealed, [mark(f"t{n}") for n in range(2 * SEARCH_WINDOW)], 2 * SEARCH_WINDOW)
    assert (len(walk.steps), walk.passed) == (1, 2 * SEARCH_WINDOW)


def test_any_few_edits_are_told_at_their_places():
    """Drawn: a record out, one changed, one in, far enough apart; each is told once and exactly."""
    for seed in range(50):
        random = Random(seed)
        sealed = [f"r{n}" for n in range(300)]
        out, changed, new = sorted(random.sample(range(5, 290), 3))
        there = list(sealed)
        there.insert(new, "new")
        there[changed] = "changed"
        del there[out]
        findings, _ = difference(sealed, there)
        assert sorted(findings) == sorted([f"removed {out + 1}", f"changed {changed}", f"inserted {new}"])
