"""How GPUs are cut (R4): the tables, what fits, where it goes, and what it is charged; held against every layout there can be."""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.contracts.values.amounts import GPU_UNITS
from headrace.contracts.values.mig import (
    EMPTY,
    FAMILIES,
    Layout,
    best_start,
    charge,
    family_of,
    most_of,
    open_placements,
    open_starts,
    placements_lost,
    put,
    remove,
    run,
    slices_of,
)

H100 = "H100-80GB"


@pytest.mark.parametrize(
    ("model", "memory", "family"),
    [
        ("H100-80GB", 0, H100),
        ("NVIDIA H100 80GB HBM3", 81_559, H100),
        ("NVIDIA-H100-NVL", 95_830, "H100-94GB"),
        ("A100-SXM4-40GB", 81_920, "A100-40GB"),
        ("A100", 40_960, "A100-40GB"),
        ("a100", 81_920, "A100-80GB"),
        ("GH200", 97_871, "H100-96GB"),
        ("H200", 143_771, "H200-141GB"),
        ("B200", 183_359, "B200-180GB"),
        ("A30", 24_576, "A30-24GB"),
        ("L4", 24_576, ""),
        ("GPU", 81_920, ""),
        ("XH100", 81_920, ""),
    ],
)
def test_a_model_is_cut_as_its_family_is(model, memory, family):
    assert family_of(model, memory) == family


@pytest.mark.parametrize(
    ("name", "families", "share"),
    [
        ("1g.10gb", (H100,), (1, 7)),
        ("1g.10gb+me", (H100,), (1, 7)),
        ("1g.20gb", (), (1, 4)),
        ("2g.20gb", (), (2, 7)),
        ("3g.40gb", (), (1, 2)),
        ("4g.40gb", (), (4, 7)),
        ("7g.80gb", (), (1, 1)),
        ("2g.12gb", (), (1, 2)),
        ("1g.10gb", ("A100-40GB",), (1, 4)),
        ("1g.10gb", ("A100-40GB", H100), (1, 4)),
        ("1g.10gb", (), (1, 4)),
        ("3g.40gb", ("A100-40GB",), (1, 2)),
        ("3g.41gb", (), (0, 1)),
    ],
)
def test_a_slice_is_charged_its_share_of_compute_or_of_memory_whichever_is_greater(name, families, share):  # R4
    above, below = share
    assert charge(name, families) * below == above * GPU_UNITS


@pytest.mark.parametrize(
    ("names", "starts"),
    [
        pytest.param(["4g.40gb", "3g.40gb"], [0, 4], id="4g and 3g, though their charges are more than one"),
        pytest.param(["3g.40gb", "3g.40gb"], [4, 0], id="twice 3g"),
        pytest.param(["3g.40gb", "4g.40gb"], [4, 0], id="3g leaves 4g its place"),
        pytest.param(["1g.10gb"] * 8, [6, 5, 4, 3, 2, 1, 0, None], id="seven, from the right"),
        pytest.param(
            ["2g.20gb"] * 3 + ["1g.10gb", "1g.10gb"], [4, 2, 0, 6, None], id="three pairs and one: the compute is gone"
        ),
        pytest.param(["1g.20gb"] * 5, [6, 4, 2, 0, None], id="memory by twos"),
        pytest.param(["1g.10gb", "3g.40gb", "3g.40gb"], [6, 0, None], id="one in the way of a half"),
        pytest.param(["1g.10gb", "4g.40gb", "2g.20gb"], [6, 0, 4], id="all seven"),
        pytest.param(["7g.80gb", "1g.10gb"], [0, None], id="the whole"),
        pytest.param(["1g.10gb+me", "1g.10gb+me"], [6, None], id="there is one media engine"),
        pytest.param(["3g.20gb"], [None], id="of another model"),
    ],
)
def test_slices_find_their_places_one_after_the_other(names, starts):  # R4, R20
    layout, found = EMPTY, []
    for name in names:
        start = best_start(H100, layout, name)
        found.append(start)
        layout = layout if start is None else put(layout, start, name)
    assert found == starts


@pytest.mark.parametrize(
    ("layout", "starts"),
    [
        pytest.param(
            [(0, "3g.40gb"), *((at, "1g.10gb") for at in (0, 1, 2, 4, 5))], (6,), id="three leave where one of three comes"
        ),
        pytest.param(
            [(4, "3g.40gb"), *((at, "1g.10gb") for at in (0, 1, 2, 4, 5, 6))], (3,), id="one is left now, and in the end"
        ),
        pytest.param(
            [(4, "3g.40gb"), (6, "1g.10gb"), (0, "2g.20gb"), (2, "2g.20gb")], (), id="one is left now, and none in the end"
        ),
        pytest.param([(0, "4g.40gb"), (2, "1g.10gb"), (4, "3g.40gb")], (), id="the dearest of those that lie over each other"),
    ],
)
def test_where_one_slice_is_kept_over_others_both_count_but_not_at_a_time(layout, starts):  # R16
    lying = tuple(sorted(layout))
    assert tuple(start for start in open_starts(H100, lying, "1g.10gb") if start not in {at for at, _ in layout}) == starts


def test_an_unknown_family_takes_and_offers_nothing():
    asked = (
        open_starts("", EMPTY, "1g.10gb"),
        best_start("", EMPTY, "1g.10gb"),
        open_placements("", EMPTY),
        most_of("", "1g.10gb"),
    )
    assert (asked, run("", 0, "1g.10gb"), slices_of([""])) == (((), None, 0, 0), 0, [])


def test_what_a_family_offers_and_how_often_an_empty_gpu_holds_it():
    assert slices_of(["A30-24GB"]) == ["1g.6gb", "1g.6gb+me", "2g.12gb", "2g.12gb+me", "4g.24gb"]
    assert [most_of(H100, name) for name in slices_of([H100, H100])] == [7, 1, 4, 3, 2, 1, 1]
    assert most_of(H100, "3g.20gb") == 0


def test_what_is_removed_is_gone_once_and_what_is_not_there_does_not_matter():
    layout = put(put(EMPTY, 5, "1g.10gb"), 4, "1g.10gb")
    assert (layout, remove(layout, 4, "1g.10gb"), remove(layout, 0, "1g.10gb")) == (
        ((4, "1g.10gb"), (5, "1g.10gb")),
        ((5, "1g.10gb"),),
        layout,
    )


@cache
def is_legal(family: str, layout: Layout) -> bool:
    """The law of layouts, said in another way: cells that are covered, engines that are used, kinds that are counted."""
    offered = FAMILIES[family]
    kinds = [(start, offered.slices[name]) for start, name in layout]
    covered = Counter(cell for start, kind in kinds for cell in range(start, start + kind.memory))
    counts = Counter(name for _, name in layout)
    return (
        all(start in kind.starts for start, kind in kinds)
        and all(count == 1 for count in covered.values())
        and all(0 <= cell < offered.memory for cell in covered)
        and sum(kind.compute for _, kind in kinds) <= offered.compute
        and all(count <= offered.slices[name].most for name, count in counts.items())
    )


def all_layouts(family: str) -> set[Layout]:
    """Every legal layout: what can be reached by adding slices anywhere."""
    placements = [(start, name) for name, kind in FAMILIES[family].slices.items() for start in kind.starts]
    found, fresh = {EMPTY}, [EMPTY]
    while fresh:
        layout = fresh.pop()
        for placement in placements:
            more = tuple(sorted((*layout, placement)))
            if more not in found and is_legal(family, more):
                found.add(more)
                fresh.append(more)
    return found


@pytest.mark.parametrize("family", ["A30-24GB", H100])
def test_on_every_layout_a_slice_fits_exactly_where_the_law_allows_it(family):  # R4
    layouts = all_layouts(family)
    assert len(layouts) > 50
    for layout in layouts:
        for name, kind in FAMILIES[family].slices.items():
            legal = tuple(start for start in kind.starts if is_legal(family, put(layout, start, name)))
            assert open_starts(family, layout, name) == legal
            left = max((open_placements(family, put(layout, start, name)) for start in legal), default=None)
            lost = placements_lost(family, layout, name)
            assert lost == (None if left is None else (open_placements(family, layout) - left, left))


def test_no_start_would_have_left_more_than_the_one_that_is_taken():  # R20
    for layout in all_layouts("A30-24GB"):
        for name in FAMILIES["A30-24GB"].slices:
            start = best_start("A30-24GB", layout, name)
            left = [open_placements("A30-24GB", put(layout, other, name)) for other in open_starts("A30-24GB", layout, name)]
            assert start is None or open_placements("A30-24GB", put(layout, start, name)) == max(left)


@given(st.sampled_from(sorted(FAMILIES)), st.lists(st.tuples(st.booleans(), st.integers(0, 30)), max_size=60))
def test_whatever_is_taken_and_given_back_nothing_ever_overlaps(family, steps):
    layout, names = EMPTY, list(FAMILIES[family].slices)
    for takes, number in steps:
        if takes:
            name = names[number % len(names)]
            start = best_start(family, layout, name)
            layout = layout if start is None else put(layout, start, name)
        elif layout:
            layout = remove(layout, *layout[number % len(layout)])
        assert is_legal(family, layout)
