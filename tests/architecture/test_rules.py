"""Every rule, every acceptance vector and every reason is shown: by a scenario file, or by the one test that is named here."""

from __future__ import annotations

import ast
import re
from functools import cache
from runpy import run_path

import pytest
import yaml

from headrace.contracts.values.reasons import RejectReason, WaitReason
from tests.architecture.tree import ROOT, files, parsed, text

RULES = range(1, 39)
VECTORS = range(1, 23)
OTHER_PLACES = {
    "ID_REUSED": "tests/unit/admission/test_decide.py::test_the_same_id_with_other_content_is_refused",
    "ID_TOO_OLD": "tests/unit/admission/test_judge.py::test_an_id_is_usable_from_a_day_ago_to_five_minutes_ahead",
    "DISK_FULL": "tests/unit/admission/test_judge.py::test_while_storage_is_scarce_no_job_is_admitted_and_it_may_be_tried_again",
}
"""What no scenario can say, since it writes jobs without ids and no disk is full in it, and the test that shows it."""


def scenarios() -> list[str]:
    return [path for path in files() if re.fullmatch(r"tests/scenarios/[^/]+\.yaml", path)]


@cache
def shown() -> frozenset[str]:
    """Every rule and vector that has a file of its own, and every reason that some scenario expects of a job."""
    found: set[str] = set()
    for path in scenarios():
        letter, number = re.match(r"tests/scenarios/([RV])(\d+)[_.]", path).groups()
        found.add(f"{letter}{int(number)}")
        for moment in yaml.safe_load(text(path))["timeline"]:
            found |= set(moment.get("expect", {}).get("reasons", {}).values())
    return frozenset(found)


@pytest.mark.parametrize(
    "what",
    [*(f"R{number}" for number in RULES), *(f"V{number}" for number in VECTORS), *RejectReason, *WaitReason],
)
def test_it_has_a_scenario_or_a_test(what):
    assert what in shown() or str(what) in OTHER_PLACES


@pytest.mark.parametrize(("what", "test"), OTHER_PLACES.items())
def test_what_has_a_test_instead_has_it_and_no_scenario(what, test):
    path, _, name = test.partition("::")
    (body,) = (
        node
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name
    )
    assert what.startswith("R") or what in ast.unparse(body)
    assert what not in shown()


def test_the_page_of_rules_names_the_scenarios_of_each_as_make_schemas_writes_them():
    page = text("docs/rules.md")
    assert run_path(str(ROOT / "docs/site/scenario_links.py"))["linked"](page) == page, "run `make schemas`"
