"""What stands in deploy for operators is about what there is: figures, runbooks, commands."""

from __future__ import annotations

import ast
import functools
import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.architecture.command_words import understood
from tests.architecture.tree import ROOT, parsed, sources, text

DEPLOY = Path(ROOT, "deploy")
RULES = DEPLOY / "prometheus/headrace.rules.yaml"
RUNBOOKS = sorted((DEPLOY / "runbooks").glob("*.md"))
DECLARING = {"gauge", "counter", "histogram", "histograms"}
EVERYWHERE = {"job", "instance", "le"}
OF_THE_PROCESS = {"process_start_time_seconds", "process_cpu_seconds_total", "process_resident_memory_bytes"}
SECTIONS = ["What it means", "How to see it", "What to do", "When it is over"]


@functools.cache
def declared() -> dict[str, set[str]]:
    """Every figure that the code declares, with its labels; a histogram under the three names that Prometheus gives it."""
    found: dict[str, set[str]] = {name: set() for name in OF_THE_PROCESS}
    declaring = [path for path in sources() if '"headrace_' in text(path)]
    for call in (node for path in declaring for node in ast.walk(parsed(path)) if isinstance(node, ast.Call)):
        kind = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        words = [arg.value for arg in call.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
        if kind in DECLARING and words and words[0].startswith("headrace_"):
            endings = ("_bucket", "_sum", "_count") if kind.startswith("histogram") else ("",)
            found |= {words[0] + ending: set(words[2:]) for ending in endings}
    return found


@functools.cache
def rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(RULES.read_text("utf-8"))["groups"] for rule in group["rules"]]


def panels() -> list[dict[str, Any]]:
    return [
        panel for panel in json.loads((DEPLOY / "grafana/headrace.json").read_text("utf-8"))["panels"] if panel["type"] != "row"
    ]


def expressions() -> list[str]:
    return [rule["expr"] for rule in rules()] + [target["expr"] for panel in panels() for target in panel["targets"]]


def commands(page: str) -> list[str]:
    """Every command of ours that a page shows, in a block or in a sentence."""
    blocks = [line for block in re.findall(r"```sh\n(.*?)```", page, flags=re.DOTALL) for line in block.splitlines()]
    inline = re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", page, flags=re.DOTALL))
    return [command for command in (*blocks, *inline) if command.startswith("headrace ")]


def test_every_alert_has_its_runbook_and_every_runbook_its_alert():
    names = [rule["alert"] for rule in rules()]
    assert sorted(names) == [page.stem for page in RUNBOOKS]
    assert [rule["annotations"]["runbook_url"] for rule in rules()] == [f"deploy/runbooks/{name}.md" for name in names]


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_an_alert_says_how_bad_for_how_long_and_what(rule):
    assert rule["labels"]["severity"] in {"warning", "critical"}
    assert re.fullmatch(r"\d+[mhd]", rule["for"])
    assert re.fullmatch(r"[A-Z{].{15,140}\.", rule["annotations"]["summary"])
    shown = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
    kept = {label for inner in re.findall(r"\bby \(([^)]*)\)", rule["expr"]) for label in inner.split(", ")}
    if re.match(r"(max|sum|histogram_quantile|count)\b", rule["expr"]):
        assert shown <= kept - {"le"}, "what is summed away cannot be shown"


@pytest.mark.parametrize("page", RUNBOOKS, ids=lambda page: page.stem)
def test_a_runbook_has_its_parts_and_repeats_its_alert(page):
    runbook = page.read_text("utf-8")
    (rule,) = (rule for rule in rules() if rule["alert"] == page.stem)
    assert runbook.startswith(f"# {page.stem}\n\nSeverity: {rule['labels']['severity']}.\n")
    assert re.findall(r"^## (.*)$", runbook, flags=re.MULTILINE) == SECTIONS
    assert f"`{rule['expr']}`" in runbook
    assert commands(runbook), "say what to type"
    missing = [link for link in re.findall(r"\]\(([^)]+)\)", runbook) if not (page.parent / link).is_file()]
    assert missing == []


def test_every_figure_in_a_rule_or_on_the_dashboard_is_one_that_the_code_declares_with_the_labels_it_has():
    known = declared()
    unknown, strange = set(), set()
    for expression in expressions():
        for name, matchers in re.findall(r"\b((?:headrace|process)_[a-z0-9_]+)(?:\{([^}]*)\})?", expression):
            unknown |= {name} - set(known)
            labels = set(re.findall(r"(\w+)\s*[=!]", matchers))
            strange |= {f"{name}: {label}" for label in labels - known.get(name, set()) - EVERYWHERE}
    assert (sorted(unknown), sorted(strange)) == ([], [])
    assert len(known) > 80, "the code's own figures were not found"


@pytest.mark.parametrize("page", [*RUNBOOKS, *sorted(DEPLOY.glob("*.md"))], ids=lambda page: page.stem)
def test_every_command_on_a_page_for_operators_is_one_that_there_is(page):
    for command in commands(page.read_text("utf-8")):
        assert understood(shlex.split(command, comments=True)[1:]), f"{page.name}: {command}"


def test_the_dashboard_is_laid_out_without_overlaps():
    taken = set()
    for panel in panels():
        place = panel["gridPos"]
        cells = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells
    ids = [panel["id"] for panel in panels()]
    assert len(set(ids)) == len(ids) > 20


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed: apt install prometheus brings it")
def test_prometheus_itself_takes_rules_and_configuration(tmp_path):
    for name in ("headrace.rules.yaml", "prometheus.yaml"):
        configuration = (DEPLOY / "prometheus" / name).read_text("utf-8").replace("/var/lib/headrace", str(tmp_path))
        (tmp_path / name).write_text(configuration)
    (tmp_path / "credentials").mkdir()
    (tmp_path / "credentials/metrics.token").write_text("x")
    done = subprocess.run(
        ["promtool", "check", "config", str(tmp_path / "prometheus.yaml")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(rules())} rules found" in done.stdout
