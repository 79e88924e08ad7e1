"""What one replica gets of its profile, as it stands in the fact of its admission (R13, R42)."""

from __future__ import annotations

import pytest

from headrace.admission.amounts import GivenAmounts, RequestedJob, given_to
from headrace.contracts.documents.model import Policy, PolicyProfile, Profile
from headrace.contracts.facts import PolicyAppliedV1, ProfileAppliedV1
from headrace.contracts.values.amounts import CPU, GPU, GPU_MEMORY, GPU_UNITS
from headrace.contracts.values.gpu_memory import ModelShare
from headrace.contracts.values.reasons import RejectReason
from headrace.domain.model.time_rules import TimeRules
from headrace.domain.queueing.admissible import Rejection
from tests.unit.domain.hall import Hall

GIB = 1024
LARGE, SMALL = ModelShare(model="H100-80GB", gpu=254 * 126), ModelShare(model="A100-40GB", gpu=513 * 126)


def asked(hall: Hall, request=None, *, profile: dict | None = None, limit=None, preemptible: bool = True):
    fields = {"name": "p", "request": {GPU_MEMORY: 20 * GIB, CPU: 1_000}, "pools": ("hall",), **(profile or {})}
    written = Profile(**fields)
    policy = Policy(tenant="acme", name="q", profiles=(PolicyProfile(name="p"),), limit=limit or {})
    hall.append_facts(
        "governance", ProfileAppliedV1(author="a.b", profile=written), PolicyAppliedV1(author="a.b", policy=policy)
    )
    queue = hall.state.policies["acme", "q"], written
    return given_to(hall.state, queue, RequestedJob(request or {}, preemptible, contained=False), beyond=False)


@pytest.fixture
def hall() -> Hall:
    hall = Hall(nodes=1, devices=2)
    hall.node("small", 2, model="A100-40GB", gpu_memory=40 * GIB)
    return hall


def test_gpu_memory_becomes_the_shares_of_the_models_that_have_it(hall):
    assert asked(hall) == GivenAmounts({CPU: 1_000, GPU: LARGE.gpu}, "", 20 * GIB, (LARGE, SMALL))


def test_a_job_may_ask_for_less_memory_and_not_for_more(hall):
    less = asked(hall, {GPU_MEMORY: 4 * GIB})
    assert (less.gpu_memory, [share.gpu for share in less.shares]) == (4 * GIB, [51 * 126, 103 * 126])
    assert asked(hall, {GPU_MEMORY: 21 * GIB}) == Rejection(
        RejectReason.BEYOND_PROFILE, "request.gpu_memory: 21GiB is asked for, profile p gives 20GiB"
    )


def test_gpus_are_not_asked_for_where_the_profile_gives_memory_nor_the_reverse(hall):
    assert (
        asked(hall, {GPU: 1}).message == "request.gpu: profile p gives gpu_memory; ask for gpu_memory, and leave gpu out (R42)"
    )
    whole = {"request": {GPU: GPU_UNITS}}
    assert asked(hall, {GPU_MEMORY: 1}, profile=whole).message == (
        "request.gpu_memory: profile p gives gpu; ask for gpu, and leave gpu_memory out (R42)"
    )


def test_a_share_with_which_it_could_never_run_is_left_out(hall):
    assert asked(hall, limit={GPU: GPU_UNITS // 2}).shares == (LARGE,)
    assert asked(hall, limit={GPU: GPU_UNITS // 5}) == Rejection(
        RejectReason.EXCEEDS_POLICY_LIMIT, "it asks for 0.254 gpu, the limit of policy acme/q is 0.2"
    )


def test_what_no_gpu_has_is_rejected_with_what_each_has(hall):
    assert asked(hall, profile={"request": {GPU_MEMORY: 81 * GIB}}) == Rejection(
        RejectReason.NO_SUITABLE_NODE,
        "it asks for 81GiB of GPU memory, and no one GPU of its pools gives that: A100-40GB 40GiB, H100-80GB 80GiB",
    )


def test_before_the_level_that_knows_shares_it_is_refused(hall):
    hall.state.terms = TimeRules(level=2)
    assert asked(hall) == Rejection(
        RejectReason.MALFORMED,
        "request.gpu_memory: it is taken from level 3 of the installation on, and that is at level 2",
    )


def governed(**capacity: int) -> Hall:
    hall = Hall(nodes=1, devices=2, capacity={f"gpu:{model.replace('_', '-')}": units for model, units in capacity.items()})
    hall.node("small", 2, model="A100-40GB")
    return hall


ONE = {"request": {GPU: GPU_UNITS}}
ONE_LARGE, ONE_SMALL = (ModelShare(model=model, gpu=GPU_UNITS) for model in ("H100-80GB", "A100-40GB"))


def test_where_a_pool_governs_a_model_a_job_is_charged_by_model_and_governed_models_come_last():  # R43
    hall = governed(A100_40GB=2 * GPU_UNITS)
    assert asked(hall, profile=ONE) == GivenAmounts({GPU: GPU_UNITS}, "", 0, (ONE_LARGE, ONE_SMALL), by_model=True)
    named = ONE | {"gpu_models": ("A100-40GB", "H100-80GB")}
    assert asked(hall, profile=named).shares == (ONE_SMALL, ONE_LARGE)
    assert asked(hall, profile={"request": {CPU: 1_000}}) == GivenAmounts({CPU: 1_000}, "")


def test_models_under_whose_limit_or_outside_whose_reservation_it_could_never_run_are_left_out():  # R43
    hall = governed(H100_80GB=2 * GPU_UNITS)
    assert asked(hall, profile=ONE, limit={"gpu:H100-80GB": 0}).shares == (ONE_SMALL,)
    named = ONE | {"gpu_models": ("H100-80GB",)}
    assert asked(hall, profile=named, limit={"gpu:H100-80GB": 0}) == Rejection(
        RejectReason.EXCEEDS_POLICY_LIMIT, "it asks for 1 gpu:H100-80GB, the limit of policy acme/q is 0"
    )
    assert asked(hall, profile=ONE, preemptible=False).reason == RejectReason.EXCEEDS_RESERVATION


def test_before_a_node_with_gpus_is_known_a_job_is_admitted_without_models():  # R6, R43
    hall = Hall(nodes=0, capacity={"gpu:H100-80GB": 2 * GPU_UNITS})
    assert asked(hall, profile=ONE) == GivenAmounts({GPU: GPU_UNITS}, "")


def test_gpu_memory_is_charged_by_model_as_well():  # R42, R43
    hall = governed(H100_80GB=2 * GPU_UNITS)
    given = asked(hall, profile={"request": {GPU_MEMORY: 20 * GIB}, "gpu_models": ("H100-80GB",)})
    assert given == GivenAmounts({GPU: LARGE.gpu}, "", 20 * GIB, (LARGE,), by_model=True)
