"""One of several servers: stopped before its disk is full, killed when it could not write, and started with a copy that is the others'."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace

import pytest

from headrace.supervisor import replica
from headrace.supervisor.full_disk import MIB
from headrace.supervisor.logfile import LogFile
from headrace.supervisor.replica import Replica
from tests.patience import PATIENCE
from tests.unit.supervisor.stores import RECORDS, store, without
from tests.unit.supervisor.test_full_disk import SAID

FULL = "is full ({} MiB free): it is away until there is room, then it goes on"


class Server:
    """A child that is ended and started as somebody says."""

    def __init__(self, folder, number):
        self.program = SimpleNamespace(name=f"nats-server-{number}")
        self.log = LogFile(folder / f"nats-server-{number}.log")
        self.trouble = ""
        self.pid = 10 + number
        self.ended = []

    def restart(self, *, at_once=False):
        self.ended.append("killed" if at_once else "stopped")
        self.pid = 0


class Cluster:
    """Three of them, each with the same records; `free` by number, `complete`: those without which the others have everything."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.free = dict.fromkeys((1, 2, 3), 1_000 * MIB)
        self.complete = set()
        self.changes = 0
        for number in self.free:
            store(self.place(number), RECORDS)
        self.begin()

    def begin(self):
        """As it is when somebody starts to look after them."""
        self.servers = {number: Server(self.folder, number) for number in self.free}
        among: list[Replica] = []
        self.replicas = {
            number: Replica(server, self.place(number), among, self._changed, self._have_all)
            for number, server in self.servers.items()
        }

    def place(self, number):
        return self.folder / f"store-{number}"

    def says(self, number, said=SAID):
        self.servers[number].log.write(said)
        self.replicas[number].heard(said)

    def _changed(self):
        self.changes += 1

    async def _have_all(self, name):
        return int(name[-1]) in self.complete


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    one = Cluster(tmp_path)
    monkeypatch.setattr(replica, "free", lambda place: one.free[int(place.name[-1])])
    monkeypatch.setattr(replica, "LOOK_EVERY", 0.001)
    return one


async def until(condition):
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.001)


async def began(cluster, number):
    """It is started, and nothing is wrong with it."""
    await asyncio.wait_for(cluster.replicas[number].before_life(), PATIENCE)
    return (cluster.replicas[number].doubted, cluster.servers[number].trouble)


async def waits(cluster, number):
    """What keeps it from being started; and the task that waits."""
    waiting = asyncio.create_task(cluster.replicas[number].before_life())
    await until(lambda: cluster.servers[number].trouble)
    return waiting, cluster.servers[number].trouble


def holds(cluster, number):
    return (cluster.place(number) / "jetstream").exists()


async def test_a_server_with_room_is_just_started(cluster):
    assert [await began(cluster, number) for number in (1, 2, 3)] == [(False, "")] * 3
    assert cluster.changes == 0


async def test_before_its_disk_is_full_it_is_stopped_until_there_is_room(cluster):
    watching = asyncio.create_task(cluster.replicas[2].watch())
    cluster.free[2] = 31 * MIB
    await until(lambda: cluster.servers[2].ended)
    waiting, trouble = await waits(cluster, 2)
    assert trouble == f"the disk of {cluster.place(2)} {FULL.format(31)}"
    cluster.free[2] = 63 * MIB
    await until(lambda: "63 MiB" in cluster.servers[2].trouble)
    cluster.free[2] = 64 * MIB
    await asyncio.wait_for(waiting, PATIENCE)
    assert (cluster.servers[2].ended, cluster.servers[2].trouble, holds(cluster, 2)) == (["stopped"], "", True)
    watching.cancel()


async def test_one_that_could_not_write_is_killed_and_goes_on_with_its_copy_if_that_is_the_others(cluster):
    cluster.free[2] = 0
    cluster.says(2)
    assert (cluster.servers[2].ended, cluster.replicas[2].doubted) == (["killed"], True)
    waiting, trouble = await waits(cluster, 2)
    assert trouble == f"the disk of {cluster.place(2)} {FULL.format(0)}"
    cluster.free[2] = 64 * MIB
    await asyncio.wait_for(waiting, PATIENCE)
    assert (cluster.replicas[2].doubted, cluster.servers[2].trouble, holds(cluster, 2)) == (False, "", True)


async def test_one_with_another_copy_is_emptied_once_the_others_have_everything_without_it(cluster):
    store(cluster.place(2), without(5))
    cluster.says(2)
    waiting, trouble = await waits(cluster, 2)
    assert trouble == (
        "its disk was full (LEDGER 5 is not as nats-server-1 has it): it waits until the others have everything, then it is looked at, "
        "and copies anew"
    )
    assert holds(cluster, 2)
    cluster.complete = {2}
    await asyncio.wait_for(waiting, PATIENCE)
    assert (cluster.replicas[2].doubted, cluster.servers[2].trouble, holds(cluster, 2)) == (False, "", False)
    assert list(cluster.place(2).iterdir()) == []


async def test_one_that_is_further_than_the_others_waits_until_they_are_as_far(cluster):
    for number in (1, 3):
        store(cluster.place(number), RECORDS[:4])
    cluster.says(2)
    waiting, trouble = await waits(cluster, 2)
    assert trouble.startswith("its disk was full (the others are not as far): it waits")
    store(cluster.place(3), RECORDS)
    await asyncio.wait_for(waiting, PATIENCE)
    assert (cluster.replicas[2].doubted, holds(cluster, 2)) == (False, True)


async def test_a_doubt_outlives_who_had_it_and_is_over_when_it_has_been_settled(cluster):
    store(cluster.place(2), without(5))
    cluster.says(2)
    (cluster.place(1) / "jetstream-let-go").mkdir()  # the end of whoever looked after them came in the middle of it
    cluster.begin()
    assert [one.doubted for one in cluster.replicas.values()] == [False, True, False]
    assert (await began(cluster, 1), (cluster.place(1) / "jetstream-let-go").exists()) == ((False, ""), False)
    cluster.complete = {2}
    assert await began(cluster, 2) == (False, "")
    cluster.begin()
    assert [one.doubted for one in cluster.replicas.values()] == [False, False, False]


async def test_two_at_once_go_on_with_what_is_not_unlike_the_third_because_alone_it_has_nobody_to_agree_with(cluster):
    store(cluster.place(1), RECORDS[:4])
    cluster.says(2)
    cluster.says(3)
    assert (await began(cluster, 2), await began(cluster, 3)) == ((False, ""), (False, ""))
    assert (holds(cluster, 2), holds(cluster, 3)) == (True, True)


async def test_of_two_at_once_the_one_that_is_like_the_third_goes_first_and_then_the_other_copies_anew(cluster):
    store(cluster.place(2), without(5))
    cluster.says(2)
    cluster.says(3)
    waiting, trouble = await waits(cluster, 2)
    assert trouble == (
        "its disk was full, as another's was, and LEDGER 5 is not as nats-server-1 has it: "
        "see the runbook HeadraceDiskFilling for which of them is right"
    )
    assert await began(cluster, 3) == (False, "")
    cluster.complete = {2}
    await asyncio.wait_for(waiting, PATIENCE)
    assert (holds(cluster, 2), holds(cluster, 3)) == (False, True)


async def test_of_three_at_once_two_that_are_the_same_are_right(cluster):
    store(cluster.place(1), without(5))
    for number in (1, 2, 3):
        cluster.says(number)
    waiting, _ = await waits(cluster, 1)
    assert (await began(cluster, 2), await began(cluster, 3)) == ((False, ""), (False, ""))
    cluster.complete = {1}
    await asyncio.wait_for(waiting, PATIENCE)
    assert [holds(cluster, number) for number in (1, 2, 3)] == [False, True, True]


async def test_a_store_that_cannot_be_emptied_is_not_gone_on_with(cluster, monkeypatch):
    def refuse(*_, **__):
        raise OSError(30, "Read-only file system")

    store(cluster.place(2), without(5))
    cluster.says(2)
    cluster.complete = {2}
    monkeypatch.setattr(Path, "rename", refuse)
    waiting, trouble = await waits(cluster, 2)
    assert trouble == (
        "its disk was full, and its copy of the streams cannot be held against the others': [Errno 30] Read-only file system"
    )
    monkeypatch.undo()
    monkeypatch.setattr(replica, "free", lambda _: 64 * MIB)
    await asyncio.wait_for(waiting, PATIENCE)
    assert not holds(cluster, 2)
