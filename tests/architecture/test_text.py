"""What must not stand in any file: traces of one machine, unfinished work, unknown rules."""

from __future__ import annotations

import re

from tests.architecture.tree import ROOT, files, sources, text

LAW = "docs/rules.md"
"""The page that states the rules, each under a heading with an anchor."""

# Put together here, so that this file is not the first to break its own rule.
MACHINES = re.compile(
    "|".join(
        (
            r"(?<![\w.…>-])/(?:wo" + "rk|fa" + "rm)/",
            r"py" + r"pi\.org",
            "python" + "hosted",
            r"npm" + r"js\.",
            r"deb\." + "debian",
        )
    )
)
UNFINISHED = re.compile("|".join(("NotImplemented" + "Error", r"\bTO" + r"DO\b", r"\bFIX" + r"ME\b", r"\bX" + r"XX\b")))
CITING = (".py", ".md", ".sql", ".proto", ".json", ".yaml")
RULE = re.compile(r"\bR([0-9]{1,3})\b")


def found(pattern: re.Pattern[str], paths: list[str]) -> list[str]:
    """Where a pattern stands: `path:line: what`."""
    return [
        f"{path}:{number}: {match[0]}"
        for path in paths
        for number, line in enumerate(text(path).splitlines(), 1)
        if (match := pattern.search(line))
    ]


def test_no_file_names_a_path_of_one_machine_or_a_registry():
    assert found(MACHINES, list(files())) == []


def test_no_source_is_unfinished():
    assert found(UNFINISHED, sources()) == []


def test_every_rule_that_is_cited_has_a_heading():
    stated = set(re.findall(r"^### R(\d+): .* \{ #r\1 \}$", text(LAW), re.MULTILINE))
    cited = {(path, number) for path in files() if path.endswith(CITING) for number in RULE.findall(text(path))}
    assert sorted((path, f"R{number}") for path, number in cited if number not in stated) == []


def test_every_target_of_the_makefile_is_explained():
    makefile = (ROOT / "Makefile").read_text("utf-8")
    declared = " ".join(re.findall(r"^\.PHONY: (.*)$", makefile, re.MULTILINE))
    explained = re.findall(r"^([a-z0-9-]+):.*## ", makefile, re.MULTILINE)
    assert sorted(explained) == sorted(declared.split())
