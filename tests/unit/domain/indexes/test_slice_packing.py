"""Where a slice lies best, against the definition: what all kinds lose, by how often they are asked for and their size (R4, R20)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.contracts.values.mig import EMPTY, idle_of, open_starts, put
from headrace.domain.indexes import slice_packing as module
from headrace.domain.indexes.slice_packing import SliceMix
from headrace.domain.model.requests import Shape
from tests.unit.domain.indexes.definitions import H100, loss
from tests.unit.size import size

NAMES = ("1g.10gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb")
MIXES = st.dictionaries(st.sampled_from(NAMES), st.integers(1, 100), max_size=4)


def asked(name: str, *models: str) -> Shape:
    return Shape(0, 0, 0, 0, models, name)


def mix_of(often: dict[str, int]) -> list[tuple[Shape, int]]:
    return [(asked(name), weight) for name, weight in often.items()]


@st.composite
def layouts(draw):
    """What lies on a device after any legal placements."""
    layout = EMPTY
    for name in draw(st.lists(st.sampled_from(NAMES), max_size=5)):
        starts = open_starts(H100, layout, name)
        if starts:
            layout = put(layout, draw(st.sampled_from(starts)), name)
    return layout


@given(MIXES, layouts(), st.sampled_from(NAMES))
def test_it_lies_where_the_others_lose_least(often, layout, name):
    cut = SliceMix(mix_of(often)).cut("H100", H100, layout, name)
    losses = {start: loss(often, layout, start, name) for start in open_starts(H100, layout, name)}
    if not losses:
        assert cut is None
        return
    assert (cut.loss, cut.idle) == (min(losses.values()), idle_of(H100, layout))
    assert losses[cut.start] == cut.loss


def order(often: dict[str, int], name: str, *devices) -> list[int]:
    """Numbers of the devices, the best first."""
    mix = SliceMix(mix_of(often))
    cuts = [(mix.cut("H100", H100, layout, name), number) for number, layout in enumerate(devices)]
    return [number for cut, number in sorted((cut[:2], number) for cut, number in cuts if cut is not None)]


@pytest.mark.parametrize(
    "often",
    [
        pytest.param({}, id="nothing is known"),
        pytest.param({"1g.10gb": 97, "7g.80gb": 3}, id="whole devices are rare"),
        pytest.param({"1g.10gb": 1, "3g.40gb": 1}, id="nobody asks for whole devices"),
    ],
)
@pytest.mark.parametrize(
    ("name", "there"),
    [
        ("1g.10gb", ((6, "1g.10gb"),)),
        ("2g.20gb", ((4, "3g.40gb"),)),
        ("3g.40gb", ((4, "3g.40gb"),)),
        ("3g.40gb", ((0, "4g.40gb"),)),
    ],
)
def test_a_device_that_is_cut_is_filled_before_a_whole_one_is_cut(often, name, there):
    assert order(often, name, EMPTY, there) == [1, 0]


def test_a_hole_that_is_usually_asked_for_is_spared():
    """A device with room for a half, and one with room for a quarter only: a small slice goes to the latter."""
    assert order({"3g.40gb": 1, "1g.10gb": 1}, "1g.10gb", ((4, "3g.40gb"),), ((2, "2g.20gb"), (4, "3g.40gb"))) == [1, 0]


def test_who_cannot_come_here_does_not_count():
    mix = [(asked("7g.80gb", "A100"), 1_000), (asked("1g.10gb", "H100"), 1), (asked("4g.24gb"), 1_000)]
    only = SliceMix([(asked("1g.10gb"), 1)])
    assert SliceMix(mix).cut("H100", H100, EMPTY, "1g.10gb") == only.cut("H100", H100, EMPTY, "1g.10gb")
    assert SliceMix(mix).cut("A100", H100, EMPTY, "1g.10gb") != only.cut("A100", H100, EMPTY, "1g.10gb")


@pytest.mark.parametrize("name", ["3g.20gb", "whole", ""])
def test_what_the_family_does_not_offer_fits_nowhere(name):
    assert SliceMix().cut("H100", H100, EMPTY, name) is None


def test_a_memo_has_an_end(monkeypatch):
    whole = SliceMix()
    wanted = [whole.cut("H100", H100, EMPTY, name) for name in NAMES]
    monkeypatch.setattr(module, "_REMEMBERED", 2)
    mix = SliceMix()
    assert [mix.cut("H100", H100, EMPTY, name) for name in NAMES * 2] == wanted * 2
    assert size(mix) < size(whole)
