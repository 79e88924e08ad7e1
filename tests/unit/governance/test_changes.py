from __future__ import annotations

import pytest

from headrace.contracts.documents.reader import read_documents
from headrace.contracts.documents.tree import tree_of
from headrace.governance.changes import VALUE_MAX, changed_fields

PLURALS = {"policy": "policies", "pool": "pools", "tenant": "tenants", "group": "groups", "profile": "profiles"}


def document(kind, fields):
    return getattr(read_documents(tree_of({PLURALS[kind]: [fields]})), PLURALS[kind])[0]


POLICY = {"name": "rnd", "group": "g", "profiles": ["half"], "limit": {"gpu": "9"}}
POOL = {"name": "west", "selector": {"site": "west"}}
PROFILE = {"name": "half", "request": {"gpu": "0.5", "memory": "32GiB"}, "pools": ["west"]}


@pytest.mark.parametrize(
    ("kind", "was", "will_be", "lines"),
    [
        ("policy", POLICY, {}, ()),
        ("policy", POLICY, {"limit": {"gpu": "10"}}, ("limit.gpu: 9 -> 10",)),
        ("policy", POLICY, {"limit": {}}, ("limit.gpu: 9 -> none",)),
        ("policy", POLICY, {"limit": {"gpu": "9", "job": "4"}}, ("limit.job: none -> 4",)),
        ("policy", POLICY, {"reservation": {"gpu": "1/7"}}, ("reservation: none -> {gpu: 1/7}",)),
        ("policy", POLICY, {"priority": "5", "weight": "2"}, ("priority: 0 -> 5", "weight: 1 -> 2")),
        (
            "policy",
            POLICY,
            {"preemption": {"callback_grace": "90s", "max_preemptions": "3"}},
            ("preemption.callback_grace: 1m -> 1m30s", "preemption.max_preemptions: none -> 3"),
        ),
        (
            "policy",
            POLICY,
            {"profiles": ["half", {"name": "full", "borrow": "false"}]},
            ("profiles: [half] -> [half, {name: full, borrow: false}]",),
        ),
        (
            "policy",
            POLICY | {"per_pool": {"west": {"limit": {"gpu": "4"}}}},
            {"per_pool": {"west": {"limit": {"gpu": "5"}}, "east": {"reservation": {"gpu": "1"}}}},
            ("per_pool.west.limit.gpu: 4 -> 5", "per_pool.east: none -> {reservation: {gpu: 1}}"),
        ),
        (
            "pool",
            POOL,
            {"selector": {"site": "w"}, "allow_overcommit": "true"},
            ("selector.site: west -> w", "allow_overcommit: false -> true"),
        ),
        ("pool", POOL, {"backfill_for": "5m"}, ("backfill_for: 10m -> 5m",)),
        ("pool", POOL, {"access": {"deny": ["acme"]}}, ("access.deny: [] -> [acme]",)),
        ("pool", POOL, {"dedicated_to": {"tenant": "acme"}}, ("dedicated_to: none -> {tenant: acme}",)),
        (
            "profile",
            PROFILE,
            {"request": {"gpu": "0.25", "memory": "64GiB"}},
            ("request.gpu: 0.5 -> 0.25", "request.memory: 32GiB -> 64GiB"),
        ),
        ("profile", PROFILE, {"isolation": "kernel"}, ("isolation: any -> kernel",)),
        ("tenant", {"name": "acme"}, {"display_name": "Acme"}, ('display_name: "" -> Acme',)),
        (
            "tenant",
            {"name": "acme"},
            {"shares": [{"pool": "west", "limit": {"gpu": "4"}}]},
            ("shares: [] -> [{pool: west, limit: {gpu: 4}}]",),
        ),
    ],
)
def test_each_field_that_differs_is_a_line_in_the_words_of_a_file(kind, was, will_be, lines):
    assert changed_fields(kind, document(kind, was), document(kind, was | will_be)) == lines


def test_long_values_are_cut():
    everybody = [f"person-{number}" for number in range(100)]
    (line,) = changed_fields("group", document("group", {"name": "g"}), document("group", {"name": "g", "members": everybody}))
    assert line.startswith("members: [] -> [person-0, person-1, ")
    assert line.endswith("…")
    assert len(line) == len("members: [] -> ") + VALUE_MAX


@pytest.mark.parametrize(
    ("was", "will_be", "lines"),
    [
        ({"price": {"gpu": "0.80"}}, {"price": {"gpu": "0.8"}}, ()),
        ({"price": {"gpu": "4.00"}, "reserved_price": {"gpu": 3}}, {"price": {"gpu": 4}, "reserved_price": {"gpu": "3.0"}}, ()),
        ({"price": {"gpu": "40"}}, {"price": {"gpu": "4"}}, ("price.gpu: 40 -> 4",)),
        ({"selector": {"v": "1.0"}}, {"selector": {"v": "1"}}, ("selector.v: 1.0 -> 1",)),
    ],
)
def test_equal_prices_change_nothing_and_texts_are_compared_as_texts(was, will_be, lines):
    before, after = (document("pool", POOL | fields) for fields in (was, will_be))
    assert changed_fields("pool", before, after) == lines
