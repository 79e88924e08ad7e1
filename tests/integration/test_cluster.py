"""What one sender can do to a stream that three servers keep."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import nats
import pytest
from nats import errors
from nats.aio.client import Client

from tests.integration.conftest import binary
from tests.patience import PATIENCE

WRONG_LAST_ID = 10_070


def free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [one.getsockname()[1] for one in sockets]


@pytest.fixture
def three_servers(tmp_path: Path) -> Iterator[list[str]]:
    """The addresses of three servers that know each other."""
    ports = free_ports(6)
    clients, routes = ports[:3], ports[3:]
    known = ",".join(f"nats://127.0.0.1:{port}" for port in routes)
    with ExitStack() as stack:
        for number, (client, route) in enumerate(zip(clients, routes, strict=True)):
            own = ["--name", f"s{number}", "--store_dir", str(tmp_path / str(number)), "--port", str(client)]
            cluster = ["--cluster_name", "c", "--cluster", f"nats://127.0.0.1:{route}", "--routes", known]
            log = stack.enter_context((tmp_path / f"{number}.log").open("wb"))
            server = subprocess.Popen([binary(), "--addr", "127.0.0.1", "--jetstream", *own, *cluster], stdout=log, stderr=log)
            stack.callback(server.wait, PATIENCE)
            stack.callback(server.kill)
        yield [f"nats://127.0.0.1:{port}" for port in clients]


async def asked(connection: Client, subject: str, said: bytes, headers: dict[str, str] | None = None) -> dict[str, object]:
    """The answer; asked again while nobody answers, or the servers have not found each other."""
    async with asyncio.timeout(PATIENCE):
        while True:
            with suppress(errors.TimeoutError, errors.NoRespondersError):
                answer = json.loads((await connection.request(subject, said, timeout=5, headers=headers)).data)
                if answer.get("error", {}).get("code") != 503:
                    return answer


async def test_a_message_on_a_condition_that_does_not_hold_is_refused_and_the_next_one_is_taken(
    three_servers: list[str],
) -> None:
    connection = await nats.connect(three_servers, connect_timeout=5)
    try:
        stream = {"name": "S", "subjects": ["s.>"], "storage": "file", "num_replicas": 3, "duplicate_window": 120_000_000_000}
        await asked(connection, "$JS.API.STREAM.CREATE.S", json.dumps(stream).encode())
        first = await asked(connection, "s.a", b"1", {"Nats-Msg-Id": "one"})
        refused = await asked(connection, "s.a", b"2", {"Nats-Expected-Last-Msg-Id": "another"})
        next_one = await asked(connection, "s.a", b"3")
    finally:
        await connection.close()

    assert (first["seq"], refused["error"]["err_code"], next_one["seq"]) == (1, WRONG_LAST_ID, 2)
