"""The archive of a real stream: every message whole, and one history over both."""

from __future__ import annotations

from headrace.archive import manifest
from headrace.archive.exporting import export
from headrace.archive.reading import read_piece
from headrace.bus.chain import Chain
from headrace.bus.jetstream import JetStreamLog
from headrace.bus.streams import ensure_streams
from headrace.contracts.facts import NodeCordonedV1
from headrace.contracts.subjects import LEDGER_STREAM


async def test_messages_of_a_stream_are_archived_whole(login, tmp_path):
    operator = await login("operator")
    await ensure_streams(operator)
    log = JetStreamLog(operator, LEDGER_STREAM)
    chain = Chain(log, "governance", "test")
    for n in range(5):
        await chain.append(1, n, (NodeCordonedV1(author="a.b", node=f"n{n}"),))
    await log.append("hr.ledger.node.gpu01", b"\xff", None)
    made = await export(log, tmp_path)
    held = [record for piece in made.pieces for record in read_piece(tmp_path, piece)]
    assert [(each.sequence, each.headers) for each in held] == [
        *((n + 1, b"NATS/1.0\r\nNats-Expected-Last-Subject-Sequence: %d\r\n\r\n" % n) for n in range(5)),
        (6, b""),
    ]
    assert [each.message for each in held] == [await log.get(n) for n in range(1, 7)]
    assert (made, made.through) == (manifest.read(tmp_path), 6)
