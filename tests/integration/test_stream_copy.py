"""A stream comes back out of its copy with the same messages, sequences, times and headers."""

from __future__ import annotations

import io

import pytest
from msgspec.structs import replace

from headrace.bus.log import LogBroken, LogRefused
from headrace.bus.nats.jetstream import JetStreamLog
from headrace.bus.nats.stream_copy import durable_streams, load, save
from headrace.bus.nats.streams import STREAMS, ensure_streams
from headrace.contracts.transport.subjects import LEDGER_STREAM, SUBMIT_STREAM


async def stored(log):
    reader = await log.read_stored(0)
    found = []
    while len(found) < await log.tip():
        found += await reader.batch(wait=10)
    await reader.close()
    return found


async def test_a_stream_comes_back_as_it_was(login):
    operator = await login("operator")
    await ensure_streams(operator)
    log = JetStreamLog(operator, LEDGER_STREAM)
    for n in range(40):
        await log.append("hr.ledger.allocator", bytes([n]) * 20_000, n)
    before = await stored(log)
    file, progress = io.BytesIO(), []
    copied = await save(operator, LEDGER_STREAM, file, progress.append)
    assert (copied.last, progress[-1]) == (40, file.tell())
    assert {LEDGER_STREAM, SUBMIT_STREAM} <= set(await durable_streams(operator)) < set(STREAMS)
    file.seek(0)
    with pytest.raises(LogRefused, match="LEDGER cannot be restored"):
        await load(operator, copied, file)
    await operator.ask(f"$JS.API.STREAM.DELETE.{LEDGER_STREAM}")
    file.seek(0)
    await load(operator, copied, file)
    assert await stored(log) == before
    assert await log.append("hr.ledger.allocator", b"next", 40) == 41
    await ensure_streams(operator)


async def test_a_stream_that_is_not_there_cannot_be_copied(login):
    with pytest.raises(LogBroken, match="stream LEDGER cannot be copied: stream not found"):
        await save(await login("operator"), LEDGER_STREAM, io.BytesIO())


async def test_a_copy_with_other_messages_than_it_says_is_refused(login):
    operator = await login("operator")
    await ensure_streams(operator)
    log = JetStreamLog(operator, LEDGER_STREAM)
    await log.append("hr.ledger.allocator", b"x", 0)
    file = io.BytesIO()
    copied = await save(operator, LEDGER_STREAM, file)
    await operator.ask(f"$JS.API.STREAM.DELETE.{LEDGER_STREAM}")
    file.seek(0)
    with pytest.raises(LogRefused, match="LEDGER"):
        await load(operator, replace(copied, state=copied.state | {"messages": 2, "last_seq": 2}), file)
