"""A job's story for people."""

from __future__ import annotations

from typing import get_args

import pytest

from headrace.contracts import facts as f
from headrace.contracts.facts.fact import Place
from headrace.contracts.facts.preemption import Victim
from headrace.contracts.facts.records import Record
from headrace.contracts.messages.queries import FactView
from headrace.contracts.values.durations import MILLISECOND, SECOND
from headrace.domain.state.state import State
from headrace.views.job_lines import lines_of

ALICE = "acme.alice.01k00000000000000000000001"
ALICE_2 = "acme.alice.01k00000000000000000000002"
BOB = "acme.bob.01k00000000000000000000003"
RIVAL = "rival.mallory.01k00000000000000000000004"
BASE = {"job": ALICE, "attempt": 1}
NODE = {**BASE, "at": 5}
PLAN = {"preemption": f"{ALICE}@9", "job": ALICE, "pool": "hall"}


def record(*facts):
    return Record(by="allocator", now=77, engine="test", as_of=0, facts=facts)


def texts_of(fact, job=ALICE):
    return [(line.text, line.rule) for line in lines_of(record(fact), 9, job, State())]


def test_a_line_says_who_when_and_where():
    fact = f.JobEndedV1(job=ALICE, attempt=1, state="failed", cause="time_limit", exit_code=143)
    assert list(lines_of(record(fact), 9, ALICE, State())) == [
        FactView(sequence=9, at=77, by="allocator", type="job.ended.v1", text="failed: time limit, exit code 143", rule="R30")
    ]


def test_facts_about_others_say_nothing():
    others = (f.JobEndedV1(job=BOB, attempt=1, state="failed", cause="exited"), f.WishesJudgedV1(through=3))
    assert list(lines_of(record(*others), 9, ALICE, State())) == []


def test_the_example_follows_a_job_through_a_preemption(hall):
    job, rival = hall.job(1), hall.job(2, tenant="rival")
    hall.admit(job)
    hall.grant(job, ("gpu01", "g0"), inside=True)
    hall.start(job)
    hall.stop(job, "preempted", preemptor=rival)
    hall.append_facts(
        "node.gpu01", f.LeaseRungV1(job=job, attempt=1, rung="callback", at=1, took=1_500 * MILLISECOND, result="exit 0")
    )
    hall.append_facts("node.gpu01", f.CheckpointRegisteredV1(job=job, attempt=1, uri="/ckpt/7", step=7, at=1))
    hall.end(job, exit_code=143, stopping=True)
    hall.append_facts("allocator", f.JobRequeuedV1(job=job, attempt=1, cause="preempted", min_runtime=1))
    story = []
    for message in hall.log.messages_after(0):
        from headrace.contracts.transport.codec import decode_record

        story += [line.text for line in lines_of(decode_record(message.payload), message.sequence, job, State())]
    assert story == [
        "admitted to dev/one: asks for gpu 1",
        "attempt 1 granted gpu 1 on gpu01 of pool hall (g0), inside the reservation",
        "started, isolation watchdog",
        "told to stop: preempted for a job of another tenant; 1m for its callback, 30s after SIGTERM; then requeue",
        "callback: exit 0, took 1s500ms",
        "saved its work at step 7: /ckpt/7",
        "exited, exit code 143",
        "pending again: preempted",
    ]


@pytest.mark.parametrize(
    ("fact", "line"),
    [
        (
            f.JobAdmittedV1(job=ALICE, policy="dev", profile="one", request={"gpu": 126_000}, replicas=2, preemptible=False),
            ("admitted to dev/one: asks for gpu 1, 2 times, non-preemptible", "R13"),
        ),
        (
            f.JobRejectedV1(job=ALICE, policy="dev", profile="one", reason="TOO_FAST", message="slow down"),
            ("rejected: TOO_FAST: slow down", "R13"),
        ),
        (f.JobCancelRequestedV1(job=ALICE, by="acme.bob"), ("acme.bob wants it to end", "R14")),
        (f.JobCancelRequestedV1(job=ALICE, by="acme.bob", reason="typo"), ("acme.bob wants it to end: typo", "R14")),
        (f.JobRequeueRequestedV1(job=ALICE, attempt=1, by="acme.bob"), ("acme.bob wants it back in line", "R29")),
        (
            f.JobRequeueRequestedV1(job=ALICE, attempt=1, by="acme.bob", reason="slow node"),
            ("acme.bob wants it back in line: slow node", "R29"),
        ),
        (
            f.LeaseGrantedV1(
                **BASE, rank=1, node="n", pool="hall", amounts={"cpu": 1_000, "job": 1}, resume_from="/c", rule="R27"
            ),
            ("attempt 1 granted cpu 1 on n of pool hall (replica 1), borrowed; resumes from /c", "R27"),
        ),
        (f.LeaseRevokedV1(**BASE, cause="node_lost"), ("its lease was taken back: node lost", "R32")),
        (f.JobRequeuedV1(**BASE, cause="preempted", last=True), ("pending again: preempted, behind all that wait", "R29")),
        (
            f.JobRequeuedV1(**BASE, cause="node_lost", not_before=2 * SECOND),
            ("pending again: node lost, not before 1970-01-01T00:00:02.000Z", "R32"),
        ),
        (f.JobDismissedV1(job=ALICE, reason="QUEUE_DELETED", message="gone"), ("dismissed: QUEUE_DELETED: gone", "R10")),
        (
            f.ReclaimOpenedV1(job=ALICE, pool="hall", cause="reclaim"),
            ("may take back (reclaim): victims are looked for in pool hall", "R19"),
        ),
        (
            f.PreemptionNoneV1(**PLAN, why="nobody is above"),
            ("no job has to yield for it in pool hall: nobody is above", "R26"),
        ),
        (
            f.PreemptionDismissedV1(**PLAN, why=f"{RIVAL} ended"),
            ("the plan for it was dropped: a job of another tenant ended", "R26"),
        ),
        (
            f.NominationEndedV1(preemption="p", job=ALICE, why="the node is lost"),
            ("nothing is kept for it any more: the node is lost", "R27"),
        ),
        (
            f.PreemptionSettledV1(
                preemption="p", job=ALICE, victims=2, lost=7, to_signal=MILLISECOND, grace=3 * SECOND, to_release=0
            ),
            ("all victims have left: signal 1ms, grace 3s, release 0s", "R27"),
        ),
        (f.LeaseOverdueV1(**BASE, node="gpu01"), ("gpu01 has not stopped it in time", "R28")),
        (
            f.LeaseEndedV1(**NODE, outcome="never_started", exited_at=1, message="a stop came first", finished=True),
            ("never started, declared finished: a stop came first", "R30"),
        ),
    ],
)
def test_each_fact_has_its_line(fact, line):
    assert texts_of(fact) == [line]


def plan(*victims):
    return f.PreemptionOrderedV1(
        **PLAN,
        cause="reclaim",
        victims=tuple(Victim(job=job, attempt=1, policy="dev", lost=lost) for job, lost in victims),
        places=(Place(node="gpu02"), Place(node="gpu01")),
        rule="R26",
    )


def test_a_preemptor_reads_whom_it_takes_from_but_not_in_other_tenants():
    text = f"takes back from {ALICE_2[-26:]}, bob's {BOB[-26:]}, jobs of another tenant (reclaim), kept for it on gpu01, gpu02"
    assert texts_of(plan((ALICE_2, 1), (BOB, 2), (RIVAL, 3))) == [(text, "R26")]


@pytest.mark.parametrize(
    ("victim", "line"),
    [
        (BOB, f"has to yield to alice's {ALICE[-26:]} (reclaim in pool hall); at most 7 GPU-seconds of work are lost"),
        (RIVAL, "has to yield to a job of another tenant (reclaim in pool hall); at most 7 GPU-seconds of work are lost"),
    ],
)
def test_a_victim_reads_for_whom_but_not_in_other_tenants(victim, line):
    assert texts_of(plan((victim, 7)), job=victim) == [(line, "R26")]


def test_a_victim_that_loses_nothing_reads_that():
    assert texts_of(plan((BOB, 0)), job=BOB)[0][0].endswith("; no work is lost")


def test_every_fact_about_a_job_has_a_line_but_a_mere_plan():
    from headrace.views.job_lines import _OF_THE_JOB

    about_jobs = {kind for kind in get_args(f.AnyFact) if "job" in kind.__struct_fields__}
    assert about_jobs - set(_OF_THE_JOB) == {f.PreemptionProposedV1}
