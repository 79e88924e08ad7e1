from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.contracts.documents.model import Profile
from headrace.contracts.facts.levels import PROVISIONING
from headrace.contracts.values.amounts import CPU, GPU, GPU_UNITS, JOB, MEMORY
from headrace.contracts.values.isolation import Ranks
from headrace.domain.model.requests import Shape, intern_request, is_steady, make_request

ANY = Profile(name="any", request={}, pools=())
PICKY = Profile(name="picky", request={}, pools=(), gpu_models=("H100", "A100"))


@pytest.mark.parametrize(
    ("amounts", "shape"),
    [
        pytest.param({GPU: 3 * GPU_UNITS}, Shape(3, 0, 0, 0, ()), id="whole devices"),
        pytest.param({GPU: GPU_UNITS}, Shape(1, 0, 0, 0, ()), id="exactly one is a whole device"),
        pytest.param({GPU: GPU_UNITS - 1}, Shape(0, GPU_UNITS - 1, 0, 0, ()), id="a unit less is a fraction"),
        pytest.param({GPU: GPU_UNITS // 7}, Shape(0, GPU_UNITS // 7, 0, 0, ()), id="a seventh"),
        pytest.param({CPU: 500, MEMORY: 64}, Shape(0, 0, 500, 64, ()), id="no device"),
        pytest.param({"license/abaqus": 2}, Shape(0, 0, 0, 0, ()), id="a key of no node"),
        pytest.param({GPU: 0, CPU: 1}, Shape(0, 0, 1, 0, ()), id="none of a device"),
    ],
)
def test_a_shape_is_what_one_replica_needs_of_a_node(amounts, shape):  # R3
    assert make_request(amounts, 1, ANY).shape == shape


def test_the_models_of_the_profile_stand_in_the_shape_in_one_order():
    assert make_request({GPU: GPU_UNITS}, 1, PICKY).shape.models == ("A100", "H100")


def test_a_job_takes_all_its_replicas_and_one_job():  # R2
    request = make_request({GPU: 2 * GPU_UNITS, CPU: 500}, 3, ANY)
    assert request.total == {GPU: 6 * GPU_UNITS, CPU: 1500, JOB: 1}


def test_only_the_lease_of_rank_0_carries_the_job_so_that_the_leases_sum_up_to_the_total():  # R2
    request = make_request({CPU: 500}, 2, None)
    assert [request.lease_amounts(rank) for rank in range(2)] == [{CPU: 500, JOB: 1}, {CPU: 500}]
    assert request.amounts == {CPU: 500}, "and the request itself is left alone"


def test_equal_requests_are_one_object_whatever_the_order_of_their_keys():
    known = {}
    first = intern_request(known, {GPU: 1, CPU: 2}, 1, ANY)
    assert intern_request(known, {CPU: 2, GPU: 1}, 1, None) is first
    assert list(known.values()) == [first]


def test_requests_that_differ_in_anything_are_numbered_in_the_order_in_which_they_came():
    known = {}
    asked = [({GPU: 1}, 1, ANY), ({GPU: 2}, 1, ANY), ({GPU: 1}, 2, ANY), ({GPU: 1}, 1, PICKY), ({GPU: 1, CPU: 1}, 1, ANY)]
    assert [intern_request(known, *one).order for one in (*asked, *reversed(asked))] == [0, 1, 2, 3, 4, 4, 3, 2, 1, 0]


def test_one_who_only_asks_leaves_the_table_alone_and_gets_no_order():
    known = {}
    kept = intern_request(known, {GPU: 1}, 1, PICKY)
    asked = make_request({GPU: 1}, 1, PICKY)
    assert (asked.amounts, asked.replicas, asked.shape, asked.total) == (kept.amounts, kept.replicas, kept.shape, kept.total)
    assert (kept.order, asked.order, asked is kept, len(known)) == (0, -1, False, 1)


@given(st.dictionaries(st.sampled_from([GPU, CPU, MEMORY, "x"]), st.integers(0, 10 * GPU_UNITS)), st.integers(1, 5))
def test_leases_always_sum_up_to_the_total(amounts, replicas):
    request = make_request(amounts, replicas, None)
    summed = dict.fromkeys(request.total, 0)
    for rank in range(replicas):
        for key, value in request.lease_amounts(rank).items():
            summed[key] += value
    assert summed == request.total


@pytest.mark.parametrize(
    ("shape", "reached"),
    [
        pytest.param(Shape(2, 0, 0, 0, ()), 6, id="whole GPUs"),
        pytest.param(Shape(0, 9, 0, 0, ()), 3, id="a part of one"),
        pytest.param(Shape(0, 0, 0, 0, (), "1g.10gb"), 5, id="a slice"),
        pytest.param(Shape(0, 0, 9, 9, ()), None, id="what takes no GPU needs none to be isolated"),
    ],
)
def test_how_well_a_node_isolates_depends_on_what_is_taken(shape, reached):
    levels = Ranks(whole=6, fraction=3, slice=5)
    assert shape.isolation_on(levels) == reached
    assert [shape._replace(isolation=least).is_isolated_by(levels) for least in (2, 4, 6)] == [
        reached is None or reached >= least for least in (2, 4, 6)
    ]


@pytest.mark.parametrize(
    ("shape", "reached"),
    [
        pytest.param(Shape(2, 0, 0, 0, ()), 2, id="whole GPUs"),
        pytest.param(Shape(0, 9, 0, 0, ()), -1, id="a part of one"),
        pytest.param(Shape(0, 0, 0, 0, (), "1g.10gb"), 1, id="a slice"),
        pytest.param(Shape(0, 0, 9, 9, ()), None, id="no GPU"),
    ],
)
def test_a_job_with_an_image_is_isolated_as_containers_are_there(shape, reached):
    contained = shape._replace(contained=True)
    levels = Ranks(6, 6, 6, 0, 2, -1, 1)
    assert contained.isolation_on(levels) == reached
    assert contained.is_isolated_by(levels) is (reached != -1)
    assert not contained.is_isolated_by(Ranks(6, 6, 6, -1, -1, -1, -1))


def test_a_job_with_an_image_is_another_request_than_one_without():
    known = {}
    one, other = (intern_request(known, {GPU: GPU_UNITS}, 1, ANY, contained=contained) for contained in (False, True))
    assert (one.shape.contained, other.shape.contained, one is other) == (False, True, False)


def test_the_least_isolation_of_the_profile_stands_in_the_shape_and_makes_another_request():
    known, safe = {}, Profile(name="safe", request={}, pools=(), isolation="kernel")
    one, other = (intern_request(known, {GPU: GPU_UNITS}, 1, profile) for profile in (ANY, safe))
    assert (one.shape.isolation, other.shape.isolation, one is other) == (0, 5, False)


def test_only_a_job_that_may_not_be_taken_back_with_its_node_avoids_spot_instances():
    plain, willing = Profile(name="p", request={}, pools=()), Profile(name="p", request={}, pools=(), spot=True)
    assert [is_steady(one, PROVISIONING, preemptible=False) for one in (plain, None, willing)] == [True, True, False]
    assert [is_steady(plain, PROVISIONING, preemptible=True), is_steady(plain, PROVISIONING - 1, preemptible=False)] == [
        *(False, False),
    ]
    known = {}
    steady, other = (
        intern_request(known, {GPU: GPU_UNITS}, 1, plain, steady=is_steady_job).shape for is_steady_job in (True, False)
    )
    spot = Ranks(spot=1)
    assert [steady.runs_on(spot), steady.runs_on(Ranks()), other.runs_on(spot)] == [False, True, True]
