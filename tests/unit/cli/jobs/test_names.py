"""Which job is meant."""

from __future__ import annotations

import pytest

from headrace.contracts.messages.queries import JobView

ID, OTHER = "01jd3v8k5w2m4x6z8b0c2e4g6h", "01jd3v8k5w2m4x6z8b0c2e4g6j"


def view(job_id=ID, user="alice", state="running"):
    return JobView(id=job_id, job=f"acme.{user}.{job_id}", tenant="acme", user=user, name="train", queue="a/b", state=state)


def asked(ran):
    """The questions about jobs, and which job was looked at."""
    return [kwargs for what, _, kwargs in ran.calls if what == "jobs"], [args for what, args, _ in ran.calls if what == "job"]


def test_last_is_the_newest_job_of_who_asks(headrace):
    ran = headrace("job last --json", jobs=(view(),), job=view(), facts=())
    assert asked(ran) == ([{"states": (), "user": "alice", "limit": 1}], [(f"acme.alice.{ID}",)])


def test_a_name_is_the_newest_job_of_that_name_and_ones_own_before_those_of_others(headrace):
    ran = headrace("job train --json", jobs=[(view(OTHER), view())], job=view(), facts=())
    assert asked(ran) == ([{"states": (), "user": "alice", "name": "train"}], [(f"acme.alice.{OTHER}",)])
    ran = headrace("job train --json", jobs=[(), (view(user="bob"),)], job=view(), facts=())
    assert asked(ran)[1] == [(f"acme.bob.{ID}",)]


def test_a_name_is_looked_for_as_it_is_written(headrace):
    ran = headrace(["job", "a*[1]", "--json"], jobs=[(view(),)], job=view(), facts=())
    assert asked(ran)[0] == [{"states": (), "user": "alice", "name": "a[*][[]1]"}]


def test_the_beginning_of_an_id_is_enough_if_no_other_id_begins_so(headrace):
    ran = headrace("job 01jd3v --json", jobs=[(), (), (view(),)], job=view(), facts=())
    assert asked(ran) == (
        [
            {"states": (), "user": "alice", "name": "01jd3v"},
            {"states": (), "name": "01jd3v"},
            {"id_prefix": "01jd3v", "limit": 6},
        ],
        [(f"acme.alice.{ID}",)],
    )


@pytest.mark.parametrize(
    ("typed", "jobs", "why"),
    [
        ("last", [()], "last: alice has no job; `headrace jobs` lists the others'"),
        ("nope", [(), ()], "job: no job has the id or the name 'nope'; `headrace jobs` lists them"),
        ("01jd3v", [(), (), ()], "job: no job has the id or the name '01jd3v'; `headrace jobs` lists them"),
        (
            "01jd3v",
            [(), (), (view(), view(OTHER))],
            f"job: several ids begin with 01jd3v: {ID} {OTHER}; write more of it",
        ),
    ],
)
@pytest.mark.parametrize("command", ["job", "why", "logs"])
def test_what_means_no_job_or_several_is_one_line(headrace, command, typed, jobs, why):
    assert headrace(f"{command} {typed}", jobs=list(jobs))[:3] == (1, "", f"headrace: {why}\n")
