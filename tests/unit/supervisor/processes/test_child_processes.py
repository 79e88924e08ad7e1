"""Children are kept alive, say what they say into their logs, and end when they are to."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.supervisor.processes import child_processes as children_module
from headrace.supervisor.processes.child_processes import Child, Children, Program
from headrace.supervisor.processes.log_file import LogFile
from tests.patience import PATIENCE

ENV = {"PATH": os.environ["PATH"]}
SLEEPER = ("sh", "-c", "echo up; exec sleep 60")
STUBBORN = ("sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.05; done")


@pytest.fixture(autouse=True)
def _fast(monkeypatch):
    monkeypatch.setattr(children_module, "WAIT_FIRST", 0.01)
    monkeypatch.setattr(children_module, "WAIT_MOST", 0.02)


@pytest.fixture
async def child(tmp_path):
    """Makes a child of a program; all end with the test."""
    made = []

    def make(*argv, changed=lambda: None, **settings):
        program = Program("part", argv, ENV, **settings)
        made.append(Child(program, LogFile(tmp_path / "part.log"), changed))
        made[-1].start()
        return made[-1]

    yield make
    for one in made:
        await one.stop(at_once=True)


async def until(condition):
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.005)


def says(child, text):
    return lambda: text in (child.log.path.read_text() if child.log.path.exists() else "")


def gone(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


async def test_what_a_child_says_is_in_its_log_and_it_leads_a_session_of_its_own(child):
    one = child("sh", "-c", "echo out; echo err >&2; exec sleep 60")
    await until(says(one, "err"))
    assert one.log.path.read_text() == "out\nerr\n"
    assert os.getsid(one.pid) == one.pid
    assert (one.view().state, one.view().pid, one.view().restarts) == ("running", one.pid, 0)


async def test_a_child_that_is_killed_is_started_again(child):
    one = child(*SLEEPER)
    await until(says(one, "up"))
    first = one.pid
    os.kill(first, signal.SIGKILL)
    await until(lambda: one.pid not in (0, first))
    assert (one.view().state, one.view().restarts, one.view().exit_code) == ("running", 1, -signal.SIGKILL)


async def test_a_child_that_dies_at_once_is_started_again_and_again(child):
    one = child("sh", "-c", "exit 3")
    await until(lambda: one.restarts >= 3)
    assert one.exit_code == 3


class Waiting:
    """Lets a child begin each of its lives, and hears what it says."""

    def __init__(self):
        self.may, self.lives, self.output = asyncio.Event(), 0, b""

    async def before_start(self):
        await self.may.wait()
        self.may.clear()
        self.lives += 1

    def on_output(self, output):
        self.output += output

    async def watch(self):
        """Nothing."""


async def test_a_child_that_is_looked_after_begins_each_life_when_it_may_and_is_heard(tmp_path):
    supervision, children = Waiting(), Children(tmp_path, lambda: None)
    (one,) = children.start(Program("part", SLEEPER, ENV), supervision=lambda _: supervision)
    await asyncio.sleep(0)
    assert (one.pid, supervision.lives) == (0, 0)
    supervision.may.set()
    await until(lambda: supervision.output == b"up\n")
    first = one.pid
    one.restart(at_once=True)
    await until(lambda: one.state == "restarting")
    assert (supervision.lives, one.exit_code, gone(first)) == (1, -signal.SIGKILL, True)
    supervision.may.set()
    await until(lambda: supervision.output == b"up\nup\n")
    os.kill(one.pid, signal.SIGKILL)
    await until(lambda: one.restarts == 2)
    async with asyncio.timeout(PATIENCE):
        await children.stop()
    assert (one.state, supervision.lives) == ("stopped", 2)


async def test_an_exit_code_that_is_final_is_not_argued_with(child):
    one = child("sh", "-c", "exit 4", final=frozenset({4}))
    await until(lambda: one.state == "given-up")
    assert (one.restarts, one.exit_code, one.pid) == (0, 4, 0)


async def test_who_doubts_the_log_twice_in_a_row_is_not_argued_with(child, tmp_path):
    starts = tmp_path / "starts"
    codes = f"echo x >> {starts}; case $(wc -l < {starts}) in 2) exit 1;; *) exit 5;; esac"
    one = child("sh", "-c", codes)
    await until(lambda: one.state == "given-up")
    assert (starts.read_text().split(), one.restarts, one.exit_code) == (["x"] * 4, 3, 5)


async def test_a_program_that_is_not_there_is_noted_and_tried_again(child):
    one = child("/nonexistent/program")
    await until(lambda: one.restarts >= 2)
    assert "/nonexistent/program does not start: No such file or directory\n" in one.log.path.read_text()


async def test_a_child_is_asked_to_end_and_is_not_started_again(child):
    one = child(*SLEEPER)
    await until(says(one, "up"))
    pid = one.pid
    await one.stop()
    assert gone(pid)
    assert (one.view().state, one.view().pid, one.view().exit_code) == ("stopped", 0, -signal.SIGTERM)


async def test_a_child_that_does_not_want_to_end_is_killed(child):
    one = child(*STUBBORN, stop_within=0.05)
    await until(says(one, "up"))
    await one.stop()
    assert one.exit_code == -signal.SIGKILL


async def test_a_hurried_stop_kills_what_is_being_asked(child):
    one = child(*STUBBORN, stop_within=60)
    await until(says(one, "up"))
    asked = asyncio.create_task(one.stop())
    await asyncio.sleep(0)
    await one.stop(at_once=True)
    await asked
    assert one.exit_code == -signal.SIGKILL


async def test_a_child_that_waits_for_its_next_start_ends_at_once(child, monkeypatch):
    monkeypatch.setattr(children_module, "WAIT_FIRST", 10 * PATIENCE)
    one = child("false")
    await until(lambda: one.state == "restarting")
    async with asyncio.timeout(PATIENCE):
        await one.stop()
    assert one.state == "stopped"


async def test_a_grandchild_that_keeps_the_pipe_delays_no_other_job(child, monkeypatch):
    monkeypatch.setattr(children_module, "LAST_WORDS", 0.01)
    one = child("sh", "-c", "sleep 60 & echo $! >&2; exit 4", final=frozenset({4}))
    await until(lambda: one.state == "given-up")
    os.kill(int(one.log.last_line()), signal.SIGKILL)


async def test_every_change_is_told(child):
    states = []
    one = child("sh", "-c", "exit 4", final=frozenset({4}), changed=lambda: states.append(one.state))
    await until(lambda: one.state == "given-up")
    assert states == ["running", "given-up"]


async def test_those_that_were_started_last_are_ended_first(tmp_path):
    several = Children(tmp_path, lambda: None)
    for names in (("bus",), ("a", "b"), ("node",)):
        several.start(*(Program(name, SLEEPER, ENV) for name in names))
    await until(lambda: all(child.pid for child in several))
    ended = []
    await several.stop(ended.append)
    assert ended == ["node", "a, b", "bus"]
    assert [child.view().state for child in several] == ["stopped"] * 4


SUPERVISOR = """
import asyncio, pathlib, sys
from headrace.supervisor.processes.child_processes import Children, Program

async def main():
    children = Children(pathlib.Path(sys.argv[1]), lambda: None)
    (child,) = children.start(Program("part", ("sleep", "60"), {"PATH": "/bin:/usr/bin"}))
    while not child.pid:
        await asyncio.sleep(0.01)
    print(child.pid, flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


@pytest.fixture
def supervisor(tmp_path):
    """Another process with a child, whose number it says."""
    process = subprocess.Popen([sys.executable, "-c", SUPERVISOR, str(tmp_path)], stdout=subprocess.PIPE)
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


async def test_nothing_outlives_a_supervisor_that_is_killed(supervisor):
    pid = int(supervisor.stdout.readline())
    assert not gone(pid)
    supervisor.kill()
    await until(lambda: gone(pid) or _is_zombie(pid))


def _is_zombie(pid):
    """Dead already, and not buried yet by the process that inherits orphans here."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


async def test_a_child_stands_behind_others_where_it_is_to(child):
    behind = child("sh", "-c", "nice; exec sleep 60", nice=3)
    await until(says(behind, f"{os.nice(0) + 3}\n"))


@pytest.mark.skipif(not Path("/proc/self/autogroup").exists(), reason="this system knows no autogroups")
async def test_a_child_stands_behind_others_also_where_time_is_shared_out_between_sessions(child):
    behind = child("sh", "-c", "cut -d' ' -f2,3 /proc/self/autogroup; exec sleep 60", nice=3)
    await until(says(behind, "nice 3\n"))
