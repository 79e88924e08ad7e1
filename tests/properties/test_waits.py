"""R22 on random histories: at rest no job waits without a reason, the numbers are those of the facts, and what is advised works."""

from __future__ import annotations

from collections import Counter

from hypothesis import given

from headrace.contracts.messages.submissions import JobSubmission
from headrace.contracts.transport.codec import encode
from headrace.contracts.transport.subjects import cancel, submit
from headrace.contracts.values.amounts import GPU, JOB, add_to, format_amount
from headrace.contracts.values.durations import format_duration
from headrace.contracts.values.ids import job_key, make_job_id
from headrace.contracts.values.reasons import WaitReason
from headrace.domain.explain.explain import explain
from headrace.domain.explain.wait_reasons import pools_of, wait_in
from headrace.domain.model.job_states import JobState
from headrace.domain.state.capacity import held_by
from headrace.simulate.scenario import Submit
from tests.properties.campaign import histories
from tests.properties.histories import scenarios
from tests.properties.rest import rested, waiting
from tests.unit.domain.snapshot import differences, snapshot


@histories()
@given(scenarios())
def test_at_rest_something_is_in_the_way_of_every_job_in_each_of_its_pools(scenario) -> None:
    world = rested(scenario)

    free = [
        (job.key, pool.document.name)
        for job in waiting(world)
        for pool in pools_of(world.state, job)
        if wait_in(world.state, job, pool, world.now) is None
    ]

    assert free == []


def leased(world, job, wide: bool, pool: str):
    """What the leases of a policy hold, counted from the leases: over all pools, or in one."""
    total = {}
    for other in world.state.jobs.values():
        if other.policy is job.policy:
            for lease in other.leases.values():
                if wide or lease.pool == pool:
                    add_to(total, lease.amounts)
    return total


def breaks_limit_of_user(world, job, governed) -> bool:
    """Whether one more such job would be more than each user of the policy may hold, in all pools (R7)."""
    own = [other for other in job.policy.jobs.values() if other.user == job.user]
    held = Counter()
    for lease in (lease for other in own for lease in other.leases.values()):
        held.update(held_by(lease).amounts)
    per_user = job.policy.document.per_user
    limit = per_user.limit if per_user is not None else {}
    return any(
        asked and key in limit and key in (*governed, JOB) and held[key] + asked > limit[key]
        for key, asked in job.request.total.items()
    )


@histories()
@given(scenarios())
def test_a_job_is_at_its_policys_limit_exactly_where_a_grant_would_break_it(scenario) -> None:
    world = rested(scenario)
    for job in waiting(world):
        if job.nomination is not None or world.state.preemptions:
            continue
        for pool in pools_of(world.state, job):
            document, name = job.policy.document, pool.document.name
            block = document.per_pool.get(name)
            scopes = [
                (document.limit, leased(world, job, True, name)),
                (block.limit if block else {}, leased(world, job, False, name)),
            ]
            breaks = any(
                key in limit and key in pool.governed and held.get(key, 0) + asked > limit[key]
                for limit, held in scopes
                for key, asked in job.request.total.items()
                if asked
            )
            breaks = breaks or breaks_limit_of_user(world, job, pool.governed)
            wait = wait_in(world.state, job, pool, world.now)
            reason = wait.reason if wait is not None else None
            before = (WaitReason.FROZEN, WaitReason.DEPENDENCY, WaitReason.OUTSIDE_WINDOW, WaitReason.BUDGET_EXHAUSTED)
            assert reason in before or (reason is WaitReason.AT_POLICY_LIMIT) is (breaks and not job.beyond), (
                job.key,
                name,
                reason,
            )


@histories()
@given(scenarios())
def test_to_be_asked_changes_nothing_names_no_other_tenant_and_the_advised_change_starts_the_job_at_once(scenario) -> None:
    world = rested(scenario)
    before = snapshot(world.state)

    advised = [(job, explain(world.state, job, world.now)) for job in waiting(world)]

    assert differences(before, snapshot(world.state)) == []
    others = {job.tenant for job in world.state.jobs.values()}
    explained = [(job, other, encode(why).decode()) for job, why in advised for other in others - {job.tenant}]
    assert [job.key for job, other, text in explained if f"{other}." in text or f"{other}/" in text] == []
    changes = [(job, why.cheapest) for job, why in advised if why.cheapest and why.cheapest.kind != "wait"]
    if not changes:
        return
    job, change = max(changes, key=lambda pair: (pair[1].kind != "queue", pair[0].key))  # the rarer ones first
    policy, profile = (change.queue or job.queue).split("/")
    asked = change.request if change.queue else job.request.amounts | change.request
    job_id = make_job_id(world.now // 1_000, b"advised!!!")
    key = job_key(job.tenant, job.user, job_id)
    world.machines.behaviours[key] = Submit(name="advised", queue=f"{policy}/{profile}")
    limit = "" if job.time_limit is None else format_duration(job.time_limit)
    if change.kind == "time":
        limit = change.text.removeprefix("submit it with --time-limit ").removesuffix(" or less")
    submission = JobSubmission(
        id=job_id,
        command=("advised",),
        preemptible=job.preemptible or change.kind == "preemptible",
        priority=job.priority,
        time_limit=limit,
        request={
            name: format_amount(name, value)
            for name, value in asked.items()
            if name != GPU or not world.state.profile(job.tenant, profile).mig
        },
    )
    world.publish(cancel(*job.key.split(".")), b"{}")
    world.publish(submit(job.tenant, job.user, policy, profile), encode(submission))
    world.run_until_stable()
    assert world.state.jobs[key].state is not JobState.PENDING, (job.key, change)
