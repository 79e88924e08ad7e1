"""What the API says is read as the very view that it was made of."""

from __future__ import annotations

import pytest
from google.protobuf.json_format import MessageToDict

from headrace.client import answers
from headrace.contracts.api import plan_pb2, tokens_pb2
from headrace.contracts.messages.explanation import (
    ChangeView,
    Holder,
    KeyNeed,
    PoolNeed,
    ReclaimView,
    UnusableView,
    Waiter,
    WhyView,
)
from headrace.contracts.messages.queries import ApplyAnswer, AttemptView, Change, FactView, JobView
from headrace.contracts.messages.tokens import TokenView
from headrace.governance.api.apply import plan_message
from headrace.governance.api.job_messages import explanation, fact_message, job_message

ID, KEY = "01jd3v8k5w2m4x6z8b0c2e4g6h", "acme.alice.01jd3v8k5w2m4x6z8b0c2e4g6h"
AT = 1_795_262_400_123_456


def as_json(message):
    """The JSON of a message, as the gateway writes it."""
    return MessageToDict(message, preserving_proto_field_name=True)


@pytest.mark.parametrize(
    "view",
    [
        JobView(id=ID, job=KEY, tenant="acme", user="alice", name="", queue="a/b", state="pending"),
        JobView(
            id=ID,
            job=KEY,
            tenant="acme",
            user="alice",
            name="train",
            queue="a/b",
            state="failed",
            preemptible=False,
            priority=-3,
            request={"gpu": 18_000, "cpu": 1_500, "memory": 1_025, "license/x": 2},
            replicas=2,
            admitted_at=AT,
            ended_at=AT + 1,
            preemptions=1,
            reason="exited",
            message="exit code 0",
            exit_code=0,
            checkpoint="/c",
            labels={"a.b": "c"},
            attempts=(
                AttemptView(
                    attempt=1,
                    pool="hq",
                    nodes=("n1", "n2"),
                    devices=("g0",),
                    granted_at=AT,
                    started_at=AT,
                    ended_at=AT,
                    exit_code=3,
                    cause="exited",
                    resume_from="/r",
                ),
            ),
            mig="3g.40gb",
        ),
    ],
)
def test_a_job(view):
    assert answers.job(as_json(job_message(view, 9))) == view


def test_a_line_of_a_jobs_history():
    view = FactView(sequence=7, at=AT, by="allocator", type="lease.granted.v1", text="granted", rule="R15")
    assert answers.fact(as_json(fact_message(view))) == view


@pytest.mark.parametrize(
    "view",
    [
        WhyView(job=KEY, state="succeeded", reason="", message="", sequence=9, now=AT),
        WhyView(
            job=KEY,
            state="pending",
            reason="NO_FREE_CAPACITY",
            message="nothing is free",
            blockers=(KEY,),
            position=3,
            could_reclaim=True,
            expected_start=AT,
            assumption="by time limits",
            pools=(
                PoolNeed(
                    pool="hq",
                    reason="NO_FREE_CAPACITY",
                    message="x",
                    fit="node",
                    keys=(KeyNeed(key="gpu", asked=126_000, free=1, missing=2, used=3, kept=4, unusable=5, capacity=252_000),),
                    scope="policy acme/a",
                    unusable=(
                        UnusableView(key="gpu", node="n1", cause="cordoned", amount=63_000, by="a.b", since=AT, detail="d"),
                    ),
                ),
            ),
            behind=(Waiter(job="acme.bob." + ID, request={"gpu": 126_000}), Waiter(request={"gpu": 1})),
            behind_more=4,
            holders=(
                Holder(job="acme.bob." + ID, request={"gpu": 2}, pool="hq", nodes=("n1",), preemptible=False, until=AT),
                Holder(),
            ),
            holders_more=5,
            reclaim=ReclaimView(could=True, why="w", cause="reclaim", at=AT, victims=(Holder(job=KEY),)),
            cheapest=ChangeView(kind="wait", text="t", start=AT, pool="hq", job=KEY, queue="a/c", request={"gpu": 63_000}),
            sequence=9,
            now=AT,
            notes=("kept until then",),
        ),
    ],
)
def test_why_a_job_waits(view):
    assert answers.why(as_json(explanation(view, 1, 1))) == view


def test_a_plan():
    changes = (
        Change(kind="pool", name="hq", action="create"),
        Change(kind="policy", name="acme/a", action="update", fields=("limit.gpu: 4 -> 8",), revision=7),
    )
    view = ApplyAnswer(changes=changes, warnings=("w",), applied=True, running=1, pending=2, revision=9)
    assert answers.plan(as_json(plan_message(view, 9))) == view
    assert answers.plan(as_json(plan_pb2.Plan())) == ApplyAnswer(changes=())


@pytest.mark.parametrize(
    ("name", "role", "tenant"),
    [("tenants/acme/tokens/t1", "user", "acme"), ("tokens/t1", "node", ""), ("tokens/t1", "admin", "default")],
)
def test_a_token_and_whose_it_is(name, role, tenant):
    view = TokenView(id="t1", role=role, tenant=tenant, handle="h", author="a.b", created_at=0, expires_at=0)
    assert answers.token(as_json(tokens_pb2.Token(name=name, role=role, handle="h", author="a.b"))) == view


@pytest.mark.parametrize(("key", "text", "units"), [("gpu", "", 0), ("gpu", "1/7", 18_000), ("memory", "-1GiB", -1_024)])
def test_amounts_may_be_missing_or_below_zero(key, text, units):
    assert answers.units(key, text) == units


def test_whole_numbers_of_a_struct_are_integers():
    assert answers.plain({"a": [1.0, "x", {"b": 2.5, "c": True, "d": None}]}) == {
        "a": [1, "x", {"b": 2.5, "c": True, "d": None}]
    }
