"""`headrace status`: what is told of parts that are well, behind, silent or away."""

from __future__ import annotations

import json
import os

import msgspec
import pytest
from msgspec import Raw

from headrace.cli.main import main
from headrace.cli.operations import status as status_module
from headrace.cli.operations import status_over_nats
from headrace.client import HeadraceError, Unreachable
from headrace.contracts.messages.installation import FollowerStatus, StreamStatus
from headrace.contracts.messages.queries import Answer, ServiceView
from headrace.contracts.transport.codec import encode
from headrace.health import query as asking
from headrace.health.addresses import write_target
from headrace.health.query import Readiness
from headrace.supervisor.installation import Installation
from headrace.supervisor.processes.pidfile import ChildView, Lock, RunningInstallation, write_running


@pytest.fixture
def installation(tmp_path):
    made = Installation(tmp_path)
    made.prepare()
    return made


def test_status_where_nothing_is_up_fails_and_says_what_to_do(capsys, installation):
    assert main(["status", "--data", str(installation.directory)]) == 1
    assert capsys.readouterr().err == f"headrace: Headrace is not up in {installation.directory}; `headrace up` starts it\n"


class FakeClient:
    """The operator's connection."""

    def __init__(self, answers):
        self.answers = answers

    async def __aenter__(self):
        if isinstance(self.answers, HeadraceError):
            raise self.answers
        return self

    async def __aexit__(self, *_):
        return None

    async def ask(self, subject, **_):
        if subject.startswith("$JS"):
            return b'{"state": {"last_seq": 20}}'
        view = self.answers.get(subject.split(".")[2])
        if view is None:
            raise Unreachable("nobody listens")
        return encode(Answer(sequence=1, body=Raw(encode(view))))


@pytest.fixture
def status(monkeypatch, capsys, installation):
    """`headrace status` of two parts that run, where services answer so."""

    def run(answers, *flags):
        monkeypatch.setattr(status_over_nats, "operator_client", lambda _: FakeClient(answers))
        children = (
            ChildView(name="nats-server", state="running", pid=7),
            ChildView(name="feed", state="running", pid=8, restarts=2, exit_code=-9),
        )
        with Lock(installation):
            write_running(
                installation, RunningInstallation(pid=os.getpid(), since=1, url="nats://x", ready=True, children=children)
            )
            code = main(["status", "--data", str(installation.directory), *flags])
        return code, *capsys.readouterr()

    return run


VIEW = ServiceView(service="feed", folded=17, now=1, engine="headrace/0", detail={"jobs": 3, "pending": 2, "running": 1})


def test_status_tells_who_runs_how_often_restarted_and_how_far_behind(status):
    code, out, err = status({"feed": VIEW})
    assert (code, err) == (0, "")
    assert out.splitlines()[3:] == [
        "PART         STATE    PID  RESTARTS  FOLDED  LAG  JOBS  PENDING  RUNNING",
        "nats-server  running    7         0",
        "feed         running    8         2      17    3     3        2        1",
    ]


def test_status_says_where_figures_are_and_who_is_not_ready(status, installation, monkeypatch):
    def ask(addresses):
        assert addresses == {"127.0.0.1:9101"}
        return {
            "127.0.0.1:9101": Readiness("feed", ready=False, checks={"nats": "", "ledger": "still reading: 3 records to go"})
        }

    monkeypatch.setattr(asking, "ask", ask)
    write_target(installation.metrics, "feed", "127.0.0.1:9101")
    code, out, _ = status({"feed": VIEW})
    lines = out.splitlines()
    assert (code, lines[-1]) == (0, "feed is not ready: ledger: still reading: 3 records to go")
    assert lines[-2] == (
        f"METRICS are http://ADDRESS/metrics (token: {installation.credentials}/metrics.token), /livez and /readyz beside them."
    )
    assert (lines[3].split()[-1], lines[5].split()[-1]) == ("METRICS", "127.0.0.1:9101")


def test_of_several_servers_status_tells_who_leads_the_ledger_and_how_far_behind_the_others_are(status, monkeypatch):
    led = StreamStatus(
        leader="headrace-1",
        replicas=(FollowerStatus(name="headrace-2", lag=3), FollowerStatus(name="headrace-3", offline=True)),
    )
    monkeypatch.setattr(status_over_nats, "standing", lambda _: led)
    code, out, _ = status({"feed": VIEW})
    expected = "The ledger: nats-server-1 leads, nats-server-2 follows (3 behind), nats-server-3 is away (0 behind)."
    assert (code, out.splitlines()[-1]) == (0, expected)


def test_a_ledger_without_a_leader_is_a_failure(status, monkeypatch):
    monkeypatch.setattr(status_over_nats, "standing", lambda _: StreamStatus(replicas=(FollowerStatus(name="headrace-2"),)))
    code, _, err = status({"feed": VIEW})
    assert (code, err) == (1, "headrace: the ledger has no leader among the NATS servers: most of them have to be up\n")


def test_status_says_who_is_far_behind_and_how_fast_it_goes_on(status, monkeypatch):
    monkeypatch.setattr(status_module, "LAG_SHOWN", 2)
    behind = ServiceView(service="feed", folded=17, now=1, engine="headrace/0", detail={"facts_per_s": 12_000})
    assert (
        status({"feed": behind})[1].splitlines()[-1] == "feed is 3 records behind the ledger, and reads 12000 facts a second."
    )
    assert status({"feed": VIEW})[1].splitlines()[-1] == "feed is 3 records behind the ledger."


def test_status_for_programs(status):
    code, out, _ = status({"feed": VIEW}, "--json")
    printed = json.loads(out)
    assert (code, printed["tip"], printed["ready"], printed["url"]) == (0, 20, True, "nats://x")
    assert printed["parts"][1] == {
        "name": "feed",
        "state": "running",
        "pid": 8,
        "restarts": 2,
        "since": None,
        "exit_code": -9,
        "trouble": "",
        "process": "",
        "folded": 17,
        "lag": 3,
        "engine": "headrace/0",
        "reads": 1,
        "jobs": 3,
        "pending": 2,
        "running": 1,
    }


@pytest.mark.parametrize(("count", "findings"), [(1, "1 finding"), (3, "3 findings")])
def test_a_ledger_that_is_not_as_it_was_is_told_loudly(status, count, findings):
    view = msgspec.structs.replace(VIEW, detail=VIEW.detail | {"findings": count, "verified": 15, "sealed": 10})
    code, out, err = status({"feed": view}, "--json")
    assert (code, err) == (
        1,
        f"headrace: THE LEDGER IS NOT AS IT WAS WRITTEN OR DECIDED: {findings}; `headrace audit verify` says what and where\n",
    )
    part = json.loads(out)["parts"][1]
    assert (part["verified"], part["sealed"], part["findings"]) == (15, 10, count)


def test_what_is_wrong_with_a_part_is_told_with_the_way_out(capsys, installation, monkeypatch):
    monkeypatch.setattr(status_over_nats, "operator_client", lambda _: FakeClient({}))
    full = ChildView(name="nats-server", state="running", pid=7, trouble="the disk of /x is full (0 MiB free)")
    void = [ChildView(name=name, state="given-up", trouble="record 4 is void") for name in ("callout-1", "callout-2")]
    with Lock(installation):
        write_running(installation, RunningInstallation(pid=os.getpid(), since=1, ready=True, children=(full, *void)))
        assert main(["status", "--data", str(installation.directory)]) == 1
    assert capsys.readouterr().err == (
        f"headrace: callout-1, callout-2: not ready; see the logs in {installation.logs}; "
        "nats-server: the disk of /x is full (0 MiB free); callout-1, callout-2: record 4 is void\n"
    )


def test_status_says_which_facts_are_stated_and_who_keeps_newer_ones_back(status):
    view = ServiceView(service="governance", folded=17, now=1, engine="headrace/0", newest=2, held_back=("feed is not there",))
    code, out, _ = status({"feed": VIEW, "governance": view})
    assert (code, out.splitlines()[-2:]) == (
        0,
        ["Facts have level 1; it rises to 2 when every part can read that:", "  feed is not there"],
    )
    printed = json.loads(status({"feed": VIEW, "governance": view}, "--json")[1])
    assert printed["level"] == {"stated": 1, "newest": 2, "held_back": ["feed is not there"]}


def test_a_part_that_does_not_answer_is_named_and_fails(status, installation):
    code, out, err = status({})
    assert (code, err) == (1, f"headrace: feed: not ready; see the logs in {installation.logs}\n")
    assert "silent" in out


def test_a_bus_that_is_away_is_the_trouble(status):
    code, _, err = status(Unreachable("NATS does not answer"))
    assert (code, err) == (1, "headrace: NATS does not answer\n")
