"""Who asks a process how it is hears it, or that no answer came in time; and is never kept waiting."""

from __future__ import annotations

import asyncio
import socket

import pytest

from headrace.health.health import Health
from headrace.health.http import HealthServer
from headrace.health.query import WITHIN, ask, ask_all


async def answer_of(address, within=WITHIN):
    """What the process at an address says, which runs in the loop of this test."""
    return (await asyncio.to_thread(ask, {address}, within)).get(address)


async def test_what_is_wrong_is_told_on_one_line():
    health = Health("accounting")
    health.check("nats", lambda: "")
    health.check("postgres", lambda: "it is away")
    health.check("ledger", lambda: "7 records behind")
    page = HealthServer(health, "token")
    await page.open("127.0.0.1", 0)
    answer = await answer_of(f"127.0.0.1:{page.port}")
    await page.close()
    assert answer is not None
    assert (answer.name, answer.ready, answer.role, answer.wrong) == (
        "accounting",
        False,
        "active",
        "postgres: it is away; ledger: 7 records behind",
    )


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 200 OK\r\n\r\nno json", b"SSH-2.0-x\r\n", None])
async def test_who_says_something_else_or_nothing_has_not_answered(answer):
    over = asyncio.Event()

    async def speak(reader, writer):
        if answer is None:
            await reader.read(-1)  # until who asked has given up
        else:
            writer.write(answer)
        writer.close()
        over.set()

    async with await asyncio.start_server(speak, "127.0.0.1", 0) as server:
        assert await answer_of(f"127.0.0.1:{server.sockets[0].getsockname()[1]}", 0.1) is None
        await over.wait()


async def test_without_a_listener_there_is_no_answer():
    assert await answer_of("127.0.0.1:1") is None


async def test_all_are_asked_at_once_and_each_is_told_by_its_name():
    health = Health("feed")
    page = HealthServer(health, "token")
    await page.open("127.0.0.1", 0)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        nobody = f"127.0.0.1:{taken.getsockname()[1]}"
    there = f"127.0.0.1:{page.port}"
    answers = await asyncio.to_thread(ask_all, {"feed": there, "audit": nobody})
    assert answers == {
        "feed": {"metrics": there, "ready": True, "health": ""},
        "audit": {"metrics": nobody, "ready": False, "health": "no answer"},
    }
    await page.close()
