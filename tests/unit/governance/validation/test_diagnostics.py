from __future__ import annotations

import pytest

from headrace.contracts.documents.model import Pool
from headrace.governance.objects import ObjectName, PlacedDocument
from headrace.governance.validation.diagnostics import Diagnostics, listed, unknown

WEST = ObjectName("pool", "", "west")


def test_what_stands_in_the_set_is_told_by_its_place_the_rest_by_name():
    findings = Diagnostics([PlacedDocument(WEST, Pool(name="west", selector={}), ("pools", 3))])
    assert findings.where(WEST) == "pools[3]"
    assert findings.where(WEST, "access", "allow", 0) == "pools[3].access.allow[0]"
    assert findings.where(ObjectName("policy", "acme", "ai")) == "policy acme/ai"
    assert findings.where(ObjectName("policy", "acme", "ai"), "limit", "gpu") == "policy acme/ai: limit.gpu"


def test_each_line_is_told_once():
    findings = Diagnostics()
    for _ in range(2):
        findings.error("pools[0]", "it is wrong")
        findings.warn("pools[0]", "TOKEN", "it is odd")
    assert (findings.errors, findings.warnings) == (["pools[0]: it is wrong"], ["pools[0]: TOKEN: it is odd"])


@pytest.mark.parametrize(
    ("text", "known", "line"),
    [
        ("wset", ["west", "east"], "there is no pool wset; did you mean west?"),
        ("north", ["west", "east"], "there is no pool north; there are east, west"),
        ("north", ["x"], "there is no pool north; there is x"),
        ("north", [], "there is no pool north; there is nothing of this kind"),
        ("a\nb", [], "there is no pool 'a\\nb'; there is nothing of this kind"),
        ("x" * 1_000, [], f"there is no pool {'x' * 80}; there is nothing of this kind"),
        ("acme/x", ["beta/x", "acme/xx"], "there is no pool acme/x; did you mean beta/x?"),
    ],
)
def test_an_unknown_name_comes_with_a_hint(text, known, line):
    assert unknown("pool", text, known) == line


def test_long_lists_are_cut():
    assert listed("abcdefgh") == "a, b, c, d, e, f, g, h"
    assert listed("abcdefghij") == "a, b, c, d, e, f, g, h and 2 more"
