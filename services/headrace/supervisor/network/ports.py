"""Chooses free ports on this machine.

Strategy: below the range from which the system takes ports for outgoing connections. A client that reconnects to a server that is away
connects again and again, and from inside that range it would some day be given that very port, and connect to itself.

The server that is to listen on a chosen port starts later, in another process. Until then a second installation that starts beside this
one must not choose the same port, so the process that chooses reserves it: it holds a socket in the abstract namespace of Linux with a
name made from the port, which belongs to the same network namespace as the port and is gone when the process ends, however it ends.
"""

from __future__ import annotations

import random
import socket
from collections.abc import Sequence
from pathlib import Path

LOOPBACK = "127.0.0.1"
WILDCARDS = frozenset({"0.0.0.0", "::"})  # noqa: S104 - what they are called
LOWEST = 20_000
ATTEMPTS = 200

_EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")
_EPHEMERAL_USUAL = 32_768
_reserved: set[int] = set()


class PortTaken(Exception):
    """Another program listens on the port; the text says the way out."""


def is_free(port: int, host: str = LOOPBACK) -> bool:
    """Return whether a server could listen there now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def reserve(port: int) -> bool:
    """Return whether no other process of this machine has chosen the port; it is then this process' own until the process ends."""
    if port in _reserved:
        return True
    held = socket.socket(socket.AF_UNIX)
    try:
        held.bind(f"\0headrace-port-{port}")
    except OSError:
        held.close()
        return False
    held.detach()
    _reserved.add(port)
    return True


def free_port(host: str = LOOPBACK, flag: str = "--nats-port") -> int:
    """Return a port on which nothing listens, and which this process alone has chosen."""
    below = _first_ephemeral()
    for _ in range(ATTEMPTS):
        port = random.randrange(LOWEST, below) if below > LOWEST else random.randrange(1024, 65_536)  # noqa: S311 - no secret
        if port not in _reserved and is_free(port, host) and reserve(port):
            return port
    raise PortTaken(f"no free port between {LOWEST} and {below}; name one with {flag}")


def choose_port(configured: int | None, last: int | None, host: str = LOOPBACK, flag: str = "--nats-port") -> int:
    """Return the configured port, else the last one if still free, else any. Raises `PortTaken` if the configured one is taken."""
    if configured is not None:
        if not is_free(configured, host):
            raise PortTaken(f"{flag}: port {configured} is taken; name another, or leave it out and a free one is chosen")
        return configured
    return last if last is not None and is_free(last, host) and reserve(last) else free_port(host, flag)


def choose_ports(count: int, configured: int | None, last: Sequence[int]) -> tuple[int, ...]:
    """Return `count` ports, each as by `choose_port`; a configured one is the first of as many in a row."""
    chosen: list[int] = []
    while len(chosen) < count:
        place = len(chosen)
        port = choose_port(None if configured is None else configured + place, last[place] if place < len(last) else None)
        if port not in chosen:
            chosen.append(port)
    return tuple(chosen)


def _first_ephemeral() -> int:
    try:
        return int(_EPHEMERAL.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return _EPHEMERAL_USUAL
