"""The only server: when its disk was full it is started again, and says and refuses meanwhile."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from headrace.supervisor.nats import full_disk
from headrace.supervisor.nats.full_disk import MIB, NEEDED, FullDisk, Signs
from tests.patience import PATIENCE
from tests.unit.supervisor.disks import FULL_DISK


class Server:
    """A child that is restarted."""

    def __init__(self):
        self.trouble = ""
        self.troubles = []
        self.restarts = 0
        self.restarted = asyncio.Event()

    def restart(self):
        self.restarts += 1
        self.restarted.set()


async def never():
    await asyncio.Event().wait()


@pytest.fixture
def disk(monkeypatch):
    one = SimpleNamespace(free=0)
    monkeypatch.setattr(full_disk.shutil, "disk_usage", lambda _: one)
    monkeypatch.setattr(full_disk, "LOOK_EVERY", 0.001)
    return one


async def until(condition):
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.001)


@pytest.mark.parametrize(
    "output",
    [
        FULL_DISK,
        b"[ERR] RAFT [KFftRIIE - S-R3F] Critical write error: write 1.blk\n",
        b"[ERR] JetStream out of File resources, will be DISABLED\n",
        b"[WRN] Failed to install snapshot: write snap.3: disk quota exceeded\n",
        b"[ERR] write 4.blk: input/output error\n",
        b"[ERR] open 5.blk: read-only file system\n",
    ],
)
def test_what_a_server_says_that_cannot_write_is_heard_in_however_many_pieces_it_comes(output):
    assert Signs().on_output(b"[INF] Server is ready\n" + output)
    for cut in range(len(output)):
        signs = Signs()
        assert any([signs.on_output(b"[INF] Server is ready\n"), signs.on_output(output[:cut]), signs.on_output(output[cut:])])
    signs = Signs()
    assert [signs.on_output(output), signs.on_output(b"[INF] Starting nats-server\n"), signs.on_output(output)] == [
        True,
        False,
        True,
    ]
    assert not Signs().on_output(b"[ERR] Error flushing: writev tcp: connection reset by peer\n")


async def test_a_server_that_writes_no_more_is_started_again_when_there_is_room_and_says_meanwhile_what_is_wrong(
    tmp_path, disk
):
    server = Server()
    supervision = FullDisk(server, tmp_path, lambda: server.troubles.append(server.trouble), never)
    await supervision.before_start()
    watching = asyncio.create_task(supervision.watch())
    supervision.on_output(b"[INF] Server is ready\n")
    disk.free = 3 * MIB
    supervision.on_output(FULL_DISK)
    await until(lambda: server.troubles)
    trouble = f"the disk of {tmp_path} is full (3 MiB free): nothing is written until there is room, then it goes on"
    assert (server.troubles, server.restarts) == ([trouble], 0)
    disk.free = NEEDED
    await asyncio.wait_for(server.restarted.wait(), PATIENCE)
    await until(lambda: len(server.troubles) == 2)
    assert (server.trouble, server.restarts) == ("", 1)
    server.restarted.clear()
    supervision.on_output(FULL_DISK)
    await asyncio.wait_for(server.restarted.wait(), PATIENCE)
    assert server.restarts == 2
    watching.cancel()


async def test_while_nothing_can_be_stored_submits_are_refused(tmp_path, disk):
    refusing, refused = asyncio.Event(), []

    async def refuse():
        refusing.set()
        try:
            await asyncio.Event().wait()
        finally:
            refused.append(server.restarted.is_set())

    server = Server()
    supervision = FullDisk(server, tmp_path, lambda: None, refuse)
    watching = asyncio.create_task(supervision.watch())
    supervision.on_output(FULL_DISK)
    await asyncio.wait_for(refusing.wait(), PATIENCE)
    assert refused == []
    disk.free = NEEDED
    await asyncio.wait_for(server.restarted.wait(), PATIENCE)
    assert refused == [False]
    watching.cancel()
