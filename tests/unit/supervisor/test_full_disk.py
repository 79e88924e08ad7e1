from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from headrace.supervisor import full_disk
from headrace.supervisor.full_disk import MIB, ROOM, FullDisk
from tests.patience import PATIENCE


class Server:
    """A child that is restarted, with a log that a test writes."""

    def __init__(self, folder):
        self.log = SimpleNamespace(path=folder / "nats-server.log")
        self.trouble = ""
        self.troubles = []
        self.restarted = asyncio.Event()

    def restart(self):
        self.restarted.set()

    def says(self, line):
        with self.log.path.open("a") as log:
            log.write(f"{line}\n")


CRITICAL = "[ERR] Filestore [LEDGER] Critical write error: write 4.blk: no space left on device"


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


async def test_a_server_that_writes_no_more_is_started_again_when_there_is_room_and_says_meanwhile_what_is_wrong(
    tmp_path, disk
):
    server = Server(tmp_path)
    server.says(CRITICAL)  # of another time
    vigil = FullDisk(server, tmp_path, lambda: server.troubles.append(server.trouble))
    watching = asyncio.create_task(vigil.watch())
    server.says("[INF] Server is ready")
    await asyncio.sleep(0.02)
    assert server.troubles == []
    disk.free = 3 * MIB
    server.says(CRITICAL)
    await until(lambda: server.troubles)
    told = f"the disk of {tmp_path} is full (3 MiB free): nothing is written until there is room, then it goes on"
    assert (server.troubles, server.restarted.is_set()) == ([told], False)
    disk.free = ROOM
    await asyncio.wait_for(server.restarted.wait(), PATIENCE)
    await until(lambda: len(server.troubles) == 2)
    assert server.trouble == ""
    server.log.path.write_text("")  # it has grown too long, and begins anew
    await asyncio.sleep(0.02)
    server.restarted.clear()
    server.says(CRITICAL)
    await asyncio.wait_for(server.restarted.wait(), PATIENCE)
    watching.cancel()


async def test_while_nothing_can_be_stored_submits_are_refused(tmp_path, disk):
    refusing, refused = asyncio.Event(), []

    async def refuse():
        refusing.set()
        try:
            await asyncio.Event().wait()
        finally:
            refused.append(server.restarted.is_set())

    server = Server(tmp_path)
    watching = asyncio.create_task(FullDisk(server, tmp_path, lambda: None, refuse).watch())
    server.says(CRITICAL)
    await asyncio.wait_for(refusing.wait(), PATIENCE)
    assert refused == []
    disk.free = ROOM
    await asyncio.wait_for(server.restarted.wait(), PATIENCE)
    assert refused == [False]
    watching.cancel()
