"""What the front page promises to a job that has to yield, kept to programs that have nothing of ours in them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.contracts.facts import CheckpointRegisteredV1
from headrace.contracts.facts.fact import Ladder
from headrace.node_executor.files.workspace import Paths
from tests.integration.nodes import Executor, Feed, until, until_printed

# Each program looks for the file before it writes its first line: who has not looked yet when it is stopped is sent SIGTERM at once.
SH = """
step=0
[ -z "$HEADRACE_RESUME_FROM" ] || step=$(cat "$HEADRACE_RESUME_FROM")
[ ! -e "$HEADRACE_PREEMPT_FILE" ] || exit 1
echo from $step
while [ ! -e "$HEADRACE_PREEMPT_FILE" ]; do step=$((step + 1)); sleep 0.02; done
sleep 0.3
echo 7 > "$HEADRACE_CHECKPOINT_DIR/weights.tmp" && mv "$HEADRACE_CHECKPOINT_DIR/weights.tmp" "$HEADRACE_CHECKPOINT_DIR/weights"
echo saved
"""

PYTHON = """
import json, os, pathlib, time
where = os.environ["HEADRACE_RESUME_FROM"]
notice = pathlib.Path(os.environ["HEADRACE_PREEMPT_FILE"])
assert not notice.exists()
print("from", pathlib.Path(where).read_text() if where else 0, flush=True)
while not notice.exists():
    time.sleep(0.02)
assert json.loads(notice.read_text())["deadline"] > time.time() + 5
time.sleep(0.3)
pathlib.Path(os.environ["HEADRACE_CHECKPOINT_DIR"], "weights").write_text("7")
print("saved")
"""

HANDLER = """
import os, pathlib, signal, sys, time
def save(*_):
    time.sleep(0.3)
    pathlib.Path(os.environ["HEADRACE_CHECKPOINT_DIR"], "weights").write_text("7")
    os.write(1, b"saved\\n")  # the print below may be under way
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
print("from 0", flush=True)
while True:
    time.sleep(0.02)
"""

WRAPPER = """#!/bin/sh
set -e
export STAGE=training
{python} -I train.py
echo "never reached"
"""

WORKER = """
import os, pathlib, time
import torch.distributed as dist
dist.init_process_group("gloo")
notice = pathlib.Path(os.environ["HEADRACE_PREEMPT_FILE"])
assert not notice.exists()
dist.barrier()
if dist.get_rank() == 0:
    print("from 0", flush=True)
while not notice.exists():
    time.sleep(0.02)
dist.barrier()
if dist.get_rank() == 0:
    pathlib.Path(os.environ["HEADRACE_CHECKPOINT_DIR"], "weights").write_text("7")
    print("saved", flush=True)
dist.destroy_process_group()
"""


def count_in(path: str, fresh: str = "") -> int:
    """What the checkpoint says; with `fresh`, from now on."""
    if fresh:
        Path(path).write_text(fresh)
    return int(Path(path).read_text())


TORCH = os.environ.get("HEADRACE_TEST_TORCH", sys.executable)


def has_torch() -> bool:
    look = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"
    return subprocess.run([TORCH, "-c", look], check=False).returncode == 0


SHORT = Ladder(cause="preempted", callback_grace=0, term_grace=500_000, preemptor="acme.bob.x")


async def yields(feed: Feed, node: Executor, job: str, *, resumed: str = "0") -> str:
    """Preempt it once it runs, and see that it saves; the checkpoint."""
    await until_printed(feed, job, f"from {resumed}\n")
    await feed.stop(job)
    ended = await feed.ended(job)
    assert (ended.outcome, ended.stopping) == ("exited", True)
    assert (await feed.read_log(job)).data.startswith(f"from {resumed}\nsaved\n")
    assert [fact.uri for fact in feed.of(job, CheckpointRegisteredV1)] == [f"{node.data}/checkpoints/{job}.1/weights"]
    assert node.jobs == []
    return feed.of(job, CheckpointRegisteredV1)[0].uri


@pytest.mark.parametrize(
    "command", [("sh", "-c", SH), (sys.executable, "-I", "-c", PYTHON)], ids=["a shell", "Python without the client"]
)
async def test_a_program_that_polls_the_preempt_file_has_its_grace_and_the_next_attempt_its_checkpoint(
    feed, node, command
) -> None:
    first = await feed.start(0, *command)
    saved = await yields(feed, node, first)
    assert feed.rungs(first) == [("told", "told"), ("callback", "hook: left"), ("verify", "free")]
    second = await feed.start(1, *command, resume_from=saved)
    await yields(feed, node, second, resumed="7")


async def test_the_program_on_the_guide_saves_and_goes_on(feed, node) -> None:
    page = (Path(__file__).parents[2] / "docs/guide.md").read_text()
    blocks = [part.partition("```")[0] for part in page.split("```sh\n")[1:]]
    program = next(block for block in blocks if "HEADRACE_PREEMPT_FILE" in block)
    first = await feed.start(0, "sh", "-c", f'[ ! -e "$HEADRACE_PREEMPT_FILE" ] || exit 1; echo from 0; {program}')
    await until_printed(feed, first, "from 0\n")
    await until(lambda: Paths(f"{node.data}/leases/{first}.1.0", "", "", "").polls)
    await feed.stop(first)
    assert (await feed.ended(first)).exit_code == 0
    (saved,) = feed.of(first, CheckpointRegisteredV1)
    assert count_in(saved.uri) > 0
    count_in(saved.uri, "9999")
    second = await feed.start(1, "sh", "-c", program, resume_from=saved.uri)
    ended = await feed.ended(second)
    assert (ended.exit_code, ended.finished) == (0, True)


async def test_a_program_that_does_not_poll_is_told_to_terminate_at_once(feed, node) -> None:
    job = await feed.start(0, sys.executable, "-I", "-c", HANDLER)
    await yields(feed, node, job)
    assert feed.rungs(job) == [("told", "told"), ("term", "left"), ("verify", "free")]


async def test_a_trainer_in_a_wrapper_script_saves_although_the_script_dies_at_once(feed, node, tmp_path) -> None:
    (tmp_path / "train.py").write_text(HANDLER)
    (tmp_path / "run.sh").write_text(WRAPPER.format(python=sys.executable))
    (tmp_path / "run.sh").chmod(0o755)
    job = await feed.start(0, "./run.sh", workdir=str(tmp_path))
    await yields(feed, node, job)
    assert feed.rungs(job) == [("told", "told"), ("term", "left"), ("verify", "free")]
    assert (await feed.ended(job)).exit_code == 143


async def test_what_is_left_of_a_job_when_its_grace_is_over_is_killed(feed, node) -> None:
    script = "setsid sh -c 'trap \"\" TERM; echo running; while :; do sleep 0.01; done' & exec sleep 1000"
    job = await feed.start(0, "sh", "-c", script)
    await until_printed(feed, job, "running\n")
    await feed.stop(job, SHORT)
    ended = await feed.ended(job)
    assert (ended.outcome, ended.exit_code) == ("exited", 143)
    assert feed.rungs(job) == [("told", "told"), ("term", "timed out"), ("kill", "gone"), ("verify", "free")]
    assert node.jobs == []


async def test_a_callback_that_fails_is_told_as_failed(feed, node) -> None:
    job = await feed.start(0, "sh", "-c", "echo running; exec sleep 1000", on_abort=("sh", "-c", "exit 3"))
    await until_printed(feed, job, "running\n")
    await feed.stop(job)
    await feed.ended(job)
    assert feed.rungs(job)[1] == ("callback", "failed: exit 3")
    assert (await feed.read_log(job)).data == "running\n[headrace] the abort callback failed: exit 3\n"


@pytest.mark.skipif(not has_torch(), reason=f"{TORCH} has no PyTorch; HEADRACE_TEST_TORCH may name a Python that has one")
async def test_the_workers_of_torchrun_poll_and_save(feed, node, tmp_path) -> None:
    (tmp_path / "worker.py").write_text(WORKER)
    quietly = 'exec "$0" -m torch.distributed.run --nproc-per-node 2 worker.py 2>errors'
    command = ("sh", "-c", quietly, TORCH)
    job = await feed.start(0, *command, workdir=str(tmp_path), env={"OMP_NUM_THREADS": "1"})
    await yields(feed, node, job)
    assert (await feed.ended(job)).exit_code == 0
