from __future__ import annotations

import pytest

from headrace.contracts.documents.tree import (
    DEPTH_MAX,
    DocumentError,
    DocumentErrors,
    Tree,
    join_trees,
    path_of,
    path_text,
    tree_of,
)


def test_json_becomes_text_as_it_was_written():
    tree = tree_of({"a": 1, "b": [0.5, True, None, "x"], "c": {"d": -3}, 7: (1.25,)})
    assert tree == Tree({"a": "1", "b": ["0.5", "true", "null", "x"], "c": {"d": "-3"}, "7": ["1.25"]})


@pytest.mark.parametrize("value", [[], "text", 1, None])
def test_json_whose_root_is_not_a_mapping_is_refused(value):
    with pytest.raises(DocumentErrors, match="write a mapping"):
        tree_of(value)


def test_json_without_end_is_refused():
    deep: dict[str, object] = {}
    for _ in range(100_000):
        deep = {"a": deep}
    with pytest.raises(DocumentErrors) as refused:
        tree_of(deep)
    assert str(refused.value) == f"a.a.a: this is nested deeper than {DEPTH_MAX} levels"
    while deep:  # taken apart by hand: an interpreter may not free it in one go
        deep = deep["a"]  # type: ignore[assignment]


def test_an_absurd_number_is_refused():
    with pytest.raises(DocumentErrors) as refused:
        tree_of({"policies": [{"priority": 10**4_000}]})
    assert refused.value.errors == (DocumentError("policies[0].priority", None, "this number is too large"),)


def test_a_path_is_shown_as_people_point_at_things():
    assert path_text(("policies", 0, "limit", "license/abaqus")) == "policies[0].limit.license/abaqus"
    assert path_text(()) == ""


def test_the_line_of_a_part_is_that_of_the_nearest_part_that_has_one():
    tree = Tree({}, {(): 1, ("a",): 3, ("a", 0): 4})
    assert [tree.line_of(path) for path in [("a", 0, "x"), ("a", 1), ("b",)]] == [4, 3, 1]
    assert Tree({}).line_of(("a",)) is None


def test_errors_are_told_in_the_order_of_their_lines_one_line_each():
    errors = DocumentErrors(
        [DocumentError("b", 7, "second"), DocumentError("a.x", 2, "first"), DocumentError("", None, "before all")]
    )
    assert str(errors) == "before all\nline 2: a.x: first\nline 7: b: second"


def test_files_are_joined_list_by_list_and_keep_their_lines():
    first = Tree({"pools": ["p"], "users": []}, {(): 1, ("pools",): 1, ("pools", 0): 2})
    second = Tree({"pools": ["q"], "groups": ["g"]}, {(): 9, ("pools",): 9, ("pools", 0): 10, ("groups", 0): 12})
    joined = join_trees([first, second])
    assert joined.value == {"pools": ["p", "q"], "users": [], "groups": ["g"]}
    assert [joined.line_of(path) for path in [("pools", 0), ("pools", 1), ("groups", 0)]] == [2, 10, 12]
    assert first.value == {"pools": ["p"], "users": []}


def test_what_is_not_a_list_cannot_be_joined():
    with pytest.raises(DocumentErrors) as refused:
        join_trees([Tree({"seed": "1"}), Tree({"seed": "2"}, {("seed",): 8})])
    assert (
        str(refused.value) == "line 8: seed: this key is in an earlier document already, and only lists are joined; remove one"
    )


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("policies[0].limit.gpu: 3 is too much", ("policies", 0, "limit", "gpu")),
        ("policies[0]", ("policies", 0)),
        ("policy acme/dev: it is in use", ()),
        ("", ()),
    ],
)
def test_a_path_is_read_back_from_what_is_said_of_it(text, path):
    assert path_of(text) == path
