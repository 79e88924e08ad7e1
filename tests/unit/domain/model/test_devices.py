"""One device: whole, in fractions, or cut (R3, R4), and how the pool counts what is cut."""

from __future__ import annotations

from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.contracts.facts.fact import DeviceShare, Place
from headrace.contracts.values.amounts import GPU, GPU_UNITS
from headrace.domain.model.devices import DeviceState, change, counted

HALF = GPU_UNITS // 2
CHARGES = {"1g.10gb": GPU_UNITS // 7, "3g.40gb": HALF, "4g.40gb": 4 * GPU_UNITS // 7}


def cut(name: str, start: int, device: str = "gpu0") -> DeviceShare:
    return DeviceShare(device=device, units=CHARGES[name], mig=name, start=start)


def part(units: int = HALF) -> DeviceShare:
    return DeviceShare(device="gpu0", units=units)


def device(*taken: DeviceShare, kept: tuple[DeviceShare, ...] = (), mig: bool = True) -> DeviceState:
    one = DeviceState("gpu0", "H100-80GB", 81_920, GPU_UNITS, mig=mig, family="H100-80GB" if mig else "")
    for share in taken:
        one.take(share, 1)
    for share in kept:
        one.keep(share, 1)
    return one


@pytest.mark.parametrize(
    ("one", "seen"),
    [
        pytest.param(device(mig=False), (GPU_UNITS, None, GPU_UNITS), id="free"),
        pytest.param(device(part(), mig=False), (HALF, None, HALF), id="half of it held"),
        pytest.param(device(part(), kept=(part(),), mig=False), (0, None, 0), id="the other half kept"),
        pytest.param(device(), (0, (), GPU_UNITS), id="cut, and empty"),
        pytest.param(device(cut("3g.40gb", 4)), (0, ((4, "3g.40gb"),), HALF), id="a half of it held"),
        pytest.param(
            device(cut("3g.40gb", 4), kept=(cut("1g.10gb", 0),)),
            (0, ((0, "1g.10gb"), (4, "3g.40gb")), GPU_UNITS - HALF - GPU_UNITS // 7),
            id="what is kept lies there as well",
        ),
        pytest.param(
            device(cut("4g.40gb", 0), cut("3g.40gb", 4)), (0, ((0, "4g.40gb"), (4, "3g.40gb")), 0), id="never less than nothing"
        ),
        pytest.param(device(part()), (0, None, HALF), id="in MIG mode with a fraction left over: it takes nothing"),
        pytest.param(
            device(cut("3g.40gb", 4), mig=False), (0, None, HALF), id="out of MIG mode with a slice left over: the same"
        ),
    ],
)
def test_what_a_device_has_to_give(one, seen):
    assert (one.open, one.layout, one.idle) == seen


def test_giving_back_undoes_taking():
    one = device(cut("3g.40gb", 4), part(), kept=(cut("1g.10gb", 0), part(1)))
    for share in (cut("3g.40gb", 4), part()):
        one.take(share, -1)
    for share in (cut("1g.10gb", 0), part(1)):
        one.keep(share, -1)
    assert (one.free, one.nominated, one.slices, one.kept) == (GPU_UNITS, 0, (), ())


def at(*devices: DeviceShare) -> Place:
    return Place(node="n1", devices=devices, amounts={GPU: sum(share.units for share in devices)})


def test_a_cut_device_counts_with_at_most_one_gpu():  # R4
    charges: dict[tuple[str, str], int] = {}
    rises = [counted(charges, one, 1)[GPU] for one in (at(cut("4g.40gb", 0)), at(cut("3g.40gb", 4)))]
    assert rises == [72_000, 54_000]
    assert counted(charges, at(cut("4g.40gb", 0)), -1) == {GPU: 63_000}
    assert counted(charges, at(cut("3g.40gb", 4)), -1) == {GPU: 63_000}
    assert charges == {}


def test_amounts_without_slices_count_as_they_are():
    one = at(part())
    assert counted({}, one, 1) is one.amounts


PLACES = st.lists(
    st.builds(
        lambda name, start, number: at(cut(name, start, f"gpu{number}")),
        st.sampled_from(sorted(CHARGES)),
        st.just(0),
        st.integers(0, 1),
    )
    | st.builds(lambda units: at(DeviceShare(device="gpu9", units=units)), st.sampled_from([HALF, GPU_UNITS])),
    max_size=8,
)


@given(PLACES, PLACES)
def test_what_a_change_would_count_is_what_it_then_counts(there, more):
    charges: dict[tuple[str, str], int] = {}
    for one in there:
        counted(charges, one, 1)
    foreseen = change(charges, more, there[::2])
    rises = 0
    for one in there[::2]:
        rises -= counted(charges, one, -1).get(GPU, 0)
    for one in more:
        rises += counted(charges, one, 1).get(GPU, 0)
    assert foreseen == rises


def test_a_twin_is_like_it_in_everything_and_another():
    one = DeviceState(
        "gpu0", "H100-80GB", 81_920, 5, 3, True, "H100-80GB", ((0, "1g.10gb"),), ((1, "1g.10gb"),), "row remapping"
    )
    twin = one.twin()
    copied = [(each.name, getattr(twin, each.name)) for each in fields(DeviceState)]
    assert copied == [(each.name, getattr(one, each.name)) for each in fields(DeviceState)]
    twin.keep(DeviceShare(device="gpu0", units=2), 1)
    assert (one.nominated, twin.nominated) == (3, 5)


def test_of_a_device_no_more_than_one_gpu_counts_for_its_model():  # R4, R43
    def by_model(share):
        return Place(node="n1", devices=(share,), amounts={GPU: share.units, "gpu:H100-80GB": share.units})

    charges: dict[tuple[str, str], int] = {}
    large, small, other = by_model(cut("4g.40gb", 0)), by_model(cut("3g.40gb", 4)), at(cut("3g.40gb", 4, "gpu1"))
    assert change(charges, (large, small), key="gpu:H100-80GB") == GPU_UNITS
    counts = [counted(charges, one, 1) for one in (large, other, small)]
    assert sum(one[GPU] for one in counts) == GPU_UNITS + 63_000
    assert sum(one.get("gpu:H100-80GB", 0) for one in counts) == GPU_UNITS
    for one in (small, large, other):
        counted(charges, one, -1)
    assert charges == {}
