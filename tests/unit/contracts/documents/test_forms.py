from __future__ import annotations

import msgspec
import pytest

from headrace.contracts.documents.forms import FormError, Scalar, Several, Shape, Table, read_as
from headrace.contracts.documents.tree import DocumentErrors, tree_of


class Leaf(msgspec.Struct, kw_only=True):
    name: str
    size: int = 1
    since: str = ""


class Branch(msgspec.Struct, kw_only=True):
    leaves: tuple[Leaf, ...] = ()
    notes: dict[str, int] = {}


def number(text):
    if not text.isdecimal():
        raise FormError(f"{text!r} is no number")
    return int(text)


WORD = Scalar(str, "a word")
NUMBER = Scalar(number, "a number")
LEAF = Shape(
    Leaf,
    {"name": WORD, "size": NUMBER, "since": WORD},
    key=("name",),
    written_as={"since": "from"},
    short="name",
    check=lambda leaf: [(("size",), "too large for a leaf")] if leaf.size > 9 else [],
)
BRANCH = Shape(Branch, {"leaves": Several(LEAF), "notes": Table(NUMBER, str.upper, "{a: 1}")})


def errors_of(value, form=BRANCH):
    with pytest.raises(DocumentErrors) as refused:
        read_as(form, tree_of(value))
    return [(error.path, error.message) for error in refused.value.errors]


def test_a_shape_is_read_from_a_mapping_or_from_its_short_form():
    tree = tree_of({"leaves": ["a", {"name": "b", "size": 2, "from": "x"}], "notes": {"k": 3}})
    assert read_as(BRANCH, tree) == Branch(leaves=(Leaf(name="a"), Leaf(name="b", size=2, since="x")), notes={"K": 3})


def test_a_part_of_a_tree_can_be_read_alone():
    assert read_as(LEAF, tree_of({"all": [{"one": {"name": "a"}}]}), ("all", 0, "one")) == Leaf(name="a")


def test_what_is_written_leaves_out_defaults_and_is_as_short_as_it_can_be():
    branch = Branch(leaves=(Leaf(name="a"), Leaf(name="b", since="x")), notes={"K": 3})
    assert BRANCH.write(branch) == {"leaves": ["a", {"name": "b", "from": "x"}], "notes": {"K": 3}}
    assert LEAF.write_whole(Leaf(name="a")) == {"name": "a"}


def test_everything_that_is_wrong_is_found_in_one_reading():
    assert errors_of(
        {"leaves": [{"nam": "a", "size": "x"}, [], {"size": 2}, {"name": "z", "size": 10}], "notes": {"k": "v"}, "odd": 1}
    ) == [
        ("leaves[0].nam", "unknown key 'nam'; did you mean 'name'?"),
        ("leaves[0].size", "'x' is no number"),
        ("leaves[0]", "name is missing"),
        ("leaves[1]", "write a mapping with the keys name, size, from, not a list"),
        ("leaves[2]", "name is missing"),
        ("leaves[3].size", "too large for a leaf"),
        ("notes.k", "'v' is no number"),
        ("odd", "unknown key 'odd'; the keys here are leaves, notes"),
    ]


def test_what_could_not_be_read_is_not_complained_of_a_second_time():
    needed = Shape(Leaf, {"name": WORD, "size": NUMBER}, check=lambda leaf: [((), "size is one")] if leaf.size == 1 else [])
    assert errors_of({"name": "a", "size": "x"}, needed) == [("size", "'x' is no number")]
    assert errors_of({"name": "a", "sise": "2"}, needed) == [
        ("sise", "unknown key 'sise'; did you mean 'size'?"),
        ("", "size is one"),
    ]


def test_nothing_stands_twice_in_a_list_however_it_is_written():
    assert errors_of({"leaves": ["a", "b", {"name": "a", "size": "?"}]}) == [
        ("leaves[2]", "a occurs twice in this list, first at [0]"),
        ("leaves[2].size", "'?' is no number"),
    ]


@pytest.mark.parametrize(
    ("form", "complaint"),
    [
        (WORD, "write a word, not a mapping"),
        (Several(WORD), "write a list such as [a, b], not a mapping"),
        (Several(WORD, least=1), "write a list such as [a, b], not a mapping"),
    ],
)
def test_another_sort_of_value_is_refused_with_an_example(form, complaint):
    assert errors_of({}, form) == [("", complaint)]


def test_a_list_may_ask_for_a_least_number():
    assert errors_of({"leaves": []}, Shape(Branch, {"leaves": Several(LEAF, least=1)})) == [("leaves", "write at least 1 here")]


def test_an_attribute_may_have_a_default_that_the_struct_has_not():
    form = Shape(Leaf, {"name": WORD}, defaults={"name": "nobody"})
    assert read_as(form, tree_of({})) == Leaf(name="nobody")
    assert form.write(Leaf(name="nobody")) == {}
