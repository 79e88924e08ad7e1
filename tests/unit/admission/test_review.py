"""Verdicts judged again by the ledger alone: what was forged does not follow, and what only the submission could tell is not guessed."""

from __future__ import annotations

import pytest
from msgspec import structs

from headrace.admission.decide import REFUSALS_STATED
from headrace.admission.judge import Asker
from headrace.admission.review import Review
from headrace.contracts import facts as f
from headrace.contracts.documents import model as d
from headrace.contracts.facts.admission import Dependency
from headrace.contracts.facts.records import Record
from headrace.contracts.transport.subjects import cancel, submit
from headrace.contracts.values.account_numbers import FIRST
from headrace.contracts.values.amounts import GPU, GPU_UNITS
from headrace.contracts.values.durations import DAY, HOUR
from headrace.contracts.values.ids import make_job_id
from headrace.domain.state.account_numbers import next_number
from tests.unit.allocator.history import START, History, gpus, policy
from tests.unit.domain.snapshot import differences, snapshot

ANN = Asker("default", "ann", "ml", "one")
RULES = d.RuntimeRules(
    env={"MODE": "safe"}, secrets={"TOKEN": "env:T", "KEY": "env:K"}, give_secrets=("TOKEN",), allow_images=("", "good:*")
)
GIVEN = ("env MODE set", "secret TOKEN from env:T")


def job_id(number: int, at: int = START) -> str:
    return make_job_id(at // 1_000, number.to_bytes(10, "big"))


def admitted(number: int = 1, **fields: object) -> f.JobAdmittedV1:
    job = {"job": f"default.ann.{job_id(number)}", "policy": "ml", "profile": "one", "request": gpus(1), "rules": GIVEN}
    return f.JobAdmittedV1(**(job | fields))


def rejected(reason: str, message: str, number: int = 1, **fields: object) -> f.JobRejectedV1:
    job = {"job": f"default.ann.{job_id(number)}", "policy": "ml", "profile": "one", "reason": reason, "message": message}
    return f.JobRejectedV1(**(job | fields))


@pytest.fixture
def history() -> History:
    """Four GPUs; the group `all` may use `ml`, whose jobs get what its rules give; two may be pending, up to three GPUs run."""
    history = History(
        policy("ml", group="all", max_pending=2, limit=gpus(3)),
        policy("free"),
        groups=(d.Group(name="all", members=("ann", "carl"), service_accounts=("ci",), on_behalf=("ci",), runtime=RULES),),
        tenants=(d.Tenant(name="slow", submit_rate=d.SubmitRate(per_second=1)),),
    )
    history.node()
    users = [("default", user) for user in ("ann", "carl", "ci", "eve", "bob")] + [("slow", "ann"), ("other", "ann")]
    known = (f.AccountNumberedV1(tenant=tenant, user=user, number=FIRST + n) for n, (tenant, user) in enumerate(users))
    history.append_facts(*known, by="admission")
    return history


def reviewed(history: History, *facts: object) -> Review:
    before = snapshot(history.state)
    review = Review(
        history.state, Record(by="admission", now=history.now, engine="0.1.0", as_of=history.state.sequence, facts=facts)
    )
    assert differences(snapshot(history.state), before) == []
    return review


def whys(history: History, *facts: object) -> list[str]:
    return [each.why for each in reviewed(history, *facts).objections]


def test_what_admission_would_state_has_no_objection(history):
    facts = (
        admitted(1),
        admitted(2, after=(Dependency(job=f"default.ann.{job_id(1)}"),), request={GPU: GPU_UNITS // 2}, contained=True),
        rejected(
            "TOO_MANY_PENDING", "2 jobs are pending in policy ml; try again in 10 s", 3, request={}, retry_after=10_000_000
        ),
        f.JobCancelRequestedV1(job=f"default.ann.{job_id(2)}", by="default.ann"),
        f.WishesJudgedV1(through=9),
    )
    review = reviewed(history, *facts)
    assert (review.objections, review.judged, review.unverifiable.total()) == ([], 5, 0)


@pytest.mark.parametrize(
    ("forged", "why"),
    [
        ({"job": f"other.ann.{job_id(1)}"}, "UNKNOWN_TENANT, there is no tenant other"),
        ({"policy": "mine"}, "UNKNOWN_QUEUE, there is no queue mine/one; yours are free/cpu"),
        ({"job": f"default.eve.{job_id(1)}"}, "NOT_ALLOWED, eve is not in group all"),
        ({"job": f"default.ann.{job_id(1, START - 2 * DAY)}"}, "ID_TOO_OLD"),
        ({"request": gpus(2)}, "BEYOND_PROFILE, request.gpu: 2 is asked for"),
        ({"request": {GPU: GPU_UNITS, "license": 1}}, "BEYOND_PROFILE, request.license"),
        ({"preemptible": False}, "EXCEEDS_RESERVATION"),
        ({"priority": 2_000_000}, "MALFORMED, priority"),
        ({"labels": {"a": "b" * 257}}, "MALFORMED, labels"),
        ({"max_retries": -1}, "MALFORMED, retries"),
        ({"after": (Dependency(job=f"default.ann.{job_id(9)}"),)}, "MALFORMED, after: no job"),
    ],
)
def test_a_job_that_was_let_in_against_the_rules_is_objected_to_with_the_verdict_it_should_have_had(history, forged, why):
    fact = admitted(**forged)
    (objection,) = reviewed(history, fact).objections
    assert objection.fact == fact
    assert objection.why.startswith(f"job {fact.job} is admitted, and would be rejected: {why}")
    assert isinstance(objection.instead, f.JobRejectedV1)
    assert objection.instead.reason == why.partition(",")[0]


@pytest.mark.parametrize(
    ("forged", "names", "instead"),
    [
        ({"replicas": 2}, "replicas", {"replicas": 1}),
        ({"mig": "1g.10gb"}, "mig", {"mig": ""}),
        ({"rules": ()}, "rules", {"rules": GIVEN}),
        ({"rules": (*GIVEN, "mount /etc")}, "rules", {"rules": GIVEN}),
    ],
)
def test_what_the_profile_and_the_group_give_is_made_again(history, forged, names, instead):
    fact = admitted(**forged)
    (objection,) = reviewed(history, fact).objections
    assert objection.why == f"job {fact.job} is admitted, and its {names} would be otherwise"
    assert objection.instead == structs.replace(fact, **instead)


def test_a_secret_that_the_submission_may_have_asked_for_is_not_an_objection(history):
    assert whys(history, admitted(rules=(*GIVEN, "secret KEY from env:K"))) == []


def test_a_job_without_an_image_is_held_against_the_rules_about_images(history):
    only_images = d.Group(name="all", members=("ann",), runtime=structs.replace(RULES, allow_images=("good:*",)))
    history.append_facts(f.GroupAppliedV1(author="a.b", group=only_images), by="governance")
    assert whys(history, admitted(contained=True)) == []
    (why,) = whys(history, admitted())
    assert why.endswith("RUNTIME_RULE, image: group all does not allow a job without an image: it allows good:*")


def test_an_image_by_default_makes_every_job_one_with_an_image(history):
    default = d.Group(name="all", members=("ann",), runtime=d.RuntimeRules(default_image="good:1"))
    history.append_facts(f.GroupAppliedV1(author="a.b", group=default), by="governance")
    assert whys(history, admitted(rules=("image good:1 by default",), contained=True)) == []
    assert whys(history, admitted(rules=())) == [f"job {admitted().job} is admitted, and its contained would be otherwise"]


def test_more_than_may_wait_is_counted_along_the_record(history):
    (why,) = whys(history, admitted(1), admitted(2), admitted(3))
    assert why.startswith(f"job {admitted(3).job} is admitted, and would be rejected: TOO_MANY_PENDING")


def test_the_same_job_is_judged_once(history):
    history.append_facts(admitted(1), by="admission")
    again = rejected("TOO_MANY_PENDING", "", 1, request={})
    assert whys(history, admitted(1), again) == [f"job {again.job} had been judged already (R14)"] * 2
    assert whys(history, admitted(2), admitted(2)) == [f"job {admitted(2).job} had been judged already (R14)"]


@pytest.mark.parametrize(
    ("forged", "why"),
    [
        (rejected("UNKNOWN_TENANT", "there is no tenant default"), "would not be for that: it may use the queue"),
        (rejected("NOT_ALLOWED", "ann is not in group all"), "would not be for that: it may use the queue"),
        (rejected("ID_TOO_OLD", "id"), "would not be for that: its id is of today"),
        (
            rejected("EXCEEDS_POLICY_LIMIT", "too much", request={}),
            "would not be for that: its request fits, and the queue is not",
        ),
        (rejected("EXCEEDS_POLICY_LIMIT", "it", request=gpus(2)), "would be with BEYOND_PROFILE: request.gpu: 2 is asked for"),
        (rejected("NOT_ALLOWED", "you are not", on_behalf_of="eve"), "would be with NOT_ALLOWED: on_behalf_of: ann may not"),
        (rejected("RUNTIME_RULE", "no", policy="free"), "would not be for that: its group forbids nothing"),
        (rejected("RUNTIME_RULE", "no", policy="none"), "would be with UNKNOWN_QUEUE: there is no queue none/one"),
    ],
)
def test_a_job_that_was_turned_away_for_what_is_not_so_is_objected_to(history, forged, why):
    (objection,) = reviewed(history, forged).objections
    assert objection.why.startswith(f"job {forged.job} is rejected with {forged.reason}, and {why}")


def test_numbers_that_are_not_those_of_the_moment_are_objected_to(history):
    honest = "request.gpu: 2 is asked for, profile one gives 1"
    assert whys(history, rejected("BEYOND_PROFILE", honest, request=gpus(2))) == []
    (objection,) = reviewed(
        history, rejected("BEYOND_PROFILE", honest.replace("gives 1", "gives 0"), request=gpus(2))
    ).objections
    assert isinstance(objection.instead, f.JobRejectedV1)
    assert objection.instead.message == honest


def test_how_long_too_many_have_to_wait_is_judged_again(history):
    history.append_facts(f.PolicyAppliedV1(author="a.b", policy=policy("fast", tenant="slow")), by="governance")
    first, second = (f"slow.ann.{job_id(number)}" for number in (1, 2))
    admit = admitted(job=first, policy="fast", rules=())
    away = rejected("TOO_FAST", "tenant slow may submit 1 job a second; try again in 1s", job=second, policy="fast", request={})
    assert whys(history, admit, structs.replace(away, retry_after=1_000_000)) == []
    assert len(whys(history, admit, structs.replace(away, retry_after=HOUR))) == 1
    assert len(whys(history, structs.replace(away, retry_after=1_000_000))) == 1
    assert len(whys(history, admit, structs.replace(admit, job=second))) == 1


@pytest.mark.parametrize(
    "fact",
    [
        rejected("MALFORMED", "command: it is empty"),
        rejected("RUNTIME_RULE", "command: group all does not allow rm"),
        f.WishRefusedV1(wish=3, subject=submit(*ANN[:4]), reason="MALFORMED", message="it is no JSON"),
        f.WishRefusedV1(wish=3, subject=submit(*ANN[:4]), reason="ID_REUSED", message="another content"),
    ],
)
def test_what_only_the_submission_could_tell_is_counted_and_not_guessed(history, fact):
    review = reviewed(history, fact)
    assert (review.objections, review.judged, dict(review.unverifiable)) == ([], 0, {fact.reason: 1})


def test_that_there_is_no_job_is_judged_by_the_jobs_that_are_there(history):
    fact = f.WishRefusedV1(
        wish=3,
        subject=cancel("default", "ann", job_id(1)),
        reason="NOT_ALLOWED",
        message=f"ann has no job {job_id(1)}",
    )
    assert (whys(history, fact), reviewed(history, fact).judged) == ([], 1)
    history.append_facts(admitted(1), by="admission")
    assert whys(history, fact) == [f"it calls job {admitted(1).job} unknown, but the job exists"]


def test_what_is_to_be_stopped_has_to_be_there(history):
    job = admitted(1).job
    ask = f.JobCancelRequestedV1(job=job, by="default.ann")
    again = f.JobRequeueRequestedV1(job=job, attempt=1, by="default.ann")
    assert whys(history, ask, again) == [
        f"job {job} cannot be cancelled: it is not known or has ended",
        f"attempt 1 of job {job} cannot be requeued: it is not this job's running attempt (R29)",
    ]
    history.append_facts(admitted(1), by="admission")
    assert whys(history, ask, again) == [
        f"attempt 1 of job {job} cannot be requeued: it is not this job's running attempt (R29)"
    ]


def test_a_position_only_goes_forward(history):
    history.append_facts(f.WishesJudgedV1(through=5), by="admission")
    assert whys(history, f.WishesJudgedV1(through=5)) == ["submissions through 5 had been judged already"]
    late = f.WishRefusedV1(wish=5, subject=submit(*ANN[:4]), reason="MALFORMED", message="no JSON")
    assert whys(history, late) == ["submission 5 had been judged already"]


def test_refusals_are_stated_one_by_one_to_a_number_and_counted_from_there(history):
    refusals = tuple(
        f.WishRefusedV1(wish=number + 1, subject=submit(*ANN[:4]), reason="MALFORMED", message="no JSON")
        for number in range(REFUSALS_STATED + 1)
    )
    counted = f.RefusalsCountedV1(tenant="default", user="ann", reason="MALFORMED", count=3)
    assert whys(history, *refusals[:-1], counted) == []
    assert whys(history, *refusals) == [
        f"it is refusal {REFUSALS_STATED + 1} of ann in a second, and would only be counted (R14)"
    ]
    assert whys(history, *refusals[:-2], counted) == [
        f"refusals of ann are counted before {REFUSALS_STATED} have been stated in a second (R14)"
    ]


def test_numbers_of_accounts_follow_each_other_and_no_user_is_given_two(history):
    history.append_facts(
        f.AccountNumberedV1(tenant="default", user="zed", number=(first := next_number(history.state))), by="admission"
    )
    ann, zed = (f.AccountNumberedV1(tenant="default", user=user, number=first + 1) for user in ("new", "zed"))
    assert whys(history, ann) == []
    assert whys(history, structs.replace(ann, number=first)) == [f"default.new is given {first}, and {first + 1} would be next"]
    assert whys(history, zed) == [f"default.zed had the number {first} already"]
    assert whys(history, admitted(job=f"default.carl.{job_id(1)}")) == []


def test_a_job_of_an_id_that_another_user_has_is_objected_to(history):
    history.append_facts(admitted(), by="admission")
    other = admitted(job=f"default.carl.{job_id(1)}")
    assert whys(history, other) == [
        f"the id of job default.carl.{job_id(1)} is already used by another user's job in default (R14)"
    ]
