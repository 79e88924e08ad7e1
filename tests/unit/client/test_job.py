"""The helper inside real, small jobs: scripts that are started as a node would start them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.patience import PATIENCE


class Attempt:
    """The directories of an attempt, and scripts that run in it."""

    def __init__(self, directory: Path) -> None:
        self.control, self.checkpoints, self.work = (directory / name for name in ("control", "checkpoints", "work"))
        for path in (self.control, self.checkpoints, self.work):
            path.mkdir()
        self.env = {
            "HEADRACE_JOB_ID": "01j9z3k4m5n6p7q8r9s0t1v2w3",
            "HEADRACE_ATTEMPT": "2",
            "HEADRACE_CHECKPOINT_DIR": str(self.checkpoints),
            "HEADRACE_RESUME_FROM": "/ckpt/40.pt",
            "HEADRACE_PREEMPT_FILE": str(self.control / "preempt.json"),
            "HEADRACE_FINISHED_FILE": str(self.control / "finished"),
            "HEADRACE_CONTROL_DIR": str(self.control),
        }

    def start(self, script: str) -> subprocess.Popen[str]:
        outside = {name: value for name, value in os.environ.items() if not name.startswith("HEADRACE_")}
        command = [sys.executable, "-c", "from headrace.client import job\n" + script]
        return subprocess.Popen(
            command, env=outside | self.env, cwd=self.work, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def run(self, script: str) -> str:
        process = self.start(script)
        out, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, err
        return out

    def preempt(self) -> None:
        notice = {"reason": "preempted", "preemptor": "acme.bob.x", "deadline": 1_700_000_000, "later_field": 1}
        (self.control / "preempt.new").write_text(json.dumps(notice))
        (self.control / "preempt.new").rename(self.control / "preempt.json")  # whole or not at all, as the executor writes it

    def wait_for(self, path: Path) -> None:
        until = time.monotonic() + PATIENCE
        while not path.exists():
            assert time.monotonic() < until, f"{path} did not appear"
            time.sleep(0.01)


@pytest.fixture
def attempt(tmp_path) -> Attempt:
    return Attempt(tmp_path)


def test_a_job_knows_its_attempt_and_where_to_go_on(attempt) -> None:
    script = "print(job.id, job.attempt, job.resumed_from, job.checkpoint_dir)"
    assert attempt.run(script) == f"01j9z3k4m5n6p7q8r9s0t1v2w3 2 /ckpt/40.pt {attempt.checkpoints}\n"


def test_outside_of_headrace_everything_does_nothing(attempt) -> None:
    attempt.env = {}
    script = """
@job.on_abort
def never(): print("called")
job.checkpointed("x.pt", 1)
job.finished()
print(job.id, job.attempt, job.resumed_from, job.preempting, job.preemption(), job.checkpoint_dir, job.checkpoint_dir.is_dir())
"""
    assert attempt.run(script) == " 1 None False None checkpoints True\n"
    assert list(attempt.control.iterdir()) == []


def test_a_checkpoint_is_registered_by_a_line_with_the_whole_path(attempt) -> None:
    attempt.run(
        "import pathlib; job.checkpointed('a b.pt', 3); job.checkpointed(pathlib.Path('/x/y.pt')); job.checkpointed('s3://b/z', 9)"
    )
    lines = [json.loads(line) for line in (attempt.control / "checkpoints").read_text().splitlines()]
    assert lines == [
        {"uri": f"{attempt.work}/a b.pt", "step": 3},
        {"uri": "/x/y.pt", "step": 0},
        {"uri": "s3://b/z", "step": 9},
    ]


def test_a_job_says_that_it_is_finished(attempt) -> None:
    attempt.run("job.finished(); job.finished()")
    assert (attempt.control / "finished").exists()


def test_who_polls_says_so_and_sees_why_it_has_to_yield(attempt) -> None:
    process = attempt.start("import time\nwhile not job.preempting: time.sleep(0.01)\nprint(job.preemption())")
    attempt.wait_for(attempt.control / "hook")
    attempt.preempt()
    out, _ = process.communicate(timeout=PATIENCE)
    assert out == "Preemption(reason='preempted', preemptor='acme.bob.x', deadline=1700000000)\n"


def test_who_does_not_poll_has_said_nothing(attempt) -> None:
    attempt.run("print(job.attempt)")
    assert list(attempt.control.iterdir()) == []


SLEEPING = """
import time, threading, pathlib, atexit
atexit.register(print, "at exit")
{register}
try:
    pathlib.Path("ready").touch()
    time.sleep(1000)
finally:
    print("finally")
"""


def preempted(attempt: Attempt, register: str) -> tuple[int, str, str]:
    process = attempt.start(SLEEPING.format(register=register))
    attempt.wait_for(attempt.work / "ready")
    assert (attempt.control / "hook").exists()
    attempt.preempt()
    out, err = process.communicate(timeout=PATIENCE)
    return process.returncode, out, err


def test_a_callback_interrupts_a_sleeping_job_in_its_main_thread_and_the_job_leaves_in_order(attempt) -> None:
    register = """
@job.on_abort
def save():
    print("saving in", threading.current_thread() is threading.main_thread(), job.preempting)

@job.on_abort()
def then(): print("then")
"""
    assert preempted(attempt, register) == (0, "saving in True True\nthen\nfinally\nat exit\n", "")


def test_a_callback_that_fails_does_not_keep_the_others_from_saving_and_the_job_fails(attempt) -> None:
    register = """
@job.on_abort
def fails(): raise OSError("disk full")

@job.on_abort
def save(): print("saved")
"""
    code, out, err = preempted(attempt, register)
    assert (code, out) == (1, "saved\nfinally\nat exit\n")
    assert err.splitlines()[-1] == "OSError: disk full"


def test_a_callback_may_leave_the_job_running(attempt) -> None:
    script = """
import time
went_on = []
job.on_abort(leave=False)(lambda: went_on.append(1))
while not went_on: time.sleep(0.01)
print("still here")
"""
    process = attempt.start(script)
    attempt.wait_for(attempt.control / "hook")
    attempt.preempt()
    out, _ = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (0, "still here\n")


def test_a_signal_that_interrupts_nothing_is_repeated_until_it_is_heard(attempt) -> None:
    register = """
import signal
kill, lost = signal.pthread_kill, []
signal.pthread_kill = lambda *of: kill(*of) if len(lost) == 3 else lost.append(of)
job.on_abort(lambda: print("saved after", len(lost)))
"""
    assert preempted(attempt, register) == (0, "saved after 3\nfinally\nat exit\n", "")


def test_a_callback_that_is_registered_after_the_word_came_is_called_as_well(attempt) -> None:
    attempt.preempt()
    process = attempt.start("import time\njob.on_abort(lambda: print('saved'))\ntime.sleep(1000)")
    out, _ = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (0, "saved\n")


def test_callbacks_are_registered_in_the_main_thread_only(attempt) -> None:
    script = """
import threading
def register():
    try: job.on_abort(print)
    except RuntimeError as error: print(error)
thread = threading.Thread(target=register); thread.start(); thread.join()
"""
    assert attempt.run(script) == "register on_abort callbacks in the main thread, or poll job.preempting\n"


def test_what_it_does_not_have_it_does_not_have(attempt) -> None:
    assert "module 'headrace.client.job' has no attribute 'nonsense'" in attempt.run(
        "try: job.nonsense\nexcept AttributeError as error: print(error)"
    )


def test_who_was_suspended_and_goes_on_is_no_longer_told_and_can_be_told_again(attempt) -> None:
    """R29."""
    process = attempt.start(
        """
import time
count = 0
@job.on_abort(leave=False)
def told():
    global count
    count += 1
while count < 1 or not job.preempting: time.sleep(0.01)
open("seen", "w").close()
while job.preempting: time.sleep(0.01)
time.sleep(0.3)  # the watching thread looks every tenth of a second
open("on", "w").close()
while count < 2 or not job.preempting: time.sleep(0.01)
print(count)
"""
    )
    attempt.preempt()
    attempt.wait_for(attempt.work / "seen")
    (attempt.control / "preempt.json").unlink()
    attempt.wait_for(attempt.work / "on")
    attempt.preempt()
    out, err = process.communicate(timeout=PATIENCE)
    assert (out, process.returncode) == ("2\n", 0), err
