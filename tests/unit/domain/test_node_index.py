"""What the index finds is what a look at every node would find (R3, R20), whatever happened to the nodes before."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.contracts.amounts import GPU_UNITS
from headrace.domain import node_index
from headrace.domain.node_index import NodeIndex
from headrace.domain.requests import Shape
from headrace.domain.state import DeviceState, NodeState

HALF = GPU_UNITS // 2
THIRD = GPU_UNITS // 3


def node(name: str, *free: int, cpu: int = 8, memory: int = 8, model: str = "H100", **more: object) -> NodeState:
    """A node of 8 cpus and 8 of memory, with this much free on each device."""
    devices = [DeviceState(f"gpu{number}", model, 80, units) for number, units in enumerate(free)]
    told = {"cpu": 8, "memory": 8, "cpu_free": cpu, "memory_free": memory, "registered_at": 0, "model": model}
    return NodeState(**{"name": name, "labels": {}, "devices": devices, **told, **more})


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
        pytest.param([node("a")], shape(cpu=1), "a", id="a node without devices"),
        pytest.param([node("a", GPU_UNITS)], shape(1, 0, 0, 0, "A100"), None, id="another model"),
        pytest.param([node("a", GPU_UNITS)], shape(0, 0, 1, 0, "A100"), "a", id="a model matters to those that take a device"),
        pytest.param([node("a", GPU_UNITS, cordoned="why")], shape(1), None, id="cordoned"),
        pytest.param([node("a", GPU_UNITS, status="lost")], shape(1), None, id="lost"),
        pytest.param([node("b", GPU_UNITS), node("a", GPU_UNITS)], shape(1), "a", id="alike: the smaller name"),
        pytest.param([node("a", GPU_UNITS, GPU_UNITS), node("b", GPU_UNITS, 0)], shape(1), "b", id="the fuller node first"),
        pytest.param([node("a", GPU_UNITS), node("b", GPU_UNITS, cpu=4)], shape(1), "b", id="cpus count as gpus do"),
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


def test_a_device_of_which_more_is_kept_than_is_free_takes_nothing_from_others():
    one = node("a", 0, GPU_UNITS)
    one.devices[0].nominated = GPU_UNITS
    assert index_of(one).find(shape(1)) == "a"


def test_a_node_that_is_removed_twice_or_was_never_there_is_no_matter():
    one = node("a", GPU_UNITS)
    index = index_of(one)
    for forgotten in (one, one, node("b")):
        index.remove(forgotten)
    assert (index.find(shape(1)), one.place) == (None, None)


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
) | st.builds(Shape, st.integers(0, 3), st.just(0), st.integers(0, 4), st.integers(0, 4), st.sampled_from([(), ("A100",)]))
STEPS = st.lists(
    st.tuples(st.just("find"), SHAPES)
    | st.tuples(st.just("remove"), NAMES)
    | st.tuples(st.just("health"), NAMES, st.sampled_from(["ready", "lost"]), st.sampled_from(["", "why"]))
    | st.tuples(st.just("change"), NAMES, st.lists(FREE, min_size=2, max_size=2), st.integers(0, 4), st.integers(0, 2)),
    max_size=40,
)


def find_among_all(nodes: list[NodeState], asked: Shape) -> str | None:
    """The naive answer: look at every node, in the order that R20's ties give."""
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
        )
        if not fits:
            continue
        share = sum(opens) * 4096 // (len(opens) * GPU_UNITS) + cpu * 4096 // one.cpu
        fullest = min((units for units in opens if units >= asked.fraction), default=0) if asked.fraction else 0
        fitting.append((share, fullest, opens, cpu, memory, one.model, one.cpu, one.name))
    return min(fitting)[-1] if fitting else None


@pytest.mark.parametrize("slack", [pytest.param(4096, id="the log is kept"), pytest.param(0, id="the log is rewritten often")])
@given(STEPS, st.lists(SHAPES, min_size=1, max_size=4))
def test_after_any_history_the_index_finds_what_a_look_at_every_node_finds(slack, steps, asked):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(node_index, "_LOG_SLACK", slack)
        nodes = {name: node(name, GPU_UNITS, GPU_UNITS, model="A100" if name == "e" else "H100") for name in "abcde"}
        index, there = NodeIndex(), set()
        for step in steps:
            match step:
                case "find", one:
                    expected = find_among_all([nodes[name] for name in there], one)
                    assert index.find(one) == expected
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
        for one in asked:
            assert index.find(one) == find_among_all([nodes[name] for name in there], one)


def test_a_log_that_is_much_longer_than_the_classes_is_rewritten():
    a, b = node("a", GPU_UNITS), node("b", 0)
    index = index_of(a, b)
    for turn in range(2 * node_index._LOG_SLACK):
        a.devices[0].free = GPU_UNITS - turn % 2
        index.put(a)
    assert len(index._log) <= 2 * len(index._classes) + node_index._LOG_SLACK + 1
    assert [index.find(shape(0, units)) for units in (GPU_UNITS - 1, GPU_UNITS)] == ["a", None]
