"""Where health is shown: as the environment says, with a target file; and no work waits for it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from headrace.health import config
from headrace.health.addresses import read_targets, write_target
from headrace.health.config import (
    LISTEN,
    TARGETS,
    TOKEN,
    BadAddress,
    HealthConfig,
    read_config,
    serving,
)
from headrace.health.health import Health
from headrace.health.query import ask


def test_the_environment_says_where():
    assert read_config({}) is None
    assert read_config({LISTEN: "127.0.0.1:9101"}) == HealthConfig("127.0.0.1", 9101)
    assert read_config({LISTEN: "[::1]:0", TOKEN: "t", TARGETS: "/var/x"}) == HealthConfig("::1", 0, "t", Path("/var/x"))


@pytest.mark.parametrize("wrong", ["9101", ":9101", "host:", "host:http", "host:70000", "host:-1", "host:٣"])
def test_what_is_not_an_address_is_refused_with_an_example(wrong):
    with pytest.raises(BadAddress, match=r"HEADRACE_METRICS: invalid address .*; use HOST:PORT, such as 127\.0\.0\.1:9101"):
        read_config({LISTEN: wrong})


async def until_noted(directory, name):
    for _ in range(500):
        if name in read_targets(directory):
            return read_targets(directory)[name]
        await asyncio.sleep(0.01)
    return pytest.fail("the target file was not written")


async def test_it_is_shown_for_as_long_as_the_work_lasts_and_prometheus_finds_it(tmp_path):
    health = Health("feed")
    async with serving(health, HealthConfig("127.0.0.1", 0, "", tmp_path)):
        address = await until_noted(tmp_path, "feed")
        answer = (await asyncio.to_thread(ask, {address})).get(address)
        assert answer is not None
        assert (answer.name, answer.ready, answer.wrong) == ("feed", True, "")
        assert json.loads((tmp_path / "feed.json").read_bytes()) == [
            {"targets": [address], "labels": {"job": "headrace", "instance": "feed"}}
        ]
    assert await asyncio.to_thread(ask, {address}) == {}


async def test_a_port_that_is_taken_keeps_no_work_from_being_done_and_is_tried_again(tmp_path, monkeypatch):
    monkeypatch.setattr(config, "AGAIN_AFTER", 0.01)
    taken = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    port = taken.sockets[0].getsockname()[1]
    async with serving(Health("feed"), HealthConfig("127.0.0.1", port, "", tmp_path)):
        await asyncio.sleep(0.02)
        assert read_targets(tmp_path) == {}
        taken.close()
        await taken.wait_closed()
        assert await until_noted(tmp_path, "feed") == f"127.0.0.1:{port}"


async def test_nowhere_is_nowhere(tmp_path):
    async with serving(Health("feed"), None):
        assert list(tmp_path.iterdir()) == []


async def test_a_directory_that_is_gone_ends_nothing(tmp_path):
    async with serving(Health("feed"), HealthConfig("127.0.0.1", 0, "", tmp_path / "gone")):
        await asyncio.sleep(0.01)


def test_notes_that_are_invalid_are_left_out(tmp_path):
    write_target(tmp_path, "feed", "127.0.0.1:1")
    (tmp_path / "torn.json").write_text('[{"targ')
    assert read_targets(tmp_path) == {"feed": "127.0.0.1:1"}
