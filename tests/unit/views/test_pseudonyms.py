"""Who was erased is called the same everywhere, and no other is called otherwise."""

from __future__ import annotations

import pytest

from headrace.contracts.messages.audit import AuditLine
from headrace.domain.state.state import State
from headrace.views.pseudonyms import meant, name, seen, shown, with_names, written

JOB = "01jd3v8k5w2m4x6z8b0c2e4g6h"


@pytest.fixture
def state():
    made = State()
    made.tokens.erased = {("acme", "alice"): "erased-1", ("acme", "al"): "erased-2", ("umbrella", "alice"): "erased-3"}
    return made


def test_a_name_is_one_of_its_tenant(state):
    assert [name(state, *each) for each in (("acme", "alice"), ("umbrella", "alice"), ("acme", "bob"))] == [
        "erased-1",
        "erased-3",
        "bob",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"acme.alice.{JOB} is granted", f"acme.erased-1.{JOB} is granted"),
        ("acme.root writes user acme/alice: gone", "acme.root writes user acme/erased-1: gone"),
        (f"from acme.al.{JOB}, umbrella.alice", f"from acme.erased-2.{JOB}, umbrella.erased-3"),
        (
            "acme.alice-b, acme.alicex, xacme.alice, a.acme.alice, alice",
            "acme.alice-b, acme.alicex, xacme.alice, a.acme.alice, alice",
        ),
        ("acme.bob umbrella.al", "acme.bob umbrella.al"),
    ],
)
def test_people_stand_in_sentences_with_their_tenant(state, text, expected):
    assert with_names(state, text) == expected
    assert with_names(State(), text) == text


def test_values_are_looked_through(state):
    value = {
        "author": "acme.alice",
        "user": "alice",
        "group": {"tenant": "umbrella", "members": ["alice", "bob"], "name": "alice"},
        "at": 7,
    }
    assert shown(state, value, "acme") == {
        "author": "acme.erased-1",
        "user": "erased-1",
        "group": {"tenant": "umbrella", "members": ["erased-3", "bob"], "name": "alice"},
        "at": 7,
    }
    assert shown(State(), value, "acme") is value


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"job": f"acme.alice.{JOB}", "message": "alice is not in group dev"}, "erased-1 is not in group dev"),
        ({"job": f"acme.ci.{JOB}", "message": "not for al here", "on_behalf_of": "al"}, "not for erased-2 here"),
        ({"subject": "hr.cancel.acme.alice.x", "message": f"alice has no job {JOB}"}, f"erased-1 has no job {JOB}"),
        ({"job": f"acme.bob.{JOB}", "message": f"behind alice's {JOB}, alice"}, f"behind erased-1's {JOB}, alice"),
        ({"job": f"umbrella.al.{JOB}", "message": "al is not in group alice"}, "al is not in group alice"),
        ({"job": f"acme.al.{JOB}", "message": "al uses pool al-2, x/al"}, "erased-2 uses pool al-2, x/al"),
    ],
)  # fmt: skip
def test_sentences_about_a_job_name_its_people_by_the_handle_alone(state, value, message):
    assert shown(state, value)["message"] == message


def test_a_subject_of_a_submission_names_who_spoke_for_whom(state):
    assert with_names(state, "on hr.submit.acme.bob.p.q.by.acme.alice") == "on hr.submit.acme.bob.p.q.by.acme.erased-1"
    assert with_names(state, "on hr.requeue.acme.alice.x") == "on hr.requeue.acme.erased-1.x"


def test_a_view_is_made_again_only_where_a_person_may_be_named_in_it(state):
    view = AuditLine(sequence=1, place=0, at=0, by="b", type="t", about=f"acme.alice.{JOB}", text="")
    assert seen(state, [view])[0].about == f"acme.erased-1.{JOB}"
    other = AuditLine(sequence=1, place=0, at=0, by="b", type="t", about=f"acme.alicia.{JOB}", text="")
    assert seen(state, other) is other
    assert seen(State(), view) is view


def test_a_message_to_a_tenant_says_the_same_in_its_own_fields(state):
    assert written(state, {"user": "alice", "group": "alice"}, "acme") == b'{"user":"erased-1","group":"alice"}'
    assert written(state, {"user": "bob"}, "acme") == b'{"user":"bob"}'


@pytest.mark.parametrize(
    ("tenant", "text", "handle"),
    [
        ("acme", "erased-1", "alice"),
        ("acme", "alice", None),
        ("acme", "bob", "bob"),
        ("other", "alice", "alice"),
        ("acme", "", ""),
    ],
)
def test_a_question_finds_a_person_by_the_pseudonym_and_not_by_the_handle(state, tenant, text, handle):
    assert meant(state, tenant, text) == handle
