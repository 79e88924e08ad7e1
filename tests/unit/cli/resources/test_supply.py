"""`headrace queues`, `pools`, `nodes`, `node ...` on canned answers; what `node run` becomes."""

from __future__ import annotations

import json
import os
import sys

import pytest

from headrace.cli.output.formatting import local
from headrace.cli.resources import supply
from headrace.client import Refused
from headrace.contracts.messages.explanation import UnusableView
from headrace.contracts.messages.queries import (
    ApplyAnswer,
    BudgetView,
    NodeRequest,
    NodeView,
    PoolKeyView,
    PoolView,
    QueueView,
    ScopeView,
    UserUseView,
)
from headrace.supervisor.installation import Installation, Settings
from headrace.supervisor.processes.pidfile import ChildView, Lock, RunningInstallation, write_running

GPU = 126_000
NOON = 1_795_262_400 * 1_000_000


def test_queues_show_what_waits_and_what_their_policy_holds(headrace):
    scopes = (
        ScopeView(key="gpu", used=9 * GPU, reservation=5 * GPU, limit=9 * GPU, reserved=5 * GPU, borrowed=4 * GPU),
        ScopeView(key="job", used=3, reservation=0, limit=None),
    )
    names = {"tenant": "acme", "policy": "rnd", "pending": 2, "running": 3}
    found = (
        QueueView(name="rnd/three", profile="three", scopes=scopes, **names),
        QueueView(name="rnd/two", profile="two", **names),
    )
    assert headrace("queues", queues=found).out.splitlines() == [
        "QUEUE      PENDING  RUNNING  KEY  USED  RESERVATION  BORROWED  LIMIT",
        "rnd/three        2        3  gpu     9            5         4      9",
        "                             job     3            0         0",
        "rnd/two          2        3",
    ]
    assert json.loads(headrace("queues --json", queues=found).out)[0]["scopes"][0]["used"] == "9"
    assert headrace("queues", queues=()).out == (
        "No queues in tenant default; `headrace apply` makes them, and --tenant asks for those of another tenant.\n"
    )
    assert json.loads(headrace("queues --json", queues=()).out) == []


def test_queues_show_once_for_each_policy_what_its_users_hold(headrace):
    ann = UserUseView(user="ann", used={"gpu": 6 * GPU, "job": 3}, limit={"gpu": 8 * GPU, "job": 4}, pending=5, max_pending=9)
    bob = UserUseView(user="bob", used={"gpu": GPU // 2})
    names = {"tenant": "acme", "policy": "rnd", "pending": 2, "running": 3, "fair_among": "users", "users": (ann, bob)}
    found = (QueueView(name="rnd/two", profile="two", **names), QueueView(name="rnd/one", profile="one", **names))
    assert headrace("queues", queues=found).out.splitlines()[4:] == [
        "POLICY      USER  KEY  USED  LIMIT  PENDING  AT MOST",
        "rnd (fair)  ann   gpu     6      8        5        9",
        "                  job     3      4",
        "            bob   gpu   0.5               0",
    ]
    assert json.loads(headrace("queues --json", queues=found).out)[0]["users"][1]["used"] == {"gpu": "0.5"}


def test_queues_show_what_closes_them_and_their_budgets(headrace):
    budget = BudgetView(key="gpu", hours=500, per="month", then="wait", used="412.250", spent=False, ends_at=1, warning="x")
    names = {"tenant": "acme", "policy": "rnd", "pending": 2, "running": 3, "budgets": (budget,)}
    found = (
        QueueView(name="rnd/two", profile="two", closed="drain", **names),
        QueueView(name="rnd/one", profile="one", shut=True, **names),
    )
    assert headrace("queues", queues=found).out.splitlines() == [
        "QUEUE    CLOSED  PENDING  RUNNING  BUDGET",
        "rnd/two  drain         2        3  412.250 of 500 h gpu per month, nearly used up",
        "rnd/one  window        2        3  412.250 of 500 h gpu per month, nearly used up",
    ]


def test_pools_show_what_is_free(headrace):
    lost = UnusableView(key="gpu", node="gpu07", cause="lost", amount=GPU, since=NOON)
    causes = (UnusableView(key="gpu", node="gpu02", cause="cordoned", amount=GPU, by="acme.olga", since=NOON), lost)
    amounts = {"capacity": 10 * GPU, "usable": 8 * GPU, "used": 3 * GPU, "free": 4 * GPU, "kept": GPU, "unusable": 2 * GPU}
    key = PoolKeyView(key="gpu", causes=causes, **amounts)
    found = (PoolView(name="onprem", nodes=2, keys=(key,), running=1, pending=4), PoolView(name="empty", nodes=0))
    assert headrace("pools", pools=found).out.splitlines() == [
        "POOL    NODES  RUNNING  PENDING  KEY  CAPACITY  USABLE  USED  KEPT  UNUSABLE  FREE",
        "onprem      2        1        4  gpu        10       8     3     1         2     4",
        "empty       0        0        0",
        "",
        "UNUSABLE  POOL    NODE   BECAUSE   BY         SINCE",
        f"gpu 1     onprem  gpu02  cordoned  acme.olga  {local(NOON)}",
        f"gpu 1     onprem  gpu07  lost                 {local(NOON)}",
    ]
    printed = json.loads(headrace("pools --json", pools=found).out)[0]["keys"][0]
    assert {word: printed[word] for word in amounts} == {word: str(amount // GPU) for word, amount in amounts.items()}
    assert printed["causes"][0] == {
        "key": "gpu",
        "node": "gpu02",
        "cause": "cordoned",
        "amount": "1",
        "by": "acme.olga",
        "since": "2026-11-21T12:00:00.000Z",
        "detail": "",
    }
    assert headrace("pools", pools=()).out == "No pools; `headrace apply` makes them.\n"


def test_nodes_show_what_they_have_and_what_is_free(headrace):
    node = NodeView(
        name="gpu01",
        pool="onprem",
        state="ready",
        labels={"site": "hq", "rack": "r7"},
        model="H100-80GB",
        gpus=8,
        gpu_free=GPU // 2,
        cpu=96_000,
        cpu_free=500,
        memory=1024 * 1024,
        memory_free=1024,
    )
    assert headrace("nodes", nodes=(node,)).out.splitlines() == [
        "NODE   POOL    STATE  MODEL      GPUS  FREE  CPU  FREE CPU  MEMORY  FREE MEMORY  LABELS",
        "gpu01  onprem  ready  H100-80GB     8   0.5   96       0.5    1TiB         1GiB  rack=r7,site=hq",
    ]
    assert json.loads(headrace("nodes --json", nodes=(node,)).out)[0]["gpu_free"] == "0.5"
    assert headrace("nodes", nodes=()).out == "No nodes; `headrace node run` adds one.\n"


def test_a_drain_tells_how_many_are_left_until_all_are_gone(headrace, monkeypatch):
    monkeypatch.setattr(supply, "POLL_EVERY", 0)
    answers = [ApplyAnswer(changes=(), applied=True, running=left) for left in (2, 2, 1, 0)]
    ran = headrace(["node", "drain", "gpu01", "--reason", "fan"], node_order=answers)
    assert ran[:3] == (0, "gpu01 is drained\n", "gpu01: 2 jobs have to stop\ngpu01: 1 jobs have to stop\n")
    assert ran.calls[0] == ("node_order", ("drain", NodeRequest(node="gpu01", reason="fan")), {})


def test_a_drain_is_scheduled_at_a_time_or_so_far_ahead(headrace, monkeypatch):
    monkeypatch.setattr("time.time_ns", lambda: 1_000_000_000)
    answer = ApplyAnswer(changes=(), applied=True)
    for text, begins, shown in (
        ("2026-12-01T22:00+01:00", 1_796_158_800_000_000, "2026-12-01T21:00:00.000Z"),
        ("2h", 7_201_000_000, "1970-01-01T02:00:01.000Z"),
    ):
        ran = headrace(["node", "drain", "gpu01", "--at", text], node_order=answer)
        assert ran[:3] == (0, f"gpu01 will be drained at {shown}\n", "")
        assert ran.calls == [("node_order", ("drain", NodeRequest(node="gpu01", begins=begins)), {})]
    assert json.loads(headrace("node drain gpu01 --at 2h --json", node_order=answer).out)["applied"]
    error = "invalid time 'soon': use a time such as 2026-12-01T22:00+01:00, or how far ahead, such as 8h"
    assert error in headrace("node drain gpu01 --at soon", node_order=answer).err


def test_a_drain_need_not_be_waited_for(headrace):
    answer = ApplyAnswer(changes=(), applied=True, running=2)
    assert headrace("node drain gpu01 --no-wait", node_order=answer)[:3] == (0, "gpu01 is draining: 2 jobs have to stop\n", "")
    assert json.loads(headrace("node drain gpu01 --no-wait --json", node_order=answer).out)["running"] == 2


@pytest.mark.parametrize(("running", "out"), [(3, "gpu01 is empty: 3 jobs are requeued\n"), (0, "no job was left on gpu01\n")])
def test_an_operator_confirms_that_nothing_is_left_on_a_node(headrace, running, out):
    ran = headrace("node confirm-empty gpu01", node_order=ApplyAnswer(changes=(), applied=True, running=running))
    assert ran[:3] == (0, out, "")
    assert ran.calls == [("node_order", ("confirm-empty", NodeRequest(node="gpu01")), {})]


@pytest.mark.parametrize("verb", ["cordon", "uncordon"])
def test_a_node_is_set_aside_and_taken_back(headrace, verb):
    ran = headrace(["node", verb, "gpu01", "--reason", "fan"], node_order=ApplyAnswer(changes=(), applied=True))
    assert ran[:3] == (0, f"gpu01 is {verb}ed\n", "")
    assert ran.calls == [("node_order", (verb, NodeRequest(node="gpu01", reason="fan")), {})]
    assert headrace(f"node {verb} gpu02", node_order=Refused("NOT_FOUND", "no node gpu02"))[:3] == (
        1,
        "",
        "headrace: no node gpu02\n",
    )


@pytest.fixture
def become(monkeypatch, tmp_path):
    """What this process would become."""
    became = []
    monkeypatch.setenv("HEADRACE_DATA", str(tmp_path))
    for name in ("HEADRACE_NATS_URL", "HEADRACE_NATS_USER", "HEADRACE_NATS_PASSWORD"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "execve", lambda path, argv, env: became.append((path, argv, env)))
    return became


@pytest.fixture
def installation(tmp_path):
    """One that is up, with a node of its own."""
    made = Installation(tmp_path)
    made.prepare()
    made.keep_settings(Settings(host="here", nats_port=4222))
    made.node("here")
    made.write_nats_config((4222,))
    children = (ChildView(name="nats-server", state="running", pid=77), ChildView(name="node-here", state="running", pid=78))
    with Lock(made):
        write_running(
            made, RunningInstallation(pid=os.getpid(), since=1, url="nats://127.0.0.1:4222", ready=True, children=children)
        )
        yield made


def test_a_new_node_gets_a_login_that_the_servers_read_when_they_start_again(headrace, become, installation):
    ran = headrace("node run --name big --labels site=hq,rack=r7 --devices sim:2xA100-80GB --cpus 96")
    assert ran.err == ""
    ((path, argv, env),) = become
    data = str(installation.directory / "nodes" / "big")
    assert path == sys.executable
    assert argv == (
        *(sys.executable, "-P", "-m", "headrace.node_executor", "run", "--name", "big", "--data", data),
        *("--labels", "rack=r7,site=hq", "--devices", "sim:2xA100-80GB", "--cpus", "96"),
    )
    login = installation.node("big")
    login_variables = [env[f"HEADRACE_NATS_{name}"] for name in ("URL", "USER", "PASSWORD")]
    assert login_variables == ["nats://127.0.0.1:4222", "node-big", login.password]
    assert login.password in installation.servers()[0].config.read_text()


def test_a_known_node_changes_nothing(headrace, become, installation):
    installation.node("big")
    ran = headrace("node run --name big")
    assert (ran.err, len(become)) == ("", 1)


def test_a_node_that_up_runs_is_not_run_twice(headrace, become, installation):
    ran = headrace("node run")
    assert ran[:3] == (1, "", "headrace: --name: here is run by `headrace up` already; choose another\n")
    assert become == []


def test_without_an_installation_a_node_needs_to_be_told_where_to_go(headrace, become, tmp_path):
    ran = headrace("node run")
    assert (ran.code, become) == (1, [])
    assert ran.err.startswith(
        f"headrace: no Headrace is up in {tmp_path}: `headrace up` starts one; for one elsewhere set HEADRACE_NATS_URL"
    )


def test_a_node_of_a_headrace_elsewhere_is_what_the_environment_says(headrace, become, monkeypatch, tmp_path):
    for name in ("URL", "USER", "PASSWORD"):
        monkeypatch.setenv(f"HEADRACE_NATS_{name}", name.lower())
    headrace(["node", "run", "--name", "far", "--data", str(tmp_path / "far")])
    ((_, argv, env),) = become
    assert argv[5:9] == ("--name", "far", "--data", str(tmp_path / "far"))
    assert env["HEADRACE_NATS_USER"] == "user"


def test_the_help_of_node_run_shows_the_options_of_the_executor_in_groups(headrace):
    ran = headrace("node run --help")
    assert ran.code == 0
    for line in (
        "the node, and what it offers:",
        "its files:",
        "its jobs:",
        "  --run-as WHO",
        "  --heartbeat SPAN",
        "examples:",
    ):
        assert f"\n{line}" in ran.out
