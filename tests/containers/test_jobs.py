"""What becomes of jobs in containers when they, their image, their engine or their executor fail."""

from __future__ import annotations

import asyncio
import signal

from headrace.contracts.facts import LeaseEndedV1, LeaseStartedV1
from headrace.contracts.values.amounts import CPU
from headrace.node_executor.runtimes.container_engine import Engine
from tests import isolation
from tests.containers.conftest import PIDS, Site
from tests.integration.nodes import Feed, until, until_printed
from tests.real_engine import IMAGE, Podman

ON = "echo one; while [ ! -e go ]; do sleep 0.01; done; echo two; exit 3"


async def test_a_job_that_needs_more_memory_than_it_has_says_so(feed: Feed, site: Site) -> None:
    job = await feed.start(0, "sh", "-c", "x=$(seq 1 100000000)", image=IMAGE, amounts={"memory": 64})
    ended = await feed.ended(job)
    assert (ended.outcome, ended.exit_code != 0, ended.message) == (
        "exited",
        True,
        "out of memory: it used all of its 64 MiB of memory, and the kernel killed some of its processes",
    )


async def test_why_a_command_could_not_be_run_is_told(feed: Feed, site: Site) -> None:
    missing = await feed.ended(await feed.start(0, "no-such-program", image=IMAGE))
    unusable = await feed.ended(await feed.start(1, "/etc", image=IMAGE))
    assert (missing.exit_code, missing.message) == (127, "command not found: no-such-program")
    assert (unusable.exit_code, unusable.message) == (126, "/etc cannot be run: Permission denied")
    own = await feed.ended(await feed.start(2, "sh", "-c", "echo hello; exit 127", image=IMAGE))
    assert (own.exit_code, own.message) == (127, "")


async def test_an_image_that_is_not_to_be_had_is_refused_with_the_reason(feed: Feed, site: Site) -> None:
    ended = await feed.ended(await feed.start(0, "true", image="registry.invalid/trainer:1"))
    assert (ended.outcome, ended.message.startswith("the image registry.invalid/trainer:1 cannot be pulled: ")) == (
        "refused",
        True,
    )


async def test_without_its_engine_a_node_refuses_a_job_with_the_reason(feed: Feed, site: Site, engine: Podman) -> None:
    engine.stop()
    try:
        ended = await feed.ended(await feed.start(0, "true", image=IMAGE))
    finally:
        await asyncio.to_thread(engine.start)
    assert (ended.outcome, "does not answer" in ended.message) == ("refused", True)


async def test_a_container_outlives_its_executor_and_the_next_one_ends_it_in_order(feed: Feed, site: Site) -> None:
    job = await feed.start(0, "sh", "-c", ON, image=IMAGE)
    await until_printed(feed, job, "one\n")
    await feed.started(job)
    await site.end(signal.SIGKILL)
    (site.data / "leases" / f"{job}.1.0" / "work" / "go").touch()
    site.begin()
    ended = await feed.ended(job)
    assert (ended.outcome, ended.exit_code, len(feed.of(job, LeaseStartedV1))) == ("exited", 3, 1)
    await until_printed(feed, job, "one\ntwo\n")


async def test_an_executor_that_is_killed_during_a_start_starts_the_job_once(feed: Feed, site: Site, engine: Podman) -> None:
    job = await feed.start(0, "sh", "-c", f"echo x >> ran; {ON}", image=IMAGE)
    work = site.data / "leases" / f"{job}.1.0" / "work"
    await until(work.exists)
    await site.end(signal.SIGKILL)
    site.begin()
    await until((work / "ran").exists)
    (work / "go").touch()
    ended = await feed.ended(job)
    assert (ended.outcome, ended.exit_code, len(feed.of(job, LeaseEndedV1))) == ("exited", 3, 1)
    await until(lambda: Engine(engine.socket).call("GET", "/containers/json?all=1") == [])


LOOKS = """\
id -u
while read key value; do case $key in CapEff:|CapBnd:|NoNewPrivs:) echo $key $value;; esac; done < /proc/self/status
for path in {work} {socket} /etc/made /headrace-made; do
  [ -e $path ] && cat $path 2>/dev/null
  (: > $path) 2>/dev/null && echo wrote $path
done
kill -0 {pid} 2>/dev/null && echo sees {pid}
(: > made) && echo wrote its own directory
"""


async def test_a_job_in_a_container_reaches_nothing_of_another_users_jobs_and_of_its_node(
    feed: Feed, site: Site, engine: Podman
) -> None:
    process = await isolation.begin_to_hold(feed, 0)
    contained = await isolation.begin_to_hold(feed, 1, image=IMAGE)
    first = Engine(engine.socket).call("GET", f"/containers/headrace-{contained}.1.0/json")["State"]["Pid"]
    neighbours = {process: isolation.first_process(site, process), contained: first}
    for number, (neighbour, pid) in enumerate(neighbours.items()):
        assert await isolation.got(feed, site, 2 + number, neighbour, pid, user="bob", image=IMAGE) == []
        assert await isolation.got(feed, site, 4 + number, neighbour, pid, image=IMAGE) == []  # not its own user's either
        assert await isolation.got(feed, site, 6 + number, neighbour, pid, user="bob") == []  # and no process of another user
    assert await isolation.got(feed, site, 8, process, neighbours[process]) == isolation.OWN


async def test_a_container_shows_its_own_processes_and_devices_only(feed: Feed, site: Site) -> None:
    await isolation.begin_to_hold(feed, 0)
    look = "for one in /proc/[0-9]*/comm; do read name < $one; echo $name; done; for one in /dev/*; do echo $one; done"
    job = await feed.start(1, "sh", "-c", look, user="bob", image=IMAGE)
    await feed.ended(job)
    lines = (await feed.read_log(job)).data.splitlines()
    usual = {
        "fd",
        "full",
        "mqueue",
        "null",
        "ptmx",
        "pts",
        "random",
        "shm",
        "stderr",
        "stdin",
        "stdout",
        "tty",
        "urandom",
        "zero",
    }
    assert {line for line in lines if not line.startswith("/dev/")} == {".headrace-init", "sh"}
    assert {line for line in lines if line.startswith("/dev/")} <= {f"/dev/{name}" for name in usual | {"core"}}


async def test_a_container_has_no_more_cpu_time_than_it_was_given(feed: Feed, site: Site) -> None:
    spins = "sh -c 'ulimit -t 1; while :; do :; done'; true"
    job = await feed.start(0, "sh", "-c", spins, amounts={CPU: 500}, image=IMAGE)
    ended = await feed.ended(job)
    assert ended.exited_at - feed.of(job, LeaseStartedV1)[0].at > 1_700_000  # alone on a processor it would take one second


async def test_a_container_has_no_more_processes_than_it_was_given(feed: Feed, site: Site) -> None:
    forks = "n=0; while [ $n -lt 200 ]; do sleep 1000 & n=$((n+1)); echo $n; done"
    job = await feed.start(0, "sh", "-c", forks, image=IMAGE)
    ended = await feed.ended(job)
    numbers = [int(line) for line in (await feed.read_log(job)).data.splitlines() if line.isdecimal()]
    assert (ended.outcome, ended.exit_code != 0, 0 < numbers[-1] < PIDS) == ("exited", True, True)


async def test_a_job_in_a_container_has_an_account_without_rights_and_reaches_nothing_of_its_neighbour(
    feed: Feed, site: Site, engine: Podman
) -> None:
    neighbour = await feed.start(0, "sh", "-c", "echo secret > own; echo ready; sleep 1000", image=IMAGE)
    await until_printed(feed, neighbour, "ready\n")
    first = Engine(engine.socket).call("GET", f"/containers/headrace-{neighbour}.1.0/json")["State"]["Pid"]
    looks = LOOKS.format(work=site.data / "leases" / f"{neighbour}.1.0" / "work" / "own", socket=engine.socket, pid=first)
    job = await feed.start(1, "sh", "-c", looks, image=IMAGE)
    await feed.ended(job)
    account = (site.data / "leases" / f"{job}.1.0" / "work" / "made").stat().st_uid
    assert account != 0
    nothing = "CapEff: 0000000000000000\nCapBnd: 0000000000000000\nNoNewPrivs: 1\n"
    await until_printed(feed, job, f"{account}\n{nothing}wrote its own directory\n")
