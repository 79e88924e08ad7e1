"""`headrace jobs`, `job`, `why`, `logs`, `requeue`, `preempt` on canned answers."""

from __future__ import annotations

import json

import pytest

from headrace.cli.jobs import follow
from headrace.cli.jobs import jobs as jobs_module
from headrace.client import Refused, Unreachable
from headrace.contracts.messages.explanation import WhyView
from headrace.contracts.messages.queries import (
    ApplyAnswer,
    AttemptView,
    FactView,
    ForceRequest,
    JobView,
    LogsAnswer,
    QueueView,
)

ID = "01jd3v8k5w2m4x6z8b0c2e4g6h"
KEY = f"acme.alice.{ID}"


@pytest.fixture(autouse=True)
def _fast(monkeypatch):
    monkeypatch.setattr(follow, "POLL_EVERY", 0.0)


def view(state, *attempts, **more):
    fields = {"id": ID, "job": KEY, "tenant": "acme", "user": "alice", "name": "train", "queue": "ai-dev/half"}
    return JobView(**(fields | more), state=state, request={"gpu": 63_000}, attempts=attempts)


def attempt(number, **more):
    return AttemptView(attempt=number, pool="onprem", nodes=("gpu01",), devices=("gpu0",), **more)


def test_the_list_says_what_runs_where_and_why_the_rest_waits(headrace):
    found = (
        view("running", attempt(1)),
        view("pending", reason="AT_POLICY_LIMIT", message="9 of 9"),
        view("failed", attempt(1), exit_code=3, preemptions=2),
        view("failed", attempt(1), exit_code=126, reason="exited", message="this node has no secret FOO of tenant acme"),
        view("failed", attempt(1), exit_code=143, reason="time_limit"),
    )
    ran = headrace("jobs", jobs=found)
    assert ran.code == 0
    assert [line.split(maxsplit=1)[1] for line in ran.out.splitlines()] == [
        "NAME   QUEUE        USER   STATE    GPU  NODE   NOTE",
        "train  ai-dev/half  alice  running  0.5  gpu01",
        "train  ai-dev/half  alice  pending  0.5         AT_POLICY_LIMIT",
        "train  ai-dev/half  alice  failed   0.5  gpu01  exit code 3, 2 x preempted",
        "train  ai-dev/half  alice  failed   0.5  gpu01  exit code 126: this node has no secret FOO of tenant acme",
        "train  ai-dev/half  alice  failed   0.5  gpu01  exit code 143: time limit",
    ]


def test_the_list_is_filtered_where_it_is_made(headrace):
    line = "jobs --state pending --state running --queue a/b --owner bob --limit 1 --name sweep-* --label run=7"
    ran = headrace(line, jobs=(view("running"),))
    asked = {
        "states": ["pending", "running"],
        "queue": "a/b",
        "user": "bob",
        "limit": 1,
        "name": "sweep-*",
        "labels": {"run": "7"},
        "since": 0,
    }
    assert ran.calls == [("jobs", (), asked)]
    assert ran.err == "The newest 1; --limit shows more.\n"


def test_a_list_has_the_columns_that_are_asked_for_with_wait_and_run_times(headrace, monkeypatch):
    monkeypatch.setattr("time.time_ns", lambda: 100_000_000_000)
    second = 1_000_000
    found = (
        view("pending", admitted_at=10 * second),
        view("running", attempt(1, started_at=40 * second), admitted_at=10 * second, labels={"b": "2", "a": "1"}),
        view("failed", attempt(2, granted_at=20 * second, ended_at=21 * second), admitted_at=10 * second, ended_at=21 * second),
        view("succeeded", attempt(1, started_at=20 * second, ended_at=80 * second), admitted_at=10 * second),
        view("rejected"),
    )
    ran = headrace("jobs --columns state,wait,run,attempts,labels", jobs=found)
    assert ran.out.splitlines() == [
        "STATE      WAIT   RUN  ATTEMPTS  LABELS",
        "pending    1m30s",
        "running    30s    1m          1  a=1,b=2",
        "failed     10s                2",
        "succeeded  10s    1m          1",
        "rejected",
    ]


def test_an_unknown_column_is_one_line_with_the_one_that_was_meant(headrace):
    ran = headrace("jobs --columns job,stae")
    assert ran.code == 2
    assert ran.err.startswith(
        "headrace jobs: argument --columns: unknown column 'stae'; did you mean state?; there are job, name,"
    )


def test_a_watched_list_is_printed_again_until_it_is_interrupted(headrace, monkeypatch):
    monkeypatch.setattr(jobs_module, "WATCH_EVERY", 0.0)
    ran = headrace("jobs --watch --columns state", jobs=[(view("pending"),), (view("running"),), KeyboardInterrupt()])
    assert ran[:3] == (130, "STATE\npending\nSTATE\nrunning\n", "")
    assert headrace("jobs --watch --json")[:3] == (1, "", "headrace: --watch and --json: use one of them\n")


def test_for_a_queue_that_does_not_exist_the_right_name_is_suggested(headrace):
    queues = (QueueView(name="ai-dev/half", tenant="acme", policy="ai-dev", profile="half", pending=0, running=0),)
    ran = headrace("jobs --queue ai-dev/hlaf", jobs=(), queues=queues)
    assert ran[:3] == (0, "No jobs.\n", "headrace: there is no queue ai-dev/hlaf; did you mean ai-dev/half?\n")


def test_an_empty_list_says_so_and_is_an_empty_list_for_programs(headrace):
    assert headrace("jobs", jobs=()).out == "No jobs.\n"
    assert json.loads(headrace("jobs --json", jobs=()).out) == []


def test_a_job_is_its_fields_its_attempts_and_its_story(headrace):
    story = (FactView(sequence=1, at=0, by="admission", type="job.admitted.v1", text="admitted", rule="R13"),)
    done = view(
        "succeeded", attempt(1, cause="preempted"), attempt(2, exit_code=0), exit_code=0, preemptions=1, labels={"a": "b"}
    )
    ran = headrace(f"job {ID}", job=done, facts=story)
    assert (ran.code, ran.err) == (0, "")
    details, attempts, facts = ran.out.split("\n\n")
    assert details.splitlines() == [
        f"job          {ID}",
        "name         train",
        "tenant       acme",
        "user         alice",
        "queue        ai-dev/half",
        "state        succeeded",
        "exit code    0",
        "request      gpu 0.5",
        "preemptible  yes",
        "preempted    1 times",
        "labels       a=b",
    ]
    assert attempts.splitlines() == [
        "ATTEMPT  POOL    NODES  DEVICES  EXIT  CAUSE",
        "      1  onprem  gpu01  gpu0           preempted",
        "      2  onprem  gpu01  gpu0        0",
    ]
    assert facts.splitlines() == ["BY         WHAT      RULE", "admission  admitted  R13"]


def test_a_job_for_programs_is_one_object(headrace):
    ran = headrace(f"job {ID} --json", job=view("pending"), facts=())
    printed = json.loads(ran.out)
    assert (printed["job"]["id"], printed["job"]["request"], printed["facts"]) == (ID, {"gpu": "0.5"}, [])


def test_why_tells_the_reason_the_blockers_and_the_place_in_line(headrace):
    because = WhyView(job=KEY, state="pending", reason="AT_POLICY_LIMIT", message="9 of 9", blockers=("r-1", "r-2"), position=2)
    ran = headrace(f"why {ID}", why=because)
    assert ran.out.splitlines() == [
        "state       pending",
        "reason      AT_POLICY_LIMIT",
        "because     9 of 9",
        "in the way  r-1, r-2",
        "position    2",
    ]
    assert ran.calls == [("why", (ID,), {"sequence": 0, "at": 0})]
    assert json.loads(headrace(f"why {ID} --json", why=because).out)["blockers"] == ["r-1", "r-2"]


@pytest.mark.parametrize(
    ("written", "asked"),
    [("81234", {"sequence": 81_234, "at": 0}), ("2026-11-21T08:00:00Z", {"sequence": 0, "at": 1_795_248_000_000_000})],
)
def test_why_it_waited_then_is_asked_by_a_record_or_a_moment(headrace, written, asked):
    because = WhyView(job=KEY, state="pending", reason="AT_POLICY_LIMIT", message="9 of 9")
    assert headrace(f"why {ID} --at {written}", why=because).calls == [("why", (ID,), asked)]


def test_logs_are_printed_to_their_present_end(headrace):
    pieces = [LogsAnswer(data="one\n", next_offset=4), LogsAnswer(data="two", next_offset=7), LogsAnswer(next_offset=7)]
    ran = headrace(f"logs {ID} --attempt 2 --rank 1", logs=pieces)
    assert ran[:3] == (0, "one\ntwo", "")
    assert [(call[1], call[2]) for call in ran.calls] == [
        ((ID,), {"offset": offset, "attempt": 2, "rank": 1}) for offset in (0, 4, 7)
    ]


def test_logs_of_a_job_that_has_none_are_refused(headrace):
    assert headrace(f"logs {ID}", logs=Refused("NOT_FOUND", "it has not started"))[:3] == (
        1,
        "",
        "headrace: it has not started\n",
    )


def test_following_goes_through_waiting_and_all_attempts_until_the_end(headrace):
    ended = {"next_offset": 2, "ended": True}
    ran = headrace(
        f"logs {ID} -f",
        judged=[
            *[view("pending", reason="NO_FREE_CAPACITY", message="0 of 8 free")] * 3,
            view("running", attempt(1)),
            *[view("pending", attempt(1), reason="NO_FREE_CAPACITY", message="0 of 8 free")] * 2,
            view("running", attempt(1), attempt(2)),
            view("succeeded", attempt(1), attempt(2)),
        ],
        logs=[
            *(LogsAnswer(data="a\n", next_offset=2), LogsAnswer(next_offset=2), LogsAnswer(**ended)),
            *(LogsAnswer(data="b\n", **ended), LogsAnswer(**ended)),
        ],
    )
    assert ran[:2] == (0, "a\nb\n")
    waits = "-- waits: NO_FREE_CAPACITY: 0 of 8 free --\n"
    assert ran.err == f"{waits}{waits}-- attempt 2 --\n"


def test_a_reason_to_wait_that_has_gone_at_the_next_look_is_not_printed(headrace):
    ran = headrace(
        f"logs {ID} -f",
        judged=[
            view("pending", reason="BEHIND_HIGHER_RANK", message="the allocator looks at it next"),
            view("running", attempt(1)),
            view("succeeded", attempt(1)),
        ],
        logs=[LogsAnswer(data="a\n", next_offset=2, ended=True), LogsAnswer(next_offset=2, ended=True)],
    )
    assert ran[:3] == (0, "a\n", "")


def test_following_outlives_a_node_that_is_away(headrace):
    ran = headrace(
        f"logs {ID} -f",
        judged=[view("running", attempt(1)), view("succeeded", attempt(1))],
        logs=[
            *(
                Refused("UNAVAILABLE", "node gpu01 is away"),
                Refused("UNAVAILABLE", "node gpu01 is away"),
                Unreachable("feed is away"),
            ),
            *(LogsAnswer(data="a\n", next_offset=2, ended=True), LogsAnswer(next_offset=2, ended=True)),
        ],
    )
    assert ran[:3] == (0, "a\n", "-- node gpu01 is away --\n-- feed is away --\n")


@pytest.mark.parametrize("state", ["running", "suspended"])
def test_a_requeue_is_a_request_about_what_runs_or_is_suspended(headrace, state):
    ran = headrace(["requeue", ID, "--reason", "slow node"], judged=view(state), requeue=None)
    assert ran[:3] == (0, f"{ID} is stopped, with time to save its work, and put back into the queue\n", "")
    assert ran.calls[1] == ("requeue", (KEY, "slow node"), {})


def test_what_waits_or_has_ended_cannot_be_requeued_and_is_told_what_to_do(headrace):
    ran = headrace(
        f"requeue {ID} {ID} {ID} {ID}",
        judged=[view("pending"), view("failed"), None, view("running")],
        job=Refused("NOT_FOUND", "no such job"),
        requeue=None,
    )
    assert ran[:3] == (
        1,
        f"{ID} is stopped, with time to save its work, and put back into the queue\n",
        (
            f"headrace: {ID} is pending already\n"
            f"headrace: {ID} has ended: it is failed; submit it again with `headrace submit`, as a new job\n"
            "headrace: no such job\n"
        ),
    )


def test_a_requeue_by_filters_says_how_many_and_needs_a_yes(headrace):
    found = (view("running"), view("suspended"))
    asked = (
        "headrace: 2 jobs (1 running, 1 suspended) will be stopped and put back into the queue. "
        "Add --yes: standard input is not a terminal, so you cannot be asked\n"
    )
    assert headrace("requeue --name sweep-*", jobs=found)[:3] == (1, "", asked)
    ran = headrace("requeue --name sweep-* --yes", jobs=found, judged=view("running"), requeue=None)
    assert ran[:3] == (0, 2 * f"{ID} is stopped, with time to save its work, and put back into the queue\n", "")
    assert ran.calls[0][2]["states"] == ("running", "preempting", "suspended")
    assert headrace("requeue --name x", jobs=())[:3] == (0, "No such jobs.\n", "")


def test_an_operators_force_is_handed_to_governance_as_it_was_given(headrace):
    ran = headrace(["preempt", ID, "--force", "--reason", "the demo"], preempt=ApplyAnswer(changes=(), applied=True))
    request = ForceRequest(job=ID, force=True, reason="the demo")
    assert ran.calls == [("preempt", (request,), {})]
    assert ran.out == f"{ID} is told to stop\n"


def of_array(state="running", of="", **more):
    fields = {"id": ID + of, "job": KEY + of, "tenant": "acme", "user": "alice", "name": "sweep", "queue": "ai-dev/half"}
    return JobView(**(fields | more), state=state, request={"gpu": 63_000})


ARRAY = of_array(array="0-9%2", elements={"pending": 6, "running": 2, "succeeded": 2})


def test_an_array_is_one_line_with_its_elements_by_state(headrace):
    ran = headrace("jobs --columns job,state,note", jobs=(ARRAY,))
    assert ran.out.splitlines()[1] == f"{ID}  running  6 pending, 2 running, 2 succeeded"


def test_a_part_of_an_array_is_cancelled_and_requeued_by_its_indices(headrace):
    cancelled = headrace(f"cancel {ID}:0-3,7", judged=ARRAY, cancel_many=None, cancel=None)
    assert (cancelled.code, cancelled.out) == (0, f"{ID}:0-3,7 will end\n")
    assert ("cancel", (KEY, ""), {"elements": "0-3,7"}) in cancelled.calls
    requeued = headrace(f"requeue {ID}:1", judged=ARRAY, requeue=None)
    assert ("requeue", (KEY, ""), {"elements": "1"}) in requeued.calls


@pytest.mark.parametrize("command", ["cancel", "requeue"])
def test_a_part_of_what_is_not_an_array_is_refused(headrace, command):
    ran = headrace(f"{command} {ID}:1", judged=of_array(), cancel_many=None)
    assert (ran.code, ran.err) == (1, f"headrace: {ID} is not an array; leave out :1\n")


def test_logs_of_an_array_are_those_of_its_elements_that_have_started(headrace):
    first = AttemptView(attempt=1, pool="onprem", nodes=("gpu01",), devices=("gpu0",))
    elements = (of_array(of="-000004"), of_array(of="-000001", attempts=(first,)), of_array(of="-000000", attempts=(first,)))
    pieces = [Refused("INVALID", "it is an array"), *[LogsAnswer(data="out\n", next_offset=4), LogsAnswer(next_offset=4)] * 2]
    ran = headrace(f"logs {ID}", logs=pieces, job=ARRAY, jobs=elements)
    assert (ran.out, ran.err) == ("out\nout\n", f"-- {ID}:0 --\n-- {ID}:1 --\n")


@pytest.mark.parametrize(
    ("part", "why"),
    [
        ("99", f"array {ID} has no element 99; its indices are 0-9"),
        ("4", f"no element of {ID}:4 has started; `headrace why {ID}:4` says what they wait for"),
    ],
)
def test_logs_of_elements_that_are_not_there_or_have_not_started_are_refused(headrace, part, why):
    ran = headrace(f"logs {ID}:{part}", job=ARRAY, jobs=(of_array(of="-000004"),))
    assert (ran.code, ran.out, ran.err) == (1, "", f"headrace: {why}\n")


def test_logs_of_a_part_of_what_is_not_an_array_are_refused(headrace):
    ran = headrace(f"logs {ID}:1", job=of_array())
    assert (ran.code, ran.err) == (1, f"headrace: {ID} is not an array; leave out :1\n")


def test_the_output_of_a_whole_array_is_not_followed(headrace):
    ran = headrace(f"logs -f {ID}", judged=ARRAY)
    why = f"{ID} is an array, and -f follows one job: name an element, such as {ID}:0"
    assert (ran.code, ran.out, ran.err) == (1, "", f"headrace: {why}; `headrace jobs --array {ID}` lists them\n")


def test_a_part_that_is_refused_does_not_keep_other_parts_from_their_end(headrace):
    refusal = Refused("INVALID", "elements: the array has no element 99; its indices are 0-9")
    ran = headrace(f"cancel {ID}:99 {ID}:1", judged=ARRAY, cancel_many=None, cancel=[refusal, None])
    assert (ran.code, ran.out, ran.err) == (1, f"{ID}:1 will end\n", f"headrace: {refusal}\n")


def test_of_a_part_that_is_requeued_only_what_runs_is_said_to_stop(headrace):
    ran = headrace(f"requeue {ID}:1-3", judged=ARRAY, requeue=None)
    assert ran.out == f"what runs of {ID}:1-3 is stopped, with time to save its work, and put back into the queue\n"


def test_a_malformed_array_and_one_with_a_count_are_refused(headrace):
    assert "is not an array; write 0-499" in headrace("submit --queue a/b --array 5x -- true").err
    assert "--array and --count: say one of them" in headrace("submit --queue a/b --array 0-5 --count 2 -- true").err
