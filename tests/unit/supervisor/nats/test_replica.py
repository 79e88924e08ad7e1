"""One of several servers: stopped before its disk is full, killed when it could not write, and emptied when the others have everything."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace

import pytest

from headrace.supervisor.nats import replica
from headrace.supervisor.nats.full_disk import MIB
from headrace.supervisor.nats.replica import Replicas
from headrace.supervisor.processes.log_file import LogFile
from tests.patience import PATIENCE
from tests.unit.supervisor.disks import FULL_DISK

FULL = "is full ({} MiB free): it is away until there is room, then it goes on"
AWAY = "its disk was full: it is away until the others have everything, then it is emptied, and copies anew"
GOES_ON = "its disk was full: it is emptied, and copies anew, as soon as the others have everything"


class Server:
    """A child that is ended and started as the test says."""

    def __init__(self, folder, number):
        self.program = SimpleNamespace(name=f"nats-server-{number}")
        self.log = LogFile(folder / f"nats-server-{number}.log")
        self.trouble = ""
        self.ended = []

    def restart(self, *, at_once=False):
        self.ended.append("killed" if at_once else "stopped")


class Cluster:
    """Three of them with something in their stores; `free` by number; `complete`: those without which the others have everything."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.now = 1_000.0
        self.free = dict.fromkeys((1, 2, 3), 1_000 * MIB)
        self.complete: set[int] = set()
        self.asked = []
        self.changes = 0
        for number in self.free:
            (self.place(number) / "jetstream" / "CORE").mkdir(parents=True)
        self.begin()

    def begin(self):
        """As it is when the supervision of them starts."""
        self.servers = {number: Server(self.folder, number) for number in self.free}
        replicas = Replicas(self._have_all, self._changed)
        self.replicas = {number: replicas.watch_over(server, self.place(number)) for number, server in self.servers.items()}

    def place(self, number):
        return self.folder / f"store-{number}"

    def free_at(self, place):
        left = self.free[int(place.name[-1])]
        if isinstance(left, OSError):
            raise left
        return left

    def says(self, number, output=FULL_DISK):
        self.servers[number].log.write(output)
        self.replicas[number].on_output(output)

    def holds(self):
        """Who has something in its store."""
        return [number for number in self.free if (self.place(number) / "jetstream").exists()]

    def doubted(self):
        return [number for number, one in self.replicas.items() if one.doubted]

    def _changed(self):
        self.changes += 1

    async def _have_all(self, name, distrusted):
        self.asked.append((name, sorted(distrusted)))
        return int(name[-1]) in self.complete


@pytest.fixture
async def cluster(tmp_path, monkeypatch):
    """All have been started a while ago."""
    one = Cluster(tmp_path)
    monkeypatch.setattr(replica, "free", one.free_at)
    monkeypatch.setattr(replica, "LOOK_EVERY", 0.001)
    monkeypatch.setattr(replica, "time", SimpleNamespace(monotonic=lambda: one.now))
    for number in one.free:
        await began(one, number)
    one.now += replica.THERE_FOR
    return one


async def until(condition):
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.001)


async def began(cluster, number):
    """It is started; what is wrong with it."""
    await asyncio.wait_for(cluster.replicas[number].before_start(), PATIENCE)
    return cluster.servers[number].trouble


async def waits(cluster, number, trouble):
    """The task in which it waits, because of that."""
    waiting = asyncio.create_task(cluster.replicas[number].before_start())
    await until(lambda: cluster.servers[number].trouble == trouble)
    return waiting


async def test_a_server_with_room_is_just_started(cluster):
    assert [await began(cluster, number) for number in (1, 2, 3)] == ["", "", ""]
    assert (cluster.changes, cluster.asked) == (0, [])


async def test_before_its_disk_is_full_it_is_stopped_until_there_is_room(cluster):
    watching = asyncio.create_task(cluster.replicas[2].watch())
    cluster.free[2] = 31 * MIB
    await until(lambda: cluster.servers[2].ended)
    waiting = await waits(cluster, 2, f"the disk of {cluster.place(2)} {FULL.format(31)}")
    cluster.free[2] = 63 * MIB
    await until(lambda: "63 MiB" in cluster.servers[2].trouble)
    cluster.free[2] = 64 * MIB
    await asyncio.wait_for(waiting, PATIENCE)
    assert (cluster.servers[2].ended, cluster.servers[2].trouble, cluster.holds()) == (["stopped"], "", [1, 2, 3])
    watching.cancel()


async def test_one_whose_store_cannot_be_reached_waits_until_it_can(cluster):
    cluster.free[2] = OSError(5, "Input/output error")
    waiting = await waits(cluster, 2, f"its store cannot be reached: Input/output error: {cluster.place(2)}")
    cluster.free[2] = 64 * MIB
    await asyncio.wait_for(waiting, PATIENCE)
    assert cluster.servers[2].trouble == ""
    watching = asyncio.create_task(cluster.replicas[2].watch())
    cluster.free[2] = OSError(5, "Input/output error")
    await until(lambda: cluster.servers[2].trouble)
    cluster.free[2] = 64 * MIB
    await until(lambda: not cluster.servers[2].trouble)
    assert cluster.servers[2].ended == []
    watching.cancel()


async def test_one_that_could_not_write_is_killed_and_emptied_once_there_is_room_and_the_others_have_everything(cluster):
    cluster.free[2] = 0
    cluster.says(2)
    assert (cluster.servers[2].ended, cluster.doubted()) == (["killed"], [2])
    waiting = await waits(cluster, 2, f"the disk of {cluster.place(2)} {FULL.format(0)}")
    cluster.free[2] = 64 * MIB
    await until(lambda: cluster.servers[2].trouble == AWAY)
    assert (cluster.holds(), cluster.asked[-1]) == ([1, 2, 3], ("nats-server-2", ["nats-server-2"]))
    cluster.complete = {2}
    await asyncio.wait_for(waiting, PATIENCE)
    assert (cluster.doubted(), cluster.servers[2].trouble, cluster.holds()) == ([], "", [1, 3])
    assert list(cluster.place(2).iterdir()) == []


async def test_one_that_the_others_need_goes_on_as_it_is_until_they_have_everything(cluster):
    cluster.says(2)
    waiting = await waits(cluster, 2, AWAY)
    cluster.now += replica.WAITS_FOR + 1
    await asyncio.wait_for(waiting, PATIENCE)
    assert (cluster.doubted(), cluster.servers[2].trouble, cluster.holds()) == ([2], GOES_ON, [1, 2, 3])
    watching = asyncio.create_task(cluster.replicas[2].watch())
    cluster.complete = {2}
    await until(lambda: cluster.servers[2].ended == ["killed", "killed"])
    assert (await began(cluster, 2), cluster.doubted(), cluster.holds()) == ("", [], [1, 3])
    watching.cancel()


async def test_of_two_the_second_is_emptied_when_the_first_has_been_there_again_for_a_while(cluster):
    cluster.complete = {2, 3}
    cluster.says(2)
    cluster.says(3)
    second, third = await waits(cluster, 2, AWAY), await waits(cluster, 3, AWAY)
    cluster.now += replica.WAITS_FOR + 1
    await asyncio.wait_for(asyncio.gather(second, third), PATIENCE)
    assert (cluster.doubted(), cluster.asked) == ([2, 3], [])
    watching = [asyncio.create_task(cluster.replicas[number].watch()) for number in (2, 3)]
    cluster.now += replica.THERE_FOR
    await until(lambda: len(cluster.servers[2].ended) + len(cluster.servers[3].ended) == 3)
    assert cluster.asked == [("nats-server-2", ["nats-server-2", "nats-server-3"])]
    assert (await began(cluster, 2), cluster.doubted(), cluster.holds()) == ("", [3], [1, 3])
    cluster.now += replica.THERE_FOR
    await until(lambda: len(cluster.servers[3].ended) == 2)
    assert (await began(cluster, 3), cluster.doubted(), cluster.holds()) == ("", [], [1])
    for one in watching:
        one.cancel()


async def test_of_three_none_is_distrusted_because_one_has_to_lead(cluster):
    for number in (1, 2, 3):
        cluster.says(number)
    waiting = [await waits(cluster, number, AWAY) for number in (1, 2, 3)]
    cluster.now += replica.WAITS_FOR + 1
    await asyncio.wait_for(asyncio.gather(*waiting), PATIENCE)
    cluster.now += replica.THERE_FOR
    watching = asyncio.create_task(cluster.replicas[3].watch())
    await until(lambda: cluster.asked)
    assert (cluster.asked[0], cluster.holds()) == (("nats-server-3", []), [1, 2, 3])
    watching.cancel()


async def test_a_doubt_outlives_who_had_it_and_is_over_when_it_has_been_settled(cluster):
    cluster.servers[3].log.write(b"-- 120 bytes are missing here: No space left on device\n")  # that was the log's disk
    cluster.says(2)
    (cluster.place(1) / "jetstream-let-go").mkdir()  # the end of their supervisor came in the middle of it
    cluster.begin()
    assert cluster.doubted() == [2]
    await began(cluster, 1)
    await began(cluster, 3)
    assert not (cluster.place(1) / "jetstream-let-go").exists()
    cluster.now += replica.THERE_FOR
    cluster.complete = {2}
    assert await began(cluster, 2) == ""
    cluster.begin()
    assert cluster.doubted() == []


async def test_a_store_that_cannot_be_emptied_is_not_gone_on_with(cluster, monkeypatch):
    def refuse(*_, **__):
        raise OSError(30, "Read-only file system")

    cluster.says(2)
    cluster.complete = {2}
    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", refuse)
        reason = "its disk was full, and its copy of the streams, which may not be the others', cannot be removed: Read-only file system"
        waiting = await waits(cluster, 2, reason)
    await asyncio.wait_for(waiting, PATIENCE)
    assert (cluster.servers[2].trouble, cluster.holds()) == ("", [1, 3])
