"""`headrace rules` prints what docs/rules.md says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from headrace.cli.rules import read_rules

PAGE = Path(__file__).parents[3] / "docs/rules.md"


def test_every_rule_of_the_page_is_listed_in_its_order(headrace):
    ran = headrace("rules")
    numbers = re.findall(r"^### (R\d+)", PAGE.read_text("utf-8"), re.MULTILINE)
    assert (ran.code, numbers) == (0, sorted(set(numbers), key=lambda number: int(number[1:])))
    assert [line.split()[0] for line in ran.out.splitlines()[1:]] == numbers


@pytest.mark.parametrize("typed", ["R26", "r26", "26"])
def test_a_rule_is_printed_by_its_number(headrace, typed):
    ran = headrace(f"rules {typed}")
    assert (ran.code, ran.err) == (0, "")
    title, _, first, *_ = ran.out.splitlines()
    assert title == "R26: Legal, sufficient and minimal sets"
    assert first in PAGE.read_text("utf-8")


def test_links_are_printed_as_their_text():
    page = "## A\n\n### R1: One { #r1 }\n\nSee [R2](#r2).\n\n### R2: Two\n\nText.\n## B\nno rule\n"
    assert [tuple(rule) for rule in read_rules(page)] == [("R1", "One", "See R2."), ("R2", "Two", "Text.")]


def test_rules_for_programs_are_objects(headrace):
    (rule,) = json.loads(headrace("rules R1 --json").out)
    assert (rule["rule"], rule["title"]) == ("R1", "Amounts are integers")


@pytest.mark.parametrize("typed", ["R1000", "fairness"])
def test_an_unknown_rule_is_one_line(headrace, typed):
    ran = headrace(f"rules {typed}")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith(f"headrace: there is no rule {typed!r}; there are R1 to R")
