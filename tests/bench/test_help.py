"""Each benchmark and load tool says what it measures, what can be chosen, and how long it takes."""

from __future__ import annotations

import ast
import json
import subprocess
import sys

import pytest

from tests.architecture.tree import ROOT, files, parsed, text

TOOLS = [path for path in files() if path.startswith("bench/") and path.endswith(".py")]
COMMANDS = [path.removesuffix(".py").replace("/", ".") for path in TOOLS if '__name__ == "__main__"' in text(path)]


ASK_ALL = """
import contextlib, io, json, runpy, sys
answers = {}
for module in sys.argv[1:]:
    sys.argv = [module, "--help"]
    sys.modules.pop(module, None)  # another one has imported it
    output, code = io.StringIO(), None
    with contextlib.redirect_stdout(output):
        try:
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        except SystemExit as end:
            code = end.code
    answers[module] = code, output.getvalue()
print(json.dumps(answers))
"""
"""Asks all in one process: what they import takes half a second each time."""


@pytest.fixture(scope="module")
def answers():
    asked = subprocess.run(
        [sys.executable, "-c", ASK_ALL, *COMMANDS], cwd=ROOT, capture_output=True, text=True, check=False, timeout=300
    )
    assert (asked.returncode, asked.stderr) == (0, "")
    return json.loads(asked.stdout)


@pytest.mark.parametrize("module", COMMANDS)
def test_each_says_what_it_measures_and_how_long_it_takes(answers, module):
    code, output = answers[module]
    assert code == 0
    first, *_ = (ast.get_docstring(parsed(f"{module.replace('.', '/')}.py")) or "").splitlines()
    assert output.startswith(f"usage: python -m {module} ")
    assert module == "bench.run" or first in output
    assert "minute" in output or "as long as it is left running" in output


def test_every_option_is_explained():
    silent = [
        f"{path}:{node.lineno}"
        for path in TOOLS
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "add_argument"
        and not any(keyword.arg == "help" for keyword in node.keywords)
    ]
    assert silent == []


def test_every_tool_that_can_be_run_is_asked():
    assert {"bench.run", "bench.api", "bench.load.zombies", "bench.growth"} <= set(COMMANDS)
