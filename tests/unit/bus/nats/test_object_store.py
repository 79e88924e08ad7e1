"""Objects in pieces: the one in memory, and what the server's answers mean to the real one, which the suite of twins tries as well."""

from __future__ import annotations

from typing import cast

import pytest

from headrace.bus.log import LogError, LogRefused, LogUnavailable
from headrace.bus.nats.object_store import JetStreamObjects, MemoryObjects, ObjectDamaged
from headrace.nats_client.connection import Connection
from tests.unit.bus.nats.scripted import Scripted

NO = {"error": {"code": 404, "err_code": 10059, "description": "stream not found"}}
NOT_NOW = {"error": {"code": 503, "err_code": 10008, "description": "JetStream system temporarily unavailable"}}
STORED = {"seq": 1}


def objects(*answers: object) -> tuple[JetStreamObjects, Scripted]:
    scripted = Scripted(*answers)
    return JetStreamObjects(cast("Connection", scripted), "things", piece=2), scripted


async def test_a_bucket_that_is_not_there_is_told() -> None:
    with pytest.raises(LogRefused, match=r"OBJ_things: stream not found \(10059\)"):
        await objects(NO)[0].names()


async def test_a_bucket_without_a_leader_is_unavailable_and_not_refused() -> None:
    kinds: list[type[LogError]] = []
    for question in (objects(NOT_NOW)[0].names(), objects(NOT_NOW)[0].get("a"), objects(STORED, NOT_NOW)[0].delete("a")):
        with pytest.raises(LogError, match=r"OBJ_things: JetStream system temporarily unavailable \(10008\)") as raised:
            await question
        kinds.append(raised.type)
    assert kinds == [LogUnavailable] * 3


async def test_names_are_read_out_of_subjects() -> None:
    found, _ = objects({"state": {"subjects": {"$O.things.M.Yg==": 1, "$O.things.M.YQ==": 1}}})
    assert await found.names() == ["a", "b"]
    assert await objects({"state": {}})[0].names() == []


async def test_what_broke_off_leaves_no_pieces_and_no_name() -> None:
    found, scripted = objects(
        STORED, {"error": {"code": 400, "err_code": 10077, "description": "maximum bytes exceeded"}}, {"purged": 1}
    )
    with pytest.raises(LogRefused, match="maximum bytes exceeded"):
        await found.put("a", b"xyz")
    subjects = [subject for subject, _, _ in scripted.asked]
    assert subjects[-1] == "$JS.API.STREAM.PURGE.OBJ_things"
    assert not any(".M." in subject for subject in subjects)


async def test_a_name_is_used_once() -> None:
    memory = MemoryObjects()
    await memory.put("a", b"1")
    with pytest.raises(LogRefused, match="there is a a already"):
        await memory.put("a", b"2")


async def test_what_is_not_there_is_told_and_removed_without_complaint() -> None:
    memory = MemoryObjects()
    await memory.delete("a")
    with pytest.raises(ObjectDamaged, match="a does not exist"):
        await memory.get("a")
