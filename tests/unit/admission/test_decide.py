from __future__ import annotations

import json

import msgspec
import pytest
from msgspec import structs

from headrace.admission.decide import REFUSALS_STATED, Admission
from headrace.admission.judge import Asker
from headrace.admission.review import Review
from headrace.bus.memory import MemoryLog
from headrace.contracts import facts as f
from headrace.contracts.documents import model as d
from headrace.contracts.facts.records import RECORD_BYTES_MAX, RECORD_FACTS_MAX, Record
from headrace.contracts.messages.submissions import (
    CANCELS_MAX,
    After,
    CancelManyRequest,
    CancelRequest,
    JobSubmission,
    JobSubmissions,
    JobText,
    RequeueRequest,
)
from headrace.contracts.transport.codec import encode
from headrace.contracts.transport.digests import submission_digest
from headrace.contracts.transport.subjects import by, cancel, cancel_many, requeue, submit
from headrace.contracts.values.account_numbers import FIRST
from headrace.contracts.values.ids import make_job_id
from tests.unit.allocator.history import START, History, gpus, policy
from tests.unit.domain.snapshot import differences, snapshot

ANN = Asker("default", "ann", "ml", "one")
QUEUE = submit(*ANN[:4])
KNOWN = ("ann", "bob", "carl", "ci")
"""Users who have had jobs before, and so a number."""


def job_id(number: int) -> str:
    return make_job_id(START // 1_000, number.to_bytes(10, "big"))


def submission(number: int, **fields: object) -> JobSubmission:
    return JobSubmission(**{"id": job_id(number), "command": ("train.py",), **fields})


def key(number: int, user: str = "ann") -> str:
    return f"default.{user}.{job_id(number)}"


class Judging:
    """Admission over a history, and the stream of submissions that it reads."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.stream = MemoryLog(lambda: history.now)
        self.admission = self.anew()

    def anew(self) -> Admission:
        """Another admission, which remembers nothing and reads everything again that is not judged."""
        again = Admission(self.history.state, lambda _tenant, _job, text: self.sealed(text))
        again.waiting += self.stream.messages_after(self.history.state.judged)
        return again

    def sealed(self, text: JobText) -> str:
        return " ".join(text.command)

    def receive(self, subject: str, payload: bytes) -> None:
        """One message arrives."""
        sequence = self.stream.append_now(subject, payload, None)
        self.admission.waiting += self.stream.messages_after(sequence - 1)

    def submit(self, *submissions: JobSubmission, to: str = QUEUE) -> None:
        self.receive(to, encode(submissions[0]) if len(submissions) == 1 else encode(JobSubmissions(jobs=submissions)))

    def cancel(self, number: int, reason: str = "", user: str = "ann") -> None:
        self.receive(cancel("default", user, job_id(number)), encode(CancelRequest(reason=reason)) if reason else b"")

    def requeue(self, number: int, reason: str = "", user: str = "ann") -> None:
        self.receive(requeue("default", user, job_id(number)), encode(RequeueRequest(reason=reason)) if reason else b"")

    def judged(self) -> tuple[object, ...]:
        """What is stated next becomes law; deciding leaves the state alone, and is the same when it is done again."""
        state = self.history.state
        before = snapshot(state)
        facts = self.admission.decide(self.history.now)
        assert differences(snapshot(state), before) == []
        assert self.anew().decide(self.history.now) == facts
        if facts:
            stated = Record(by="admission", now=self.history.now, engine="0.1.0", as_of=state.sequence, facts=facts)
            assert len(encode(stated)) <= RECORD_BYTES_MAX
            assert len(facts) <= RECORD_FACTS_MAX
            assert Review(state, stated).objections == []
            self.history.append_facts(*facts, by="admission")
        return facts


@pytest.fixture
def judging() -> Judging:
    history = History(policy("ml", 2), policy("tight", max_pending=2))
    history.node()
    history.append_facts(*(numbered(user, number) for number, user in enumerate(KNOWN)), by="admission")
    return Judging(history)


def admitted(number: int, asker: Asker = ANN, **fields: object) -> f.JobAdmittedV1:
    return f.JobAdmittedV1(
        job=key(number, asker.user),
        policy=asker.policy,
        profile=asker.profile,
        request=gpus(1),
        digest=submission_digest(asker.policy, asker.profile, submission(number, **fields)),
        text="train.py",
        **fields,
    )


def numbered(user: str, number: int) -> f.AccountNumberedV1:
    return f.AccountNumberedV1(tenant="default", user=user, number=FIRST + number)


def judged_through(sequence: int) -> f.WishesJudgedV1:
    return f.WishesJudgedV1(through=sequence)


def refused(sequence: int, reason: str, message: str, subject: str = QUEUE) -> f.WishRefusedV1:
    return f.WishRefusedV1(wish=sequence, subject=subject, reason=reason, message=message)


def test_without_messages_there_is_nothing_to_say_and_time_brings_nothing(judging):
    assert (judging.judged(), judging.admission.next_wakeup()) == ((), None)


def test_messages_are_judged_in_order_and_the_position_stands_with_their_effect(judging):
    judging.submit(submission(1, name="first"))
    judging.submit(submission(2), submission(3, priority=1))

    assert judging.judged() == (admitted(1, name="first"), admitted(2), admitted(3, priority=1), judged_through(2))
    assert judging.judged() == ()
    assert list(judging.history.state.jobs) == [key(1), key(2), key(3)]


def test_a_message_that_is_read_again_after_it_was_judged_has_no_second_effect(judging):
    judging.submit(submission(1))
    judging.judged()

    judging.admission.waiting += judging.stream.messages_after(0)

    assert judging.judged() == ()
    assert not judging.admission.waiting


def test_the_same_id_with_the_same_content_is_the_same_job(judging):
    judging.submit(submission(1))
    judging.submit(submission(1))
    assert judging.judged() == (admitted(1), judged_through(2))

    judging.submit(submission(1, trace="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"))

    assert judging.judged() == (judged_through(3),)


@pytest.mark.parametrize("apart", [False, True])
def test_the_same_id_with_other_content_is_refused(judging, apart):
    judging.submit(submission(1))
    if apart:
        judging.judged()

    judging.submit(submission(1, name="other"))

    message = f"{job_id(1)}: this id already names a job with other content; make a new ULID, or repeat the job as it was"
    assert judging.judged()[-2:] == (refused(2, "ID_REUSED", message), judged_through(2))


def test_a_rejected_job_is_answered_once_too(judging):
    judging.submit(submission(1, retries=0), to=submit(*ANN._replace(profile="none")[:4]))
    (rejected, _) = judging.judged()
    assert (rejected.job, rejected.reason) == (key(1), "UNKNOWN_QUEUE")

    judging.submit(submission(1), to=submit(*ANN._replace(profile="none")[:4]))

    assert judging.judged() == (judged_through(2),)


def test_a_job_may_depend_on_another_of_the_same_message(judging):
    judging.submit(submission(1), submission(2, after=(After(job=job_id(1)),)))
    judging.submit(submission(3, after=(After(job=job_id(9)),)))

    facts = judging.judged()

    assert [(type(fact).__name__, fact.job) for fact in facts[:3]] == [
        ("JobAdmittedV1", key(1)),
        ("JobAdmittedV1", key(2)),
        ("JobRejectedV1", key(3)),
    ]
    assert judging.history.state.jobs[key(2)].waits_for == {key(1): "ok"}


def test_the_cap_on_pending_jobs_counts_those_of_the_same_record(judging):
    tight = ANN._replace(policy="tight")
    judging.submit(*(submission(number) for number in range(4)), to=submit(*tight[:4]))

    facts = judging.judged()

    assert facts[:2] == (admitted(0, tight), admitted(1, tight))
    assert [(fact.job, fact.reason, fact.retry_after) for fact in facts[2:4]] == [
        (key(2), "TOO_MANY_PENDING", 10_000_000),
        (key(3), "TOO_MANY_PENDING", 10_000_000),
    ]


def test_a_thousand_jobs_in_one_message_are_all_admitted_once_over_several_records(judging):
    judging.submit(*(submission(number) for number in range(1_000)))
    judging.submit(submission(1_000))

    rounds = []
    while facts := judging.judged():
        rounds.append(facts)

    jobs = [fact.job for facts in rounds for fact in facts if isinstance(fact, f.JobAdmittedV1)]
    assert jobs == [key(number) for number in range(1_001)]
    assert len(rounds) == 2
    assert [fact for facts in rounds for fact in facts if isinstance(fact, f.WishesJudgedV1)] == [judged_through(2)]


def test_a_record_holds_a_limited_number_of_bytes_however_large_the_texts_are(judging):
    judging.sealed = lambda text: "x" * len(text.command[0])
    for number in range(12):
        judging.submit(submission(number, command=("x" * 60_000,)))

    rounds = []
    while facts := judging.judged():
        rounds.append([fact.job for fact in facts if isinstance(fact, f.JobAdmittedV1)])

    assert rounds == [[key(n) for n in range(8)], [key(n) for n in range(8, 12)]]


def test_a_record_holds_a_limited_number_of_bytes_however_large_labels_and_messages_are(judging):
    labels = {f"{n:063}": "\1" * 256 for n in range(64)}
    judging.submit(submission(0, labels=labels))
    judging.submit(submission(1, labels=labels), submission(2, labels=labels), submission(3, labels=labels))
    judging.submit(*(submission(number, name="\1" * 256) for number in range(4, 400)))

    jobs = []
    while facts := judging.judged():
        jobs += [fact.job for fact in facts if not isinstance(fact, f.WishesJudgedV1)]

    assert jobs == [key(number) for number in range(400)]


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\0",
        b"\xff\xfe",
        b"[]",
        b"null",
        b"{}",
        b'{"jobs":[]}',
        b'{"jobs":' + b"[" * 100_000,
        b'{"id":"' + b"0" * 26 + b'","command":["x"],"surprise":1}',
        b'{"id":1,"command":["x"]}',
        b'{"id":"x","command":"x"}',
        b'{"id":"\\ud800","command":["x"]}',
        b"{" + b" " * (1024 * 1024),
        json.dumps({"jobs": [{"id": "x", "command": ["x"]}] * 1_001}).encode(),
    ],
)
def test_hostile_bytes_are_one_refusal(judging, payload):
    judging.receive(QUEUE, payload)

    (fact, position) = judging.judged()

    assert (fact.wish, fact.subject, fact.reason, position) == (1, QUEUE, "MALFORMED", judged_through(1))
    assert 0 < len(fact.message) <= 512


def test_invalid_ids_are_one_refusal_for_the_message_and_the_other_jobs_are_admitted(judging):
    judging.submit(submission(1), submission(2, id="Z" * 60_000), *(submission(3, id=f"x{n}") for n in range(40)))

    message = f"id: '{'Z' * 40}' is not a lower-case ULID of 26 characters (and 40 more like it)"
    assert judging.judged() == (admitted(1), refused(1, "MALFORMED", message), judged_through(1))


@pytest.mark.parametrize(
    "subject",
    ["hr.submit.default.ann.ml", "hr.submit.default.ann.ml.ONE", "hr.cancel.default.ann.x", "hr.requeue.default.ann.x", "hr.x"],
)
def test_an_invalid_subject_is_refused(judging, subject):
    judging.receive(subject, b"{}")

    (fact, position) = judging.judged()

    assert (fact.subject, fact.reason, position) == (subject, "MALFORMED", judged_through(1))


def test_a_cancel_that_cannot_be_read_is_refused(judging):
    judging.submit(submission(1))
    subject = cancel("default", "ann", job_id(1))
    judging.receive(subject, b"[")

    assert judging.judged() == (
        admitted(1),
        refused(2, "MALFORMED", "Expected `object`, got `array`", subject),
        judged_through(2),
    )


def wanted(number: int, reason: str = "") -> f.JobCancelRequestedV1:
    return f.JobCancelRequestedV1(job=key(number), by="default.ann", reason=reason)


def test_the_cancel_of_a_pending_job_is_asked_for(judging):
    judging.submit(submission(1))
    judging.judged()

    judging.cancel(1, reason="typo" * 100)

    assert judging.judged() == (wanted(1, ("typo" * 100)[:256]), judged_through(2))


def test_who_speaks_for_a_user_is_recorded_beside_the_user(judging):
    judging.receive(by(QUEUE, "default", "ci"), encode(submission(1)))
    judging.receive(by(cancel("default", "ann", job_id(1)), "acme", "boss"), b"{}")

    admitted_by, wanted_by, _ = judging.judged()
    assert (admitted_by.job, admitted_by.submitted_by) == (key(1), "default.ci")
    assert wanted_by == f.JobCancelRequestedV1(job=key(1), by="acme.boss")


def trusting(judging: Judging) -> None:
    """A group that `ml` is of, with a service account that it trusts."""
    group = d.Group(name="all", members=("ann", "bob"), service_accounts=("ci", "cd"), on_behalf=("ci",))
    judging.history.append_facts(f.GroupAppliedV1(author="a.b", group=group), by="governance")
    ruled = structs.replace(judging.history.state.policies["default", "ml"].document, group="all")
    judging.history.append_facts(f.PolicyAppliedV1(author="a.b", policy=ruled), by="governance")


OF_CI = submit("default", "ci", "ml", "one")


def test_what_a_trusted_service_account_submits_for_a_member_is_the_members_job(judging):
    trusting(judging)
    judging.submit(submission(1, on_behalf_of="ann"), to=OF_CI)
    judging.submit(submission(1), to=QUEUE)  # the member's own submit of the same id is the same job
    made, _ = judging.judged()
    assert (made.job, made.submitted_by, made.on_behalf_of) == (key(1), "default.ci", "")


def test_who_is_not_trusted_submits_and_cancels_in_no_other_name(judging):
    trusting(judging)
    judging.submit(submission(1))
    judging.judged()
    judging.submit(submission(2, on_behalf_of="ann"), to=submit("default", "cd", "ml", "one"))
    judging.receive(cancel("default", "cd", job_id(1)), encode(CancelRequest(on_behalf_of="ann")))
    judging.receive(requeue("default", "bob", job_id(1)), encode(RequeueRequest(on_behalf_of="ann")))
    judging.receive(cancel("default", "ci", job_id(9)), encode(CancelRequest(on_behalf_of="ann")))
    judging.receive(cancel("default", "ci", job_id(1)), encode(CancelRequest(on_behalf_of="Ann.*")))
    rejected, *refusals, _ = judging.judged()
    assert (rejected.job, rejected.reason) == (key(2, "cd"), "NOT_ALLOWED")
    assert [one.reason for one in refusals] == ["NOT_ALLOWED"] * 4


def test_a_trusted_service_account_cancels_for_a_member_even_right_behind_the_submit(judging):
    trusting(judging)
    judging.submit(submission(1, on_behalf_of="ann"), to=OF_CI)
    judging.receive(cancel("default", "ci", job_id(1)), encode(CancelRequest(on_behalf_of="ann")))
    judging.receive(cancel("default", "ci", job_id(1)), encode(CancelRequest(on_behalf_of="ci")))
    assert judging.judged()[-1] == judged_through(1)  # who is trusted with it is read when it is there
    wanted_by, others, _ = judging.judged()
    assert wanted_by == f.JobCancelRequestedV1(job=key(1), by="default.ci")
    assert (others.reason, others.message) == ("NOT_ALLOWED", f"ci has no job {job_id(1)}")


def test_a_job_may_be_cancelled_in_the_record_that_admits_it(judging):
    judging.submit(submission(1))
    judging.cancel(1)

    assert judging.judged() == (admitted(1), wanted(1), judged_through(2))
    assert list(judging.history.state.cancels) == [key(1)]


def test_the_cancel_of_an_unknown_job_is_refused_and_so_is_that_of_another_users(judging):
    judging.submit(submission(1))
    judging.cancel(2)
    judging.cancel(1, user="bob")

    assert judging.judged() == (
        admitted(1),
        refused(2, "NOT_ALLOWED", f"ann has no job {job_id(2)}", cancel("default", "ann", job_id(2))),
        refused(3, "NOT_ALLOWED", f"bob has no job {job_id(1)}", cancel("default", "bob", job_id(1))),
        judged_through(3),
    )


def cancels(*numbers: int, **fields: object) -> bytes:
    return encode(CancelManyRequest(jobs=tuple(map(job_id, numbers)), **fields))


def test_of_several_that_are_cancelled_those_that_wait_come_first_and_what_has_ended_is_passed_over(judging):
    judging.submit(*(submission(number) for number in range(1, 8)))
    judging.judged()
    judging.history.allocate()
    judging.history.append_facts(f.JobEndedV1(job=key(5), attempt=0, state="cancelled", cause="cancelled"), by="allocator")
    assert [number for number in range(1, 8) if judging.history.state.jobs[key(number)].leases] == [1, 2, 3, 4]

    judging.receive(cancel_many("default", "ann"), cancels(1, 2, 7, 4, 5, 1, 6, reason="typo"))

    assert judging.judged() == (*(wanted(number, "typo") for number in (7, 6, 1, 2, 4)), judged_through(2))


def test_several_that_are_cancelled_stand_in_one_record_behind_what_had_no_room_for_them(judging):
    count = CANCELS_MAX
    judging.submit(*(submission(number) for number in range(count)), to=submit("default", "ann", "ml", "one"))
    while judging.judged():
        pass
    others = [submission(number) for number in range(count, count + 200)]
    judging.submit(*others)
    judging.receive(cancel_many("default", "ann"), cancels(*range(count)))
    judging.receive(cancel_many("default", "ann"), cancels(*range(count)))

    assert judging.judged()[-1] == judged_through(2)
    first = judging.judged()
    assert first[:-1] == tuple(wanted(number) for number in range(count))
    assert judging.judged() in ((), (judged_through(4),))  # they are being cancelled already


def test_more_text_than_a_record_holds_goes_into_two_and_none_is_asked_for_twice(judging):
    judging.submit(*(submission(number) for number in range(CANCELS_MAX)))
    while judging.judged():
        pass
    judging.receive(cancel_many("default", "ann"), cancels(*range(CANCELS_MAX), reason="\u2620" * 256))
    stated = []
    while facts := judging.judged():
        stated += facts
    assert stated[:-1] == [wanted(number, "\u2620" * 256) for number in range(CANCELS_MAX)]


def test_of_several_those_that_are_unknown_are_refused_at_once_and_the_others_are_cancelled(judging):
    judging.submit(submission(1))
    judging.receive(cancel_many("default", "ann"), cancels(7, 1, 8))
    judging.receive(cancel_many("default", "bob"), cancels(1))
    judging.receive(cancel_many("default", "ann"), encode(CancelManyRequest(jobs=(job_id(1), "x"))))

    text = f"ann has no job {job_id(7)} (and 1 more like it)"
    assert judging.judged() == (
        admitted(1),
        wanted(1),
        refused(2, "NOT_ALLOWED", text, cancel_many("default", "ann")),
        refused(3, "NOT_ALLOWED", f"bob has no job {job_id(1)}", cancel_many("default", "bob")),
        refused(4, "MALFORMED", "jobs: 'x' is not a lower-case ULID of 26 characters", cancel_many("default", "ann")),
        judged_through(4),
    )


@pytest.mark.parametrize("forgotten", [False, True])
def test_the_cancel_of_a_job_that_has_ended_does_nothing(judging, forgotten):
    judging.submit(submission(1))
    judging.judged()
    judging.history.append_facts(f.JobEndedV1(job=key(1), attempt=0, state="cancelled", cause="cancelled"), by="allocator")
    if forgotten:
        judging.history.wait(2 * 3_600_000_000)
        judging.history.node("n2")
        assert key(1) not in judging.history.state.jobs

    judging.cancel(1)

    assert judging.judged() == (judged_through(2),)


def running(judging):
    judging.submit(submission(1))
    judging.judged()
    judging.history.allocate()
    job = judging.history.state.jobs[key(1)]
    judging.history.start(job)
    return job


def why_not(judging) -> str:
    """Why job 1 is not requeued."""
    judging.requeue(1)
    (fact, _) = judging.judged()
    assert (fact.subject, fact.reason) == (requeue("default", "ann", job_id(1)), "NOT_ALLOWED")
    return fact.message


def test_the_requeue_of_what_runs_or_is_suspended_is_asked_for(judging):
    """R29."""
    job = running(judging)
    asked = {"job": key(1), "attempt": 1, "by": "default.ann"}

    judging.requeue(1, reason="slow" * 100)
    assert judging.judged() == (f.JobRequeueRequestedV1(**asked, reason=("slow" * 100)[:256]), judged_through(2))

    judging.history.stop(job, "preempted", then="suspend")
    judging.history.append_facts(f.LeaseSuspendedV1(job=key(1), attempt=1, rank=0, at=judging.history.now), by="node.n1")
    assert job.state == "suspended"
    judging.requeue(1)
    assert judging.judged() == (f.JobRequeueRequestedV1(**asked), judged_through(3))


def test_what_waits_is_not_requeued_and_what_has_only_just_come_neither(judging):
    judging.submit(submission(1))
    judging.requeue(1)
    refusal = refused(2, "NOT_ALLOWED", f"job {job_id(1)} is waiting already", requeue("default", "ann", job_id(1)))
    assert judging.judged() == (admitted(1), refusal, judged_through(2))

    assert why_not(judging) == f"job {job_id(1)} is waiting already"


def test_what_is_leaving_already_is_not_requeued_too(judging):
    judging.history.stop(running(judging), "preempted", then="suspend")

    assert why_not(judging) == f"job {job_id(1)} is being stopped already: preempted, then suspend"


@pytest.mark.parametrize("forgotten", [False, True])
def test_what_has_ended_is_to_be_submitted_again(judging, forgotten):
    judging.submit(submission(1))
    judging.judged()
    judging.history.append_facts(f.JobEndedV1(job=key(1), attempt=0, state="cancelled", cause="cancelled"), by="allocator")
    if forgotten:
        judging.history.wait(2 * 3_600_000_000)
        judging.history.node("n2")
        assert key(1) not in judging.history.state.jobs

    assert why_not(judging) == f"job {job_id(1)} has ended: it is cancelled; submit it again, as a new job"


def test_no_user_requeues_an_unknown_job_or_one_of_another(judging):
    running(judging)
    judging.requeue(2)
    judging.requeue(1, user="bob")

    assert judging.judged() == (
        refused(2, "NOT_ALLOWED", f"ann has no job {job_id(2)}", requeue("default", "ann", job_id(2))),
        refused(3, "NOT_ALLOWED", f"bob has no job {job_id(1)}", requeue("default", "bob", job_id(1))),
        judged_through(3),
    )


def test_the_text_is_sealed_for_its_tenant_and_job(judging):
    sealed = []
    judging.admission = Admission(judging.history.state, lambda *asked: str(sealed.append(asked)))
    judging.submit(submission(1, env={"A": "b"}, image="img", workdir="/w", on_abort=("save",), secret_env=("TOKEN",)))

    judging.admission.decide(judging.history.now)

    text = JobText(command=("train.py",), env={"A": "b"}, secret_env=("TOKEN",), image="img", workdir="/w", on_abort=("save",))
    assert sealed == [("default", key(1), text)]


def test_a_submission_with_everything_at_its_largest_fits_in_a_record(judging):
    judging.sealed = lambda text: "x" * (len(encode(text)) * 4 // 3 + 100)
    for number in range(100):
        judging.submit(submission(number))
    while judging.judged():
        pass
    largest = submission(
        200,
        command=("x" * 65_000,),
        env={"A": "x" * 65_000},
        image="x" * 60_000,
        labels={f"{n:063}": "\1" * 256 for n in range(64)},
        name="\1" * 256,
        after=tuple(After(job=key(number)) for number in range(100)),
        trace="\1" * 128,
    )

    judging.submit(msgspec.structs.replace(largest, time_limit="1h"))

    (fact, position) = judging.judged()
    assert (type(fact), fact.job, position) == (f.JobAdmittedV1, key(200), judged_through(101))


def test_a_flood_of_refusals_is_stated_up_to_a_bound_and_then_counted_by_reason(judging):
    for _ in range(REFUSALS_STATED + 7):
        judging.receive(QUEUE, b"nonsense")
    facts = judging.judged()
    assert [type(fact) for fact in facts[:REFUSALS_STATED]] == [f.WishRefusedV1] * REFUSALS_STATED
    assert facts[REFUSALS_STATED:] == (
        f.RefusalsCountedV1(tenant="default", user="ann", reason="MALFORMED", count=7),
        judged_through(REFUSALS_STATED + 7),
    )
    judging.receive(QUEUE, b"more of it")
    assert judging.judged() == (
        f.RefusalsCountedV1(tenant="default", user="ann", reason="MALFORMED", count=1),
        judged_through(REFUSALS_STATED + 8),
    )


def test_the_next_second_is_stated_again_and_another_user_always_was(judging):
    for _ in range(REFUSALS_STATED + 1):
        judging.receive(QUEUE, b"nonsense")
    judging.judged()
    judging.receive(submit("default", "bob", "ml", "one"), b"nonsense")
    assert type(judging.judged()[0]) is f.WishRefusedV1
    judging.history.wait(1_000_000)
    judging.receive(QUEUE, b"nonsense")
    assert type(judging.judged()[0]) is f.WishRefusedV1


def test_the_id_of_another_users_job_in_the_tenant_is_refused_and_names_no_second_job(judging):
    to_bob = submit("default", "bob", "ml", "one")
    judging.submit(submission(1), submission(2))
    judging.submit(submission(1), to=to_bob)  # in the same record
    judging.judged()
    judging.submit(submission(2, name="mine"), submission(3), to=to_bob)
    message = f"{job_id(2)}: this id names a job of somebody else in this tenant; make a new ULID"
    bob = Asker("default", "bob", "ml", "one")

    decided = (admitted(3, bob), refused(3, "ID_REUSED", message, to_bob), judged_through(3))
    assert judging.judged() == decided
    assert list(judging.history.state.jobs) == [key(1), key(2), key(3, "bob")]


def test_the_id_of_another_users_rejected_job_is_refused_as_well(judging):
    to_bob = submit("default", "bob", "ml", "one")
    judging.submit(submission(1, request={"gpu": "64"}))
    judging.judged()
    judging.submit(submission(1), to=to_bob)
    message = f"{job_id(1)}: this id names a job of somebody else in this tenant; make a new ULID"

    assert judging.judged() == (refused(2, "ID_REUSED", message, to_bob), judged_through(2))


def test_an_id_that_another_tenant_has_is_good_here(judging):
    judging.history.append_facts(f.TenantAppliedV1(author="a.b", tenant=d.Tenant(name="acme")), by="governance")
    judging.history.append_facts(f.PolicyAppliedV1(author="a.b", policy=policy("ml", tenant="acme")), by="governance")
    judging.submit(submission(1))
    judging.submit(submission(1), to=submit("acme", "ann", "ml", "one"))
    judging.judged()

    assert list(judging.history.state.jobs) == [key(1), f"acme.ann.{job_id(1)}"]


def test_a_users_account_is_numbered_with_the_first_job_and_never_again(judging):
    to_dora, to_eve = (submit("default", user, "ml", "one") for user in ("dora", "eve"))
    dora, eve = (Asker("default", user, "ml", "one") for user in ("dora", "eve"))
    judging.submit(submission(1, request={"gpu": "64"}), to=to_dora)  # what is rejected runs nowhere
    judging.submit(submission(2), submission(3), to=to_dora)
    judging.submit(submission(4), to=to_eve)
    first = len(KNOWN)
    stated = judging.judged()
    assert stated[1:] == (
        *(numbered("dora", first), admitted(2, dora), admitted(3, dora)),
        *(numbered("eve", first + 1), admitted(4, eve), judged_through(3)),
    )
    judging.submit(submission(5), to=to_eve)
    assert judging.judged() == (admitted(5, eve), judged_through(4))
    accounts = judging.history.state.accounts
    assert (accounts["default", "dora"], accounts["default", "eve"]) == (FIRST + first, FIRST + first + 1)


def test_below_level_2_two_users_may_have_the_same_id_as_before(judging):
    judging.history.state.terms.level = 1
    judging.submit(submission(1))
    judging.submit(submission(1), to=submit("default", "bob", "ml", "one"))
    judging.judged()

    assert list(judging.history.state.jobs) == [key(1), key(1, "bob")]
