"""The NATS servers in an address: one, or several that replace each other."""

from __future__ import annotations

PING_ALONE, PING_AMONG = 10.0, 1.0
"""Seconds between pings: with several servers, an unresponsive one is left after a few of these."""


def servers(url: str) -> list[str]:
    """The servers named in an address, separated by commas."""
    return [one.strip() for one in url.split(",") if one.strip()]


def ping_interval(url: str) -> float:
    """Seconds between pings of the connected server; two missing answers end the connection."""
    return PING_AMONG if len(servers(url)) > 1 else PING_ALONE
