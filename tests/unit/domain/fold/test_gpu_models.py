"""R42: the share of a GPU model that a job has, from its admission to its next wait."""

from __future__ import annotations

from headrace.contracts import facts as f
from headrace.contracts.facts.fact import DeviceShare, Place
from headrace.contracts.values.amounts import GPU, GPU_UNITS, JOB
from headrace.contracts.values.gpu_memory import ModelShare
from headrace.domain.fold.gpu_models import choose
from tests.unit.domain.hall import Hall

LARGE, SMALL = "H100-80GB", "A100-40GB"
SHARES = (ModelShare(model=LARGE, gpu=GPU_UNITS // 4), ModelShare(model=SMALL, gpu=GPU_UNITS // 2))


def waiting():
    hall = Hall(nodes=1)
    hall.node("small", model=SMALL, gpu_memory=40_960)
    hall.policy("p")
    job = hall.admit("p", "j", gpu_memory=20_480, shares=SHARES)
    return hall, job


def shown(job):
    return job.request.shape.models, job.request.amounts[GPU]


def on(node: str, units: int) -> Place:
    return Place(node=node, devices=(DeviceShare(device="g0", units=units),), amounts={GPU: units, JOB: 1})


def test_a_waiting_job_has_the_first_share():
    _, job = waiting()
    assert shown(job) == ((LARGE,), GPU_UNITS // 4)
    assert [(one.shape.models, one.amounts[GPU], one.order) for one in job.request.each] == [
        ((LARGE,), GPU_UNITS // 4, job.request.order),
        ((SMALL,), GPU_UNITS // 2, job.request.order),
    ]


def test_from_its_grant_until_it_waits_again_it_has_the_share_of_its_place():
    hall, job = waiting()
    place = on("small", GPU_UNITS // 2)
    hall.append_facts(
        "allocator",
        f.LeaseGrantedV1(
            job=job.key,
            attempt=1,
            node="small",
            pool="hall",
            devices=place.devices,
            amounts=place.amounts,
            inside=False,
            rule="R15",
        ),
    )
    assert shown(job) == ((SMALL,), GPU_UNITS // 2)
    assert job.policy.wide.use[GPU] == GPU_UNITS // 2
    hall.start(job)
    hall.end(job, outcome="failed", exit_code=1)
    hall.append_facts("allocator", f.JobRequeuedV1(job=job.key, attempt=1, cause="failed"))
    assert shown(job) == ((LARGE,), GPU_UNITS // 4)
    assert hall.state.pending.group_of(job) is not None


def test_what_is_kept_for_it_is_the_share_of_those_places_until_that_ends():
    hall, job = waiting()
    hall.append_facts("allocator", f.ReclaimOpenedV1(job=job.key, pool="hall", cause="reclaim"))
    preemption = f"{job.key}@{hall.sequence}"
    places = (on("small", GPU_UNITS // 2),)
    hall.append_facts(
        "allocator",
        f.PreemptionOrderedV1(
            preemption=preemption, job=job.key, pool="hall", cause="reclaim", victims=(), places=places, rule="R26"
        ),
    )
    assert shown(job) == ((SMALL,), GPU_UNITS // 2)
    hall.append_facts("allocator", f.NominationEndedV1(preemption=preemption, job=job.key, why="a test"))
    assert shown(job) == ((LARGE,), GPU_UNITS // 4)


def test_a_place_of_no_known_share_changes_nothing():
    hall, job = waiting()
    choose(hall.state, job, (on("small", 7),))
    choose(hall.state, job, (on("gone", GPU_UNITS // 2),))
    assert shown(job) == ((LARGE,), GPU_UNITS // 4)
