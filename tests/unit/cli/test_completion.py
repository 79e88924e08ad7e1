"""What a shell offers, through the real shells as far as they are installed."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from headrace.cli import completion
from headrace.cli.main import main
from headrace.client import Unreachable
from headrace.contracts.messages.queries import DocumentView, GetAnswer, JobView, NodeView, QueueView

ID = "01jd3v8k5w2m4x6z8b0c2e4g6h"
JOB = JobView(id=ID, job=f"acme.bob.{ID}", tenant="acme", user="bob", name="train", queue="ai-dev/half", state="running")
LIVE = {
    "queues": (QueueView(name="ai-dev/half", tenant="acme", policy="ai-dev", profile="half", pending=0, running=0),),
    "jobs": (JOB,),
    "nodes": (NodeView(name="gpu01", pool="onprem", state="ready"), NodeView(name="gpu02", pool="onprem", state="ready")),
    "documents": GetAnswer(documents=(DocumentView(kind="policy", name="acme/ai-dev", revision=1, document={}),)),
}


@pytest.fixture
def offered(headrace):
    """What is offered for the last of these words."""

    def of(*words, **answers):
        ran = headrace(["completion", "bash", "--words", *words], **(LIVE | answers))
        assert (ran.code, ran.err) == (0, "")
        return ran.out.split()

    return of


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("sub",), ["submit"]),
        (("node", "dr"), ["drain"]),
        (("submit", "--qu"), ["--queue"]),
        (("submit", "--queue", ""), ["ai-dev/half"]),
        (("submit", "--queue", "=", "ai"), ["ai-dev/half"]),
        (("submit", "--queue", "ai-dev/half", "--after", "tr"), ["train"]),
        (("logs", ""), ["last", "train", ID]),
        (("logs", "last", ""), []),
        (("cancel", "train", "01"), [ID]),
        (("jobs", "--state", "r"), ["running", "rejected"]),
        (("jobs", "--owner", ""), ["alice", "bob"]),
        (("node", "cordon", "gpu"), ["gpu01", "gpu02"]),
        (("get", "p"), ["pool", "profile", "policy"]),
        (("get", "policy", ""), ["ai-dev"]),
        (("delete", "--mode", "drain", "policy", ""), ["ai-dev"]),
        (("submit", "--queue", "ai-dev/half", "--", "tr"), []),
        (("unknown", ""), []),
    ],
)
def test_the_words_that_may_follow_are_offered(offered, words, expected):
    if words == ("unknown", ""):
        assert "submit" in offered(*words)
    else:
        assert offered(*words) == expected


def test_without_an_answer_no_names_are_offered_and_nothing_is_said(offered):
    assert offered("submit", "--queue", "", queues=Unreachable("away")) == []


def test_live_names_are_those_of_the_installation_that_is_typed(monkeypatch, capsys):
    asked = []

    def client(args):
        asked.append((args.server, args.tenant, args.data))
        raise Unreachable("away")

    monkeypatch.setattr(completion, "client", client)
    assert main(["completion", "bash", "--words", "submit", "--server", "https://a", "--tenant", "acme", "--queue", ""]) == 0
    assert (asked, capsys.readouterr()) == ([("https://a", "acme", None)], ("", ""))


def test_bash_completes_commands_and_options(tmp_path):
    """The script is read by a real bash, which calls the real command."""
    program = tmp_path / "headrace"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m headrace.cli "$@"\n')
    program.chmod(0o755)
    script = """
        set -eu; PATH="$1:$PATH"
        source <(headrace completion bash)
        complete -p headrace
        offer() { COMP_WORDS=(headrace "$@"); COMP_CWORD=$#; _headrace; echo "${COMPREPLY[*]-}"; }
        offer sub
        offer node dr
        offer submit --non-pre
        offer get pol
    """
    done = subprocess.run(["bash", "-c", script, "bash", str(tmp_path)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "complete -o default -F _headrace headrace",
        "submit",
        "drain",
        "--non-preemptible",
        "policy",
    ]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_other_shells_can_read_their_scripts(headrace, tmp_path, shell):
    script = headrace(f"completion {shell}").out
    assert f"headrace completion {shell} --words" in script
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    file = tmp_path / "script"
    file.write_text(script)
    done = subprocess.run([shell, "-n", str(file)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
