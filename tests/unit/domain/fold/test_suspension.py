"""Suspending and resuming as the fold keeps it (R29)."""

from __future__ import annotations

import pytest

from headrace.contracts import facts as f
from headrace.contracts.documents.model import Policy, PolicyProfile, PreemptionTerms
from headrace.contracts.facts.fact import DeviceShare, Place
from headrace.contracts.values.amounts import CPU, GPU, GPU_UNITS, JOB
from headrace.contracts.values.durations import HOUR, MINUTE, SECOND
from headrace.domain.model.job_states import JobState
from headrace.domain.preemption.eligibility import lost_work, protected_until
from headrace.domain.state.job_deadlines import START_TIMEOUT, limit_of, walking
from tests.unit.domain.fold.suspension_scene import Scene
from tests.unit.domain.hall import gpus


def resumed(job, rank=0):
    return f.LeaseResumedV1(job=job.key, attempt=job.attempt, rank=rank, at=0)


def ordered(job, **more):
    return f.ResumeOrderedV1(job=job.key, attempt=job.attempt, **more)


def test_its_devices_are_free_and_not_charged_and_the_rest_stays_held():
    hall = Scene()
    hall.stop_it()
    hall.suspend()
    job, scope = hall.job, hall.job.policy.wide
    assert (job.state, job.stop, job.preemptions, hall.state.suspended) == (JobState.SUSPENDED, None, 1, {job.key: job})
    assert (hall.free(), scope.use.get(GPU, 0), scope.use[JOB], hall.pool.use.get(GPU, 0)) == ([1, 1], 0, 1, 0)
    assert sorted(hall.state.nodes["n1"].leases) == [f"{job.key}/0"]
    assert hall.adds_up() == []


def test_one_that_was_overdue_is_so_no_more():
    hall = Scene()
    hall.stop_it()
    hall.append_facts("preemption", f.LeaseOverdueV1(job=hall.job.key, attempt=1, node="n1"))
    assert (walking(hall.job), hall.job.leases[0].overdue) == ([], True)
    hall.suspend()
    hall.append_facts("allocator", ordered(hall.job))
    hall.stop_it("drain", "requeue")
    assert walking(hall.job) == [hall.job.leases[0]]


def test_said_twice_it_is_said_once():
    hall = Scene()
    hall.stop_it()
    hall.suspend()
    hall.suspend()
    assert (hall.job.preemptions, hall.adds_up()) == (1, [])


def test_a_gang_is_suspended_when_all_of_it_is():
    hall = Scene(replicas=2)
    hall.stop_it()
    hall.suspend(1)
    assert (hall.job.state, hall.free("n2"), hall.adds_up()) == (JobState.STOPPING, [1, 1], [])
    hall.suspend(0)
    assert (hall.job.state, hall.adds_up()) == (JobState.SUSPENDED, [])


def test_a_victim_that_is_suspended_has_left():
    hall = Scene()
    hall.policy("own", size=2, reservation=2)
    preemption = hall.state.preemptions[hall.order(hall.admit("own", "o"), [hall.job], ("n1", 0, 2))]
    hall.stop_it()
    assert (preemption.leaving, hall.adds_up()) == ({hall.job.key}, [])
    hall.later(3)
    hall.suspend()
    assert (preemption.leaving, preemption.all_left_at, hall.job.yields_to) == (set(), hall.now, "")
    assert (hall.job.barred_from, hall.adds_up()) == ("hall", [])


def test_one_whose_end_is_wanted_stays_on_its_ladder_though_it_is_off_its_devices():
    hall = Scene()
    hall.stop_it()
    hall.stop_it("cancelled", "cancel")
    hall.suspend()
    assert (hall.job.state, hall.free(), hall.adds_up()) == (JobState.STOPPING, [1, 1], [])
    hall.end(hall.job, outcome="killed", exit_code=137)
    assert (hall.job.leases, hall.state.suspended, hall.adds_up()) == ({}, {}, [])


def test_it_holds_its_devices_again_when_it_is_to_go_on_and_runs_when_its_node_says_so():
    hall = Scene(time_limit=HOUR)
    began = hall.now
    hall.later(600)
    hall.stop_it()
    hall.suspend()
    hall.later(1_000)
    hall.append_facts("allocator", ordered(hall.job, min_runtime=2 * MINUTE))
    job = hall.job
    assert (job.state, hall.free(), job.min_runtime, hall.state.suspended) == (JobState.STARTING, [0, 0], 2 * MINUTE, {})
    assert hall.state.deadlines.moments[job.key] == hall.now + START_TIMEOUT
    assert (protected_until(job), hall.adds_up()) == (None, [])
    hall.later(5)
    hall.append_facts("node.n1", resumed(job))
    assert (job.state, job.paused, protected_until(job)) == (JobState.RUNNING, 1_000 * SECOND, hall.now + 2 * MINUTE)
    assert hall.state.deadlines.moments[job.key] == limit_of(job) == began + HOUR + 1_000 * SECOND


def test_what_it_was_suspended_for_is_not_work_that_could_be_lost():
    hall = Scene()
    hall.later(10)
    hall.stop_it()
    hall.suspend()
    hall.later(1_000)
    hall.append_facts("allocator", ordered(hall.job))
    hall.append_facts("node.n1", resumed(hall.job))
    hall.later(7)
    assert lost_work(hall.job, hall.now) == 2 * GPU_UNITS * 17
    hall.append_facts("node.n1", f.CheckpointRegisteredV1(job=hall.job.key, attempt=1, uri="c", at=0))
    hall.later(3)
    assert lost_work(hall.job, hall.now) == 2 * GPU_UNITS * 3


def test_how_long_it_may_be_suspended_is_up_to_its_policy_as_it_is_now():
    hall = Scene()
    hall.stop_it()
    hall.suspend()
    assert hall.state.deadlines.moments[hall.job.key] == hall.now + 4 * HOUR
    terms = PreemptionTerms(on_preempt="suspend", suspend_max=HOUR)
    written = Policy(tenant="acme", name="low", profiles=(PolicyProfile(name="low"),), reservation=gpus(1), preemption=terms)
    hall.append_facts("governance", f.PolicyAppliedV1(author="a.b", policy=written))
    assert hall.state.deadlines.moments[hall.job.key] == hall.now + HOUR


@pytest.mark.parametrize("how", ["revoked", "ended"])
def test_what_is_left_of_it_is_given_back_once(how):
    hall = Scene()
    hall.stop_it()
    hall.suspend()
    if how == "revoked":
        hall.append_facts("allocator", f.LeaseRevokedV1(job=hall.job.key, attempt=1, cause="node_lost"))
    else:
        hall.end(hall.job, outcome="killed", exit_code=137)
    assert (hall.free(), hall.state.nodes["n1"].cpu_free, hall.state.suspended, hall.adds_up()) == ([1, 1], 64_000, {}, [])
    hall.append_facts("allocator", f.JobRequeuedV1(job=hall.job.key, attempt=1, cause="suspension_lost"))
    assert (hall.job.state, hall.job.suspended_at, hall.adds_up()) == (JobState.PENDING, 0, [])


def test_a_node_that_registers_again_takes_nothing_from_what_is_free():
    hall = Scene()
    hall.stop_it()
    hall.suspend()
    hall.node("n1", devices=2)
    assert (hall.free(), hall.state.unsettled) == ([1, 1], {hall.job.key: hall.job})
    assert CPU not in hall.job.request.total


def test_an_order_to_go_on_that_comes_too_late_changes_nothing():
    hall = Scene()
    hall.append_facts("allocator", ordered(hall.job))
    hall.append_facts("node.n1", resumed(hall.job))
    assert (hall.job.state, hall.free(), hall.job.resumed_at) == (JobState.RUNNING, [0, 0], 0)


@pytest.mark.parametrize("then", ["goes on", "goes on and is suspended", "goes on and leaves", "leaves"])
def test_the_accounts_add_up_if_one_is_told_to_yield_though_it_is_suspended(then):
    hall = Scene()
    hall.suspend()
    hall.policy("high", size=2)
    hall.order(hall.admit("high", "p"), [hall.job], ("n2", 0, 2))
    found = [hall.adds_up()]
    if then != "leaves":
        hall.append_facts("allocator", ordered(hall.job))
        found.append(hall.adds_up())
    if then == "goes on and is suspended":
        hall.suspend()
    elif then != "goes on":
        hall.end(hall.job)
    found.append(hall.adds_up())

    assert found == [[]] * len(found)


def moves(hall, *places, attempt=1):
    hall.append_facts("allocator", f.MoveOrderedV1(job=hall.job.key, attempt=attempt, pool="hall", places=places))


def place(node, *devices):
    shares = tuple(DeviceShare(device=f"g{number}", units=GPU_UNITS) for number in devices)
    return Place(node=node, devices=shares, amounts=gpus(len(devices)) | {JOB: 1})


class Moving(Scene):
    """`v` is suspended, and is to go on on the other node."""

    def __init__(self, **more):
        super().__init__(**more)
        self.stop_it()
        self.suspend()
        moves(self, place("n2", 0, 1))
        self.move = self.job.nomination
        self.stop_it("moved", "requeue")


def test_one_that_moves_is_used_once_while_its_new_place_is_kept():
    hall = Moving()
    assert (hall.move.places, hall.move.leaving, hall.job.yields_to) == ((place("n2", 0, 1),), {hall.job.key}, hall.move.id)
    assert (hall.job.policy.wide.use, hall.pool.nominated) == (gpus(2) | {JOB: 1}, gpus(2) | {JOB: 1})
    assert (hall.job.state, hall.state.suspended, hall.adds_up()) == (JobState.STOPPING, {}, [])


def test_one_that_moves_waits_aside_when_it_has_left_and_starts_where_its_place_is_kept():
    hall = Moving()
    hall.later(2)
    hall.end(hall.job, outcome="killed", exit_code=137)
    assert (hall.move.leaving, hall.move.all_left_at, hall.adds_up()) == (set(), hall.now, [])
    hall.append_facts("allocator", f.JobRequeuedV1(job=hall.job.key, attempt=1, cause="moved"))
    assert (hall.job.state, hall.state.pending.ineligible, hall.adds_up()) == (JobState.PENDING, {hall.job.key: hall.job}, [])
    hall.grant(hall.job, ("n2", 0, 2))
    assert (hall.job.nomination, hall.state.preemptions, hall.pool.nominated, hall.adds_up()) == (None, {}, {}, [])
    assert hall.job.preemptions == 1


@pytest.mark.parametrize("left", [False, True])
def test_when_its_new_place_is_given_up_what_it_still_holds_counts_again(left):
    hall = Moving()
    if left:
        hall.end(hall.job, outcome="killed", exit_code=137)
    hall.append_facts("allocator", f.NominationEndedV1(preemption=hall.move.id, job=hall.job.key, why="gone"))
    assert (hall.job.nomination, hall.job.yields_to, hall.state.preemptions, hall.adds_up()) == (None, "", {}, [])
    assert (hall.job.policy.wide.use, hall.state.pending.ineligible) == ({} if left else {JOB: 1}, {})
    if not left:
        hall.end(hall.job, outcome="killed", exit_code=137)
    hall.append_facts("allocator", f.JobRequeuedV1(job=hall.job.key, attempt=1, cause="moved"))
    assert (hall.state.pending.group_of(hall.job).head(), hall.adds_up()) == (hall.job, [])


def test_nothing_is_kept_for_one_that_ends_on_its_way():
    hall = Moving()
    hall.end(hall.job, outcome="killed", exit_code=137)
    hall.append_facts("allocator", f.JobEndedV1(job=hall.job.key, attempt=1, state="cancelled", cause="cancelled"))
    assert (hall.state.preemptions, hall.pool.nominated, hall.adds_up()) == ({}, {}, [])


def test_what_a_node_says_late_of_one_that_moves_leaves_the_accounts_right():
    hall = Moving()
    hall.append_facts("preemption", f.LeaseOverdueV1(job=hall.job.key, attempt=1, node="n1"))
    hall.node("n1", devices=2)
    hall.suspend()
    assert (hall.move.overdue_at, hall.adds_up()) == (hall.now, [])


@pytest.mark.parametrize("how", ["runs", "another attempt", "a part of it has ended", "told to yield"])
def test_an_order_to_move_that_comes_too_late_changes_nothing(how):
    hall = Scene(replicas=2)
    if how != "runs":
        hall.stop_it()
        hall.suspend(0, 1)
    if how == "a part of it has ended":
        hall.end(hall.job, outcome="killed", exit_code=137)
    if how == "told to yield":
        hall.policy("high", size=1)
        hall.order(hall.admit("high", "p"), [hall.job], ("n2", 0, 1))
    before = dict(hall.state.preemptions)
    moves(hall, place("n2", 0, 1), attempt=2 if how == "another attempt" else 1)
    assert (hall.job.nomination, hall.state.preemptions, hall.adds_up()) == (None, before, [])
