from __future__ import annotations

import pytest

from headrace.contracts.transport import subjects
from headrace.contracts.values.ids import IdError

JOB = "01kgz5v0q8x4m2c7b9n3d6f1ha"


@pytest.mark.parametrize(
    ("built", "subject"),
    [
        (subjects.submit("acme", "alice", "ai-dev", "half"), "hr.submit.acme.alice.ai-dev.half"),
        (subjects.cancel("acme", "alice", JOB), f"hr.cancel.acme.alice.{JOB}"),
        (subjects.requeue("acme", "alice", JOB), f"hr.requeue.acme.alice.{JOB}"),
        (subjects.ledger("allocator"), "hr.ledger.allocator"),
        (subjects.ledger(subjects.node_writer("gpu01-hq")), "hr.ledger.node.gpu01-hq"),
        (subjects.feed("acme", "job", "started", JOB), f"hr.feed.acme.job.started.{JOB}"),
        (subjects.orders("gpu01-hq"), "hr.orders.gpu01-hq"),
        (subjects.node_logs("gpu01-hq"), "hr.logs.gpu01-hq"),
        (subjects.telemetry("gpu01-hq", "heartbeat"), "hr.telemetry.gpu01-hq.heartbeat"),
        (subjects.query("feed", "jobs", "acme", "alice"), "hr.query.feed.jobs.acme.alice"),
        (subjects.node_query("gpu01-hq"), "hr.query.orders.node.gpu01-hq"),
    ],
)
def test_every_subject_has_its_place_in_the_tree_of_names(built, subject):
    assert built == subject


@pytest.mark.parametrize("subject", ["hr.submit.acme.alice.ai-dev.half", f"hr.cancel.acme.alice.{JOB}", "hr.submit.*.*.*.*"])
def test_what_a_user_publishes_reaches_services_on_another_subject_that_leads_back_to_it(subject):
    assert subjects.intake(subject) == f"hr.intake.{subject.removeprefix('hr.')}"
    assert subjects.from_intake(subjects.intake(subject)) == subject
    assert subjects.from_intake("hr.query.feed.jobs.acme.alice") == "hr.query.feed.jobs.acme.alice"


def test_who_speaks_for_a_user_stands_behind_the_subject_of_the_user():
    subject = subjects.submit("acme", "alice", "ai-dev", "half")
    spoken = subjects.by(subject, "acme", "ci")
    assert spoken == "hr.submit.acme.alice.ai-dev.half.by.acme.ci"
    assert subjects.split_by(spoken) == (subject, "acme.ci")
    assert subjects.split_by(subject) == (subject, "")
    assert subjects.split_by("hr.submit.acme.alice.by.acme.CI") == ("hr.submit.acme.alice.by.acme.CI", "")
    assert subjects.split_by("hr.submit.acme.by.ai-dev.half") == ("hr.submit.acme.by.ai-dev.half", "")  # a user of that name
    assert subjects.split_by("hr.cancel.by.acme.ci") == ("hr.cancel.by.acme.ci", "")


def test_what_is_put_together_can_be_taken_apart():
    assert subjects.parse_submit(subjects.submit("acme", "alice", "ai-dev", "half")) == ("acme", "alice", "ai-dev", "half")
    assert subjects.parse_cancel(subjects.cancel("acme", "alice", JOB)) == ("acme", "alice", JOB)
    assert subjects.parse_requeue(subjects.requeue("acme", "alice", JOB)) == ("acme", "alice", JOB)
    assert subjects.parse_query(subjects.query("feed", "jobs", "acme", "alice")) == ("feed", "jobs", "acme", "alice")
    assert subjects.ledger_writer(subjects.ledger("allocator")) == "allocator"
    assert subjects.ledger_writer(subjects.ledger("node.gpu01")) == "node.gpu01"


@pytest.mark.parametrize(
    ("parse", "subject"),
    [
        (subjects.parse_submit, "hr.submit.acme.alice.ai-dev"),
        (subjects.parse_submit, "hr.submit.acme.alice.ai-dev.half.more"),
        (subjects.parse_submit, "hr.submit.acme.Alice.ai-dev.half"),
        (subjects.parse_submit, "hr.submit.acme.*.ai-dev.half"),
        (subjects.parse_submit, f"hr.cancel.acme.alice.{JOB}.x"),
        (subjects.parse_cancel, "hr.cancel.acme.alice.job-1"),
        (subjects.parse_cancel, f"hr.cancel.acme..{JOB}"),
        (subjects.parse_cancel, "hr.cancel.acme.alice.many"),
        (subjects.parse_cancel_many, f"hr.cancel.acme.alice.{JOB}"),
        (subjects.parse_cancel_many, "hr.cancel.acme.Alice.many"),
        (subjects.parse_cancel_many, "hr.requeue.acme.alice.many"),
        (subjects.parse_requeue, f"hr.cancel.acme.alice.{JOB}"),
        (subjects.parse_requeue, "hr.requeue.acme.alice.job-1"),
        (subjects.parse_query, "hr.query.feed.jobs.acme"),
        (subjects.parse_query, ""),
        (subjects.ledger_writer, "hr.submit.acme.alice.ai-dev.half"),
        (subjects.ledger_writer, "hr.ledger."),
        (subjects.ledger_writer, "hr.ledger.node."),
        (subjects.ledger_writer, "hr.ledger.node.GPU01"),
        (subjects.ledger_writer, "hr.ledger.node.a.b"),
    ],
)
def test_a_wrong_subject_is_refused_and_says_what_one_looks_like(parse, subject):
    with pytest.raises(IdError, match=": use hr|to cancel several jobs"):
        parse(subject)


def test_several_jobs_are_cancelled_on_a_subject_of_its_own():
    subject = subjects.cancel_many("acme", "alice")
    assert (subject, subjects.parse_cancel_many(subject)) == ("hr.cancel.acme.alice.many", ("acme", "alice"))
    names = (
        subject,
        subjects.by(subject, "acme", "ci"),
        subjects.cancel("acme", "alice", JOB),
        "hr.requeue.acme.alice.many",
        "",
    )
    assert [subjects.is_cancel_many(one) for one in names] == [True, True, False, False, False]


def test_the_asker_is_whom_the_subject_names_if_it_names_one():
    names = ("hr.submit.acme.ann.p.q", "hr.cancel.acme.ann.x", "hr.submit.ACME.ann.p.q", "hr.submit", "")
    assert [subjects.asker_of(subject) for subject in names] == [("acme", "ann"), ("acme", "ann"), ("", ""), ("", ""), ("", "")]
