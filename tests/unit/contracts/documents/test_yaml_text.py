from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.contracts.documents.tree import DEPTH_MAX, DocumentErrors, tree_of
from headrace.contracts.documents.yaml_text import TEXT_MAX, VALUES_MAX, read_tree, write_yaml

LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{chr(98 + level)}: &{chr(98 + level)} [{', '.join([f'*{chr(97 + level)}'] * 10)}]\n" for level in range(8)
)


def test_every_scalar_is_text_and_every_part_has_its_line():
    tree = read_tree(
        "# a comment\npools:\n  - name: a\n    capacity: {gpu: 0.5, on: yes}\n\npolicies: [{name: 'p', windows: 08:00}]\n"
    )
    assert tree.value == {
        "pools": [{"name": "a", "capacity": {"gpu": "0.5", "on": "yes"}}],
        "policies": [{"name": "p", "windows": "08:00"}],
    }
    parts = [("pools",), ("pools", 0), ("pools", 0, "capacity"), ("pools", 0, "capacity", "gpu"), ("policies", 0, "name")]
    assert [tree.line_of(part) for part in parts] == [2, 3, 4, 4, 6]


def test_json_is_yaml_with_numbers_as_they_were_written():
    assert read_tree('{"limit": {"gpu": 0.10, "cpu": 1e3}, "on": true, "off": null}').value == {
        "limit": {"gpu": "0.10", "cpu": "1e3"},
        "on": "true",
        "off": "null",
    }


def test_several_documents_in_one_file_are_one_set():
    tree = read_tree("pools: [{name: a}]\n---\n---\npools: [{name: b}]\n")
    assert tree.value == {"pools": [{"name": "a"}, {"name": "b"}]}
    assert tree.line_of(("pools", 1, "name")) == 4


def test_an_alias_stands_for_its_anchor():
    assert read_tree("a: &x {gpu: 1}\nb: *x\n").value == {"a": {"gpu": "1"}, "b": {"gpu": "1"}}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a: 1\nb: 2\na: 3\n", "line 3: a: this key is on line 1 already"),
        ("p:\n  - {x: 1, x: {y: 2}, x: 3}\n", "line 2: p[0].x: this key is on line 2 already\n" * 2),
        ("- a\n", "line 1: write a mapping such as policies: [...] at the top of the file"),
        ("just text\n", "line 1: write a mapping such as policies: [...] at the top of the file"),
        ("", "the file is empty; write a mapping such as policies: [...]"),
        ("---\n", "the file is empty; write a mapping such as policies: [...]"),
        ("a: *x\n", "line 1: the alias *x names no anchor"),
        ("a: &x [*x]\n", "line 1: a: the alias *x contains itself"),
        (
            "a: !!python/object:os.system x\n",
            "line 1: the tag tag:yaml.org,2002:python/object:os.system has no meaning here; leave it out",
        ),
        ("a: !!float 0.5\n", "line 1: the tag tag:yaml.org,2002:float has no meaning here; leave it out"),
        ("? [a]\n: b\n", "line 1: a key is plain text, not a collection"),
        (LAUGHS, f"line 6: f: a file is at most {VALUES_MAX} values, aliases counted as what they stand for"),
        ("a: b\n---\na: c\n", "line 3: a: this key is in an earlier document already, and only lists are joined; remove one"),
    ],
)
def test_what_hides_a_mistake_or_blows_up_is_refused(text, complaint):
    with pytest.raises(DocumentErrors) as refused:
        read_tree(text)
    assert str(refused.value) == complaint.rstrip("\n")


@pytest.mark.parametrize(
    ("text", "line"), [("a: [\n", 2), ("a:\n  b: c: d\n", 2), ("a: b\n c: d\n", 2), ("a: \t- x\n", 1), ('a: "\n', 2)]
)
def test_what_is_not_yaml_is_refused_with_the_line(text, line):
    with pytest.raises(DocumentErrors) as refused:
        read_tree(text)
    (error,) = refused.value.errors
    assert error.line == line
    assert error.message.startswith("malformed YAML: ")


@pytest.mark.parametrize("text", ['a: "\x01"', "a: \ud800", "\x00"])
def test_characters_that_no_text_has_are_refused(text):
    with pytest.raises(DocumentErrors, match="malformed YAML"):
        read_tree(text)


@pytest.mark.parametrize("text", ["a: " + "[" * 100_000, "a: " + "{a: " * 100_000])
def test_depth_is_refused_before_it_hurts(text):
    with pytest.raises(DocumentErrors, match=f"nested deeper than {DEPTH_MAX} levels"):
        read_tree(text)


def test_a_file_is_bounded():
    with pytest.raises(DocumentErrors, match=f"at most {TEXT_MAX} characters"):
        read_tree("#" * (TEXT_MAX + 1))


LINES = st.text(st.characters(blacklist_categories=["C", "Zl", "Zp"]), max_size=40).filter(str.isprintable)
TREES = st.dictionaries(
    LINES,
    st.recursive(
        LINES | st.integers() | st.booleans() | st.none(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(LINES, inner, max_size=3),
        max_leaves=8,
    ),
    min_size=1,
    max_size=4,
)


@given(TREES)
def test_what_is_written_is_read_again_as_the_same_text(value):
    assert read_tree(write_yaml(value)).value == tree_of(value).value


def test_quantities_are_written_without_quotes():
    assert write_yaml({"limit": {"gpu": "0.5", "memory": "64GiB"}, "borrow": False, "weight": 2, "most": None}) == (
        "limit:\n  gpu: 0.5\n  memory: 64GiB\nborrow: false\nweight: 2\nmost: null\n"
    )
