from __future__ import annotations

import pytest

from headrace.accounting.books import attempts
from headrace.accounting.books.rows import AttemptRow, LeaseRow
from headrace.contracts import facts as f


def lease(rank: int = 0, node: str = "n1", **more: object) -> LeaseRow:
    names = dict.fromkeys(("tenant", "user_name", "group_name", "policy", "profile", "pool"), "x")
    return LeaseRow(
        lease=rank, job="j", attempt=1, rank=rank, node=node, devices={}, amounts={}, preemptible=True, granted_at=10, heard_at=10,
        **names, **more,  # type: ignore[arg-type]
    )  # fmt: skip


def attempt(*leases: LeaseRow) -> AttemptRow:
    return AttemptRow("j", 1, "hq", 0, 10, leases={each.rank: each for each in leases})


@pytest.mark.parametrize(
    ("at", "now", "moment"),
    [(15, 20, 15), (5, 20, 10), (25, 20, 20), (5, 7, 10)],
    ids=["as told", "not before the fact before", "not after the record", "even where the record's own time lies before that"],
)
def test_a_moment_lies_between_the_leases_last_fact_and_the_record(at: int, now: int, moment: int) -> None:
    held = lease()
    assert attempts.fact_time(held, at, now) == moment
    assert held.heard_at == moment


def test_a_second_start_changes_nothing() -> None:
    held = lease()
    one = attempt(held)
    attempts.start(one, held, 12, 20)
    attempts.start(one, held, 15, 20)
    assert (held.started_at, one.started_at) == (12, 12)


def test_a_checkpoint_counts_for_all_replicas_that_run_and_moves_only_its_own_nodes_clock() -> None:
    here, there, gone = lease(0), lease(1, "n2"), lease(2, ended_at=11)
    one = attempt(here, there, gone)
    fact = f.CheckpointRegisteredV1(job="j", attempt=1, uri="c\0", step=3, at=15)
    assert attempts.checkpoint(one, fact, "n1", 20) == [here, there]
    assert [(each.checkpoint_at, each.heard_at) for each in (here, there, gone)] == [(15, 15), (15, 10), (None, 10)]
    assert (one.checkpoint, one.checkpoint_step, one.checkpoint_at) == ("c\ufffd", 3, 15)


def test_the_process_ends_before_the_devices_are_free_whatever_the_node_says() -> None:
    held = lease()
    one = attempt(held)
    fact = f.LeaseEndedV1(job="j", attempt=1, outcome="exited", exit_code=0, exited_at=18, at=15)
    assert attempts.release(one, held, fact, 20) == 15
    assert (held.exited_at, held.ended_at, one.ended_at) == (15, 15, 15)


def test_an_attempt_has_ended_when_its_last_lease_has() -> None:
    first, second = lease(0), lease(1)
    one = attempt(first, second)
    assert attempts.revoke(one, first, 30) == 30
    assert one.ended_at is None
    attempts.revoke(one, second, 25)
    assert (one.ended_at, second.outcome) == (30, "revoked")


@pytest.mark.parametrize(
    ("started", "checkpoint", "lost"),
    [(12, None, (12, 20)), (12, 15, (15, 20)), (12, 20, (None, None)), (None, None, (None, None)), (14, 11, (14, 20))],
    ids=[
        "since the start",
        "since the checkpoint",
        "all saved",
        "never started",
        "a checkpoint before the start is of another try",
    ],
)
def test_what_a_taken_job_lost(started: int | None, checkpoint: int | None, lost: tuple[int | None, int | None]) -> None:
    held = lease(started_at=started, checkpoint_at=checkpoint, exited_at=20, ended_at=21)
    attempts.settle(attempt(held), "preempted", None)
    assert (held.lost_from, held.lost_until) == lost


def test_a_job_that_ended_by_itself_lost_nothing() -> None:
    held = lease(started_at=12, exited_at=20, ended_at=21)
    one = attempt(held)
    assert attempts.settle(one, "exited", 7) == []
    assert (one.cause, one.exit_code, held.lost_from) == ("exited", 7, None)


def test_without_a_word_of_the_allocator_the_exit_code_is_the_first_bad_one() -> None:
    one = attempt(lease(0, exit_code=0), lease(1, exit_code=137), lease(2))
    attempts.settle(one, "preempted", None)
    assert one.exit_code == 137
    good = attempt(lease(0, exit_code=0))
    attempts.settle(good, "preempted", None)
    assert good.exit_code == 0
