"""Where replicas go (R3, R18, R20), and how many a pool could ever hold (R13)."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.allocator.demand_mix import DemandLearning
from headrace.contracts import facts as f
from headrace.contracts.documents.model import Burst, BurstNode, Owner
from headrace.contracts.facts.allocation import UsualRequest
from headrace.contracts.facts.fact import DeviceShare
from headrace.contracts.values.amounts import CPU, CPU_UNITS, GPU, GPU_UNITS, JOB, MEMORY
from headrace.domain.indexes.node_index import NodeIndex
from headrace.domain.model.devices import DeviceState
from headrace.domain.model.nodes import NodeState
from headrace.domain.model.requests import Shape
from headrace.domain.placement.placement import find_places, model_allowed, pick_devices, pick_slice, replicas_if_empty
from tests.unit.domain.site import GIB, HALF, Site, gpus, place, policy, pool, profile
from tests.unit.domain.snapshot import differences, snapshot

SEVENTH = GPU_UNITS // 7
DEV = ("default", "dev")


def node(devices: int, model: str = "H100", *, cpu: int = 8, memory: int = 8) -> NodeState:
    opens = [DeviceState(f"gpu{number}", model, 80, GPU_UNITS) for number in range(devices)]
    return NodeState("n1", {}, opens, cpu, memory, cpu, memory, 0, model=model)


def shape(whole: int = 0, fraction: int = 0, cpu: int = 0, memory: int = 0, *models: str) -> Shape:
    return Shape(whole, fraction, cpu, memory, models)


@pytest.mark.parametrize(
    ("opens", "asked", "picked"),
    [
        pytest.param([GPU_UNITS, GPU_UNITS], shape(1), [(0, GPU_UNITS)], id="the first free device"),
        pytest.param([HALF, GPU_UNITS, GPU_UNITS], shape(2), [(1, GPU_UNITS), (2, GPU_UNITS)], id="free devices, not the rest"),
        pytest.param([GPU_UNITS, HALF, HALF], shape(2), None, id="never a sum of free fractions"),
        pytest.param([GPU_UNITS - 1], shape(1), None, id="a device that lacks one unit is not free"),
        pytest.param(
            [GPU_UNITS, HALF, SEVENTH], shape(0, SEVENTH), [(2, SEVENTH)], id="a fraction goes to the fullest that fits"
        ),
        pytest.param([GPU_UNITS, HALF, SEVENTH], shape(0, HALF), [(1, HALF)], id="which may be another"),
        pytest.param([HALF, HALF], shape(0, HALF), [(0, HALF)], id="equally full: the first"),
        pytest.param([SEVENTH, SEVENTH], shape(0, 2 * SEVENTH), None, id="a fraction lives on one device"),
        pytest.param([], shape(1), None, id="no devices"),
        pytest.param([], shape(cpu=4), [], id="which matters to those who want one"),
    ],
)
def test_the_devices_one_replica_takes(opens, asked, picked):  # R3
    shares = picked if picked is None else tuple(DeviceShare(device=f"gpu{number}", units=units) for number, units in picked)
    assert pick_devices(node(len(opens)), opens, asked) == shares


@pytest.mark.parametrize(
    ("groups", "taken", "count", "picked"),
    [
        pytest.param("00001111", "", 4, [0, 1, 2, 3], id="one group"),
        pytest.param("00001111", "0", 4, [4, 5, 6, 7], id="the one that has enough"),
        pytest.param("00001111", "0", 3, [1, 2, 3], id="of two that have, the one with fewer"),
        pytest.param("01010101", "", 4, [0, 2, 4, 6], id="whatever their numbers are"),
        pytest.param("00001111", "04", 4, [1, 2, 3, 5], id="the fewest groups where none has enough"),
        pytest.param("0011....", "", 1, [4], id="a single one leaves groups whole"),
        pytest.param("........", "", 2, [0, 1], id="without groups the first"),
    ],
)
def test_the_devices_of_one_replica_are_in_one_group_of_nvlink_if_they_can_be(groups, taken, count, picked):  # R40
    there = node(8)
    for device, group in zip(there.devices, groups, strict=True):
        device.nvlink = group.strip(".")
    there.has_nvlink = groups != "........"
    opens = [0 if str(number) in taken else GPU_UNITS for number in range(8)]
    assert [share.device for share in pick_devices(there, opens, shape(count))] == [f"gpu{number}" for number in picked]


@pytest.mark.parametrize(
    ("asked", "allowed"),
    [
        pytest.param(shape(1), True, id="any model"),
        pytest.param(shape(1, 0, 0, 0, "A100", "H100"), True, id="one of those named"),
        pytest.param(shape(1, 0, 0, 0, "A100"), False, id="none of those named"),
        pytest.param(shape(0, HALF, 0, 0, "A100"), False, id="for a fraction as well"),
        pytest.param(shape(0, 0, 1, 0, "A100"), True, id="without a device no model matters"),
    ],
)
def test_the_models_that_a_profile_allows(asked, allowed):
    assert model_allowed("H100", asked) is allowed


@pytest.mark.parametrize(
    ("nodes", "asked", "count"),
    [
        pytest.param([], shape(1), 0, id="no nodes"),
        pytest.param([node(8), node(3)], shape(2), 5, id="whole devices, node by node"),
        pytest.param([node(2)], shape(3), 0, id="more than any node has"),
        pytest.param([node(2)], shape(0, SEVENTH), 14, id="fractions, device by device"),
        pytest.param([node(2)], shape(0, GPU_UNITS - 1), 2, id="a fraction that leaves no room for another"),
        pytest.param([node(8, cpu=7)], shape(1, cpu=2), 3, id="as many as the cpus allow"),
        pytest.param([node(8, memory=5)], shape(1, memory=2), 2, id="or the memory"),
        pytest.param([node(0, cpu=7)], shape(cpu=2), 3, id="nodes without devices hold work without devices"),
        pytest.param([node(8), node(8, "A100")], shape(1, 0, 0, 0, "A100"), 8, id="only devices of its models"),
        pytest.param([node(1)], shape(), 1_000_000, id="what takes nothing of a node fits as often as one likes"),
    ],
)
def test_how_many_replicas_a_pool_could_hold_if_it_were_empty(nodes, asked, count):  # R13
    named = [replace(one, name=f"n{number}") for number, one in enumerate(nodes)]
    supply = SimpleNamespace(nodes={one.name: one for one in named}, document=pool(), census=None)
    assert replicas_if_empty(supply, asked, DEV) == count


def test_what_runs_on_a_node_and_whether_it_is_healthy_does_not_change_what_it_could_hold():  # R6, R13
    site = Site()
    site.node(count=2)
    site.run("a", place("n1", 0))
    site.state.nodes["n1"].status = "lost"
    assert replicas_if_empty(site.state.pools["hall"], shape(1), DEV) == 2


def found(site: Site, queue: str, **fields: object) -> object:
    """Where a new job would go; that one looked changes nothing."""
    job = site.admit(f"asks-{len(site.state.jobs)}", queue, **fields)
    before = snapshot(site.state)
    places = find_places(site.state, job, site.state.pools["hall"])
    assert differences(before, snapshot(site.state)) == []
    return places


def test_one_replica_goes_to_one_place_with_all_that_it_is_charged():  # R2
    site = Site()
    site.node("n1", 4)
    assert found(site, "dev/two") == (place("n1", 0, 1),)
    assert found(site, "dev/half") == (place("n1", 0, units=HALF),)
    assert found(site, "dev/cpu") == (place("n1", **{CPU: 2 * CPU_UNITS, MEMORY: 4 * GIB}),)


def test_fractions_are_packed_on_the_fullest_device_so_that_whole_ones_stay_free():  # R3, R20
    site = Site()
    site.node("n1", 2)
    site.run("a", place("n1", 1, units=HALF), queue="dev/half")
    assert found(site, "dev/half") == (place("n1", 1, units=HALF),)
    assert found(site, "dev/one") == (place("n1", 0),)
    assert found(site, "dev/two") is None


def test_two_halves_on_two_devices_are_not_a_place_for_a_whole_one():  # V17
    site = Site()
    site.node("n1", 2)
    for name, number in {"a": 0, "b": 1}.items():
        site.run(name, place("n1", number, units=HALF), queue="dev/half")
    assert found(site, "dev/one") is None


def test_the_fuller_node_goes_first():  # R20
    site = Site()
    site.node("n1", 4)
    site.node("n2", 4)
    site.run("a", place("n2", 0))
    assert found(site, "dev/two") == (place("n2", 1, 2),)


def test_a_gang_is_placed_replica_by_replica_and_only_rank_0_carries_the_job():  # R2
    site = Site()
    site.node("n1", 1)
    site.node("n2", 1)
    assert found(site, "dev/gang") == (place("n1", 0), place("n2", 0, job=False))


def test_replicas_of_a_gang_may_share_a_node():
    site = Site()
    site.node("n1", 3)
    assert found(site, "dev/gang") == (place("n1", 0), place("n1", 1, job=False))


def test_a_gang_goes_as_a_whole_or_not_at_all():  # R2, V22
    site = Site()
    site.node("n1", 1)
    assert found(site, "dev/gang") is None


def test_a_gang_that_is_tried_disturbs_no_watcher_of_the_accounts():
    site = Site(policy("dev", reservation=gpus(1)))
    site.node("n1", 1)
    assert found(site, "dev/gang") is None
    assert found(site, "dev/one") == (place("n1", 0),), "and what was tried is free again"


def test_a_job_goes_only_where_its_profile_allows_the_model():
    site = Site()
    site.law(profile("one", gpu_models=("A100",)))
    site.node("n1", 1)
    assert found(site, "dev/one") is None
    site.node("n2", 1, model="A100")
    assert found(site, "dev/one") == (place("n2", 0),)


def test_places_nominated_for_another_are_not_free():  # R18, R27
    site = Site(policy("dev"), policy("ops"))
    site.node("n1", 1)
    preemptor = site.admit("p", "ops/one")
    site.order(preemptor, (), place("n1", 0))
    assert found(site, "dev/one") is None


def test_an_index_that_says_what_the_devices_do_not_is_a_fault_and_no_answer(monkeypatch):
    site = Site()
    site.node("n1", 1)
    job = site.admit("a", "dev/two")
    monkeypatch.setattr(NodeIndex, "find", lambda _index, _shape, _owners: "n1")
    with pytest.raises(AssertionError, match="the index says that .* fits on n1, the devices do not"):
        find_places(site.state, job, site.state.pools["hall"])


@given(
    st.lists(st.lists(st.sampled_from([0, SEVENTH, HALF]), min_size=1, max_size=3), min_size=1, max_size=3),
    st.sampled_from([shape(1), shape(2), shape(0, HALF), shape(0, 4 * SEVENTH), shape(1, cpu=9)]),
    st.integers(1, 4),
)
def test_a_gang_is_placed_exactly_if_the_nodes_can_hold_all_replicas(taken, asked, replicas):
    site = Site()
    for number, devices in enumerate(taken):
        name = f"n{number}"
        site.node(name, len(devices))
        for device, units in enumerate(devices):
            if units:
                site.run(f"{name}-{device}", place(name, device, units=units), request={GPU: units})
    request = {GPU: asked.whole * GPU_UNITS + asked.fraction} | ({CPU: asked.cpu * CPU_UNITS} if asked.cpu else {})
    places = found(site, "dev/one", request=request, replicas=replicas)
    assert (places is not None) == (replicas_that_fit(taken, asked) >= replicas)
    if places is not None:
        assert [at.amounts for at in places] == [{**request, JOB: 1}, *[request] * (replicas - 1)]
        site.grant(site.admit("real", request=request, replicas=replicas), *places)
        assert all(0 <= device.free <= GPU_UNITS for one in site.state.nodes.values() for device in one.devices)


def replicas_that_fit(taken: list[list[int]], asked: Shape) -> int:
    """How many replicas all nodes can hold, counted device by device; a node has 16 cpus."""
    total = 0
    for devices in taken:
        opens = [GPU_UNITS - units for units in devices]
        fractions = sum(units // asked.fraction for units in opens) if asked.fraction else 0
        here = opens.count(GPU_UNITS) // asked.whole if asked.whole else fractions
        total += min(here, 16 // asked.cpu) if asked.cpu else here
    return total


@pytest.mark.parametrize(
    ("asked_before", "single", "pairs"),
    [
        pytest.param({}, "n1", 1, id="nothing learnt: the fullest node, which breaks a pair"),
        pytest.param({"dev/two": 16}, "n2", 2, id="pairs are usual: a place where two pairs are left"),
    ],
)
def test_a_place_leaves_the_usual_requests_room(asked_before, single, pairs):  # R20
    site, learning = Site(), DemandLearning()
    site.node("n1", 2)
    site.node("n2", 3)
    for queue, count in asked_before.items():
        for number in range(count):
            site.admit(f"before-{number}", queue)
    site.append_facts(*learning.news(site.state), by="allocator")
    (one,) = found(site, "dev/one")
    site.run("single", one)
    placed = 0
    while (places := found(site, "dev/two")) is not None:
        site.run(f"pair-{placed}", *places, queue="dev/two")
        placed += 1
    assert (one.node, placed) == (single, pairs)


def test_a_fraction_takes_the_device_that_leaves_most_to_the_usual_requests():  # R20
    site = Site()
    site.node("n1", 2)
    site.run("a", place("n1", 0, units=SEVENTH))
    site.run("b", place("n1", 1, units=2 * SEVENTH))
    most = {"fraction": 6 * SEVENTH, "weight": 1}
    site.append_facts(f.MixLearnedV1(pool="hall", requests=(UsualRequest(**most),)), by="allocator")
    assert found(site, "dev/one", request={GPU: SEVENTH}) == (place("n1", 1, units=SEVENTH),)
    few = {"fraction": 5 * SEVENTH, "weight": 1}
    site.append_facts(f.MixLearnedV1(pool="hall", requests=(UsualRequest(**few),)), by="allocator")
    assert found(site, "dev/one", request={GPU: SEVENTH}) == (place("n1", 0, units=SEVENTH),)


NAMES_A_MODEL = UsualRequest(whole=1, fraction=0, cpu=0, memory=0, models=("H100",), weight=1)


@pytest.mark.parametrize("stated", ["before the job is granted", "while the job runs"])
def test_where_jobs_are_steered_what_nodes_hold_is_counted_and_follows_a_node_that_comes_back_as_another(stated):
    site = Site()
    site.node("n1", 2)
    if stated == "before the job is granted":
        learn(site, NAMES_A_MODEL)
    job = site.run("a", place("n1", 0))
    if stated == "while the job runs":
        learn(site, NAMES_A_MODEL)
    seen = [held(site)]
    site.node("n1", 4, model="A100")
    seen.append(held(site))
    learn(site, NAMES_A_MODEL)
    seen.append(held(site))
    site.leave(job)
    seen.append(held(site))
    assert seen == [{"H100": GPU_UNITS}, {"A100": GPU_UNITS}, {"A100": GPU_UNITS}, {}]


def test_where_no_job_is_steered_nothing_is_counted():
    site = Site()
    site.node("n1", 2)
    learn(site, NAMES_A_MODEL)
    site.run("a", place("n1", 0))
    learn(site)
    assert held(site) == {}


def learn(site: Site, *requests: UsualRequest) -> None:
    """The allocator states the mix of the pool."""
    site.append_facts(f.MixLearnedV1(pool="hall", requests=requests), by="allocator")


def held(site: Site) -> dict[str, int]:
    """GPU units by model, as the pool's index has counted them."""
    cells = site.state.pools["hall"].index.steering.held.items()
    return {where.model: cell[0] for (_, where), cell in cells if cell[0]}


def cut(*layouts: tuple[tuple[int, str], ...] | None) -> NodeState:
    """A node of devices in MIG mode on which this lies; None: one that is not cut."""
    devices = [
        DeviceState(
            f"gpu{number}",
            "H100-80GB",
            80,
            GPU_UNITS,
            mig=there is not None,
            family="H100-80GB" if there is not None else "",
            slices=there or (),
        )
        for number, there in enumerate(layouts)
    ]
    return NodeState("n1", {}, devices, 8, 8, 8, 8, 0, model="H100-80GB", some_deny_units=True)


@pytest.mark.parametrize(
    ("layouts", "name", "picked"),
    [
        pytest.param([()], "1g.10gb", (0, 6), id="from the right"),
        pytest.param([(), ((6, "1g.10gb"),)], "1g.10gb", (1, 5), id="where the fewest placements are lost"),
        pytest.param([(), ()], "3g.40gb", (0, 4), id="of equal ones the first"),
        pytest.param([((0, "4g.40gb"), (4, "3g.40gb")), ((0, "3g.40gb"),)], "3g.40gb", (1, 4), id="where there is room"),
        pytest.param([None, ((4, "3g.40gb"),)], "4g.40gb", (1, 0), id="a device that is not cut takes none"),
        pytest.param([((3, "1g.10gb"), (4, "1g.10gb"))], "3g.40gb", None, id="no four in a row"),
    ],
)
def test_the_slice_one_replica_took_before_the_rules_were_amended(layouts, name, picked):  # R4, R20
    one = cut(*layouts)
    share = None if picked is None else (DeviceShare(device=f"gpu{picked[0]}", units=7, mig=name, start=picked[1]),)
    assert pick_slice(None, one, [device.layout for device in one.devices], name, 7) == share


@pytest.mark.parametrize(
    ("layouts", "name", "picked"),
    [
        pytest.param([()], "1g.10gb", (0, 6), id="from the right"),
        pytest.param([(), ((6, "1g.10gb"),)], "1g.10gb", (1, 5), id="on a device that is cut before a whole one"),
        pytest.param([(), ((4, "3g.40gb"),)], "3g.40gb", (1, 0), id="the other half of a device"),
        pytest.param([((4, "3g.40gb"),), ((0, "4g.40gb"),)], "3g.40gb", (1, 4), id="where nothing larger fits"),
        pytest.param([(), ()], "3g.40gb", (0, 4), id="of equal ones the first"),
        pytest.param([None, ((4, "3g.40gb"),)], "4g.40gb", (1, 0), id="a device that is not cut takes none"),
        pytest.param([((3, "1g.10gb"), (4, "1g.10gb"))], "3g.40gb", None, id="no four in a row"),
    ],
)
def test_the_slice_one_replica_takes(layouts, name, picked):  # R4, R20
    site = Site(pools=(pool(),))
    site.node("n1", 0)
    one = cut(*layouts)
    share = None if picked is None else (DeviceShare(device=f"gpu{picked[0]}", units=7, mig=name, start=picked[1]),)
    mix = site.state.pools["hall"].index.slices
    assert pick_slice(mix, one, [device.layout for device in one.devices], name, 7) == share


@pytest.mark.parametrize(
    ("asked", "count"),
    [
        pytest.param(Shape(0, 0, 0, 0, (), "1g.10gb"), 14, id="slices, device by device"),
        pytest.param(Shape(0, 0, 0, 0, (), "3g.40gb"), 4, id="twice a half each"),
        pytest.param(Shape(0, 0, 2, 0, (), "1g.10gb"), 4, id="as many as the cpus allow"),
        pytest.param(Shape(0, 0, 0, 0, (), "3g.20gb"), 0, id="none of another model"),
        pytest.param(shape(1), 1, id="a whole one is not cut"),
        pytest.param(shape(0, HALF), 2, id="nor is one for fractions"),
    ],
)
def test_how_many_replicas_a_pool_whose_gpus_are_cut_could_hold(asked, count):  # R3, R4, R13
    supply = SimpleNamespace(nodes={"n1": cut((), (), None)}, document=pool(), census=None)
    assert replicas_if_empty(supply, asked, DEV) == count


def test_what_a_pool_may_create_and_whose_it_will_be_counts_for_what_could_ever_run():  # R6, R21, R38
    burst = Burst(provider="ec2", max_nodes=2, node=BurstNode(gpus=4, gpu_model="A100", cpus=8))
    grows = SimpleNamespace(nodes={}, document=pool(burst=burst), census=None)
    owned = SimpleNamespace(nodes={}, document=pool(burst=burst, dedicated_to=Owner(tenant="other")), census=None)
    asked = [
        shape(2),
        shape(1, cpu=4 * CPU_UNITS),
        shape(1, memory=9),
        shape(1, 0, 0, 0, "H100"),
        Shape(0, 0, 0, 0, (), "1g.10gb"),
    ]
    assert [replicas_if_empty(grows, one, DEV) for one in asked] == [4, 4, 8, 0, 0]
    assert [replicas_if_empty(owned, one, DEV) for one in asked] == [0, 0, 0, 0, 0]
