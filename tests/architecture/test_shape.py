"""Size and names: files and functions that fit in a head, packages that say what they are for."""

from __future__ import annotations

import ast

import pytest

from tests.architecture.tree import SOURCE_ROOTS, files, parsed, sources, text

FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 60
CHARTER_LINES_MAX = 20

ATTRACTS_EVERYTHING = {"common", "utils", "util", "helpers", "helper", "misc", "manager", "base"}


def packages() -> list[str]:
    return [path for path in sources() if path.endswith("/__init__.py")]


@pytest.mark.parametrize("path", packages())
def test_every_package_starts_with_its_charter(path):
    charter = ast.get_docstring(parsed(path)) or ""
    assert charter, "say which question the package answers, what it reads, what it writes, what it never does"
    assert len(charter.splitlines()) <= CHARTER_LINES_MAX


def test_every_folder_of_sources_is_a_package():
    folders = {path.rpartition("/")[0] for path in sources()}
    assert sorted(folder for folder in folders if f"{folder}/__init__.py" not in packages()) == []


def test_headrace_itself_is_not_a_package_so_that_three_source_trees_can_share_it():
    assert [root for root in SOURCE_ROOTS if f"{root}/headrace/__init__.py" in files()] == []


def test_every_module_says_what_it_is_for():
    assert [path for path in sources() if not ast.get_docstring(parsed(path))] == []


def test_files_stay_short_enough_to_be_read_in_one_go():
    long = {path: len(text(path).splitlines()) for path in sources()}
    assert {path: lines for path, lines in long.items() if lines > FILE_LINES_MAX} == {}


def test_functions_stay_short_enough_to_be_seen_at_once():
    long = [
        f"{path}:{node.lineno} {node.name} has {lines} lines"
        for path in sources()
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (lines := (node.end_lineno or node.lineno) - node.lineno + 1) > FUNCTION_LINES_MAX
    ]
    assert long == []


def test_no_module_has_a_name_that_attracts_everything():
    parts = {path: set(path.removesuffix(".py").split("/")) for path in sources()}
    assert [path for path, names in parts.items() if names & ATTRACTS_EVERYTHING] == []
