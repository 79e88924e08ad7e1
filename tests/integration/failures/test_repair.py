"""A damaged stream is told where it is damaged, made whole from the copy and the archive, and the system goes on with it (Q4)."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from headrace.archive.nats_blocks import StreamBlock, read
from headrace.bus.log import LogBroken, StoredMessage
from headrace.bus.nats.jetstream import JetStreamLog
from headrace.supervisor.backup.stores import Stores
from headrace.supervisor.installation import Installation
from headrace.supervisor.repair.stream_repair import repair_streams
from tests.integration.machine import Machine
from tests.patience import PATIENCE


def flip_and_remove(block: Path) -> None:
    placed, _ = read(block.read_bytes())
    data = b"".join(StreamBlock("LEDGER", 1).write([each.record for each in placed if each.record.sequence != 6]))
    block.write_bytes(data.replace(b"job.admitted", b"job.aamitted", 1))


def flip_check(block: Path) -> None:
    """The server's own check behind the third record: nothing of ours looks at it."""
    placed, _ = read(block.read_bytes())
    data = block.read_bytes()
    block.write_bytes(data.replace(placed[2].check, bytes(8)))


def cut(block: Path) -> None:
    data = block.read_bytes()
    block.write_bytes(data[: len(data) // 2])


def gone(block: Path) -> None:
    shutil.rmtree(block.parent.parent)


DAMAGES = {
    flip_and_remove: "record 6 is missing",
    flip_check: "the server cannot read all of it",
    cut: "cannot be read from byte",
    gone: "each is missing",
}


def repeated_and_forged(block: Path) -> None:
    """One is there twice; at the end one in the allocator's name that it never wrote, and behind it one of the node's own."""
    placed, _ = read(block.read_bytes())
    records = [each.record for each in placed]
    end = records[-1]._replace(sequence=len(records) + 1, subject="hr.ledger.allocator", payload=b"{}")
    own = next(each for each in reversed(records) if each.subject.startswith("hr.ledger.node."))
    more = [end, own._replace(sequence=len(records) + 2)]
    block.write_bytes(
        b"".join(StreamBlock("LEDGER", 1).write([*records[:6], records[4]._replace(sequence=7), *records[7:], *more]))
    )


async def stored(installation: Installation, count: int) -> list[StoredMessage]:
    async with Stores(installation, books=False) as stores:
        reader = await JetStreamLog(stores.bus, "LEDGER").read_stored(0)
        found: list[StoredMessage] = []
        async with asyncio.timeout(PATIENCE):
            while len(found) < count:
                found += await reader.batch(wait=10)
        await reader.close()
        return found


def exact(records: list[StoredMessage]) -> list[tuple[Any, ...]]:
    """What a copy can give back: headers and nanoseconds are the archive's alone."""
    return [(each.sequence, each.subject, each.time // 1_000, each.payload) for each in records]


def test_a_damaged_stream_is_made_whole_and_the_system_goes_on(place: Machine) -> None:
    place.up()
    place.done("apply", "-f", place.documents)
    for _ in range(2):
        place.submit("exit 0", "--wait")
    place.until_archived()
    place.kill()
    installation = Installation(place.data)
    whole = json.loads(place.done("repair", "--json"))
    assert whole["troubles"] == []
    before = asyncio.run(stored(installation, whole["through"]))
    block = place.data / "nats/store/jetstream/CORE/streams/LEDGER/msgs/1.blk"
    for damage, says in DAMAGES.items():
        damage(block)
        mended = asyncio.run(repair_streams(installation, lambda *_: None, only_look=False))
        assert any(says in trouble for trouble in mended.troubles), (damage, mended.troubles)
        assert (mended.through, exact(asyncio.run(stored(installation, len(before))))) == (len(before), exact(before))
    repeated_and_forged(block)
    with pytest.raises(
        LogBroken, match=f"record {len(before) + 1} on hr.ledger.allocator is void: .*--without-void` takes it out"
    ):
        asyncio.run(repair_streams(installation, lambda *_: None, only_look=False))
    mended = asyncio.run(repair_streams(installation, lambda *_: None, only_look=False, without_void=True))
    assert [trouble.partition(" is ")[0] for trouble in mended.troubles] == [
        "record 7",
        f"record {len(before) + 1} on hr.ledger.allocator",
    ]
    *first, own = asyncio.run(stored(installation, len(before) + 1))
    assert (exact(first), own.subject.partition("node")[2] != "") == (exact(before), True)
    place.up()
    place.submit("exit 0", "--wait")
    place.until_archived()
