"""Who submits while the disk is full hears so, a moment later than the server would have said that it is stored."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace

import pytest

from headrace.client.endpoint import Login
from headrace.nats_client.acknowledgement import NO_STORAGE
from headrace.supervisor.nats import refuse_submits
from tests.patience import PATIENCE

OPERATOR = Login(name="operator", password="p", kind="operator")


class FakeConnection:
    def __init__(self):
        self.callbacks = {}
        self.published = []
        self.closed = False

    async def subscribe(self, subject, cb):
        self.callbacks[subject] = cb

    async def publish(self, subject, payload):
        self.published.append((subject, json.loads(payload)))

    async def close(self):
        self.closed = True


async def until(condition):
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0)


async def test_every_submit_that_waits_for_an_answer_is_answered_where_answers_go_and_nowhere_else(
    monkeypatch: pytest.MonkeyPatch,
):
    connection, opened = FakeConnection(), []

    async def connect(*who, name):
        opened.append((*who, name))
        return connection

    monkeypatch.setattr(refuse_submits, "connect", connect)
    monkeypatch.setattr(refuse_submits, "AFTER", 0)
    task = asyncio.create_task(refuse_submits.refuse("nats://x", OPERATOR))
    await until(lambda: connection.callbacks)
    callback = connection.callbacks["hr.submit.>"]
    for reply in ("_R_.1", "", "hr.ledger.governance", "$JS.API.STREAM.PURGE.LEDGER", "_INBOX_governance.2"):
        await callback(SimpleNamespace(reply=reply))
    task.cancel()
    await asyncio.wait({task})
    no = {"seq": 0, "duplicate": False, "error": {"code": 500, "err_code": NO_STORAGE, "description": refuse_submits.WHY}}
    assert opened == [("nats://x", "operator", "p", "supervisor")]
    assert (connection.published, connection.closed) == ([("_R_.1", no), ("_INBOX_governance.2", no)], True)
