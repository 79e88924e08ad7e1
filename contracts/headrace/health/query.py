"""Requests to the health servers of other processes, for the command line: all at once, without an event loop."""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Mapping

import msgspec

from headrace.health.addresses import READY

WITHIN = 1.5
"""Maximum duration of all requests, in seconds."""
READ_MAX = 64 * 1024


class Readiness(msgspec.Struct):
    """The body of an answer of `/readyz`."""

    name: str = ""
    ready: bool = False
    role: str = ""
    checks: dict[str, str] = {}

    @property
    def wrong(self) -> str:
        """The problems of all checks on one line; "" if all hold."""
        return "; ".join(f"{check}: {what}" for check, what in self.checks.items() if what)


def ask(addresses: set[str], within: float = WITHIN) -> dict[str, Readiness]:
    """The readiness of the process at each address such as `127.0.0.1:9101`; those that do not answer in time are left out."""
    waiting = selectors.DefaultSelector()
    for address in addresses:
        connecting = _connecting(address)
        if connecting is not None:
            waiting.register(connecting, selectors.EVENT_WRITE, (address, bytearray()))
    found: dict[str, Readiness] = {}
    deadline = time.monotonic() + within
    while waiting.get_map() and (left := deadline - time.monotonic()) > 0:
        for key, _ in waiting.select(left):
            address, answer = key.data
            connection: socket.socket = key.fileobj  # type: ignore[assignment]
            try:
                if key.events == selectors.EVENT_WRITE:
                    connection.sendall(f"GET {READY} HTTP/1.1\r\nhost: {address}\r\n\r\n".encode())
                    waiting.modify(connection, selectors.EVENT_READ, key.data)
                    continue
                piece = connection.recv(READ_MAX)
            except OSError:
                piece, answer[:] = b"", b""
            answer += piece
            if piece and len(answer) < READ_MAX:
                continue
            waiting.unregister(connection)
            connection.close()
            readiness = _read(bytes(answer))
            if readiness is not None:
                found[address] = readiness
    for key in list(waiting.get_map().values()):
        key.fileobj.close()  # type: ignore[union-attr]
    waiting.close()
    return found


def _connecting(address: str) -> socket.socket | None:
    """A connection that is being opened; None if it cannot be."""
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    opening = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    opening.setblocking(False)
    try:
        opening.connect_ex((host, int(port)))
    except (OSError, ValueError):
        opening.close()
        return None
    return opening


def _read(answer: bytes) -> Readiness | None:
    try:
        return msgspec.json.decode(answer.partition(b"\r\n\r\n")[2], type=Readiness)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def ask_all(pages: Mapping[str, str]) -> dict[str, dict[str, object]]:
    """Address of the metrics and health of each process, by the keys of `pages`."""
    answers = ask(set(pages.values()))
    return {name: {"metrics": address, **_health(answers.get(address))} for name, address in pages.items()}


def _health(readiness: Readiness | None) -> dict[str, object]:
    return {
        "ready": readiness is not None and readiness.ready,
        "health": "no answer" if readiness is None else readiness.wrong,
    }
