"""What a job is given is what it gets: with the kernel's own control groups and accounts, as far as this machine has them."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headrace.contracts.facts import LeaseEndedV1, NodeRegisteredV1
from headrace.contracts.facts.fact import Ladder
from headrace.contracts.values.amounts import CPU, MEMORY
from headrace.node_executor.system.accounts import FIRST
from headrace.node_executor.system.cgroups import CONTROLLERS, Groups, group_name
from tests.integration.nodes import Executor, Feed, until, until_printed

KILLED = "1" if Path("/sys/fs/cgroup/memory").is_dir() else "all"
"""Which processes the kernel kills for memory: in version 2, those of a group as one."""
SPINNER = "date +%s%N; sh -c 'ulimit -t 1; while :; do :; done'; date +%s%N"
"""Spins for a second of CPU time, and says when it began and when it was over."""


def missing() -> str:
    """Why nothing can be limited here; empty where it can."""
    if os.geteuid() != 0:
        return "limits need root here"
    try:
        groups = Groups("probe")
    except OSError as error:
        return f"no control groups: {error.strerror}"
    lacking = groups.missing
    groups.close()
    return f"this machine's controllers lack {', '.join(lacking)}" if set(lacking) & set(CONTROLLERS) else ""


pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())


@pytest.fixture
async def bounded(feed, nats_server) -> AsyncIterator[Executor]:
    """A node whose jobs are held to everything; not in pytest's own folder, which is closed to other accounts."""
    with tempfile.TemporaryDirectory(prefix="headrace-", ignore_cleanup_errors=True) as folder:
        os.chmod(folder, 0o755)
        one = Executor(Path(folder), nats_server)
        one.start("--limits", "required", "--run-as", "own", "--pids", "64", "--work-limit", "8MiB", "--on-stop", "end")
        await until(lambda: feed.count(NodeRegisteredV1))
        yield one
        if one.process is not None:
            one.process.terminate()
            await asyncio.to_thread(one.process.wait)


def groups_left(node: Executor) -> list[str]:
    name = group_name("gpu01", str(node.data))
    found = os.walk("/sys/fs/cgroup")  # passes over groups that are removed meanwhile
    return [f"{path}/{group}" for path, groups, _ in found if path.endswith(f"/headrace.{name}") for group in groups]


async def test_who_takes_more_memory_than_given_dies_alone_and_is_told_why(feed: Feed, bounded: Executor) -> None:
    neighbour = await feed.start(0, "sh", "-c", "while [ ! -e release ]; do sleep 0.01; done; exit 3", amounts={MEMORY: 64})
    hog = await feed.start(1, "tail", "/dev/zero", amounts={MEMORY: 48})
    ended = await feed.ended(hog)
    assert (ended.outcome, ended.exit_code) == ("exited", 137)
    assert (
        ended.message == f"out of memory: it used all of its 48 MiB of memory, and the kernel killed {KILLED} of its processes"
    )
    assert feed.of(neighbour, LeaseEndedV1) == []
    (bounded.data / "leases" / f"{neighbour}.1.0" / "work" / "release").touch()
    assert (await feed.ended(neighbour)).exit_code == 3
    await until(lambda: not groups_left(bounded))


async def test_a_fork_bomb_is_contained_and_ends_with_its_job(feed: Feed, bounded: Executor) -> None:
    bomb = await feed.start(0, "sh", "-c", "bomb() { bomb & bomb; sleep 100; }; echo begun; bomb")
    await until_printed(feed, bomb, "begun\n", beginning=True)
    neighbour = await feed.start(1, "sh", "-c", "exec sh -c 'exit 4'")
    assert (await feed.ended(neighbour)).exit_code == 4
    assert len(bounded.jobs) <= 64
    await feed.stop(bomb, Ladder(cause="cancelled", callback_grace=0, term_grace=100_000, then="cancel"))
    await feed.ended(bomb)
    assert bounded.jobs == []
    await until(lambda: not groups_left(bounded))


async def test_a_job_has_no_more_cpu_time_than_it_was_given(feed: Feed, bounded: Executor) -> None:
    half = await feed.start(0, "sh", "-c", SPINNER, amounts={CPU: 500})
    await feed.ended(half)
    began, over = (int(line) for line in (await feed.read_log(half)).data.splitlines() if line.isdigit())
    assert (over - began) / 1e9 > 1.7  # alone on a processor it would take one second


async def test_a_job_runs_as_its_users_own_account_sees_its_own_and_nothing_of_ours(feed: Feed, bounded: Executor) -> None:
    script = (
        "id -u; id -G; echo $USER; touch here $HEADRACE_CHECKPOINT_DIR/1.pt $HOME/there; grep -h NoNewPrivs /proc/self/status;"
        f"cat {bounded.data}/journal {bounded.data}/logs/* || ls {bounded.data}/kept || ls {bounded.data}/leases || echo closed"
    )
    job = await feed.start(0, "sh", "-c", script)
    assert (await feed.ended(job)).exit_code == 0
    uid, gids, user, privileges, *rest = (await feed.read_log(job)).data.splitlines()
    assert int(uid) >= FIRST
    assert (gids, user, privileges.split()) == (uid, "alice", ["NoNewPrivs:", "1"])
    assert rest[-1] == "closed"
    checkpoint = bounded.data / "checkpoints" / f"{job}.1" / "1.pt"
    assert checkpoint.stat().st_uid == int(uid)


async def test_a_working_directory_that_grows_too_large_ends_its_job(feed: Feed, bounded: Executor) -> None:
    job = await feed.start(0, "sh", "-c", "head -c 20000000 /dev/zero > big; sleep 1000")
    ended = await feed.ended(job)
    assert (ended.outcome, ended.exit_code) == ("exited", 137)
    assert ended.message.startswith("its working directory took 19 MiB; 8 MiB is the most")


async def test_a_callback_goes_on_when_the_job_has_ended_and_a_killed_keeper_leaves_nothing(
    feed: Feed, bounded: Executor
) -> None:
    save = "echo saving; while [ ! -e release ]; do sleep 0.01; done; echo saved"
    job = await feed.start(
        0, "sh", "-c", "echo running; while [ ! -e leave ]; do sleep 0.01; done", on_abort=("sh", "-c", save)
    )
    await until_printed(feed, job, "running\n")
    await feed.stop(job)
    await until_printed(feed, job, "running\nsaving\n")
    work = bounded.data / "leases" / f"{job}.1.0" / "work"
    (work / "leave").touch()
    began = time.monotonic()
    while len(bounded.jobs) > 2 and time.monotonic() - began < 5:
        await asyncio.sleep(0.01)
    (work / "release").touch()
    assert (await feed.ended(job)).exit_code == 0
    assert (await feed.read_log(job)).data == "running\nsaving\nsaved\n"
