"""What the README and the guide tell a newcomer to type does what they say."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
GUIDE = ROOT / "docs/guide.md"


def tour() -> list[list[str]]:
    """The arguments of each `headrace` command in a block of shell of the five-minute tour, in order."""
    tour = GUIDE.read_text(encoding="utf-8").partition("## Five minutes with it")[2].partition("A job can also be submitted")[0]
    text = "\n".join(re.findall(r"^```sh\n(.*?)^```", tour, flags=re.DOTALL | re.MULTILINE))
    return [shlex.split(line, comments=True)[1:] for line in re.findall(r"^headrace .*$", text, flags=re.MULTILINE)]


def over_http(api: str, environment: dict[str, str]) -> list[Any]:
    """What the commands of the part about HTTP answer, in order, as a shell reads them."""
    (script,) = re.findall(r"### The same over HTTP.*?```sh\n(.*?)```", GUIDE.read_text(encoding="utf-8"), flags=re.DOTALL)
    ours = f'headrace() {{ "{sys.executable}" -m headrace.cli "$@"; }}; python() {{ "{sys.executable}" "$@"; }}'
    text = "\n".join(("set -euo pipefail", ours, script.replace("http://127.0.0.1:8080", api)))
    done = subprocess.run(["bash", "-c", text], cwd=ROOT, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, (done.stdout, done.stderr)
    return [json.loads(line) for line in done.stdout.splitlines() if line]


def test_every_command_of_the_tour_works_when_pasted(headrace, environment):
    assert headrace("up", "--detach").returncode == 0
    job, outputs = "", {}
    for arguments in tour():
        done = headrace(*[job if word == "JOB" else word for word in arguments])
        assert (done.returncode, done.stdout != "") == (0, True), (arguments, done.stdout, done.stderr)
        if arguments[0] == "submit":
            job = done.stdout.split()[0 if "--wait" in arguments else -1]  # with --wait the job's output follows
        outputs[" ".join(arguments[:2])] = done.stdout
    assert outputs["logs --user"] == "on gpu0:0.5\n"
    assert re.search(r"^state +pending$", outputs["why --user"], flags=re.MULTILINE)
    data = Path(environment["HEADRACE_DATA"])
    (query,) = re.findall(r"```sql\n(.*?)```", GUIDE.read_text(encoding="utf-8"), flags=re.DOTALL)
    query = query.partition(";")[0].replace("'archive/", f"'{data}/archive/").replace("'acme'", "'default'")
    with duckdb.connect() as asking:
        kinds = {kind for (kind,) in asking.sql(f"SELECT kind FROM ({query})").fetchall()}
    assert {"job.admitted.v1", "lease.granted.v1"} <= kinds
    if shutil.which("curl") is None or shutil.which("bash") is None:
        pytest.skip("the part about HTTP needs curl and bash, which are not installed here")
    answers = over_http(json.loads(headrace("status", "--json").stdout)["api"], environment)
    applied, queue, policy, submitted, jobs, usage = answers
    assert (applied["applied"], queue["policy"], policy["limit"]) == (True, "ai-dev", {"gpu": "12"})
    assert {job["user"] for job in (*submitted["jobs"], *jobs["jobs"])} == {"alice"}
    assert usage["lines"]


def test_every_command_of_the_readme_is_in_the_guide_as_well():
    def commands(path: Path) -> set[str]:
        return {
            line.partition("  #")[0].rstrip()
            for line in re.findall(r"^headrace .*$", path.read_text("utf-8"), flags=re.MULTILINE)
        }

    assert commands(README) - commands(GUIDE) == set()
    assert len(README.read_text("utf-8").splitlines()) <= 150


def test_the_scenario_that_the_readme_names_holds(headrace):
    done = headrace("simulate", str(ROOT / "tests/scenarios/V02.yaml"))
    assert (done.returncode, done.stderr) == (0, "")
