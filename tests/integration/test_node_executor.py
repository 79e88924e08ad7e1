"""A real executor with real jobs on a real bus; only the feed is played by the test."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from headrace.contracts.facts import (
    CheckpointRegisteredV1,
    LeaseEndedV1,
    LeaseStartedV1,
    NodeRegisteredV1,
    NodeStoppedV1,
)
from headrace.contracts.facts.fact import Ladder
from headrace.contracts.facts.levels import LEVEL
from headrace.contracts.facts.nodes import Device
from headrace.contracts.messages.queries import LogsAnswer
from headrace.contracts.values.isolation import CONTAINED, UNABLE
from headrace.node_executor.system.machine import boot_id
from tests.integration.nodes import NODE, until, until_printed


async def test_a_node_reports_itself_and_shows_that_it_lives(feed, node) -> None:
    registered = feed.facts[0]
    assert registered == NodeRegisteredV1(
        node=NODE,
        labels={"address": "gpu01.example", "site": "hq"},
        devices=tuple(Device(device=f"gpu{number}", model="H100-80GB", memory=81920) for number in (0, 1)),
        cpu=8000,
        memory=65536,
        executor=registered.executor,
        isolation="simulated",
        levels=dict.fromkeys(CONTAINED, UNABLE),
        reads=LEVEL,
        at=registered.at,
    )
    await until(lambda: len(feed.heartbeats) >= 2)
    assert feed.heartbeats[0].node == NODE


async def test_a_job_runs_is_stated_and_its_output_can_be_read(feed, node) -> None:
    script = 'echo "$HEADRACE_ATTEMPT $HEADRACE_DEVICES $CUDA_VISIBLE_DEVICES $A ${HEADRACE_NATS_PASSWORD:-none}"; exit 3'
    job = await feed.start(0, "sh", "-c", script, devices=("gpu1",), env={"A": "b"})
    ended = await feed.ended(job)
    assert (ended.outcome, ended.exit_code, ended.stopping, ended.finished) == ("exited", 3, False, False)
    started = await feed.started(job)
    assert started.isolation == "simulated"
    assert started.at <= ended.exited_at <= ended.at
    assert await feed.read_log(job) == LogsAnswer(data="1 gpu1 1 b none\n", next_offset=16, ended=True)


async def test_what_cannot_run_ends_with_the_reason(feed, node) -> None:
    job = await feed.start(0, "no-such-command")
    ended = await feed.ended(job)
    assert (ended.outcome, ended.exit_code, ended.message) == ("exited", 127, "command not found: no-such-command")
    assert feed.of(job, LeaseStartedV1) == []


async def test_a_hundred_jobs_are_all_started_and_ended_exactly_once(feed, node) -> None:
    jobs = [await feed.start(number, "true") for number in range(100)]
    for job in jobs:
        assert (await feed.ended(job)).exit_code == 0
    assert feed.count(LeaseStartedV1) == feed.count(LeaseEndedV1) == 100
    await until(lambda: not list((node.data / "leases").iterdir()))


async def test_a_preempted_job_saves_by_its_abort_command_and_leaves_at_sigterm(feed, node) -> None:
    script = "trap 'echo asked; exit 0' TERM; echo running; while :; do sleep 0.01; done"
    named = (
        'cd "$HEADRACE_CHECKPOINT_DIR"; echo weights > 1.tmp; mv 1.tmp 1.pt'  # a look at what is being written would find more
    )
    save = f'cat "$HEADRACE_PREEMPT_FILE"; {named}; test -n "$HEADRACE_PREEMPT_DEADLINE"'
    job = await feed.start(0, "sh", "-c", script, on_abort=("sh", "-c", save))
    await feed.started(job)
    await until_printed(feed, job, "running\n")
    await feed.stop(job)
    ended = await feed.ended(job)
    assert (ended.outcome, ended.exit_code, ended.stopping, ended.finished) == ("exited", 0, True, False)
    assert feed.rungs(job) == [("told", "told"), ("callback", "exit 0"), ("term", "left"), ("verify", "free")]
    assert [fact.uri for fact in feed.of(job, CheckpointRegisteredV1)] == [f"{node.data}/checkpoints/{job}.1/1.pt"]
    printed = (await feed.read_log(job)).data
    assert printed.startswith('running\n{"reason":"preempted","preemptor":"acme.bob.x","deadline":')
    assert printed.replace("Terminated\n", "").endswith("}asked\n")  # the shell says so of the sleep that it waited for


async def test_a_job_that_ignores_everything_is_killed_with_its_children(feed, node) -> None:
    script = "trap '' TERM; sh -c 'trap \"\" TERM; while :; do sleep 0.01; done' & echo running; while :; do sleep 0.01; done"
    job = await feed.start(0, "sh", "-c", script, on_abort=("sleep", "1000"))
    await until_printed(feed, job, "running\n")
    await feed.stop(job, Ladder(cause="cancelled", callback_grace=50_000, term_grace=50_000, then="cancel"))
    ended = await feed.ended(job)
    assert (ended.outcome, ended.exit_code) == ("killed", 137)
    assert feed.rungs(job) == [
        ("told", "told"),
        ("callback", "timed out, killed"),
        ("term", "timed out"),
        ("kill", "gone"),
        ("verify", "free"),
    ]
    await until(lambda: not node.jobs)


async def test_a_python_job_saves_in_its_own_hook_registers_and_may_call_itself_finished(feed, node) -> None:
    script = """
from headrace.client import job
import time
@job.on_abort
def save():
    path = job.checkpoint_dir / "model.pt"
    path.write_text("weights")
    job.checkpointed(path, 40)
    job.finished()
print("running", flush=True)
time.sleep(1000)
"""
    env = {"PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    job = await feed.start(0, sys.executable, "-c", script, env=env)
    await until_printed(feed, job, "running\n")
    await feed.stop(job)
    ended = await feed.ended(job)
    assert (ended.outcome, ended.exit_code, ended.stopping, ended.finished) == ("exited", 0, True, True)
    assert feed.rungs(job) == [("told", "told"), ("callback", "hook: left"), ("verify", "free")]
    registered = [(Path(fact.uri).name, fact.step) for fact in feed.of(job, CheckpointRegisteredV1)]
    if registered[0] == ("model.pt", 0):  # the executor may see the file before the job says which step it is of
        del registered[0]
    assert registered == [("model.pt", 40)]


async def test_a_checkpoint_is_noticed_while_the_job_runs(feed, node) -> None:
    job = await feed.start(0, "sh", "-c", 'echo 1 > "$HEADRACE_CHECKPOINT_DIR/1.pt"; sleep 1000')
    await until(lambda: feed.of(job, CheckpointRegisteredV1))
    assert feed.of(job, LeaseEndedV1) == []


async def test_a_lease_that_is_no_longer_listed_is_stopped(feed, node) -> None:
    job = await feed.start(0, "sleep", "1000")
    await feed.started(job)
    feed.starts.clear()
    ended = await feed.ended(job)
    assert (ended.exit_code, ended.stopping) == (143, True)
    await until(lambda: feed.count(NodeRegisteredV1) == 2)


async def test_what_makes_no_sense_on_the_wire_is_survived(feed, node) -> None:
    for payload in (b"", b"{", b"[" * 100_000, b'{"node":7}', b"\xff" * 1000, b'{"node":"gpu02","number":1,"through":999999}'):
        await feed.publish_orders(payload)
    job = await feed.start(0, "true")
    assert (await feed.ended(job)).exit_code == 0


async def test_a_bus_that_goes_away_costs_time_and_no_fact(feed, node, nats_server) -> None:
    release = node.data.parent / "release"
    job = await feed.start(0, "sh", "-c", f"while [ ! -e {release} ]; do sleep 0.01; done; exit 5")
    await feed.started(job)
    nats_server.kill()
    release.touch()
    await until(lambda: not node.jobs)
    nats_server.start()
    assert (await feed.ended(job)).exit_code == 5
    after = await feed.start(1, "true")
    assert (await feed.ended(after)).exit_code == 0
    assert [len(feed.of(key, LeaseEndedV1)) for key in (job, after)] == [1, 1]


async def test_when_the_executor_is_killed_its_jobs_run_on_and_the_next_one_takes_them_over(feed, node) -> None:
    """R32, and nothing runs twice."""
    script = "while [ ! -e $HEADRACE_CONTROL_DIR/../release ]; do sleep 0.01; done; echo on; exit 4"
    job = await feed.start(0, "sh", "-c", f"echo begun; {script}", devices=("gpu0",))
    meanwhile = await feed.start(1, "sh", "-c", "while [ ! -e $HEADRACE_CONTROL_DIR/../early ]; do sleep 0.01; done; exit 5")
    await feed.started(job)
    await feed.started(meanwhile)
    await node.end(signal.SIGKILL)
    (node.data / "leases" / "early").touch()
    await until(lambda: "\nended 5 " in (node.data / "kept" / f"{meanwhile}.1.0").read_text())
    ended_at = time.time() * 1e6
    node.start()
    early = await feed.ended(meanwhile)
    assert (early.outcome, early.exit_code) == ("exited", 5)
    assert early.exited_at < ended_at < early.at
    await until(lambda: feed.count(NodeRegisteredV1) == 2)
    assert feed.facts[-1].holding == (f"{job}/1/0",) or feed.of(job, LeaseEndedV1)
    (node.data / "leases" / "release").touch()
    ended = await feed.ended(job)
    assert (ended.outcome, ended.exit_code) == ("exited", 4)
    assert (await feed.read_log(job)).data == "begun\non\n"
    assert feed.count(LeaseStartedV1) == feed.count(LeaseEndedV1) == 2
    await until(lambda: not list((node.data / "kept").iterdir()))


async def test_what_a_job_ran_is_not_on_the_node_after_its_end_also_where_the_executor_was_killed_meanwhile(feed, node) -> None:
    """Its values are on the disk for as long as a next executor needs them, and no longer."""
    script = "while [ ! -e $HEADRACE_CONTROL_DIR/../release ]; do sleep 0.01; done"
    job = await feed.start(0, "sh", "-c", script, env={"KEY": "a-secret-value"})
    await feed.started(job)
    assert b"a-secret-value" in on_disk(node.data)
    await node.end(signal.SIGKILL)
    (node.data / "leases" / "release").touch()
    await until(lambda: "\nended 0 " in (node.data / "kept" / f"{job}.1.0").read_text())
    node.start()
    await feed.ended(job)
    await until(lambda: b"a-secret-value" not in on_disk(node.data))
    other = await feed.start(1, "true", env={"KEY": "a-secret-value"})
    await feed.ended(other)
    await until(lambda: b"a-secret-value" not in on_disk(node.data))


def on_disk(data: Path) -> bytes:
    """The bytes of all files of a node."""
    found = b""
    for folder, _, names in os.walk(data):  # passes over folders that are removed meanwhile
        for name in names:
            with contextlib.suppress(OSError):  # gone meanwhile
                found += Path(folder, name).read_bytes()
    return found


async def test_a_ladder_goes_on_where_it_was_when_the_executor_was_killed(feed, node) -> None:
    """R28: the callback that runs is waited for, not run again."""
    script = "trap 'exit 0' TERM; echo running; while :; do sleep 0.01; done"
    save = "echo saving; while [ ! -e $HEADRACE_CONTROL_DIR/../release ]; do sleep 0.01; done; echo saved"
    job = await feed.start(0, "sh", "-c", script, on_abort=("sh", "-c", save))
    await until_printed(feed, job, "running\n")
    await feed.stop(job)
    await until_printed(feed, job, "running\nsaving\n")
    await node.end(signal.SIGKILL)
    node.start()
    (node.data / "leases" / "release").touch()
    ended = await feed.ended(job)
    assert (ended.outcome, ended.exit_code, ended.stopping) == ("exited", 0, True)
    notified = [("told", "told"), ("told", "the executor was restarted")]
    assert feed.rungs(job) == [*notified, ("callback", "exit 0"), ("term", "left"), ("verify", "free")]
    assert (await feed.read_log(job)).data.replace("Terminated\n", "") == "running\nsaving\nsaved\n"


async def test_a_job_whose_keeper_is_killed_is_ended_whole_and_lost(feed, node) -> None:
    job = await feed.start(0, "sh", "-c", "setsid sleep 1000 & sleep 1000")
    await feed.started(job)
    await until(lambda: len(node.jobs) == 3)
    keeper = int((node.data / "kept" / f"{job}.1.0").read_text().split()[1])
    os.kill(keeper, signal.SIGKILL)
    ended = await feed.ended(job)
    assert (ended.outcome, ended.exit_code) == ("lost", None)
    assert node.jobs == []


async def test_facts_of_a_node_without_a_bus_outlive_its_executor_too(feed, node, nats_server) -> None:
    release = node.data.parent / "release"
    job = await feed.start(0, "sh", "-c", f"while [ ! -e {release} ]; do sleep 0.01; done; exit 6")
    await feed.started(job)
    nats_server.kill()
    release.touch()
    await until(lambda: not node.jobs)
    await until(lambda: b'"lease.ended.v1"' in (node.data / "journal").read_bytes())
    await node.end(signal.SIGKILL)
    nats_server.start()
    node.start()
    assert (await feed.ended(job)).exit_code == 6
    await until(lambda: feed.count(NodeRegisteredV1) == 2)
    assert (feed.count(LeaseStartedV1), feed.count(LeaseEndedV1)) == (1, 1)


async def test_an_executor_that_is_told_to_stop_leaves_its_jobs_to_the_next_one(feed, node) -> None:
    job = await feed.start(0, "sh", "-c", "while [ ! -e $HEADRACE_CONTROL_DIR/../release ]; do sleep 0.01; done; exit 7")
    await feed.started(job)
    assert await node.end(signal.SIGTERM) == 0
    assert len(node.jobs) >= 1
    node.start()
    await until(lambda: feed.count(NodeRegisteredV1) == 2)
    (node.data / "leases" / "release").touch()
    assert (await feed.ended(job)).exit_code == 7
    assert feed.count(NodeStoppedV1) == 0


async def test_an_executor_that_is_told_so_ends_its_jobs_when_it_stops_says_so_and_goes(feed, node) -> None:
    await node.end(signal.SIGTERM)
    node.start("--on-stop", "end")
    await until(lambda: feed.count(NodeRegisteredV1) == 2)
    job = await feed.start(0, "sh", "-c", "trap 'exit 9' TERM; echo running; while :; do sleep 0.01; done")
    await until_printed(feed, job, "running\n")
    assert await node.end(signal.SIGTERM) == 0
    ended = await feed.ended(job)
    assert (ended.outcome, ended.exit_code, ended.message) == ("lost", 9, "executor stopped")
    await until(lambda: feed.count(NodeStoppedV1))
    assert isinstance(feed.facts[-1], NodeStoppedV1)
    node.start()
    await until(lambda: feed.count(NodeRegisteredV1) == 3)


async def test_an_executor_that_is_stopped_with_its_machine_ends_its_jobs_and_says_so(feed, node) -> None:
    """R32: left to themselves they would end with the machine, and the ledger would hear of it only when it is back."""
    await node.end(signal.SIGTERM)
    says = node.data.parent / "bin" / "systemctl"
    says.parent.mkdir()
    says.write_text("#!/bin/sh\necho stopping\n")
    says.chmod(0o755)
    node.path = str(says.parent)
    node.start()
    await until(lambda: feed.count(NodeRegisteredV1) == 2)
    job = await feed.start(0, "sh", "-c", "trap 'exit 0' TERM; echo running; while :; do sleep 0.01; done")
    await until_printed(feed, job, "running\n")
    assert await node.end(signal.SIGTERM) == 0
    ended = await feed.ended(job)
    assert (ended.outcome, ended.exit_code, ended.message) == ("lost", 0, "the machine was being shut down")
    await until(lambda: feed.count(NodeStoppedV1))


@pytest.mark.parametrize("restarted", [True, False])
@pytest.mark.parametrize(("on_term", "code"), [("exit 0", 0), ("trap - TERM; kill -TERM $$", 143)])
async def test_what_sigterm_ended_without_an_executor_is_lost_where_the_machine_was_restarted_since(
    feed, node, restarted: bool, on_term: str, code: int
) -> None:
    """R32: when a machine stops, init sends SIGTERM to every process, the keeper too. While the machine runs on, it is the job's end."""
    job = await feed.start(0, "sh", "-c", f"trap '{on_term}' TERM; echo running; while :; do sleep 0.01; done")
    await until_printed(feed, job, "running\n")
    await node.end(signal.SIGKILL)
    record, journal = node.data / "kept" / f"{job}.1.0", node.data / "journal"
    for pid in map(int, record.read_text().split()[1:3]):
        with contextlib.suppress(ProcessLookupError):  # the end of one may end the other
            os.kill(pid, signal.SIGTERM)
    await until(lambda: f"\nended {code} " in record.read_text() and record.read_text().endswith("\nterminated\n"))
    if restarted:
        boot = boot_id()
        assert boot in journal.read_text()
        journal.write_text(journal.read_text().replace(boot, "00000000-0000-4000-8000-000000000000"))
    node.start()
    ended = await feed.ended(job)
    lost = ("lost", None, "the machine was restarted")
    assert (ended.outcome, ended.exit_code, ended.message) == (lost if restarted else ("exited", code, ""))


async def test_an_executor_that_has_to_go_at_once_takes_everything_with_it(feed, node) -> None:
    job = await feed.start(0, "sh", "-c", "trap '' TERM; echo running; while :; do sleep 0.01; done")
    await until_printed(feed, job, "running\n")
    assert await node.end(signal.SIGQUIT) == 0
    assert node.jobs == []
    assert (await feed.ended(job)).outcome == "lost"


async def test_two_executors_on_one_directory_are_one_too_many(feed, node, tmp_path) -> None:
    command = [
        sys.executable,
        "-c",
        "import sys; from headrace.node_executor.system.instance_lock import InstanceLock; InstanceLock(sys.argv[1], 0.0)",
    ]
    done = await asyncio.to_thread(subprocess.run, [*command, str(node.data)], capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1].endswith(f"another executor uses {node.data}; stop it, or give this one another --data")
