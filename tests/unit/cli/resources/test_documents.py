"""`headrace apply`, `get`, `delete`: mistakes are told with file and line, plans as plans."""

from __future__ import annotations

import io
import json

import pytest

from headrace.client import Refused
from headrace.contracts.messages.queries import (
    ApplyAnswer,
    ApplyRequest,
    Change,
    DeleteRequest,
    DocumentView,
    GetAnswer,
)
from headrace.contracts.transport.codec import encode

POOLS = "pools:\n  - {name: onprem, selector: {site: hq}}\n"
GROUPS = "groups:\n  - {name: rnd, members: [alice]}\n"
CHANGES = (
    Change(kind="pool", name="onprem", action="create"),
    Change(kind="policy", name="default/rnd", action="update", fields=("limit.gpu: 4 -> 8",)),
    Change(kind="group", name="default/rnd", action="keep"),
)
PLAN = "+ pool onprem\n~ policy default/rnd\n    limit.gpu: 4 -> 8\n= group default/rnd\n"


@pytest.fixture
def files(tmp_path):
    for name, text in (("pools.yaml", POOLS), ("groups.yaml", GROUPS)):
        (tmp_path / name).write_text(text)
    return [str(tmp_path / "pools.yaml"), str(tmp_path / "groups.yaml")]


def test_files_are_applied_together_and_the_plan_is_told(headrace, files):
    answer = ApplyAnswer(changes=CHANGES, warnings=("GRANULARITY: x",), applied=True, revision=17, running=1, pending=2)
    ran = headrace(["apply", "-f", *files, "--reason", "growth"], apply=answer)
    assert ran[:3] == (
        0,
        f"{PLAN}Applied as revision 17; affects 1 running and 2 pending jobs.\n",
        "warning: GRANULARITY: x\n",
    )
    ((what, (request,), _),) = ran.calls
    documents = {"pools": [{"name": "onprem", "selector": {"site": "hq"}}], "groups": [{"name": "rnd", "members": ["alice"]}]}
    assert (what, request) == ("apply", ApplyRequest(documents=documents, reason="growth"))


def test_a_dry_run_writes_nothing_and_says_so(headrace, files):
    ran = headrace(["apply", "-f", files[0], "--dry-run"], apply=ApplyAnswer(changes=CHANGES))
    assert ran.out == f"{PLAN}Dry run: nothing is written.\n"
    assert ran.calls[0][1][0].dry_run is True


def test_a_plan_without_changes_says_so(headrace, files):
    ran = headrace(["apply", "-f", files[0]], apply=ApplyAnswer(changes=CHANGES[2:], applied=True))
    assert ran.out == "= group default/rnd\nNothing to change.\n"


def test_documents_come_from_standard_input_as_well(headrace, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(POOLS.encode())))
    assert headrace("apply -f - --json", apply=ApplyAnswer(changes=(), applied=True)).code == 0


def test_every_mistake_is_told_with_its_file_and_line_and_nothing_is_sent(headrace, tmp_path):
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text("pools:\n  - name: onprem\n    selektor: {site: hq}\ngroups: nonsense\n")
    ran = headrace(["apply", "-f", str(wrong)])
    assert (ran.code, ran.out, ran.calls) == (1, "", [])
    lines = ran.err.splitlines()
    assert lines
    assert all(line.startswith(f"headrace: {wrong}: line ") for line in lines)
    assert any("line 3: pools[0].selektor" in line for line in lines)
    assert any("line 4: groups" in line for line in lines)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "it cannot be read: No such file or directory"),
        (b"\xff", "line 1: this is not UTF-8; save the file as UTF-8 text"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_line(headrace, tmp_path, content, why):
    path = tmp_path / "file.yaml"
    if content is not None:
        path.write_bytes(content)
    assert headrace(["apply", "-f", str(path)])[:3] == (1, "", f"headrace: {path}: {why}\n")


def test_a_refusal_is_its_line_or_all_that_is_wrong(headrace, files):
    assert headrace(["apply", "-f", files[0]], apply=Refused("REFUSED", "pool onprem is too small"))[:3] == (
        *(1, "", "headrace: pool onprem is too small\n"),
    )
    body = encode(ApplyAnswer(changes=(), errors=("policies[0]: no group x", "policies[1]: no group y")))
    ran = headrace(["apply", "-f", files[0]], apply=Refused("INVALID", "policies[0]: no group x, and one more", body))
    assert ran[:3] == (1, "", "headrace: policies[0]: no group x\nheadrace: policies[1]: no group y\n")


def test_who_was_overtaken_is_shown_the_new_plan(headrace, files):
    stale = Refused("STALE", "somebody else came in between", encode(ApplyAnswer(changes=CHANGES)))
    assert headrace(["apply", "-f", files[0]], apply=stale)[:3] == (1, PLAN, "headrace: somebody else came in between\n")


def test_documents_are_shown_so_that_they_can_be_applied_again(headrace):
    rnd = DocumentView(kind="policy", name="default/rnd", revision=4, document={"name": "rnd", "limit": {"gpu": "9"}})
    ran = headrace("get policies rnd", documents=GetAnswer(documents=(rnd,)))
    assert ran.out == "policies:\n- name: rnd\n  limit:\n    gpu: 9\n"
    assert ran.calls == [("documents", ("policy", "rnd"), {})]
    (printed,) = json.loads(headrace("get policy --json", documents=GetAnswer(documents=(rnd,))).out)
    assert (printed["name"], printed["revision"], printed["document"]["name"]) == ("default/rnd", 4, "rnd")


def test_an_unknown_kind_is_not_asked_for(headrace):
    ran = headrace("get job")
    assert (ran.code, ran.out, ran.calls) == (2, "", [])
    kinds = "choose one of tenant, user, group, pool, profile, policy"
    assert ran.err == f"headrace get: argument KIND: unknown kind 'job'; {kinds}; `headrace get --help` shows how\n"


def test_a_deletion_names_what_when_and_why(headrace):
    gone = ApplyAnswer(changes=(Change(kind="pool", name="onprem", action="delete"),), applied=True, revision=9)
    ran = headrace("delete pool onprem --mode drain --tenant acme --reason old", delete=gone)
    assert ran[:3] == (0, "- pool onprem\nApplied as revision 9.\n", "")
    request = DeleteRequest(kind="pool", name="onprem", tenant="acme", mode="drain", reason="old")
    assert ran.calls == [("delete", (request,), {})]
