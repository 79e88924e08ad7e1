"""What a class of nodes knows of itself (R3, R20)."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.contracts.values.amounts import GPU_UNITS
from headrace.domain.indexes.expected_use import Site
from headrace.domain.indexes.fragmentation import Fragmentation
from headrace.domain.indexes.node_classes import CPU_WEIGHT, GPU_WEIGHT, ClassKey, NodeClass, SectionTag, Shapes
from headrace.domain.model.requests import Shape

HALF = GPU_UNITS // 2


def group(*opens: int, cpu: int = 8, memory: int = 8, model: str = "H100") -> NodeClass:
    return NodeClass(SectionTag(Site(model, 3), ""), ClassKey(cpu, memory, opens, ()))


@pytest.mark.parametrize(
    ("one", "asked", "fits"),
    [
        pytest.param(group(HALF, GPU_UNITS), Shape(1, 0, 8, 8, ()), True, id="all that it has"),
        pytest.param(group(HALF, GPU_UNITS), Shape(2, 0, 0, 0, ()), False, id="one device too few"),
        pytest.param(group(HALF, GPU_UNITS), Shape(1, 0, 9, 0, ()), False, id="one millicore too few"),
        pytest.param(group(HALF, GPU_UNITS), Shape(1, 0, 0, 9, ()), False, id="one MiB too little"),
        pytest.param(group(HALF), Shape(0, HALF, 0, 0, ()), True, id="a fraction"),
        pytest.param(group(HALF), Shape(0, HALF + 1, 0, 0, ()), False, id="a larger fraction"),
        pytest.param(group(), Shape(0, 1, 0, 0, ()), False, id="no devices"),
        pytest.param(group(HALF), Shape(0, HALF, 0, 0, ("A100",)), False, id="another model"),
        pytest.param(group(HALF), Shape(0, 0, 1, 0, ("A100",)), True, id="which is no matter without a device"),
    ],
)
def test_what_fits_on_a_node_like_this(one, asked, fits):  # R3
    one.learn(Shapes([asked]))
    assert (one.fits(asked), one.mask, one.known) == (fits, int(fits), 1)


FEW = st.integers(0, 3)
MODELS = st.sampled_from([(), ("H100",), ("A100",), ("A100", "H100")])
ASKED = st.builds(Shape, FEW, st.sampled_from([0, 1, HALF, GPU_UNITS]), FEW, FEW, MODELS, st.sampled_from(["", "3g.40gb"]), FEW)
CLASSES = st.builds(group, cpu=FEW, memory=FEW, model=st.sampled_from(["H100", "A100"])) | st.builds(
    group, st.sampled_from([0, HALF, GPU_UNITS]), st.just(GPU_UNITS), cpu=st.integers(-1, 3), memory=FEW
)


@given(st.lists(ASKED, max_size=8), st.lists(ASKED, max_size=3), CLASSES)
def test_all_shapes_are_looked_at_together_as_they_would_be_one_by_one(asked, later, one):
    shapes = Shapes(asked)
    one.learn(shapes)
    shapes.all += later
    seen = one.mask
    one.learn(shapes)
    expected = [one.fits(shape) for shape in shapes.all]

    assert [bool(one.mask >> number & 1) for number in range(len(shapes.all))] == expected
    assert seen == one.mask & (1 << len(asked)) - 1


def test_the_free_amount_is_exactly_cpu_by_128_cores_and_gpus_by_8():  # R20
    assert Fraction(1, 128_000) / CPU_WEIGHT == Fraction(1, 8 * GPU_UNITS) / GPU_WEIGHT == Fraction(1, 16_128_000)
    assert group(HALF, GPU_UNITS, cpu=64_000).free == 16_128_000 * (Fraction(1, 2) + Fraction(3, 16))


@pytest.mark.parametrize(
    ("asked", "device"),
    [
        pytest.param(Shape(1, 0, 0, 0, ()), 0, id="whole ones are all alike"),
        pytest.param(Shape(0, HALF, 0, 0, ()), HALF, id="the fullest that holds it"),
        pytest.param(Shape(0, HALF + 1, 0, 0, ()), GPU_UNITS, id="which may be an empty one"),
    ],
)
def test_after_the_free_amount_comes_the_fullest_device(asked, device):  # R20
    one = group(HALF, GPU_UNITS)
    assert one.rating(0, asked, Fragmentation()) == (0, one.free, device)


def test_a_name_leaves_and_the_others_stay_in_order():
    one = group()
    one.names = ["a", "b", "c"]
    one.leave("b")
    assert one.names == ["a", "c"]


def test_the_score_comes_before_all_else_and_holds_until_the_mix_changes():  # R20
    one, asked = group(GPU_UNITS, GPU_UNITS), Shape(1, 0, 0, 0, ())
    pairs = Fragmentation([(Shape(2, 0, 0, 0, ()), 1)])
    seen = [one.rating(0, asked, pairs), one.rating(0, asked, Fragmentation())]
    one.forget()
    seen.append(one.rating(0, asked, Fragmentation()))
    assert seen == [(-26, one.free, 0), (-26, one.free, 0), (0, one.free, 0)]  # the device that is left is of no use to pairs


CUT = NodeClass(
    SectionTag(Site("H100-80GB", 8), ""), ClassKey(8, 8, (HALF,), (("H100-80GB", ((0, "4g.40gb"),)), ("H100-80GB", ())))
)


@pytest.mark.parametrize(
    ("asked", "fits"),
    [
        pytest.param(Shape(0, 0, 0, 0, (), "3g.40gb"), True, id="beside what is there"),
        pytest.param(Shape(0, 0, 0, 0, (), "7g.80gb"), True, id="on the empty one"),
        pytest.param(Shape(0, 0, 0, 0, (), "3g.20gb"), False, id="of another model"),
        pytest.param(Shape(0, 0, 9, 0, (), "3g.40gb"), False, id="too few cpus"),
        pytest.param(Shape(0, 0, 0, 0, ("A100",), "3g.40gb"), False, id="a model that the profile does not name"),
        pytest.param(Shape(1, 0, 0, 0, ()), False, id="an empty device that is cut is not free"),
        pytest.param(Shape(0, HALF, 0, 0, ()), True, id="a fraction of the one that is not cut"),
    ],
)
def test_slices_fit_on_devices_that_are_cut_and_nothing_else_does(asked, fits):  # R3, R4
    assert CUT.fits(asked) is fits


@pytest.mark.parametrize("amended", [True, False])
def test_a_slice_goes_where_it_costs_the_others_least(amended):  # R20
    used = NodeClass(SectionTag(Site("H100-80GB", 8), ""), ClassKey(8, 8, (), (("H100-80GB", ((0, "4g.40gb"),)),)))
    empty = NodeClass(SectionTag(Site("H100-80GB", 8), ""), ClassKey(8, 8, (), (("H100-80GB", ()),)))
    asked = Shape(0, 0, 0, 0, (), "1g.10gb")
    judge = Fragmentation(amended=amended)
    assert used.rating(0, asked, judge) < empty.rating(0, asked, judge)
    assert (used.free, empty.free) == (8 * CPU_WEIGHT + 54_000 * GPU_WEIGHT, 8 * CPU_WEIGHT + GPU_UNITS * GPU_WEIGHT)


def test_two_halves_share_a_device_which_they_did_not_before():  # R20
    half = NodeClass(SectionTag(Site("H100-80GB", 8), ""), ClassKey(8, 8, (), (("H100-80GB", ((4, "3g.40gb"),)),)))
    empty = NodeClass(SectionTag(Site("H100-80GB", 8), ""), ClassKey(8, 8, (), (("H100-80GB", ()),)))
    asked = Shape(0, 0, 0, 0, (), "3g.40gb")
    better = []
    for amended in (True, False):
        judge = Fragmentation(amended=amended)
        better.append(min((half, empty), key=lambda one: one.rating(0, asked, judge)))
        half.forget()
        empty.forget()
    assert better == [half, empty]
