"""Columns: any values that the state may hold come back as they were, and alike ones are said once."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.contracts.documents.model import PreemptionTerms
from headrace.contracts.facts.fact import DeviceShare, Ladder, Place
from headrace.domain.model.derived import NOTHING
from headrace.domain.model.job_states import JobState
from headrace.domain.model.jobs import Scope
from headrace.domain.model.requests import Shape
from headrace.domain.snapshots import columnar_codec as c
from headrace.domain.snapshots import state_schema

ATOMS = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(max_size=5) | st.binary(max_size=3)
VALUES = st.recursive(
    ATOMS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.lists(inner, max_size=4).map(deque)
        | st.dictionaries(st.text(max_size=3), inner, max_size=4)
        | st.sets(st.integers(0, 9), max_size=4)
    ),
)


def header(writer: c.ColumnWriter) -> list[tuple[str, list[str]]]:
    return [(state_schema.name_of(kind), list(state_schema.field_names(kind))) for kind in writer.kinds]


def there_and_back(values: list) -> list:
    writer = c.ColumnWriter()
    column = writer.column(values)
    return c.ColumnReader(header(writer)).column(column, len(values))


@given(st.lists(VALUES, max_size=6))
def test_whatever_values_come_back_as_they_were_and_of_their_type(values):
    back = there_and_back(values)
    assert back == values
    assert list(map(type, back)) == list(map(type, values))


@pytest.mark.parametrize(
    "values",
    [
        pytest.param([Shape(1, 0, 2, 3, ("A",)), Shape(0, 5, 2, 3, ())], id="named tuples"),
        pytest.param([JobState.PENDING, JobState.FAILED, JobState.PENDING], id="enumerations"),
        pytest.param([Ladder(cause="preempted", callback_grace=1, term_grace=2)] * 2, id="structs"),
        pytest.param([Place(node="n", devices=(DeviceShare(device="g", units=7),), amounts={"gpu": 7})], id="nested structs"),
        pytest.param([PreemptionTerms(), PreemptionTerms(min_runtime=5)], id="documents"),
        pytest.param([frozenset({"b", "a"}), frozenset()], id="frozen sets"),
        pytest.param([None, 1, True, "1"], id="what is equal but of another type stays of its type"),
    ],
)
def test_declared_values_come_back_as_they_were(values):
    back = there_and_back(values)
    assert (back, list(map(type, back))) == (values, list(map(type, values)))


def test_the_one_empty_table_stays_shared():
    assert [value is NOTHING for value in there_and_back([NOTHING] * 2)] == [True, True]


def test_every_container_that_can_change_is_one_of_its_own():
    first, second = there_and_back([[], []])
    first.append(1)
    assert second == []
    first, second = there_and_back([{}, {}])
    first["a"] = 1
    assert second == {}


@pytest.mark.parametrize(
    ("values", "column"),
    [
        pytest.param([7, 7, 7], [c.SAME, 7], id="what is the same is said once"),
        pytest.param([1000, 1001, 1003], [c.STEPS, [1000, 1, 2]], id="what grows is said in steps"),
        pytest.param([5, -900, 5], [c.PLAIN, [5, -900, 5]], id="where steps would be longer, plainly"),
        pytest.param(["a", "b"] * 4, [c.CHOICE, ["a", "b"], [c.PLAIN, [0, 1] * 4]], id="words that repeat are said once"),
        pytest.param([(1, 2), (3, 2)], [c.TUPLE, [[c.STEPS, [1, 2]], [c.SAME, 2]]], id="pairs are two columns"),
        pytest.param([None, None], [c.NONE], id="nothing is nothing"),
    ],
)
def test_what_values_have_in_common_is_said_once(values, column):
    assert c.ColumnWriter().column(values) == column


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param({"b": 1, "a": 2}, {"a": 2, "b": 1}, id="amounts"),
        pytest.param({("n1", "g1"): 5, ("n1", "g0"): 3}, {("n1", "g0"): 3, ("n1", "g1"): 5}, id="charges of devices"),
    ],
)
def test_amounts_are_written_in_one_order_whatever_happened_to_them(one, other):
    assert c.ColumnWriter().column([one]) == c.ColumnWriter().column([other])


def test_a_table_whose_keys_have_no_order_among_them_is_written_as_it_is():
    table = {"b": 1, ("a", 2): 3, None: 4}
    assert list(there_and_back([table])[0].items()) == list(table.items())


def test_an_object_is_written_once_and_pointed_at_from_everywhere():
    scope = Scope("policy", "policy a/b", use={"gpu": 3})
    writer = c.ColumnWriter()
    assert writer.column([scope, scope]) == [c.REFS, 0, [c.SAME, 0]]
    assert [(number, count) for number, count, _ in writer.batches()] == [(0, 1)]
    assert writer.kinds == [Scope]


def test_what_is_not_declared_is_refused():
    with pytest.raises(state_schema.UnknownSort, match="complex stands in the state"):
        c.ColumnWriter().column([1j])


def test_values_of_a_class_unknown_here_are_nothing():
    writer = c.ColumnWriter()
    column = writer.column([Shape(1, 0, 2, 3, ())])
    assert c.ColumnReader([("requests.Form", ["whole"])]).column(column, 1) == [None]


def test_a_part_of_a_value_that_is_unknown_here_is_dropped_and_a_missing_one_takes_its_default():
    column = [c.RECORD, 0, [[c.SAME, "drain"], [c.SAME, 5], [c.SAME, 6], [c.SAME, "later"]]]
    reader = c.ColumnReader([("fact.Ladder", ["cause", "callback_grace", "term_grace", "mood"])])
    assert reader.column(column, 1) == [Ladder(cause="drain", callback_grace=5, term_grace=6)]
