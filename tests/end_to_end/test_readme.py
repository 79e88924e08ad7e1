"""What the README tells a newcomer to type does what it says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"


def tour() -> list[list[str]]:
    """The arguments of each `headrace` command of the five-minute tour, in order."""
    text = (
        README.read_text(encoding="utf-8").partition("## Five minutes with it")[2].partition("A job can also be submitted")[0]
    )
    return [shlex.split(line, comments=True)[1:] for line in re.findall(r"^headrace .*$", text, flags=re.MULTILINE)]


def test_every_command_of_the_tour_works_when_pasted(headrace):
    assert headrace("up", "--detach").returncode == 0
    job, said = "", {}
    for arguments in tour():
        done = headrace(*[job if word == "JOB" else word for word in arguments])
        assert (done.returncode, done.stdout != "") == (0, True), (arguments, done.stdout, done.stderr)
        if arguments[0] == "submit":
            job = done.stdout.split()[-1]
        said[" ".join(arguments[:2])] = done.stdout
    assert said["logs --user"] == "on gpu0:0.5\n"
    assert re.search(r"^state +pending$", said["why --user"], flags=re.MULTILINE)


def test_the_scenario_that_the_readme_names_holds(headrace):
    done = headrace("simulate", str(README.parent / "tests/scenarios/V02.yaml"))
    assert (done.returncode, done.stderr) == (0, "")
