"""What a tenant sees of jobs, queues, pools and nodes."""

from __future__ import annotations

import msgspec
import pytest

from headrace.contracts import facts as f
from headrace.contracts.documents.model import Access, Budget, PerUser, Pool, Window
from headrace.contracts.facts.admission import Dependency
from headrace.contracts.facts.fact import Ladder, Place
from headrace.contracts.facts.preemption import Victim
from headrace.contracts.messages.explanation import WhyView
from headrace.contracts.messages.queries import (
    AttemptView,
    JobView,
    NodeView,
    PoolKeyView,
    PoolView,
    QueueView,
    ScopeView,
    UserUseView,
)
from headrace.contracts.values.amounts import GPU_UNITS
from headrace.views.job_index import JobIndex, Rejected, jobs_of
from headrace.views.shown_states import state_of
from headrace.views.tenant_views import (
    WaitReasons,
    job_view,
    node_views,
    pool_views,
    queue_views,
    rejected_view,
    rejected_why,
    why_view,
)


@pytest.fixture
def index(hall):
    index = JobIndex(hall.state)
    hall.note = lambda record, _: index.note(record, jobs_of(record))
    return index


def view(hall, key, **more):
    return job_view(hall.state.jobs[key], WaitReasons(hall.state, hall.now, **more), all_attempts=True)


def test_a_job_is_called_what_the_interfaces_page_calls_it(hall):
    job = hall.job(1)
    hall.admit(job)
    states = []
    for happen in (
        lambda: None,
        lambda: hall.grant(job, ("gpu01", "g0")),
        lambda: hall.start(job),
        lambda: hall.stop(job, "preempted"),
        lambda: hall.stop(job, "cancelled"),
        lambda: hall.end(job),
        lambda: hall.finish(job, "cancelled"),
    ):
        happen()
        states.append(state_of(hall.state.jobs[job]))
    assert states == ["pending", "running", "running", "preempting", "stopping", "stopping", "cancelled"]


def test_a_job_shows_its_attempts(hall):
    job = hall.job(1)
    hall.admit(job, name="train", priority=3, labels={"run": "7"})
    admitted = hall.now
    hall.pass_time()
    granted = hall.now
    hall.grant(job, ("gpu01", "g0"))
    hall.start(job)
    hall.append_facts("node.gpu01", f.CheckpointRegisteredV1(job=job, attempt=1, uri="/ckpt/1", at=1))
    hall.stop(job, "preempted")
    hall.pass_time()
    ended = hall.now
    hall.end(job, exit_code=143, stopping=True)
    hall.append_facts("allocator", f.JobRequeuedV1(job=job, attempt=1, cause="preempted"))
    hall.grant(job, ("gpu01", "g3"), attempt=2, resume_from="/ckpt/1")
    first = AttemptView(
        attempt=1,
        pool="hall",
        nodes=("gpu01",),
        devices=("g0",),
        granted_at=granted,
        started_at=granted,
        ended_at=ended,
        exit_code=143,
        cause="preempted",
    )
    second = AttemptView(attempt=2, pool="hall", nodes=("gpu01",), devices=("g3",), granted_at=ended, resume_from="/ckpt/1")
    whole = JobView(
        id=job[-26:],
        job=job,
        tenant="acme",
        user="alice",
        name="train",
        queue="dev/one",
        state="running",
        priority=3,
        request={"gpu": GPU_UNITS},
        admitted_at=admitted,
        preemptions=1,
        checkpoint="/ckpt/1",
        labels={"run": "7"},
        attempts=(first, second),
    )
    assert view(hall, job) == whole
    short = job_view(hall.state.jobs[job], WaitReasons(hall.state, hall.now), all_attempts=False)
    assert short.attempts == (second,)


def test_a_waiting_job_shows_why_and_an_ended_one_how(hall):
    waiting, ended = hall.job(1), hall.job(2)
    hall.append_facts("governance", f.NodeCordonedV1(author="a.b", node="gpu01"))
    hall.admit(waiting)
    hall.admit(ended)
    hall.finish(ended, "cancelled", attempt=0)
    shown = view(hall, waiting)
    assert (shown.reason, shown.message) == (
        "NO_HEALTHY_NODE",
        (
            "no healthy node of the pool could take it: 1 nodes of pool hall have what it takes, none is in service: "
            "gpu01 is cordoned by a.b since 2027-01-15T08:00:00.000Z"
        ),
    )
    shown = view(hall, ended)
    assert (shown.state, shown.reason, shown.ended_at) == ("cancelled", "exited", hall.now)


def test_jobs_of_one_group_are_looked_at_twice_for_all(hall):
    for number in range(5):
        hall.admit(hall.job(number))
    waits = WaitReasons(hall.state, hall.now)
    reasons = {waits.of(hall.state.jobs[hall.job(number)])[0] for number in range(5)}
    assert (reasons, waits.computed) == ({"BEHIND_HIGHER_RANK"}, 2)


def test_in_a_long_list_the_rest_goes_without_a_reason(hall):
    for number in range(3):
        hall.admit(hall.job(number), priority=number, preemptible=bool(number % 2))
    waits = WaitReasons(hall.state, hall.now, computed_max=1)
    assert [waits.of(hall.state.jobs[hall.job(number)])[0] for number in range(3)] == ["BEHIND_HIGHER_RANK", "", ""]


def test_a_job_that_stands_in_no_line_has_a_reason_of_its_own(hall):
    first, second = hall.job(1), hall.job(2)
    hall.admit(first)
    hall.admit(second, after=(Dependency(job=first),))
    assert view(hall, second).reason == "DEPENDENCY"


def test_a_rejected_job_shows_the_reason(hall):
    job = hall.job(1)
    fact = f.JobRejectedV1(job=job, policy="dev", profile="one", reason="TOO_FAST", message="slow down", name="train")
    assert rejected_view(Rejected(fact, 7)) == JobView(
        id=job[-26:],
        job=job,
        tenant="acme",
        user="alice",
        name="train",
        queue="dev/one",
        state="rejected",
        ended_at=7,
        reason="TOO_FAST",
        message="slow down",
    )
    assert rejected_why(Rejected(fact, 7)) == WhyView(job=job, state="rejected", reason="TOO_FAST", message="slow down")


def test_why_names_no_user_of_another_tenant(hall):
    victim, preemptor = hall.job(1, tenant="rival"), hall.job(2)
    hall.admit(victim)
    hall.grant(victim, ("gpu01", "g0"))
    hall.start(victim)
    hall.admit(preemptor)
    hall.append_facts(
        "allocator",
        f.PreemptionOrderedV1(
            preemption=f"{preemptor}@{hall.state.sequence}",
            job=preemptor,
            pool="hall",
            cause="reclaim",
            victims=(Victim(job=victim, attempt=1, policy="dev", lost=0),),
            places=(Place(node="gpu01", amounts={"gpu": GPU_UNITS}),),
            rule="R26",
        ),
        f.StopOrderedV1(job=victim, attempt=1, ladder=ladder(preemptor)),
    )
    why = why_view(hall.state, hall.state.jobs[preemptor], hall.now)
    assert (why.state, why.reason, why.blockers) == ("pending", "WAITING_FOR_PREEMPTION", ("other tenants: 1 GPUs",))
    why = why_view(hall.state, hall.state.jobs[victim], hall.now)
    assert why.state == "preempting"
    assert preemptor not in why.message


def ladder(preemptor):
    return Ladder(cause="preempted", callback_grace=0, term_grace=0, preemptor=preemptor)


def test_why_shows_the_blockers_of_the_own_tenant(hall, policy_of):
    holder, waiting = hall.job(1), hall.job(2)
    hall.append_facts("governance", f.PolicyAppliedV1(author="a.b", policy=policy_of("acme", limit={"gpu": GPU_UNITS})))
    hall.admit(holder)
    hall.grant(holder, ("gpu01", "g0"))
    hall.admit(waiting)
    why = why_view(hall.state, hall.state.jobs[waiting], hall.now)
    assert (why.reason, why.blockers, why.position) == ("AT_POLICY_LIMIT", (holder,), 1)


def test_queues_show_what_their_policy_holds(hall, index, policy_of):
    hall.append_facts("governance", f.PolicyAppliedV1(author="a.b", policy=policy_of("acme", limit={"gpu": 4 * GPU_UNITS})))
    for number in range(5):
        hall.admit(hall.job(number))
    for number in range(3):
        hall.grant(hall.job(number), ("gpu01", f"g{number}"))
    scope = ScopeView(
        key="gpu",
        used=3 * GPU_UNITS,
        reservation=2 * GPU_UNITS,
        limit=4 * GPU_UNITS,
        reserved=2 * GPU_UNITS,
        borrowed=GPU_UNITS,
    )
    usual = {"tenant": "acme", "policy": "dev", "scopes": (scope,)}
    assert list(queue_views(hall.state, index.lines, "acme", hall.now)) == [
        QueueView(name="dev/one", profile="one", pending=2, running=3, **usual),
        QueueView(name="dev/pair", profile="pair", pending=0, running=0, **usual),
    ]


def test_queues_and_why_show_what_each_user_holds(hall, index, policy_of):
    limits = PerUser(limit={"gpu": GPU_UNITS}, max_pending=7)
    law = msgspec.structs.replace(policy_of("acme"), fair_among="users", per_user=limits)
    hall.append_facts("governance", f.PolicyAppliedV1(author="a.b", policy=law))
    for number in range(2):
        hall.admit(hall.job(number))
    hall.grant(hall.job(0), ("gpu01", "g0"))
    user = hall.state.jobs[hall.job(0)].user
    mine = UserUseView(user=user, used={"gpu": GPU_UNITS, "job": 1}, limit={"gpu": GPU_UNITS}, pending=1, max_pending=7)
    found = next(queue_views(hall.state, index.lines, "acme", hall.now))
    assert (found.fair_among, found.users) == ("users", (mine,))
    why = why_view(hall.state, hall.state.jobs[hall.job(1)], hall.now)
    assert why.reason == "AT_POLICY_LIMIT"
    assert f"user {user} in policy acme/dev uses 1 gpu of a limit of 1, it asks for 1; no other user holds any" in why.message
    assert "you hold gpu 1 of your 1; no other user holds any (R15: who uses least goes first)" in why.notes


def test_pools_show_all_use_in_total_and_own_jobs_only(hall, index):
    for number, tenant in enumerate(["acme", "acme", "rival", "rival"]):
        hall.admit(hall.job(number, tenant=tenant))
    hall.grant(hall.job(0), ("gpu01", "g0"))
    hall.grant(hall.job(2, tenant="rival"), ("gpu01", "g1"))
    capacity = 4 * GPU_UNITS
    key = PoolKeyView(key="gpu", capacity=capacity, usable=capacity, used=2 * GPU_UNITS, free=2 * GPU_UNITS)
    assert list(pool_views(hall.state, index.lines, "acme")) == [
        PoolView(name="hall", nodes=1, keys=(key,), running=1, pending=1)
    ]


def test_what_is_kept_for_a_preemptor_is_free_for_no_job(hall, index):
    hall.admit(hall.job(1))
    hall.append_facts(
        "allocator",
        f.PreemptionOrderedV1(
            preemption="p",
            job=hall.job(1),
            pool="hall",
            cause="reclaim",
            victims=(),
            places=(Place(node="gpu01", amounts={"gpu": GPU_UNITS}),),
            rule="R26",
        ),
    )
    ((view,),) = (pool.keys for pool in pool_views(hall.state, index.lines, "acme"))
    assert (view.used, view.free, view.kept) == (0, 3 * GPU_UNITS, GPU_UNITS)


def test_a_pool_closed_to_the_tenant_and_its_nodes_are_not_there(hall, index):
    pool = Pool(name="hall", selector={"site": "hq"}, access=Access(allow=("rival",)))
    hall.append_facts("governance", f.PoolAppliedV1(author="a.b", pool=pool))
    assert list(pool_views(hall.state, index.lines, "acme")) == []
    assert list(node_views(hall.state, {}, "acme")) == []
    assert [node.name for node in node_views(hall.state, {}, "rival")] == ["gpu01"]


def test_nodes_show_what_is_free_and_own_leases_only(hall):
    for number, tenant in enumerate(["acme", "rival"]):
        hall.admit(hall.job(number, tenant=tenant))
        hall.grant(hall.job(number, tenant=tenant), ("gpu01", f"g{number}"))
    assert list(node_views(hall.state, {"gpu01": 77}, "acme")) == [
        NodeView(
            name="gpu01",
            pool="hall",
            state="ready",
            labels={"site": "hq"},
            model="H100-80GB",
            gpus=4,
            gpu_free=2 * GPU_UNITS,
            cpu=8_000,
            cpu_free=8_000,
            memory=65_536,
            memory_free=65_536,
            leases=1,
            last_heard=77,
            isolation={"whole": "watchdog", "fraction": "watchdog", "slice": "watchdog"},
        )
    ]


def test_a_node_is_ready_cordoned_stopped_or_lost(hall):
    states = []
    for by, fact in (
        ("governance", f.NodeCordonedV1(author="a.b", node="gpu01")),
        ("preemption", f.NodeLostV1(node="gpu01", silent_for=1)),
        ("governance", f.NodeUncordonedV1(author="a.b", node="gpu01")),
        ("node.gpu01", f.NodeStoppedV1(node="gpu01", at=1)),
    ):
        hall.append_facts(by, fact)
        states += [node.state for node in node_views(hall.state, {}, "acme")]
    assert states == ["cordoned", "lost", "lost", "stopped"]


def test_queues_show_what_closes_them_and_what_their_budgets_have_left(hall, index, policy_of):
    budget = Budget(key="gpu", hours=3, per="day")
    window = Window(days=("mon", "tue", "wed", "thu", "fri", "sat", "sun"), opens=0, closes=1)
    policy = policy_of("acme", budgets=(budget,), windows=(window,))
    hall.append_facts("governance", f.PolicyAppliedV1(author="a.b", policy=policy))
    hall.append_facts("allocator", f.PolicyGatedV1(tenant="acme", policy="dev", shut=True, spent=("gpu per day",)))
    hall.append_facts("governance", f.ObjectClosedV1(author="a.b", kind="profile", name="one", mode="freeze"))
    one, pair = queue_views(hall.state, index.lines, "acme", hall.now)
    assert (one.closed, pair.closed, one.shut, one.opens_at > hall.now) == ("freeze", "", True, True)
    (view,) = one.budgets
    assert (view.key, view.hours, view.per, view.then, view.used, view.spent) == ("gpu", 3, "day", "wait", "0.000", True)
    assert view.ends_at > hall.now
    assert view.warning == ""


def test_a_budget_that_is_nearly_used_up_is_said_in_time_of_its_queue_and_of_a_job_that_waits(hall, index, policy_of):
    """R33."""
    policy = policy_of("acme", budgets=(Budget(key="gpu", hours=0, per="day"),))
    hall.append_facts("governance", f.PolicyAppliedV1(author="a.b", policy=policy))
    line = "0.000 of 0 hours of gpu are used this day: used up until"
    assert next(queue_views(hall.state, index.lines, "acme", hall.now)).budgets[0].warning.startswith(line)
    waiting = hall.job(1)
    hall.admit(waiting)
    assert (
        why_view(hall.state, hall.state.jobs[waiting], hall.now)
        .notes[0]
        .startswith(f"budget gpu per day of policy dev: {line}")
    )
