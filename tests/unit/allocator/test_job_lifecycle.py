from __future__ import annotations

import pytest

from headrace.allocator.job_lifecycle import due_transitions, next_check, set_aside, stop
from headrace.contracts import facts as f
from headrace.contracts.documents import model as d
from headrace.contracts.facts.admission import Dependency
from headrace.contracts.facts.fact import Ladder
from headrace.contracts.facts.nodes import Device
from headrace.contracts.facts.provisioning import OfferTaken
from headrace.contracts.values.durations import HOUR, MINUTE, SECOND
from headrace.domain.model.jobs import JobRecord
from tests.unit.allocator.history import History, gpus, policy, stopped, terms


def new_history(**more: object) -> History:
    """A hall of four GPUs and one policy, `ml`, that reserves two and may use all."""
    history = History(policy("ml", 2, **more))
    history.node()
    return history


def lifecycle_facts(history: History) -> list[object]:
    return [fact for unit in due_transitions(history.state, history.now) for fact in unit]


def ended(job, state: str, cause: str, exit_code: int | None = None, attempt: int = 1) -> f.JobEndedV1:
    return f.JobEndedV1(job=job.key, attempt=attempt, state=state, cause=cause, exit_code=exit_code)


def requeued(job, cause: str, attempt: int = 1, **more: object) -> f.JobRequeuedV1:
    return f.JobRequeuedV1(job=job.key, attempt=attempt, cause=cause, **more)


def test_nothing_is_due_where_nothing_has_happened():
    history = new_history()
    history.run("ml/one")
    history.admit("ml/one")

    assert lifecycle_facts(history) == []


@pytest.mark.parametrize(
    ("ending", "state", "cause", "exit_code"),
    [
        ({"exit_code": 0}, "succeeded", "exited", 0),
        ({"exit_code": 3}, "failed", "exited", 3),
        ({"exit_code": 3, "finished": True}, "succeeded", "finished", 3),
        ({"exit_code": None, "outcome": "killed"}, "failed", "exited", None),
    ],
)
def test_an_attempt_that_ended_by_itself_ends_the_job(ending, state, cause, exit_code):
    history = new_history()
    job = history.run("ml/one")

    history.end(job, **ending)

    assert lifecycle_facts(history) == [ended(job, state, cause, exit_code)]


def test_a_failure_uses_up_a_retry_until_all_are_used():
    history = new_history()
    job = history.run("ml/one", max_retries=1)
    history.end(job, 1)
    assert lifecycle_facts(history) == [requeued(job, "failed")]

    history.allocate()
    history.allocate()
    history.start(job)
    history.end(job, 1)

    assert lifecycle_facts(history) == [ended(job, "failed", "exited", 1, attempt=2)]


@pytest.mark.parametrize(
    ("outcome", "cause", "back_off"),
    [("lost", "node_lost", SECOND), ("refused", "refused", 0), ("never_started", "refused", 0)],
)
def test_what_was_the_nodes_fault_uses_up_no_retry(outcome, cause, back_off):
    history = new_history()
    job = history.run("ml/one")

    history.end(job, None, outcome=outcome)

    avoids = {"avoid": ("n1",), "avoid_until": history.now + 10 * MINUTE} if outcome == "refused" else {}
    assert lifecycle_facts(history) == [requeued(job, cause, not_before=history.now + back_off if back_off else 0, **avoids)]


@pytest.mark.parametrize(("losses", "back_off"), [(0, 1), (1, 2), (5, 32), (8, 256), (9, 300), (60, 300)])
def test_the_back_off_after_a_loss_doubles_from_a_second_to_five_minutes(losses, back_off):
    history = new_history()
    job = history.run("ml/one")
    job.losses = losses

    history.end(job, None, outcome="lost")

    assert lifecycle_facts(history) == [requeued(job, "node_lost", not_before=history.now + back_off * SECOND)]


LOST = f.NodeLostV1(node="n1", silent_for=60 * SECOND)


@pytest.mark.parametrize(
    ("gone", "cause", "overlap"), [(LOST, "node_lost", True), (f.NodeStoppedV1(node="n1", at=0), "node_stopped", False)]
)
def test_leases_on_a_node_that_is_gone_are_revoked_and_then_the_job_is_requeued(gone, cause, overlap):
    """After a loss the old attempt may still run, and the fact says so (R32)."""
    history = new_history()
    job = history.run("ml/one")

    history.append_facts(gone, by="preemption")
    revoked = f.LeaseRevokedV1(job=job.key, attempt=1, rank=0, cause=cause)
    assert lifecycle_facts(history) == [revoked]

    history.append_facts(revoked, by="allocator")
    assert lifecycle_facts(history) == [requeued(job, cause, not_before=history.now + SECOND, may_overlap=overlap)]


def test_a_job_that_waits_for_its_lost_node_is_requeued_when_an_operator_confirms_that_nothing_is_left():
    """R32."""
    history = new_history(preemption=terms(on_node_lost="wait"))
    job = history.run("ml/one")
    history.append_facts(LOST, by="preemption")
    assert lifecycle_facts(history) == []

    history.append_facts(f.NodeConfirmedEmptyV1(author="default.admin", node="n1"))
    revoked = f.LeaseRevokedV1(job=job.key, attempt=1, rank=0, cause="confirmed_empty")
    assert lifecycle_facts(history) == [revoked]

    history.append_facts(revoked, by="allocator")
    assert lifecycle_facts(history) == [requeued(job, "node_lost", not_before=history.now + SECOND)]


def test_a_job_that_waits_for_its_lost_node_goes_on_when_that_is_back():
    """R32."""
    history = new_history(preemption=terms(on_node_lost="wait"))
    job = history.run("ml/one")
    history.append_facts(LOST, by="preemption")

    history.node()

    assert (lifecycle_facts(history), job.state) == ([], "running")


def test_an_order_that_the_node_never_finished_ends_when_an_operator_confirms_that_nothing_is_left():
    """R28."""
    history = new_history()
    job = history.run("ml/one")
    history.stop(job, "preempted")
    history.append_facts(f.LeaseOverdueV1(job=job.key, attempt=1, node="n1"), by="preemption")
    assert lifecycle_facts(history) == []

    history.append_facts(f.NodeConfirmedEmptyV1(author="default.admin", node="n1"))
    history.append_facts(*lifecycle_facts(history), by="allocator")

    assert lifecycle_facts(history) == [requeued(job, "preempted", min_runtime=2 * MINUTE)]


def test_what_is_not_started_within_ten_minutes_is_stopped_and_tried_elsewhere_after_a_back_off():
    """R35, R36."""
    history = new_history()
    job = history.admit("ml/gang")
    history.allocate()
    history.append_facts(f.LeaseStartedV1(job=job.key, attempt=1, rank=0, at=history.now), by="node.n1")
    history.wait(10 * MINUTE - 1)
    assert (lifecycle_facts(history), history.state.deadlines.next(history.now)) == ([], history.now + 1)

    history.wait(1)
    assert lifecycle_facts(history) == [stopped(job, "start_timeout")]
    history.stop(job, "start_timeout")
    assert lifecycle_facts(history) == []
    history.end(job, 143)
    history.end(job, None, rank=1, outcome="never_started")

    again = {"not_before": history.now + SECOND, "avoid": ("n1",), "avoid_until": history.now + 10 * MINUTE}
    assert lifecycle_facts(history) == [requeued(job, "start_timeout", **again)]


def test_a_replica_that_was_stopped_before_it_started_is_not_a_fault_of_its_node():
    """The gang has failed by itself, and that uses up a retry (R32, R35)."""
    history = new_history()
    job = history.admit("ml/gang")
    history.allocate()
    history.append_facts(f.LeaseStartedV1(job=job.key, attempt=1, rank=0, at=history.now), by="node.n1")
    history.end(job, 3)
    history.append_facts(*lifecycle_facts(history), by="allocator")
    history.end(job, None, rank=1, outcome="never_started")

    assert lifecycle_facts(history) == [ended(job, "failed", "exited", 3)]


def test_whatever_is_on_a_node_that_is_drained_is_stopped_once():
    """R28."""
    history = new_history()
    job, gang = history.run("ml/one"), history.run("ml/gang")
    history.append_facts(f.NodeDrainOrderedV1(author="default.admin", node="n1"))

    assert lifecycle_facts(history) == [stopped(job, "drain"), stopped(gang, "drain")]
    history.append_facts(*lifecycle_facts(history), by="allocator")

    assert lifecycle_facts(history) == []


def test_a_node_that_refuses_three_jobs_in_a_row_is_set_aside_until_an_administrator_takes_it_back():
    """R36."""
    history = new_history()
    for number in range(3):
        assert list(set_aside(history.state, history.now)) == []
        job = history.admit("ml/one")
        history.allocate()
        history.end(job, None, outcome="refused", message=f"no {number}")
        history.append_facts(*lifecycle_facts(history), by="allocator")
        history.append_facts(f.JobEndedV1(job=job.key, attempt=1, state="cancelled", cause="cancelled"), by="allocator")

    until = history.now + 10 * MINUTE
    aside = f.NodeSetAsideV1(node="n1", reason="it refused the starts of 3 jobs in a row, the last: no 2", until=until)
    assert list(set_aside(history.state, history.now)) == [aside]
    history.append_facts(aside, by="allocator")
    assert (list(set_aside(history.state, history.now)), history.state.nodes["n1"].cordoned) == ([], aside.reason)
    history.append_facts(f.NodeUncordonedV1(author="default.admin", node="n1"))

    assert (list(set_aside(history.state, history.now)), history.state.nodes["n1"].grantable) == ([], True)


def test_a_start_in_between_ends_the_row_and_the_same_job_counts_once():
    """R36."""
    history = new_history()
    job = history.admit("ml/one")
    for attempt in (1, 2):
        history.allocate()
        history.end(job, None, outcome="refused")
        history.append_facts(*lifecycle_facts(history), by="allocator")
        assert history.state.nodes["n1"].refusals == {job.key: ""}
        history.wait(10 * MINUTE)
        assert job.attempt == attempt
    history.run("ml/one")

    assert history.state.nodes["n1"].refusals == {}


def test_a_gang_with_a_member_on_a_lost_node_is_revoked_there_and_stopped_elsewhere():
    history = History(policy("ml", 2))
    history.node("n1", 1)
    history.node("n2", 1)
    job = history.run("ml/gang")
    (rank,) = [rank for rank, lease in job.leases.items() if lease.node == "n2"]

    history.append_facts(f.NodeLostV1(node="n2", silent_for=60 * SECOND), by="preemption")
    revoked = f.LeaseRevokedV1(job=job.key, attempt=1, rank=rank, cause="node_lost")
    assert lifecycle_facts(history) == [revoked]
    history.append_facts(revoked, by="allocator")
    broken = stopped(job, "gang_broken")
    assert lifecycle_facts(history) == [broken]
    history.append_facts(broken, by="allocator")
    assert lifecycle_facts(history) == []
    history.end(job, 143, rank=1 - rank)

    assert lifecycle_facts(history) == [requeued(job, "node_lost", not_before=history.now + SECOND, may_overlap=True)]


def test_a_gang_with_a_failed_replica_is_stopped_and_fails_once():
    history = new_history()
    job = history.run("ml/gang")

    history.end(job, 7, rank=1)
    assert lifecycle_facts(history) == [stopped(job, "gang_broken")]
    history.stop(job, "gang_broken")
    history.end(job, 143)

    assert lifecycle_facts(history) == [ended(job, "failed", "exited", 7)]


def test_a_gang_ends_well_when_the_last_of_it_has():
    history = new_history()
    job = history.run("ml/gang")

    history.end(job, 0, rank=1)
    assert lifecycle_facts(history) == []
    history.end(job, 0)

    assert lifecycle_facts(history) == [ended(job, "succeeded", "exited", 0)]


def test_a_pending_job_is_cancelled_at_once():
    history = new_history()
    job = history.admit("ml/one")

    history.cancel(job)

    assert lifecycle_facts(history) == [ended(job, "cancelled", "cancelled", attempt=0)]


def test_of_those_that_are_cancelled_the_ones_that_wait_end_first():
    history = new_history()
    runs, waits = history.run("ml/one"), history.admit("ml/one")

    history.cancel(runs)
    history.cancel(waits)

    assert lifecycle_facts(history) == [
        ended(waits, "cancelled", "cancelled", attempt=0),
        stopped(runs, "cancelled", then="cancel"),
    ]


def test_a_running_job_is_told_once_to_stop_and_is_cancelled_when_it_has():
    history = new_history()
    job = history.run("ml/one")

    history.cancel(job)
    assert lifecycle_facts(history) == [stopped(job, "cancelled", then="cancel")]
    history.stop(job, "cancelled", then="cancel")
    assert lifecycle_facts(history) == []
    history.end(job, 143)

    assert lifecycle_facts(history) == [ended(job, "cancelled", "cancelled", 143)]


def test_a_cancel_overrides_an_earlier_order_to_stop():
    history = new_history()
    job = history.run("ml/one")
    history.stop(job, "preempted")

    history.cancel(job)
    assert lifecycle_facts(history) == [stopped(job, "cancelled", then="cancel")]
    history.append_facts(*lifecycle_facts(history), by="allocator")
    history.end(job, 143)

    assert lifecycle_facts(history) == [ended(job, "cancelled", "cancelled", 143)]


@pytest.mark.parametrize(("exit_code", "state", "cause"), [(0, "succeeded", "exited"), (1, "cancelled", "cancelled")])
def test_a_job_that_ends_by_itself_before_its_cancel_is_ordered_is_what_it_was(exit_code, state, cause):
    history = new_history()
    job = history.run("ml/one", max_retries=3)

    history.cancel(job)
    history.end(job, exit_code)

    assert lifecycle_facts(history) == [ended(job, state, cause, exit_code)]


@pytest.mark.parametrize("exit_code", [0, 143])
def test_a_job_that_its_owner_requeues_walks_its_ladder_once_and_waits_again_as_it_was(exit_code):
    """R29: whatever the policy says of preemptions; no retry is used, and its own minimum run time stays."""
    history = new_history(preemption=terms(on_preempt="cancel", max_preemptions=0))
    job = history.run("ml/one", max_retries=1)
    admitted_at = job.admitted_at

    history.requeue(job)
    assert lifecycle_facts(history) == [stopped(job, "requeued")]
    history.append_facts(*lifecycle_facts(history), by="allocator")
    assert lifecycle_facts(history) == []
    history.end(job, exit_code)

    assert lifecycle_facts(history) == [requeued(job, "requeued")]
    history.append_facts(*lifecycle_facts(history), by="allocator")
    assert (job.state, job.admitted_at, job.preemptions, job.retries_used, job.losses) == ("pending", admitted_at, 0, 0, 0)


def test_a_job_that_ends_by_itself_before_its_requeue_is_ordered_is_what_it_was():
    history = new_history()
    job = history.run("ml/one", max_retries=1)
    history.requeue(job)
    history.end(job, 1)
    assert lifecycle_facts(history) == [requeued(job, "failed")]
    history.append_facts(*lifecycle_facts(history), by="allocator")
    assert history.state.requeues == {}


def test_a_cancel_goes_before_a_requeue():
    history = new_history()
    job = history.run("ml/one")
    history.requeue(job)
    history.cancel(job)
    assert lifecycle_facts(history) == [stopped(job, "cancelled", then="cancel")]


def test_a_job_whose_dependency_failed_is_cancelled():
    history = new_history()
    first = history.run("ml/one")
    second = history.admit("ml/one", after=(Dependency(job=first.key, when="ok"),))
    third = history.admit("ml/one", after=(Dependency(job=first.key, when="any"),))
    assert lifecycle_facts(history) == []

    history.end(first, 1)
    history.append_facts(*lifecycle_facts(history), by="allocator")

    assert lifecycle_facts(history) == [ended(second, "cancelled", "dependency_failed", attempt=0)]
    assert third.waits_for == {}


def test_a_job_is_stopped_when_its_time_limit_is_reached_and_fails():
    history = new_history()
    job = history.run("ml/one", time_limit=10 * MINUTE)
    assert history.state.deadlines.next(history.now) == history.now + 10 * MINUTE

    history.wait(10 * MINUTE - 1)
    assert lifecycle_facts(history) == []
    history.wait(1)
    assert lifecycle_facts(history) == [stopped(job, "time_limit", then="cancel")]
    history.stop(job, "time_limit", then="cancel")
    assert (lifecycle_facts(history), history.state.deadlines.next(0)) == ([], None)
    history.end(job, 143)

    assert lifecycle_facts(history) == [ended(job, "failed", "time_limit", 143)]


def test_a_preempted_job_is_requeued_whatever_its_exit_code_and_with_its_retries():
    history = new_history()
    job = history.run("ml/one")
    history.stop(job, "preempted")

    history.end(job, 0)

    assert lifecycle_facts(history) == [requeued(job, "preempted", min_runtime=2 * MINUTE)]


def test_a_preempted_job_that_declared_itself_finished_has_succeeded():
    history = new_history()
    job = history.run("ml/one")
    history.stop(job, "preempted")

    history.end(job, 0, finished=True)

    assert lifecycle_facts(history) == [ended(job, "succeeded", "finished", 0)]


def test_a_job_that_had_ended_before_the_order_reached_it_has_succeeded():
    history = new_history()
    job = history.run("ml/one")
    history.stop(job, "preempted")

    history.end(job, 0, stopping=False)

    assert lifecycle_facts(history) == [ended(job, "succeeded", "exited", 0)]


@pytest.mark.parametrize(
    ("own", "written", "then"),
    [
        (0, 0, 2 * MINUTE),
        (2 * MINUTE, 0, 4 * MINUTE),
        (0, 10 * MINUTE, 20 * MINUTE),
        (40 * MINUTE, 0, HOUR),
        (HOUR, 0, HOUR),
        (0, 2 * HOUR, 2 * HOUR),
    ],
)
def test_each_preemption_doubles_the_jobs_own_minimum_run_time_up_to_an_hour(own, written, then):
    history = new_history(preemption=terms(min_runtime=written))
    job = history.run("ml/one")
    job.min_runtime = own
    history.stop(job, "preempted")

    history.end(job, 143)

    assert lifecycle_facts(history) == [requeued(job, "preempted", min_runtime=then)]


def test_a_job_preempted_once_too_often_is_cancelled():
    history = new_history(preemption=terms(max_preemptions=1))
    job = history.run("ml/one")
    history.stop(job, "preempted")
    history.end(job, 143)
    assert lifecycle_facts(history) == [requeued(job, "preempted", min_runtime=2 * MINUTE)]
    history.allocate()
    history.allocate()
    history.start(job)
    history.stop(job, "preempted")
    history.end(job, 143)

    assert lifecycle_facts(history) == [ended(job, "cancelled", "max_preemptions", 143, attempt=2)]


def test_a_policy_may_have_its_preempted_jobs_cancelled():
    history = new_history(preemption=terms(on_preempt="cancel"))
    job = history.run("ml/one")
    history.append_facts(stop(job, "preempted"), by="allocator")

    history.end(job, 143)

    assert lifecycle_facts(history) == [ended(job, "cancelled", "preempted", 143)]


def test_a_policy_may_have_its_preempted_jobs_wait_behind_all_others():
    history = new_history(preemption=terms(on_preempt="requeue_last"))
    job = history.run("ml/one")
    order = stop(job, "preempted")
    history.append_facts(order, by="allocator")

    history.end(job, 143)

    assert order.ladder.then == "requeue"
    assert lifecycle_facts(history) == [requeued(job, "preempted", min_runtime=2 * MINUTE, last=True)]


@pytest.mark.parametrize("on_preempt", ["requeue", "requeue_last"])
def test_a_drained_job_is_requeued_and_its_minimum_run_time_stays(on_preempt):
    history = new_history(preemption=terms(on_preempt=on_preempt))
    job = history.run("ml/one")
    history.stop(job, "drain")

    history.end(job, 143)

    assert lifecycle_facts(history) == [requeued(job, "drain")]


@pytest.mark.parametrize(
    ("cause", "then"), [("preempted", "cancel"), ("cancelled", "cancel"), ("time_limit", "cancel"), ("gang_broken", "requeue")]
)
def test_the_order_to_stop_carries_the_whole_ladder_of_the_policy(cause, then):
    history = new_history(preemption=terms(on_preempt="cancel", callback_grace=5 * SECOND, term_grace=7 * SECOND))
    job = history.run("ml/one")

    ladder = Ladder(cause=cause, callback_grace=5 * SECOND, term_grace=7 * SECOND, then=then, preemptor="default.bob.x")
    assert stop(job, cause, preemptor="default.bob.x") == f.StopOrderedV1(job=job.key, attempt=1, ladder=ladder)


def test_a_job_is_settled_once_however_much_has_happened_to_it():
    history = new_history()
    job = history.run("ml/one", time_limit=MINUTE)
    history.cancel(job)
    history.wait(MINUTE)
    assert lifecycle_facts(history) == [stopped(job, "cancelled", then="cancel")]

    history.end(job, 1)

    assert lifecycle_facts(history) == [ended(job, "cancelled", "cancelled", 1)]


def test_a_job_that_documents_have_overtaken_while_it_ran_is_dismissed_as_soon_as_it_would_wait_again():
    history = new_history()
    job = history.run("ml/three", max_retries=1)
    history.law(d.Documents(policies=(policy("ml", 2, limit=gpus(2)),)))

    history.end(job, 1)

    message = "it asks for 3 gpu, the limit of policy default/ml is 2"
    dismissed = f.JobDismissedV1(job=job.key, reason="EXCEEDS_POLICY_LIMIT", message=message)
    assert lifecycle_facts(history) == [requeued(job, "failed"), dismissed]


def suspended(history: History, job, *ranks: int) -> None:
    """Replicas policy_in_pool still."""
    for rank in ranks or tuple(job.leases):
        history.append_facts(
            f.LeaseSuspendedV1(job=job.key, attempt=job.attempt, rank=rank, at=history.now), by=f"node.{job.leases[rank].node}"
        )


def pausing(queue: str = "ml/one", **fields: object) -> tuple[History, JobRecord]:
    """A job that is suspended."""
    history = new_history(preemption=terms(on_preempt="suspend", suspend_max=HOUR, **fields))
    job = history.run(queue)
    history.append_facts(stop(job, "preempted", preemptor="default.bob.x"), by="allocator")
    assert job.stop.then == "suspend"
    suspended(history, job)
    return history, job


def killed(history: History, job) -> None:
    for rank in tuple(job.leases):
        history.end(job, 137, rank=rank, outcome="killed", stopping=True)


@pytest.mark.parametrize("cause", ["suspend_max", "drain", "device_lost"])
def test_a_suspension_ends_after_its_time_on_a_drain_and_when_its_device_is_gone_and_the_job_is_requeued(cause):
    """R29: it was preempted, and its own minimum run time doubles once."""
    history, job = pausing()
    assert lifecycle_facts(history) == []

    if cause == "suspend_max":
        history.wait(HOUR)
    elif cause == "drain":
        history.append_facts(f.NodeDrainOrderedV1(author="default.admin", node="n1"))
    else:
        (share,) = job.leases[0].devices
        devices = tuple(Device(device=f"gpu{number}", model="H100", memory=81_920) for number in range(4))
        left = tuple(device for device in devices if device.device != share.device)
        back = f.NodeRegisteredV1(node="n1", labels={"site": "hall"}, devices=left, cpu=64_000, memory=1_048_576, at=0)
        history.append_facts(back, by="node.n1")
    assert lifecycle_facts(history) == [stopped(job, cause)]
    history.stop(job, cause)
    assert lifecycle_facts(history) == []
    killed(history, job)

    assert lifecycle_facts(history) == [requeued(job, cause, min_runtime=2 * MINUTE)]


def test_a_suspended_job_whose_node_is_lost_is_requeued_like_any_other():
    """R32."""
    history, job = pausing()
    history.append_facts(LOST, by="preemption")
    history.append_facts(*lifecycle_facts(history), by="allocator")

    again = {"not_before": history.now + SECOND, "may_overlap": True, "min_runtime": 2 * MINUTE}
    assert lifecycle_facts(history) == [requeued(job, "node_lost", **again)]


def test_a_suspended_job_is_cancelled_by_its_ladder():
    history, job = pausing()
    history.cancel(job)
    assert lifecycle_facts(history) == [stopped(job, "cancelled", then="cancel")]
    history.stop(job, "cancelled", then="cancel")
    killed(history, job)

    assert lifecycle_facts(history) == [ended(job, "cancelled", "cancelled", 137)]


def test_a_suspended_job_is_requeued_by_its_ladder():
    """R29: it was preempted when it was suspended, and that counts."""
    history, job = pausing()
    history.requeue(job)
    assert lifecycle_facts(history) == [stopped(job, "requeued")]
    history.stop(job, "requeued")
    killed(history, job)

    assert lifecycle_facts(history) == [requeued(job, "requeued", min_runtime=2 * MINUTE)]


def test_a_job_that_ends_while_it_is_suspended_was_preempted():
    """R30."""
    history, job = pausing()
    killed(history, job)

    assert lifecycle_facts(history) == [requeued(job, "suspension_lost", min_runtime=2 * MINUTE)]


def test_a_gang_whose_part_ends_while_it_is_suspended_is_requeued_as_a_whole():
    """R35."""
    history, job = pausing("ml/gang")
    history.end(job, 137, rank=1, outcome="killed", stopping=True)
    assert lifecycle_facts(history) == [stopped(job, "suspension_lost")]


def test_a_gang_with_a_part_that_its_node_cannot_suspend_is_requeued_as_a_whole():
    """R29, R35."""
    history = new_history(preemption=terms(on_preempt="suspend"))
    job = history.run("ml/gang")
    history.append_facts(stop(job, "preempted", preemptor="default.bob.x"), by="allocator")
    suspended(history, job, 0)
    history.end(job, 143, rank=1)
    again = stopped(job, "preempted", preemptor="default.bob.x")
    assert lifecycle_facts(history) == [again]
    history.append_facts(again, by="allocator")
    assert lifecycle_facts(history) == []
    killed(history, job)

    assert lifecycle_facts(history) == [requeued(job, "preempted", min_runtime=2 * MINUTE)]


def test_who_was_preempted_once_too_often_is_not_suspended_first():
    """R29."""
    history = new_history(preemption=terms(on_preempt="suspend", max_preemptions=0))
    job = history.run("ml/one")
    order = stop(job, "preempted")
    assert order.ladder.then == "cancel"
    history.append_facts(order, by="allocator")
    history.end(job, 143)

    assert lifecycle_facts(history) == [ended(job, "cancelled", "max_preemptions", 143)]


def test_what_is_deleted_with_its_jobs_cancels_who_waits_and_stops_who_runs():
    history = new_history()
    runs, waits = history.run("ml/one"), history.admit("ml/two")
    history.append_facts(f.ObjectClosedV1(author="a.b", kind="policy", tenant="default", name="ml", mode="cancel"))

    assert lifecycle_facts(history) == [ended(waits, "cancelled", "deleted", attempt=0), stop(runs, "deleted", then="cancel")]
    history.append_facts(stop(runs, "deleted", then="cancel"), ended(waits, "cancelled", "deleted", attempt=0), by="allocator")
    assert lifecycle_facts(history) == []


def test_a_pool_that_is_deleted_with_its_jobs_only_sends_them_away():
    history = new_history()
    runs, _waits = history.run("ml/one"), history.admit("ml/two")
    history.append_facts(f.ObjectClosedV1(author="a.b", kind="pool", name="hall", mode="cancel"))

    assert lifecycle_facts(history) == [stop(runs, "deleted", then="requeue")]


@pytest.mark.parametrize("mode", ["freeze", "drain"])
def test_what_is_frozen_or_drained_stops_no_job(mode):
    history = new_history()
    history.run("ml/one")
    history.admit("ml/one")
    history.append_facts(f.ObjectClosedV1(author="a.b", kind="policy", tenant="default", name="ml", mode=mode))

    assert lifecycle_facts(history) == []


def test_a_window_that_closed_and_stops_what_runs_does_so_by_the_ladder_and_the_policys_terms():
    history = new_history(
        windows=(d.Window(days=("thu",), opens=0, closes=60, on_close="preempt"),), preemption=terms(on_preempt="cancel")
    )
    runs, _waits = history.run("ml/one"), history.admit("ml/one")
    history.append_facts(f.PolicyGatedV1(tenant="default", policy="ml", shut=True), by="allocator")
    assert lifecycle_facts(history) == []
    history.append_facts(f.PolicyGatedV1(tenant="default", policy="ml", shut=True, stops=True), by="allocator")

    (ordered,) = lifecycle_facts(history)
    assert (ordered.job, ordered.ladder.cause, ordered.ladder.then) == (runs.key, "window", "cancel")
    history.append_facts(ordered, by="allocator")
    assert lifecycle_facts(history) == []


def test_what_a_node_stopped_with_is_revoked_and_what_it_was_granted_since_waits_for_it():
    """R36: facts of an earlier life may come after new grants."""
    history = new_history()
    early = history.run("ml/one")
    read = history.state.sequence
    late = history.admit("ml/one")
    history.allocate()
    history.append_facts(f.NodeStoppedV1(node="n1", through=read, at=history.now), by="node.n1")

    assert lifecycle_facts(history) == [f.LeaseRevokedV1(job=early.key, attempt=1, rank=0, cause="node_stopped")]

    history.state.terms.level = 1  # release 0.1.0 meant everything
    history.append_facts(f.NodeStoppedV1(node="n1", through=read, at=history.now), by="node.n1")
    revoked = [f.LeaseRevokedV1(job=job.key, attempt=1, rank=0, cause="node_stopped") for job in (early, late)]
    assert lifecycle_facts(history) == revoked


def test_a_start_that_was_refused_for_another_lease_goes_back_into_line_and_may_come_to_the_same_node():
    """R36: none_before is to blame. A second later, so that node and ledger have time to agree."""
    history = new_history()
    job = history.admit("ml/one")
    history.allocate()
    history.end(job, None, outcome="refused", message="device gpu0 is not free", held_by="x/1/0")

    assert lifecycle_facts(history) == [requeued(job, "refused", not_before=history.now + SECOND)]
    history.append_facts(*lifecycle_facts(history), by="allocator")
    assert (history.state.nodes["n1"].refusals, job.avoids) == ({}, {})


def refuse(history: History, message: str = "no") -> None:
    job = history.admit("ml/one")
    history.allocate()
    history.end(job, None, outcome="refused", message=message)
    history.append_facts(*lifecycle_facts(history), by="allocator")
    history.append_facts(f.JobEndedV1(job=job.key, attempt=1, state="cancelled", cause="cancelled"), by="allocator")


def test_a_node_that_was_set_aside_checks_itself_after_ten_minutes_and_tries_one_job_and_if_that_fails_waits_twice_as_long():
    """R36."""
    history = new_history()
    for _ in range(3):
        refuse(history)
    history.append_facts(*set_aside(history.state, history.now), by="allocator")
    assert (list(set_aside(history.state, history.now)), next_check(history.state)) == ([], history.now + 10 * MINUTE)

    history.wait(10 * MINUTE)
    assert list(set_aside(history.state, history.now)) == [f.NodeCheckOrderedV1(node="n1")]
    history.append_facts(f.NodeCheckOrderedV1(node="n1"), by="allocator")
    assert (list(set_aside(history.state, history.now)), next_check(history.state)) == ([], None)
    history.append_facts(f.NodeCheckedV1(node="n1", ordered=history.state.sequence, passed=True, at=history.now), by="node.n1")
    refuse(history, "still no")

    why = "it refused the job that it was given on probation, the last: still no"
    again = f.NodeSetAsideV1(node="n1", reason=why, until=history.now + 20 * MINUTE)
    assert list(set_aside(history.state, history.now)) == [again]
    history.append_facts(again, by="allocator")

    history.wait(20 * MINUTE)
    history.append_facts(*set_aside(history.state, history.now), by="allocator")
    history.append_facts(f.NodeCheckedV1(node="n1", ordered=1, passed=False, message="no disk", at=history.now), by="node.n1")
    failed = f.NodeSetAsideV1(node="n1", reason="its self-check failed: no disk", until=history.now + 40 * MINUTE)
    assert list(set_aside(history.state, history.now)) == [failed]


def test_below_the_level_a_node_that_refuses_is_set_aside_until_an_operator_takes_it_back():
    history = new_history()
    history.state.terms.level = 1
    for _ in range(3):
        refuse(history)
    aside = f.NodeSetAsideV1(node="n1", reason="it refused the starts of 3 jobs in a row, the last: no")
    assert list(set_aside(history.state, history.now)) == [aside]
    history.append_facts(aside, by="allocator")
    history.wait(HOUR)
    assert list(set_aside(history.state, history.now)) == []


@pytest.mark.parametrize(
    ("left", "callback", "term"),
    [
        pytest.param(600 * SECOND, 60 * SECOND, 30 * SECOND, id="enough"),
        pytest.param(100 * SECOND, 50 * SECOND, 30 * SECOND, id="a shorter callback"),
        pytest.param(35 * SECOND, 0, 15 * SECOND, id="no callback"),
        pytest.param(5 * SECOND, 0, 0, id="at once"),
    ],
)
def test_jobs_leave_an_instance_that_is_taken_back_before_its_deadline(left, callback, term):  # R38
    history = new_history()
    job = history.run("ml/one")
    order = {"pool": "hall", "provider": "local", "offer": OfferTaken(name="spot"), "token": "t", "expires": history.now}
    history.append_facts(f.InstanceOrderedV1(instance="n1", **order), by="provisioner")
    notice = f.InstanceInterruptedV1(node="n1", kind="spot", deadline=history.now + left, at=history.now)
    history.append_facts(notice, by="node.n1")
    history.append_facts(f.InstanceReleasedV1(instance="n1", cause="interrupted"), by="provisioner")
    assert lifecycle_facts(history) == [stopped(job, "interrupted", callback_grace=callback, term_grace=term)]


@pytest.mark.parametrize(("callback", "left"), [(5 * MINUTE, 5 * MINUTE), (HOUR, 10 * MINUTE - 30 * SECOND)])
def test_when_the_cap_of_a_pool_is_reached_ladders_are_cut_to_ten_minutes(callback, left):  # R28, R38
    history = new_history(preemption=terms(callback_grace=callback, term_grace=30 * SECOND))
    job = history.run("ml/one")
    order = {"pool": "hall", "provider": "x", "offer": OfferTaken(name="o"), "token": "t", "expires": history.now + 1}
    history.append_facts(f.InstanceOrderedV1(instance="n1", **order), by="provisioner")
    history.append_facts(f.InstanceReleasedV1(instance="n1", cause="cap"), by="provisioner")
    assert lifecycle_facts(history) == [stopped(job, "drain", callback_grace=left, term_grace=30 * SECOND)]
