"""Who was erased is called the same everywhere, and nobody else is called otherwise."""

from __future__ import annotations

import pytest

from headrace.domain.state import State
from headrace.views.pseudonyms import name, shown, told

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
    assert told(state, text) == expected
    assert told(State(), text) == text


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
