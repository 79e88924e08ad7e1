"""The real gateway, Envoy, with a small limit of connections and nothing behind it: what becomes of connections that ask nothing."""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.contracts.schemas import protocol
from headrace.supervisor.installation import Installation
from headrace.supervisor.network import gateway
from headrace.supervisor.network.certificates import development
from headrace.supervisor.network.ports import free_port
from headrace.supervisor.processes.process_specs import gateway as program
from tests.patience import PATIENCE

MOST = 16
OPEN = 2 * MOST


class Gateway:
    """A running one, at `port`; `authority`: the file to believe it by, empty where it speaks no TLS."""

    def __init__(self, port: int, authority: str = "") -> None:
        self.port = port
        self._tls = ssl.create_default_context(cafile=authority) if authority else None

    def status(self) -> int:
        """Of a path that is nowhere, which it answers by itself; 0 where there is no answer."""
        if self._tls is None:
            asking = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        else:
            asking = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=PATIENCE, context=self._tls)
        with contextlib.closing(asking), contextlib.suppress(OSError, http.client.HTTPException):
            asking.request("GET", "/nowhere")
            return asking.getresponse().status
        return 0

    def until(self, status: int) -> None:
        deadline = time.monotonic() + PATIENCE
        while (found := self.status()) != status:
            assert time.monotonic() < deadline, found
            time.sleep(0.05)


@pytest.fixture(params=[False, True], ids=["plain", "tls"])
def served(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gateway]:
    monkeypatch.setattr(gateway, "CONNECTIONS_MAX", MOST)
    monkeypatch.setattr(gateway, "IDLE", "5s")
    monkeypatch.setattr(gateway, "HANDSHAKE_WITHIN", "5s")
    made = development(tmp_path, ["127.0.0.1"]) if request.param else None
    tls = gateway.Tls(str(made.certificate), str(made.key)) if made is not None else None
    installation, port = Installation(tmp_path), free_port()
    installation.gateway_config.parent.mkdir()
    installation.descriptors.write_bytes(protocol.descriptors().SerializeToString())
    installation.gateway_config.write_text(
        gateway.gateway_config(
            str(tmp_path / "api"),
            str(installation.descriptors),
            host="127.0.0.1",
            port=port,
            local=str(tmp_path / "local.sock"),
            tls=tls,
        )
    )
    process = subprocess.Popen(program(installation).argv)
    try:
        running = Gateway(port, str(made.ca) if made is not None else "")
        running.until(404)
        yield running
    finally:
        process.kill()
        process.wait()


def fill(served: Gateway, stack: contextlib.ExitStack) -> list[socket.socket]:
    """More connections than it takes, all without a request. They are made again if it stood still so long that it ended them."""
    deadline = time.monotonic() + PATIENCE
    while True:
        idle = [stack.enter_context(socket.create_connection(("127.0.0.1", served.port), PATIENCE)) for _ in range(OPEN)]
        if (found := served.status()) == 0:
            return idle
        assert time.monotonic() < deadline, found
        for one in idle:
            one.close()


def test_connections_that_ask_nothing_keep_others_out_only_until_they_are_ended(served: Gateway) -> None:
    with contextlib.ExitStack() as stack:
        for one in fill(served, stack):
            with contextlib.suppress(ConnectionResetError):
                assert one.recv(1) == b""
        served.until(404)
