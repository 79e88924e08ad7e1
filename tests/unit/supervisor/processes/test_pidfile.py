"""One `up` on a data directory, known to others, and ended by them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from headrace.supervisor.installation import Installation
from headrace.supervisor.processes.pidfile import (
    AlreadyRunning,
    ChildView,
    Lock,
    RunningInstallation,
    read_running,
    stop_running,
    write_running,
)


@pytest.fixture
def installation(tmp_path):
    made = Installation(tmp_path)
    made.prepare()
    return made


def test_what_runs_is_known_while_the_lock_is_held_and_no_longer(installation):
    running = RunningInstallation(
        pid=os.getpid(), since=5, url="nats://x", ready=True, children=(ChildView(name="feed", state="running", pid=7),)
    )
    assert read_running(installation) is None
    with Lock(installation):
        write_running(installation, running)
        assert read_running(installation) == running
    assert read_running(installation) is None
    assert not (installation.directory / "running.json").exists()


def test_what_a_killed_supervisor_left_is_not_believed(installation):
    write_running(installation, RunningInstallation(pid=1, since=5))
    assert read_running(installation) is None


def test_a_second_up_is_told_who_runs_and_what_to_do(installation):
    with Lock(installation):
        write_running(installation, RunningInstallation(pid=4711, since=5))
        with (
            pytest.raises(AlreadyRunning, match=r"Headrace runs already on .* \(pid 4711\).*`headrace down` stops it"),
            Lock(installation),
        ):
            pass
        assert read_running(installation) == RunningInstallation(pid=4711, since=5)
    with Lock(installation):
        pass


def test_a_child_is_found_by_its_name():
    feed = ChildView(name="feed", state="running")
    running = RunningInstallation(pid=1, since=1, children=(feed,))
    assert (running.child("feed"), running.child("other")) == (feed, None)


def test_stopping_what_does_not_run_is_done_at_once(installation):
    assert stop_running(installation, within=0) is True


HOLDER = """
import fcntl, os, signal, sys
handle = os.open(sys.argv[1] + "/lock", os.O_RDWR | os.O_CREAT)
fcntl.flock(handle, fcntl.LOCK_EX)
asked = []
signal.signal(signal.SIGTERM, lambda *_: asked.append(1))
open(sys.argv[1] + "/running.json", "w").write('{"pid": %d, "since": 1}' % os.getpid())
print("held", flush=True)
while len(asked) < int(sys.argv[2]):
    signal.pause()
"""


@pytest.fixture
def hold(installation):
    """Another process that holds the lock until it has been asked to end a number of times."""
    started = []

    def hold(times):
        process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(installation.directory), str(times)], stdout=subprocess.PIPE
        )
        started.append(process)
        assert process.stdout.readline() == b"held\n"
        return process

    yield hold
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.parametrize(("times", "at_once"), [(1, False), (2, True)])
def test_what_runs_is_asked_to_end_and_waited_for(installation, hold, times, at_once):
    process = hold(times)
    assert stop_running(installation, within=10, at_once=at_once) is True
    assert process.wait(10) == 0


def test_what_does_not_end_in_time_is_told(installation, hold):
    process = hold(2)
    assert stop_running(installation, within=0.1) is False
    process.send_signal(signal.SIGTERM)
    assert process.wait(10) == 0
