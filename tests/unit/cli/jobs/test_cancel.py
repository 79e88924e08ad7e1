"""`headrace cancel` on canned answers."""

from __future__ import annotations

import io

import pytest

from headrace.cli.jobs import cancel as module
from headrace.cli.jobs import selection
from headrace.cli.jobs.names import UNENDED
from headrace.client import Refused
from headrace.contracts.messages.queries import JobView

ID = "01jd3v8k5w2m4x6z8b0c2e4g6h"
KEY = f"acme.alice.{ID}"


def view(state, user="alice", job_id=ID):
    return JobView(
        id=job_id, job=f"acme.{user}.{job_id}", tenant="acme", user=user, name="sweep-1", queue="ai-dev/half", state=state
    )


def cancelled(ran):
    """What was asked to be cancelled, request by request."""
    return [args for what, args, _ in ran.calls if what == "cancel_many"]


@pytest.fixture
def terminal(monkeypatch):
    """A person who types this when asked."""

    def types(text):
        stdin = io.StringIO(text)
        stdin.isatty = lambda: True
        monkeypatch.setattr("sys.stdin", stdin)

    return types


def test_a_cancel_is_a_request_about_the_job_of_any_owner(headrace):
    ran = headrace(["cancel", ID, "--reason", "wrong data"], judged=view("running", "bob"), cancel_many=None)
    assert ran[:3] == (0, f"{ID} will end\n", "")
    assert cancelled(ran) == [([f"acme.bob.{ID}"], "wrong data")]


def test_what_has_ended_or_is_unknown_is_told_and_the_others_are_cancelled_in_one_request(headrace):
    ids = [f"{ID[:-1]}{letter}" for letter in "abcd"]
    views = {
        ids[0]: view("succeeded"),
        ids[1]: None,
        ids[2]: view("running", job_id=ids[2]),
        ids[3]: view("pending", job_id=ids[3]),
    }
    ran = headrace(
        ["cancel", *ids], judged=lambda job, *_: views[job], job=Refused("NOT_FOUND", "no such job"), cancel_many=None
    )
    assert ran[:3] == (
        1,
        f"{ids[2]} will end\n{ids[3]} will end\n",
        f"headrace: {ID} has ended already: it is succeeded\nheadrace: no such job\n",
    )
    assert cancelled(ran) == [([f"acme.alice.{ids[2]}", f"acme.alice.{ids[3]}"], "")]


def test_jobs_are_selected_by_what_they_were_submitted_with_and_counted_before_they_end(headrace, terminal):
    terminal("y\n")
    line = ["cancel", "--name", "sweep-*", "--label", "run=7", "--queue", "ai-dev/half", "--reason", "bug"]
    found = (view("pending"), view("running"), view("pending"))
    ran = headrace(line, jobs=found, cancel_many=None)
    what = "3 jobs (2 pending, 1 running)"
    assert ran[:3] == (0, f"{what} will be cancelled. Continue? [y/N] {what} will end\n", "")
    assert ran.calls[0] == (
        "jobs",
        (),
        {
            "states": ("pending", "running", "preempting", "stopping", "suspended"),
            "queue": "ai-dev/half",
            "user": "alice",
            "limit": 10_000,
            "name": "sweep-*",
            "labels": {"run": "7"},
        },
    )
    assert cancelled(ran) == [([KEY, KEY, KEY], "bug")]


@pytest.mark.parametrize(
    ("flags", "states", "user"),
    [
        ("--state pending --yes", ["pending"], "alice"),
        ("--name x --owner bob --yes", UNENDED, "bob"),
        ("--everybody --yes", UNENDED, ""),
    ],
)
def test_those_of_who_asks_are_meant_unless_another_is_named(headrace, flags, states, user):
    ran = headrace(f"cancel {flags}", jobs=(view("pending"),), cancel_many=None)
    assert ran[:3] == (0, "1 job (1 pending) will end\n", "")
    asked = ran.calls[0][2]
    assert (asked["states"], asked["user"]) == (states, user)


@pytest.mark.parametrize("typed", ["\n", "n\n", "", "yesterday\n"])
def test_without_a_yes_nothing_is_cancelled(headrace, terminal, typed):
    terminal(typed)
    ran = headrace("cancel --name x", jobs=(view("running"),))
    assert ran[:3] == (1, "1 job (1 running) will be cancelled. Continue? [y/N] Nothing is cancelled.\n", "")


def test_where_no_one_can_be_asked_it_says_what_to_say(headrace, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO())
    ran = headrace("cancel --name x", jobs=(view("running"),))
    assert ran[:3] == (
        1,
        "",
        "headrace: 1 job (1 running) will be cancelled. Add --yes: standard input is not a terminal, so you cannot be asked\n",
    )


def test_a_selection_of_nothing_is_told(headrace):
    assert headrace("cancel --name x", jobs=())[:3] == (0, "No such jobs.\n", "")


@pytest.mark.parametrize("line", ["cancel", f"cancel {ID} --name x", "cancel --yes"])
def test_either_ids_or_flags_say_which(headrace, line):
    code, out, err, _ = headrace(line)
    assert (code, out) == (1, "")
    assert err.startswith("headrace: name the jobs by their ids or names, or select them by --name")


def test_one_owner_or_all(headrace):
    assert headrace("cancel --owner bob --everybody")[:3] == (1, "", "headrace: --owner and --everybody: use one of them\n")


def test_of_more_than_one_request_holds_those_that_wait_come_first_as_they_stand_in_line(headrace, monkeypatch):
    monkeypatch.setattr(module, "CANCELS_MAX", 2)
    monkeypatch.setattr(selection, "SELECTED_MAX", 3)
    found = (view("pending", "bob"), view("running"), view("pending"))
    ran = headrace("cancel --everybody --yes", jobs=found, cancel_many=None)
    assert ran.out == "the newest 3 jobs (2 pending, 1 running; repeat the command for the others) will end\n"
    assert cancelled(ran) == [([KEY, f"acme.bob.{ID}"], ""), ([KEY], "")]


def test_a_job_is_cancelled_by_its_name_if_one_of_that_name_has_not_ended(headrace):
    ran = headrace("cancel train", jobs=(view("running"),), judged=view("running"), cancel_many=None)
    assert ran[:3] == (0, f"{ID} will end\n", "")
    assert ran.calls[0] == ("jobs", (), {"states": UNENDED, "user": "alice", "name": "train"})
    assert cancelled(ran) == [([KEY], "")]


def test_a_name_that_several_jobs_have_cancels_none_of_them(headrace):
    other = f"{ID[:-1]}j"
    ran = headrace("cancel train", jobs=(view("running"), view("pending", job_id=other)), cancel_many=None)
    which = f"2 jobs that have not ended are called 'train': name them by their ids ({ID} {other}), or use --name"
    assert ran[:3] == (1, "", f"headrace: {which}\n")
    assert cancelled(ran) == []
