"""What the index finds is what a look at every node would find (R3, R20), whatever happened to the nodes before."""

from __future__ import annotations

import math
from collections.abc import Collection
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.contracts.documents.model import Dedication, Owner
from headrace.contracts.facts.fact import DeviceShare
from headrace.contracts.values.amounts import GPU, GPU_UNITS
from headrace.contracts.values.isolation import Ranks
from headrace.contracts.values.mig import open_starts
from headrace.domain.indexes import shape_buckets
from headrace.domain.indexes.expected_use import Amount, Site
from headrace.domain.indexes.fragmentation import OpenCapacity
from headrace.domain.indexes.gpu_model_balance import Steering, site_of
from headrace.domain.indexes.node_index import NodeIndex
from headrace.domain.model.devices import DeviceState
from headrace.domain.model.nodes import NodeState
from headrace.domain.model.requests import Shape
from headrace.domain.placement.placement import pick_slice
from headrace.domain.state.pools import PoolState
from tests.unit.domain.indexes.definitions import after, by_definition, loss
from tests.unit.domain.site import pool

HALF = GPU_UNITS // 2
THIRD = GPU_UNITS // 3


def node(name: str, *free: int, cpu: int = 8, memory: int = 8, model: str = "H100", **more: object) -> NodeState:
    """A node of 8 cpus and 8 of memory, with this much free on each device."""
    devices = [DeviceState(f"gpu{number}", model, 80, units) for number, units in enumerate(free)]
    resources = {"cpu": 8, "memory": 8, "cpu_free": cpu, "memory_free": memory, "registered_at": 0, "model": model}
    return NodeState(**{"name": name, "labels": {}, "devices": devices, **resources, **more})


def shape(whole: int = 0, fraction: int = 0, cpu: int = 0, memory: int = 0, *models: str) -> Shape:
    return Shape(whole, fraction, cpu, memory, models)


def index_of(*nodes: NodeState) -> NodeIndex:
    index = NodeIndex()
    for one in nodes:
        index.put(one)
    return index


@pytest.mark.parametrize(
    ("nodes", "asked", "found"),
    [
        pytest.param([], shape(), None, id="nowhere to go"),
        pytest.param([node("a", GPU_UNITS)], shape(1), "a", id="a free device"),
        pytest.param([node("a", HALF, HALF)], shape(1), None, id="two halves are no device"),
        pytest.param([node("a", HALF, HALF)], shape(0, HALF), "a", id="but each holds a half"),
        pytest.param([node("a", HALF)], shape(0, HALF + 1), None, id="a fraction lives on one device"),
        pytest.param([node("a", GPU_UNITS), node("b", GPU_UNITS)], shape(2), None, id="one replica lives on one node"),
        pytest.param([node("a", GPU_UNITS, cpu=3)], shape(1, cpu=4), None, id="too few cpus"),
        pytest.param([node("a", GPU_UNITS, memory=3)], shape(1, memory=4), None, id="too little memory"),
        pytest.param([node("a", GPU_UNITS, cpu_nominated=5)], shape(1, cpu=4), None, id="cpus kept for a preemptor"),
        pytest.param(
            [node("a", GPU_UNITS, cpu_nominated=9)], shape(1), "a", id="more cpus kept than are free, and none asked for"
        ),
        pytest.param(
            [node("a", GPU_UNITS, memory_nominated=9)], shape(1), "a", id="more memory kept than is free, and none asked for"
        ),
        pytest.param([node("a")], shape(cpu=1), "a", id="a node without devices"),
        pytest.param([node("a", GPU_UNITS)], shape(1, 0, 0, 0, "A100"), None, id="another model"),
        pytest.param([node("a", GPU_UNITS)], shape(0, 0, 1, 0, "A100"), "a", id="a model matters to those that take a device"),
        pytest.param([node("a", GPU_UNITS, cordoned="why")], shape(1), None, id="cordoned"),
        pytest.param([node("a", GPU_UNITS, status="lost")], shape(1), None, id="lost"),
        pytest.param([node("b", GPU_UNITS), node("a", GPU_UNITS)], shape(1), "a", id="alike: the smaller name"),
        pytest.param([node("a", GPU_UNITS, GPU_UNITS), node("b", GPU_UNITS, 0)], shape(1), "b", id="the fuller node first"),
        pytest.param([node("a", GPU_UNITS), node("b", GPU_UNITS, cpu=4)], shape(1), "b", id="cpus count as gpus do"),
        pytest.param(
            [node("a", GPU_UNITS, cpu=16_001), node("b", GPU_UNITS, GPU_UNITS, cpu=0)],
            shape(1),
            "b",
            id="one gpu counts as 16 cpus",
        ),
        pytest.param(
            [node("b", GPU_UNITS, memory=3), node("a", GPU_UNITS)], shape(1), "a", id="equally good: the smaller name"
        ),
        pytest.param(
            [node("a", HALF, HALF), node("b", GPU_UNITS, 0)],
            shape(0, THIRD),
            "a",
            id="equally full: the fullest device that fits",
        ),
    ],
)
def test_the_best_node_for_one_replica(nodes, asked, found):
    assert index_of(*nodes).find(asked) == found


def test_units_kept_for_a_preemptor_are_not_open():  # R27
    one = node("a", GPU_UNITS)
    one.devices[0].nominated = 1
    assert index_of(one).find(shape(1)) is None


def test_a_device_with_more_kept_than_free_takes_nothing_from_others():
    one = node("a", 0, GPU_UNITS)
    one.devices[0].nominated = GPU_UNITS
    assert index_of(one).find(shape(1)) == "a"


def test_a_node_that_is_removed_twice_or_was_never_there_does_not_matter():
    one = node("a", GPU_UNITS)
    index = index_of(one)
    for forgotten in (one, one, node("b")):
        index.remove(forgotten)
    assert (index.find(shape(1)), index.feasible()) == (None, 0)


def test_a_shape_asked_for_again_sees_what_came_and_went_since():
    a, b = node("a", GPU_UNITS, GPU_UNITS), node("b", GPU_UNITS)
    index = index_of(a)
    seen = [index.find(shape(1))]
    index.put(b)
    seen.append(index.find(shape(1)))
    b.devices[0].free = 0
    index.put(b)
    seen.append(index.find(shape(1)))
    index.remove(a)
    seen.append(index.find(shape(1)))
    b.devices[0].free = GPU_UNITS
    index.put(b)
    seen.append(index.find(shape(1)))
    assert seen == ["a", "b", "a", None, "b"]


FREE = st.sampled_from([0, THIRD, HALF, GPU_UNITS])
NAMES = st.sampled_from("abcde")
SHAPES = st.builds(
    Shape,
    st.just(0),
    st.sampled_from([0, THIRD, HALF, HALF + 1]),
    st.integers(0, 4),
    st.integers(0, 4),
    st.sampled_from([(), ("H100",), ("A100", "H100")]),
    st.just(""),
    st.sampled_from([0, 0, 3]),
    st.just(value=False),
) | st.builds(
    Shape,
    st.integers(0, 3),
    st.just(0),
    st.integers(0, 4),
    st.integers(0, 4),
    st.sampled_from([(), ("A100",)]),
    st.just(""),
    st.sampled_from([0, 0, 3]),
    st.just(value=False),
    st.booleans(),
)
MIXES = st.lists(st.tuples(SHAPES, st.integers(1, 3)), max_size=3)
STEPS = st.lists(
    st.tuples(st.just("find"), SHAPES)
    | st.tuples(st.just("weigh"), MIXES)
    | st.tuples(st.just("remove"), NAMES)
    | st.tuples(st.just("health"), NAMES, st.sampled_from(["ready", "lost"]), st.sampled_from(["", "why"]))
    | st.tuples(st.just("change"), NAMES, st.lists(FREE, min_size=2, max_size=2), st.integers(0, 4), st.integers(0, 2)),
    max_size=40,
)


def find_among_all(nodes: list[NodeState], asked: Shape, mix: list[tuple[Shape, int]]) -> str | None:
    """The naive answer: look at every node, and at every device of it, in the order of R20."""
    fitting = []
    for one in nodes:
        opens = sorted(device.open for device in one.devices)
        cpu, memory = one.cpu_free - one.cpu_nominated, one.memory_free - one.memory_nominated
        on_device = asked.whole or asked.fraction
        fits = (
            one.grantable
            and cpu >= asked.cpu
            and memory >= asked.memory
            and sum(units == GPU_UNITS for units in opens) >= asked.whole
            and (not asked.fraction or any(units >= asked.fraction for units in opens))
            and (not on_device or not asked.models or one.model in asked.models)
            and (not on_device or (one.levels.whole if asked.whole else one.levels.fraction) >= asked.isolation)
            and not (asked.steady and one.levels.spot)
        )
        if not fits:
            continue
        share = Fraction(sum(opens), 8 * GPU_UNITS) + Fraction(cpu, 128_000)
        capacity = OpenCapacity(one.model, cpu, memory, tuple(opens))
        drops = {
            units: by_definition(capacity, mix) - by_definition(left, mix) for units, left in after(capacity, asked).items()
        }
        drop = max(drops.values())
        device = min(units for units in drops if drops[units] == drop)
        score = int(100 / (1 + math.exp(-drop / sum(weight for _, weight in mix) / GPU_UNITS))) if mix else 0
        fitting.append((site_of(one), (-score, share, device, one.name)))
    sites = steered(nodes, asked, mix, sorted({site for site, _ in fitting}))
    return min(worth for site, worth in fitting if site in sites)[-1] if fitting else None


def steered(nodes: list[NodeState], asked: Shape, mix: list[tuple[Shape, int]], sites: list[Site]) -> Collection[Site]:
    """To which of the sites that take it a job goes where nothing is held; one that has just been made knows no more than this."""
    supply: dict[Site, Amount] = {}
    for one in nodes:
        if one.grantable:
            gpu, cpu = supply.get(site_of(one), (0, 0))
            supply[site_of(one)] = Amount(gpu + len(one.devices) * GPU_UNITS, cpu + one.cpu)
    fresh = Steering()
    fresh.weigh(mix, amended=True)
    return fresh.choose(asked, sites, supply)


@pytest.mark.parametrize("slack", [pytest.param(4096, id="nothing is cut back"), pytest.param(0, id="cut back often")])
@given(STEPS, st.lists(SHAPES, min_size=1, max_size=4))
def test_after_any_history_the_index_answers_as_a_look_at_every_node_does(slack, steps, asked):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(shape_buckets, "SLACK", slack)
        nodes = {name: node(name, GPU_UNITS, GPU_UNITS, model="A100" if name == "e" else "H100") for name in "abcde"}
        nodes["b"].levels = nodes["e"].levels = Ranks(whole=4, fraction=3, slice=0)
        nodes["d"].levels = Ranks(whole=4, fraction=0, slice=0, spot=1)
        index, there, known, mix = NodeIndex(), set(), set(), []
        for step in steps + [("find", one) for one in asked]:
            match step:
                case "find", one:
                    known.add(one)
                    assert index.find(one) == find_among_all([nodes[name] for name in there], one, mix)
                case "weigh", mix:
                    index.weigh(mix, amended=True)
                case "remove", name:
                    index.remove(nodes[name])
                    there.discard(name)
                case "health", name, status, cordoned:
                    nodes[name].status, nodes[name].cordoned = status, cordoned
                    index.put(nodes[name])
                    there.add(name)
                case "change", name, free, cpu, kept:
                    for device, units in zip(nodes[name].devices, free, strict=True):
                        device.free, device.nominated = units, kept * units // 4
                    nodes[name].cpu_free = cpu
                    nodes[name].memory_nominated = kept
                    index.put(nodes[name])
                    there.add(name)
            numbers = {one: index.number(one) for one in known}
            feasible = index.feasible()
            for one, number in numbers.items():
                fits = find_among_all([nodes[name] for name in there], one, []) is not None
                assert bool(feasible >> number & 1) is fits


def test_a_shape_that_may_not_run_on_spot_instances_has_a_number_of_its_own_once_there_is_one():  # R38
    any_node, steady = shape(1), shape(1)._replace(steady=True)
    index = index_of(node("a", HALF))
    before = [index.number(steady), index.number(any_node), index.feasible()]
    index.put(node("b", GPU_UNITS, levels=Ranks(whole=4, spot=1)))

    assert before == [0, 0, 0b00]
    assert [index.number(any_node), index.number(steady), index.feasible()] == [0, 1, 0b01]
    assert [index.find(any_node), index.find(steady)] == ["b", None]


CUTS = ("1g.10gb", "2g.20gb", "3g.40gb", "7g.80gb")
SLICES = st.builds(
    Shape,
    *[st.just(0)] * 2,
    st.integers(0, 2),
    st.just(0),
    st.just(()),
    st.sampled_from(CUTS),
    st.just(0),
    st.just(value=False),
)
OFTEN = st.dictionaries(st.sampled_from(CUTS), st.integers(1, 40), max_size=3)


@given(st.lists(st.tuples(SLICES, st.sampled_from([None, *range(9)])), max_size=16), OFTEN)
def test_slices_go_where_a_look_at_every_device_sends_them(steps, often):  # R20
    """One after the other is placed where the index says, and now and then one of those that lie there is given back."""
    nodes = {name: cut_node(name) for name in "abc"}
    hall, lying = PoolState(pool(), 1), []
    index = hall.index
    for one in nodes.values():
        index.put(one)
    mix = [(Shape(0, 0, 0, 0, (), name), weight) for name, weight in often.items()]
    index.weigh(mix, amended=True)
    for asked, leaves in steps:
        best = find_slice_among_all(list(nodes.values()), asked, often)
        assert index.find(asked) == (best[-1].name if best is not None else None)
        if best is not None:
            one = best[-1]
            (share,) = pick_slice(index.slices, one, [device.layout for device in one.devices], asked.mig, 1)
            assert [device.name for device in one.devices].index(share.device) == best[-2]
            lying.append((one, share, asked.cpu))
            hold(index, *lying[-1], 1)
        if leaves is not None and lying:
            hold(index, *lying.pop(leaves % len(lying)), -1)


def cut_node(name: str) -> NodeState:
    """A node of two GPUs in MIG mode and 8 cpus."""
    one = node(name, GPU_UNITS, GPU_UNITS, model="H100-80GB", some_deny_units=True)
    for device in one.devices:
        device.mig, device.family = True, "H100-80GB"
    return one


def hold(index: NodeIndex, one: NodeState, share: DeviceShare, cpu: int, sign: int) -> None:
    next(device for device in one.devices if device.name == share.device).take(share, sign)
    one.cpu_free -= sign * cpu
    index.put(one)


def find_slice_among_all(nodes: list[NodeState], asked: Shape, often: dict[str, int]):
    """The naive answer: what is lost, the node's free share, what is idle on the device, its name and number, and the node."""
    offers = []
    for one in nodes:
        share = Fraction(sum(device.idle for device in one.devices), 8 * GPU_UNITS) + Fraction(one.cpu_free, 128_000)
        for number, device in enumerate(one.devices):
            losses = [
                loss(often, device.layout, start, asked.mig) for start in open_starts(device.family, device.layout, asked.mig)
            ]
            if losses and one.cpu_free >= asked.cpu:
                offers.append((min(losses), share, device.idle, one.name, number, one))
    return min(offers, key=lambda offer: offer[:-1]) if offers else None


def test_a_node_whose_model_has_changed_is_found_as_what_it_is_now():
    one = node("a", GPU_UNITS)
    index = index_of(one)
    one.model = "A100"
    index.put(one)
    found = [index.find(shape(1, 0, 0, 0, model)) for model in ("H100", "A100")]
    assert found == [None, "a"]


def test_each_shape_has_a_bit_of_its_own_from_when_it_was_first_named():
    index = index_of(node("a", GPU_UNITS), node("b", HALF, HALF))
    shapes = [shape(1), shape(2), shape(0, HALF)]
    assert [index.number(one) for one in (*shapes, *shapes)] == [0, 1, 2, 0, 1, 2]
    assert index.feasible() == 0b101


def test_what_is_held_counts_for_who_comes_next():  # R20
    index = index_of(node("a", GPU_UNITS, GPU_UNITS), node("b", GPU_UNITS, GPU_UNITS, model="A100"))
    index.weigh([(shape(1), 99), (shape(1, 0, 0, 0, "H100"), 1)], amended=True)
    first = index.find(shape(1))
    held = {"a": node("a", 0, 0), "b": node("b", 0, 0, model="A100")}
    index.hold(held[first], shape(1), {GPU: GPU_UNITS}, 1)
    seen = [index.find(shape(1))]
    index.hold(held[first], shape(1), {GPU: GPU_UNITS}, -1)
    seen.append(index.find(shape(1)))
    assert seen == [{"a": "b", "b": "a"}[first], first]


def test_the_nodes_of_an_owner_come_first_and_are_for_no_other():  # R21
    common, own = node("a", GPU_UNITS), node("b", GPU_UNITS, GPU_UNITS, labels={"for": "ops"})
    hall = PoolState(pool(dedicated=(Dedication(selector={"for": "ops"}, to=Owner(tenant="ops")),)), 1)
    for one in (common, own):
        hall.index.put(one)
    asked = shape(1)
    assert [hall.index.find(asked, owners) for owners in (("",), ("ops", ""), ("ops",), ("other",))] == ["a", "b", "b", None]
    own.devices = []
    hall.index.put(own)
    assert hall.index.find(asked, ("ops", "")) == "a"
    number = hall.index.number(asked)
    assert [bool(hall.index.feasible(owners) >> number & 1) for owners in (None, ("ops", ""), ("ops",))] == [True, True, False]


def test_a_node_whose_owner_has_changed_is_found_as_whose_it_is_now():  # R21
    one, hall = node("a", GPU_UNITS), PoolState(pool(), 1)
    hall.index.put(one)
    hall.set_document(pool(dedicated_to=Owner(tenant="ops")), 2)
    hall.index.put(one)
    assert [hall.index.find(shape(1), owners) for owners in (("",), ("ops",))] == [None, "a"]
