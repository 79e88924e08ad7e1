from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.accounting.books.books import MEMORY, Books
from headrace.accounting.books.meter import LeaseUse
from headrace.accounting.books.rows import CapacityRow, FactRow, NodeRow, Position, RecordRow, VictimRow
from headrace.contracts import facts as f
from headrace.contracts.documents.model import Pool
from headrace.contracts.facts.fact import DeviceShare, Ladder, Place
from headrace.contracts.facts.levels import LEVEL, RELEASES
from headrace.contracts.facts.records import digest
from headrace.contracts.values.amounts import GPU_UNITS as GPU
from headrace.contracts.values.durations import SECOND
from headrace.contracts.values.ids import job_key, make_job_id
from tests.properties.campaign import examples

if TYPE_CHECKING:
    from tests.unit.accounting.conftest import Story, Tables


SUSPEND = Ladder(cause="preempted", callback_grace=0, term_grace=0, then="suspend")


def job(number: int) -> str:
    return job_key("acme", "alice", make_job_id(1_000 + number, bytes(10)))


def gpu_seconds(tables: Tables, through: int) -> dict[str, tuple[int, int]]:
    """Reserved and borrowed GPU-seconds of each policy up to a second."""
    sums: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for (lease, key, since), use in tables.usage.items():
        if key == "gpu":
            took = (use.until if use.until is not None else through * SECOND) - since
            sums[tables.leases[lease]["policy"]][0] += use.reserved * took
            sums[tables.leases[lease]["policy"]][1] += use.borrowed * took
    unit = GPU * SECOND
    assert all(total % unit == 0 for pair in sums.values() for total in pair)
    return {policy: (reserved // unit, borrowed // unit) for policy, (reserved, borrowed) in sums.items()}


def lost_by_the_provider(tables: Tables) -> dict[str, int]:
    """Unit-microseconds by key."""
    sums: dict[str, int] = defaultdict(int)
    for row, measures in tables.days.items():
        sums[row[8]] += measures[-1]
    return {key: total for key, total in sums.items() if total}


def test_v1_to_v3_are_charged_to_the_unit(story: Story, tables: Tables) -> None:
    story.policy(0, "rnd", 5)
    story.policy(0, "devops", 5)
    for number in (1, 2, 3):
        story.run(0, None, number, "rnd", 3)
    assert gpu_seconds(tables.settle(story.books), 10) == {"rnd": (50, 40)}
    story.end(10, job(3), outcome="killed")
    story.run(10, None, 4, "devops", 3)
    assert gpu_seconds(tables.settle(story.books), 20) == {"rnd": (100, 50), "devops": (30, 0)}
    story.end(20, job(2), outcome="killed")
    story.run(20, None, 5, "devops", 2)
    assert gpu_seconds(tables.settle(story.books), 30) == {"rnd": (130, 50), "devops": (80, 0)}


def test_v5_is_four_reserved_and_two_borrowed(story: Story, tables: Tables) -> None:
    story.policy(0, "p", 4)
    story.run(1, None, 1, "p", 6)
    tables.settle(story.books)
    assert tables.usage == {
        (5_000, "gpu", SECOND): LeaseUse(None, 4 * GPU, 2 * GPU),
        (5_000, "job", SECOND): LeaseUse(None, 0, 1),
    }


def test_a_lease_is_charged_from_its_grant_to_its_release_by_the_clock_of_its_node(story: Story, tables: Tables) -> None:
    story.policy(0, "p", 5)
    key = story.submit(1, 1, "p", 3)
    lease = story.grant(2, key, 3, resume_from="file:///c0", devices=(DeviceShare(device="gpu0", units=GPU),))
    story.start(2.5, key, reported=3)
    story.append_facts(
        8, "node.n1", f.CheckpointRegisteredV1(job=key, attempt=1, uri="file:///c1", step=7, at=round(7.5 * SECOND))
    )
    story.end(9, key, reported=9.5, exited_at=round(8.75 * SECOND), exit_code=3)
    story.append_facts(10, "allocator", f.JobEndedV1(job=key, attempt=1, state="failed", cause="exited", exit_code=3))
    tables.settle(story.books)
    assert tables.usage[lease, "gpu", 2 * SECOND] == LeaseUse(9 * SECOND, 3 * GPU, 0)
    assert tables.attempts == {
        (key, 1): {
            "job": key,
            "attempt": 1,
            "pool": "hq",
            "waiting_since": SECOND,
            "granted_at": 2 * SECOND,
            "started_at": 2_500_000,
            "ended_at": 9 * SECOND,
            "cause": "exited",
            "exit_code": 3,
            "resume_from": "file:///c0",
            "checkpoint": "file:///c1",
            "checkpoint_step": 7,
            "checkpoint_at": 7_500_000,
        }
    }
    assert tables.leases == {
        lease: {
            "lease": lease,
            "job": key,
            "attempt": 1,
            "rank": 0,
            "tenant": "acme",
            "user_name": "alice",
            "group_name": "p",
            "policy": "p",
            "profile": "any",
            "pool": "hq",
            "node": "n1",
            "devices": {"gpu0": GPU},
            "amounts": {"gpu": 3 * GPU, "job": 1},
            "preemptible": True,
            "granted_at": 2 * SECOND,
            "started_at": 2_500_000,
            "heard_at": 9 * SECOND,
            "checkpoint_at": 7_500_000,
            "exited_at": 8_750_000,
            "ended_at": 9 * SECOND,
            "outcome": "exited",
            "exit_code": 3,
            "lost_from": None,
            "lost_until": None,
            "service_account": False,
            "over_budget": False,
            "charged_at": 2 * SECOND,
        }
    }
    row = tables.jobs[key]
    assert (row.state, row.reason, row.exit_code, row.attempts, row.admitted, row.ended_at) == (
        "failed",
        "exited",
        3,
        1,
        4,
        10 * SECOND,
    )


def test_a_preempted_job_loses_its_work_since_the_checkpoint_and_a_failed_one_nothing(story: Story, tables: Tables) -> None:
    story.policy(0, "p", 5)
    for number, cause in enumerate(("preempted", "failed")):
        key = story.submit(1, number, "p", 1)
        story.grant(1, key, 1)
        story.start(2, key)
        story.append_facts(5, "node.n1", f.CheckpointRegisteredV1(job=key, attempt=1, uri="c", at=5 * SECOND))
        story.end(9, key, outcome="killed", exited_at=8 * SECOND, stopping=True)
        story.append_facts(9, "allocator", f.JobRequeuedV1(job=key, attempt=1, cause=cause))
    tables.settle(story.books)
    lost = {row["job"]: (row["lost_from"], row["lost_until"]) for row in tables.leases.values()}
    assert lost == {job(0): (5 * SECOND, 8 * SECOND), job(1): (None, None)}
    assert [row["cause"] for row in tables.attempts.values()] == ["preempted", "failed"]
    assert tables.jobs[job(0)].preemptions == 1


def test_a_revoked_lease_is_charged_until_it_is_taken_and_what_its_node_says_later_does_not_count(
    story: Story, tables: Tables
) -> None:
    story.policy(0, "p", 5)
    key = story.submit(1, 1, "p", 1)
    lease = story.grant(1, key, 1)
    story.start(2, key)
    story.append_facts(60, "preemption", f.NodeLostV1(node="n1", silent_for=58 * SECOND))
    story.append_facts(61, "allocator", f.LeaseRevokedV1(job=key, attempt=1, cause="node_lost"))
    story.append_facts(61, "allocator", f.JobRequeuedV1(job=key, attempt=1, cause="node_lost"))
    story.end(30, key, reported=70)
    tables.settle(story.books)
    assert tables.usage[lease, "gpu", SECOND] == LeaseUse(61 * SECOND, GPU, 0)
    assert (tables.leases[lease]["outcome"], tables.leases[lease]["lost_from"]) == ("revoked", 2 * SECOND)
    assert (tables.attempts[key, 1]["cause"], tables.nodes["n1"].state) == ("node_lost", "lost")


def test_a_gang_is_charged_replica_by_replica_and_runs_when_all_run(story: Story, tables: Tables) -> None:
    story.policy(0, "p", 2)
    key = story.submit(0, 1, "p", 2, replicas=2)
    first, second = story.grant(1, key, 2), story.grant(1, key, 2, rank=1)
    story.start(2, key)
    assert tables.settle(story.books).attempts[key, 1]["started_at"] is None
    story.start(3, key, rank=1)
    story.end(8, key)
    story.end(9, key, rank=1)
    tables.settle(story.books)
    assert (tables.attempts[key, 1]["started_at"], tables.attempts[key, 1]["ended_at"]) == (3 * SECOND, 9 * SECOND)
    assert {use for use in tables.usage.items() if use[0][1] == "gpu"} == {
        ((first, "gpu", SECOND), LeaseUse(8 * SECOND, 2 * GPU, 0)),
        ((second, "gpu", SECOND), LeaseUse(8 * SECOND, 0, 2 * GPU)),
        ((second, "gpu", 8 * SECOND), LeaseUse(9 * SECOND, 2 * GPU, 0)),
    }


def test_a_grant_that_the_fold_did_not_take_begins_nothing(story: Story, tables: Tables) -> None:
    story.policy(0, "p", 2)
    key = story.submit(0, 1, "p", 1)
    story.append_facts(1, "governance", f.PoolDeletedV1(author="a.b", name="hq"))
    story.grant(1, key, 1)
    tables.settle(story.books)
    assert (tables.leases, tables.attempts, tables.usage) == ({}, {}, {})
    assert tables.jobs[key].state == "pending"


def test_a_rejected_job_is_in_the_books_and_never_hides_one_that_was_admitted(story: Story, tables: Tables) -> None:
    story.policy(0, "p", 2)
    key = story.submit(1, 1, "p", 1)
    for number in (1, 2):
        fact = f.JobRejectedV1(job=job(number), policy="p", profile="any", reason="ID_REUSED", message="no")
        story.append_facts(2, "admission", fact)
    tables.settle(story.books)
    assert (tables.jobs[key].state, tables.jobs[job(2)].state) == ("pending", "rejected")
    assert (tables.jobs[job(2)].reason, tables.jobs[job(2)].ended_at) == ("ID_REUSED", 2 * SECOND)


def test_a_preemption_is_noted_with_its_victims_and_how_it_ended(story: Story, tables: Tables) -> None:
    story.policy(0, "p", 5)
    victim, preemptor = story.run(0, None, 1, "p", 3), story.submit(1, 2, "p", 2)
    name = f"{preemptor}@{story.append_facts(2, 'allocator', f.ReclaimOpenedV1(job=preemptor, pool='hq', cause='reclaim'))}"
    plan: dict[str, Any] = {
        "preemption": name,
        "job": preemptor,
        "pool": "hq",
        "cause": "reclaim",
        "victims": (f.preemption.Victim(job=victim, attempt=1, policy="p", lost=2),),
        "places": (Place(node="n1", amounts={"gpu": 2 * GPU}),),
        "rule": "R26",
    }
    ordered = story.append_facts(3, "allocator", f.PreemptionOrderedV1(**plan))
    tables.settle(story.books)
    settled = f.PreemptionSettledV1(preemption=name, job=preemptor, victims=1, lost=3, to_signal=4, grace=5, to_release=6)
    story.append_facts(7, "preemption", settled)
    story.append_facts(8, "allocator", f.NominationEndedV1(preemption=name, job=preemptor, why="timeout"))
    tables.settle(story.books)
    assert tables.preemptions == {
        name: {
            "preemption": name,
            "job": preemptor,
            "pool": "hq",
            "cause": "reclaim",
            "rule": "R26",
            "ordered": ordered,
            "ordered_at": 3 * SECOND,
            "settled_at": 7 * SECOND,
            "to_signal": 4,
            "grace": 5,
            "to_release": 6,
            "lost": 3,
            "unused": "timeout",
        }
    }
    assert tables.victims == [VictimRow(name, victim, 1, "p", 2)]


def test_what_a_pool_has_is_noted_whenever_it_changes(story: Story, tables: Tables) -> None:
    story.append_facts(5, "node.n1", f.NodeStoppedV1(node="n1", at=5 * SECOND))
    story.append_facts(6, "governance", f.PoolAppliedV1(author="a.b", pool=Pool(name="hq", selector={"site": "hq"})))
    gpu = [row for row in tables.settle(story.books).capacity if row.key == "gpu"]
    assert gpu == [
        CapacityRow("hq", "gpu", 1, 0, 0, 0),
        CapacityRow("hq", "gpu", 2, 0, 100 * GPU, 100 * GPU),
        CapacityRow("hq", "gpu", 3, 5 * SECOND, 100 * GPU, 0),
    ]
    assert tables.nodes == {"n1": NodeRow("n1", "hq", "stopped", "", {"site": "hq"}, "H100", 100, 10**6, 10**6, 0)}


def test_every_record_is_copied_byte_for_byte_the_void_ones_too(story: Story, tables: Tables) -> None:
    story.append_bytes(SECOND, "node.n1", b"rubbish")
    tables.settle(story.books)
    assert [row.payload for row in tables.records] == [message.payload for message in story.messages]
    last = tables.records[-1]
    assert last == RecordRow(3, "hr.ledger.node.n1", SECOND, None, digest(b"rubbish"), last.void, b"rubbish")
    assert last.void.startswith("record 3 on hr.ledger.node.n1 is void: ")
    assert tables.nodes["n1"].cordoned.startswith("its record 3 was void")
    assert tables.position == Position(3, digest(b"rubbish"), 0)
    assert tables.facts == [
        FactRow(1, 0, "pool.applied.v1", "hq"),
        FactRow(1, 1, "profile.applied.v1", "any"),
        FactRow(2, 0, "node.registered.v1", "n1"),
    ]


def test_a_reservation_is_noted_only_where_it_changes_and_ends_with_the_policy(story: Story, tables: Tables) -> None:
    story.policy(1, "p", 5, keys={"license/x": 2})
    story.policy(2, "p", 5)
    story.append_facts(3, "governance", f.PolicyDeletedV1(author="a.b", tenant="acme", name="p"))
    tables.settle(story.books)
    assert [row[1:] for row in tables.reservations] == [
        ("p", "gpu", 3_000, SECOND, 5 * GPU, "p"),
        ("p", "license/x", 3_000, SECOND, 2, "p"),
        ("p", "license/x", 4_000, 2 * SECOND, 0, "p"),
        ("p", "gpu", 5_000, 3 * SECOND, 0, ""),
    ]


def test_a_release_known_later_than_the_books_remember_is_a_gap_until_it_is_closed(story: Story, tables: Tables) -> None:
    story.policy(0, "p", 3)
    old = story.run(1, None, 1, "p", 3)
    young = story.run(2, None, 2, "p", 3)
    tables.settle(story.books)
    story.submit(100, 3, "p", 1)
    story.grant(100, job(3), 1)
    tables.settle(story.books)
    assert story.books.gaps() == []
    story.end(50, old, reported=101)
    assert {(gap.meter.key, gap.since) for gap in story.books.gaps()} == {("gpu", 50 * SECOND), ("job", 50 * SECOND)}
    assert 50 * SECOND < 100 * SECOND - MEMORY
    tables.settle(story.books)
    lease = next(row["lease"] for row in tables.leases.values() if row["job"] == young)
    assert tables.usage[lease, "gpu", 2 * SECOND] == LeaseUse(50 * SECOND, 0, 3 * GPU)
    assert tables.usage[lease, "gpu", 50 * SECOND] == LeaseUse(None, 3 * GPU, 0)


def play(story: Story, choices: list[tuple[int, int, int, int]]) -> None:
    """A history out of numbers: what, about which job, how much later, how late known."""
    story.policy(0, "p", 4)
    story.policy(0, "q", 2)
    holding: dict[str, int] = {}
    at = 1
    for number, (what, pick, passed, late) in enumerate(choices):
        at += passed
        if what < 5 or not holding:
            gpus = 1 + pick % 4
            key = story.submit(at, number, "pq"[pick % 2], gpus, preemptible=what != 0)
            story.grant(at, key, gpus)
            holding[key] = 1
            if what % 2:
                story.start(at, key)
        elif what == 5:
            story.policy(at, "pq"[pick % 2], pick % 7)
        else:
            key = sorted(holding)[pick % len(holding)]
            attempt = holding.pop(key)
            story.end(at - late, key, attempt, reported=at, outcome="killed")
            story.append_facts(at, "allocator", f.JobRequeuedV1(job=key, attempt=attempt, cause="preempted"))
            if what == 6:
                story.grant(at, key, 1, attempt + 1)
                holding[key] = attempt + 1


CHOICES = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 99), st.integers(0, 4), st.integers(0, 40)), max_size=30)


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(CHOICES, st.lists(st.integers(1, 90)))
def test_the_rows_do_not_depend_on_how_messages_are_bundled_or_where_the_books_are_closed_and_opened_again(
    new_story: Callable[[], Story], new_tables: Callable[[], Tables], choices: list[tuple[int, int, int, int]], cuts: list[int]
) -> None:
    played = new_story()
    play(played, choices)
    whole = new_tables().settle(played.books)
    story, parts = new_story(), new_tables()
    for message in story.messages:
        assert message in played.messages[:2]
    for message in played.messages[2:]:
        story.read(message)
        if message.sequence in cuts:
            parts.settle(story.books)
            if message.sequence % 2:
                story.books = Books(story.ledger.state, parts.position)
                parts.restore(story.books, parts.position.now - MEMORY)
    parts.settle(story.books)
    assert vars(parts) == vars(whole)
    for (lease, key, _), use in whole.usage.items():
        assert use.reserved + use.borrowed == whole.leases[lease]["amounts"][key]
        assert use.until is None or use.until <= whole.position.now


def test_a_suspended_job_is_charged_for_no_gpu_until_it_goes_on(
    story: Story, tables: Tables, new_tables: Callable[[], Tables]
) -> None:
    """R29, R37; from books that were stored meanwhile it comes out the same."""
    story.policy(0, "p", 2)
    key = story.run(0, None, 1, "p", 3)
    story.append_facts(10, "allocator", f.StopOrderedV1(job=key, attempt=1, ladder=SUSPEND))
    story.append_facts(12, "node.n1", f.LeaseSuspendedV1(job=key, attempt=1, at=12 * SECOND))
    other = new_tables().take(story.books.settle())
    assert gpu_seconds(other, 100) == {"p": (24, 12)}
    books = Books(story.ledger.state, story.books.position)
    other.restore(books, 0)

    story.append_facts(50, "allocator", f.ResumeOrderedV1(job=key, attempt=1))
    story.append_facts(51, "node.n1", f.LeaseResumedV1(job=key, attempt=1, at=51 * SECOND))
    assert gpu_seconds(other.take(story.books.settle()), 60) == {"p": (44, 22)}
    story.end(70, key)
    assert gpu_seconds(other.take(story.books.settle()), 100) == {"p": (64, 32)}


def test_books_reach_to_where_a_suspension_that_took_no_time_is_over(story: Story, tables: Tables) -> None:
    """R37: nothing that is told ends after the moment up to which is counted."""
    story.policy(0, "p", 2)
    key = story.run(0, None, 1, "p", 3)
    story.append_facts(10, "allocator", f.StopOrderedV1(job=key, attempt=1, ladder=SUSPEND))
    story.append_facts(12, "node.n1", f.LeaseSuspendedV1(job=key, attempt=1, at=12 * SECOND))
    story.append_facts(12, "allocator", f.ResumeOrderedV1(job=key, attempt=1))
    tables.settle(story.books)
    (suspension,) = tables.suspensions.values()
    assert (suspension.since, suspension.until) == (12 * SECOND, 12 * SECOND + 1)
    assert (story.ledger.state.now, tables.position.now) == (12 * SECOND, 12 * SECOND + 1)
    story.append_facts(12, "node.n1", f.LeaseResumedV1(job=key, attempt=1, at=12 * SECOND))
    assert tables.settle(story.books).position.now == 12 * SECOND + 1
    story.end(40, key)
    assert tables.settle(story.books).position.now == 40 * SECOND


def test_a_lease_is_charged_from_its_real_start_and_what_it_held_before_is_lost_by_the_provider(
    amended: Story, tables: Tables, new_tables: Callable[[], Tables]
) -> None:
    """R37; a gang starts when all its replicas have (R35). Books that were stored meanwhile come to the same."""
    amended.policy(0, "p", 2)
    key = amended.submit(1, 1, "p", 1, replicas=2)
    facts = [
        f.LeaseGrantedV1(job=key, attempt=1, rank=rank, node="n1", pool="hq", amounts={"gpu": GPU, "job": 1 - rank})
        for rank in (0, 1)
    ]
    number = amended.append_facts(2, "allocator", *facts) * 1_000
    amended.start(5, key, rank=0)
    other = new_tables().take(amended.books.settle())
    books = Books(amended.ledger.state, amended.books.position)
    other.restore(books, 0)
    amended.books = books
    amended.start(6, key, rank=1, reported=7)
    amended.end(10, key, rank=0)
    amended.end(11, key, rank=1)
    other.take(amended.books.settle())
    assert {lease - number: (row["charged_at"], row["ended_at"]) for lease, row in other.leases.items()} == {
        0: (6 * SECOND, 10 * SECOND),
        1: (6 * SECOND, 11 * SECOND),
    }
    assert gpu_seconds(other, 100) == {"p": (9, 0)}
    assert lost_by_the_provider(other) == {"gpu": 2 * 4 * GPU * SECOND, "job": 4 * SECOND}


def test_a_start_that_never_came_is_not_charged(amended: Story, tables: Tables) -> None:  # R36
    amended.policy(0, "p", 2)
    for number, outcome in enumerate(("refused", "never_started", "lost")):
        key = amended.submit(1, number, "p", 2)
        amended.grant(2, key, 2)
        amended.end(602, key, outcome=outcome, exit_code=None)
        amended.append_facts(602, "allocator", f.JobRequeuedV1(job=key, attempt=1, cause="refused"))
    tables.settle(amended.books)
    assert tables.usage == {}
    assert lost_by_the_provider(tables) == {"gpu": 3 * 2 * 600 * GPU * SECOND, "job": 3 * 600 * SECOND}


def requeued_while_suspended(story: Story, tables: Tables, cause: str) -> tuple[int | None, int | None]:
    """From when to when the work of a job was lost that started at 0, saved at 4, was suspended at 12 and ended at 50."""
    story.policy(0, "p", 2)
    key = story.run(0, None, 1, "p", 2)
    story.start(0, key)
    story.append_facts(4, "node.n1", f.CheckpointRegisteredV1(job=key, attempt=1, uri="file:///c", at=4 * SECOND))
    story.append_facts(10, "allocator", f.StopOrderedV1(job=key, attempt=1, ladder=SUSPEND))
    story.append_facts(12, "node.n1", f.LeaseSuspendedV1(job=key, attempt=1, at=12 * SECOND))
    story.end(50, key)
    story.append_facts(51, "allocator", f.JobRequeuedV1(job=key, attempt=1, cause=cause))
    assert gpu_seconds(tables.settle(story.books), 100) == {"p": (24, 0)}
    (lease,) = tables.leases.values()
    return lease["lost_from"], lease["lost_until"]


CANNOT_GO_ON = pytest.mark.parametrize("cause", ["suspend_max", "device_lost", "suspension_lost"])


@CANNOT_GO_ON
def test_what_a_suspended_job_did_since_its_checkpoint_is_lost_if_it_cannot_go_on_where_it_is(
    cause: str, amended: Story, tables: Tables
) -> None:
    """R29, R25. No GPU is lost for the time in which it was suspended, because none was charged."""
    assert requeued_while_suspended(amended, tables, cause) == (4 * SECOND, 50 * SECOND)


@CANNOT_GO_ON
def test_before_rules_were_amended_that_was_not_counted_as_lost(cause: str, story: Story, tables: Tables) -> None:
    assert requeued_while_suspended(story, tables, cause) == (None, None)


def test_a_resumption_is_charged_from_when_the_node_says_that_it_runs(amended: Story, tables: Tables) -> None:
    amended.policy(0, "p", 2)
    key = amended.run(0, None, 1, "p", 2)
    amended.start(0, key)
    amended.append_facts(10, "allocator", f.StopOrderedV1(job=key, attempt=1, ladder=SUSPEND))
    amended.append_facts(12, "node.n1", f.LeaseSuspendedV1(job=key, attempt=1, at=12 * SECOND))
    amended.append_facts(50, "allocator", f.ResumeOrderedV1(job=key, attempt=1))
    amended.append_facts(55, "node.n1", f.LeaseResumedV1(job=key, attempt=1, at=53 * SECOND))
    amended.end(60, key)
    assert gpu_seconds(tables.settle(amended.books), 100) == {"p": (38, 0)}
    (suspension,) = tables.suspensions.values()
    assert (suspension.since, suspension.until) == (12 * SECOND, 53 * SECOND)


def test_what_was_granted_before_rules_were_amended_stays_charged_from_its_grant(story: Story, tables: Tables) -> None:
    story.policy(0, "p", 4)
    early = story.run(1, None, 1, "p", 1)
    story.append_facts(3, "governance", f.InstallationLevelV1(level=LEVEL, release=RELEASES[-1]))
    late = story.run(3, None, 2, "p", 1)
    story.start(5, early)
    story.start(5, late)
    story.end(9, early)
    story.end(9, late)
    assert gpu_seconds(tables.settle(story.books), 100) == {"p": (8 + 4, 0)}
    assert lost_by_the_provider(tables) == {"gpu": 2 * GPU * SECOND, "job": 2 * SECOND}


def test_what_ends_while_it_is_suspended_is_charged_until_it_was(story: Story, tables: Tables) -> None:
    story.policy(0, "p", 2)
    key = story.run(0, None, 1, "p", 3)
    story.append_facts(10, "allocator", f.StopOrderedV1(job=key, attempt=1, ladder=SUSPEND))
    story.append_facts(12, "node.n1", f.LeaseSuspendedV1(job=key, attempt=1, at=12 * SECOND))
    story.end(40, key, outcome="killed")
    assert gpu_seconds(tables.settle(story.books), 100) == {"p": (24, 12)}
