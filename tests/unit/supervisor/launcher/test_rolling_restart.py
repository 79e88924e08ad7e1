"""Which parts go in which order, and how it ends for one that does not come back; real processes go in `bench/load/rolling.py`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from headrace.bus.nats.cluster_routes import CLUSTER
from headrace.supervisor.installation import Installation, Settings
from headrace.supervisor.launcher import rolling_restart
from headrace.supervisor.launcher.rolling_restart import Rolling, Unknown, chosen, ours
from headrace.supervisor.processes.pidfile import ChildView, Lock, RunningInstallation, write_running
from headrace.supervisor.processes.readiness import NotReady

PARTS = (
    *("nats-server", "postgres", "admission", "allocator", "preemption", "feed", "allocator-standby"),
    *("callout-1", "callout-2", "gateway", "node-a"),
)


def running(*names, pid=1, state="running"):
    return RunningInstallation(
        pid=os.getpid(), since=1, children=tuple(ChildView(name=name, state=state, pid=pid) for name in names)
    )


def test_services_go_before_the_gateway_and_nodes_and_who_waits_before_who_decides():
    assert ours(running(*PARTS), lambda name: name == "allocator") == [
        *("admission", "allocator-standby", "allocator", "feed", "preemption"),
        *("callout-1", "callout-2", "gateway", "node-a"),
    ]
    assert ours(running(*PARTS), lambda name: name == "allocator-standby")[1:3] == ["allocator", "allocator-standby"]


def test_what_is_named_goes_in_that_order_and_once():
    assert chosen(running(*PARTS), ["postgres", "feed", "postgres"]) == ["postgres", "feed"]
    with pytest.raises(Unknown, match="^unknown part 'fed'; choose from nats-server, postgres"):
        chosen(running(*PARTS), ["feed", "fed"])


class Inspector:
    """Sees a ledger of nine records; services answer by what the test says."""

    def __init__(self):
        self.there = True

    async def tip(self):
        return 9

    async def now(self):
        return 1

    async def caught_up(self, service, tip):
        assert (service, tip) == ("feed", 9)
        return self.there


@pytest.fixture
def home(tmp_path):
    installation = Installation(tmp_path / "data")
    installation.prepare()
    with Lock(installation):
        yield installation


@pytest.fixture
def feed(home):
    """A process that is the part `feed`; its supervisor starts it again as soon as it has ended."""
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    write_running(home, running("feed", pid=process.pid))
    yield process
    process.kill()
    process.wait()


async def test_a_part_is_asked_to_stop_and_waited_for_until_it_is_there_again(home, feed, monkeypatch):
    inspector, looks = Inspector(), []

    async def until(trouble, within, ask):
        looks.append(await ask())
        if len(looks) == 1:
            assert feed.wait(60) == -signal.SIGTERM
            write_running(home, running("feed", pid=feed.pid + 1))
            looks.append(await ask())
        assert within in (rolling_restart.AWAY_WITHIN, rolling_restart.BACK_WITHIN), trouble

    monkeypatch.setattr(rolling_restart, "_until", until)
    assert await Rolling(home, inspector).restart("feed") < 60
    assert looks == [False, True, True]


async def test_one_that_ends_for_good_or_is_not_ready_is_told(home, feed, monkeypatch):
    monkeypatch.setattr(rolling_restart, "AWAY_WITHIN", 0.0)
    monkeypatch.setattr(rolling_restart, "BACK_WITHIN", 0.0)
    one = Rolling(home, Inspector())
    with pytest.raises(NotReady, match=r"^feed has not been started again \(waited 0 s\)$"):
        await one.restart("feed")
    feed.wait()
    write_running(home, running("feed", pid=0, state="given-up"))
    with pytest.raises(NotReady, match="^feed does not start again; more in "):
        await one.restart("feed")
    with pytest.raises(NotReady, match="^admission is gone: `headrace up` has stopped meanwhile$"):
        await one.restart("admission")


@pytest.mark.parametrize(("name", "number"), [("node-a", signal.SIGHUP), ("postgres", signal.SIGINT), ("feed", signal.SIGTERM)])
def test_each_part_is_asked_in_its_own_way(name, number):
    assert rolling_restart.signal_for(name) == number


def test_what_a_part_has_said_since_is_found_in_a_log_that_began_anew_as_well(tmp_path):
    log = tmp_path / "callout-1.log"
    log.write_bytes(b"old\nnew\n")
    assert rolling_restart.written_since(log, 4) == b"new\n"
    assert rolling_restart.written_since(log, 400) == b"old\nnew\n"


@pytest.mark.parametrize(
    ("listening", "replica", "back"),
    [
        (False, '"current": true', False),
        (True, '"current": true', True),
        (True, '"offline": true, "lag": 0', False),
        (True, '"current": false, "lag": 3', False),
    ],
)
async def test_a_nats_server_is_back_when_it_has_all_of_the_ledger_again(home, monkeypatch, listening, replica, back):
    home.keep_settings(Settings(host="box", nats_servers=3, nats_port=1, nats_ports=(2, 3)))
    asked = []

    async def listens(port):
        asked.append(port)
        return listening

    async def described():
        return b'{"cluster": {"leader": "%s-1", "replicas": [{"name": "%s-2", %s}]}}' % (
            CLUSTER.encode(),
            CLUSTER.encode(),
            replica.encode(),
        )

    inspector = Inspector()
    inspector.described = described
    monkeypatch.setattr(rolling_restart, "listens", listens)
    assert await Rolling(home, inspector).has_whole_ledger("nats-server-2") is back
    assert asked == [2]
