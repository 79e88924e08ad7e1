"""`headrace audit replay` and `audit diff`."""

from __future__ import annotations

import json

import pytest

from headrace.cli.output.formatting import local
from headrace.contracts.messages.history import (
    DiffRequest,
    DiffView,
    LeaseView,
    LedgerPoint,
    PastJob,
    PastView,
    StateChange,
)
from headrace.contracts.messages.queries import DocumentView, NodeView, PoolKeyView, PoolView, QueueView
from headrace.contracts.values.amounts import GPU, GPU_UNITS
from headrace.contracts.values.durations import parse_time

AT = parse_time("2026-11-21T08:00:00Z")
ALICE, BOB = "acme.alice.01jd3v8k5w2m4x6z8b0c2e4g6h", "acme.bob.01jd3v8k5w2m4x6z8b0c2e4g6j"
LEASE = LeaseView(rank=0, node="gpu01", pool="hq", devices=("g0", "g1"), amounts={GPU: 2 * GPU_UNITS}, granted_at=AT)
HELD = PastJob(job=ALICE, name="train", queue="dev/two", state="running", since=AT, attempt=2, leases=(LEASE,))
WAITED = PastJob(
    job=BOB,
    name="tune",
    queue="dev/two",
    state="pending",
    since=AT,
    request={GPU: GPU_UNITS},
    replicas=2,
    reason="NO_FREE_CAPACITY",
    message="not enough is free",
)
VIEW = PastView(
    sequence=7,
    now=AT,
    tip=9,
    documents=(DocumentView(kind="policy", name="acme/dev", revision=3, document={"name": "dev", "request": {"gpu": "4"}}),),
    pools=(
        PoolView(
            name="hq", nodes=1, keys=(PoolKeyView(key=GPU, capacity=GPU_UNITS, usable=GPU_UNITS, used=0, free=GPU_UNITS),)
        ),
    ),
    nodes=(NodeView(name="gpu01", pool="hq", state="ready"),),
    queues=(QueueView(name="dev/two", tenant="acme", policy="dev", profile="two", pending=1, running=1),),
    counts={"pending": 1, "running": 1},
    jobs=(HELD,),
    next=ALICE,
)
REST = PastView(sequence=7, now=AT, tip=9, jobs=(WAITED,))


def test_the_state_is_printed_as_tables_whole(headrace):
    ran = headrace("audit replay --at 2026-11-21T08:00:00Z", state=[VIEW, REST])
    assert ran.calls == [("state", (LedgerPoint(at=AT),), {"all_tenants": False})]
    lines = [" ".join(line.split()) for line in ran.out.splitlines()]
    assert lines[0] == f"After record 7, {local(AT)}; the ledger goes on to record 9"
    assert "policy acme/dev 3 request: {gpu: 4}" in lines
    assert f"{ALICE} train dev/two running 2 gpu01 hq g0 g1 gpu 2 {local(AT)}" in lines
    assert f"{BOB} tune dev/two pending gpu 1 x 2 {local(AT)} NO_FREE_CAPACITY not enough is free" in lines
    assert lines[-1] == "Jobs known: 1 pending, 1 running."


def test_programs_get_one_object(headrace):
    ran = headrace("audit replay --all-tenants --json", state=[VIEW, REST])
    assert ran.calls == [("state", (LedgerPoint(),), {"all_tenants": True})]
    whole = json.loads(ran.out)
    assert (whole["sequence"], whole["now"], whole["next"]) == (7, "2026-11-21T08:00:00.000Z", "")
    assert [job["job"] for job in whole["jobs"]] == [ALICE, BOB]
    assert whole["documents"][0]["document"]["request"] == {"gpu": "4"}
    assert whole["jobs"][0]["leases"][0]["amounts"] == {"gpu": "2"}


def test_an_installation_without_anything_is_said_in_two_lines(headrace):
    ran = headrace("audit replay --at 1", state=PastView(sequence=1, now=AT, tip=1))
    assert ran.out == f"After record 1, {local(AT)}\n\nJobs known: none.\n"


def test_a_difference_is_a_line_for_each_object_and_job(headrace):
    changes = (
        StateChange(kind="policy", name="acme/dev", change="changed", fields={"limit.gpu": ("4", "8"), "group": ("", "ops")}),
        StateChange(kind="node", name="gpu01", change="removed", fields={"state": ("ready", "")}),
        StateChange(kind="job", name=BOB, change="added", fields={"state": ("", "pending"), "name": ("", "x\x1b")}),
    )
    found = DiffView(before=3, before_now=AT, after=7, after_now=AT, changes=changes, more=2)
    ran = headrace("audit diff 3 7", diff=found)
    request = DiffRequest(before=LedgerPoint(sequence=3), after=LedgerPoint(sequence=7))
    assert ran.calls == [("diff", (request,), {"all_tenants": False})]
    assert ran.out.splitlines() == [
        f"From record 3, {local(AT)}, to record 7, {local(AT)}",
        "~ policy acme/dev  limit.gpu: 4 -> 8, group: - -> ops",
        "- node gpu01",
        f"+ job {BOB}  state pending",
        "and 2 more: choose two moments that are closer to each other",
    ]


def test_no_difference_is_said(headrace):
    ran = headrace("audit diff 3 --all-tenants", diff=DiffView(before=3, before_now=AT, after=7, after_now=AT))
    assert ran.out == f"From record 3, {local(AT)}, to record 7, {local(AT)}: no differences.\n"
    assert ran.calls[0][2] == {"all_tenants": True}


@pytest.mark.parametrize(("text", "says"), [("0", "records are numbered from 1"), ("soon", "invalid time 'soon'")])
def test_what_is_not_a_point_is_said_in_one_line(headrace, text, says):
    ran = headrace(f"audit replay --at {text}")
    assert ran.code == 2
    assert says in ran.err
