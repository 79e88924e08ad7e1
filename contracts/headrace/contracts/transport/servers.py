"""How one keeps in touch with the servers at an address: one of them, or several that stand in for each other."""

from __future__ import annotations

PING_ALONE, PING_AMONG = 10.0, 1.0
"""Seconds between signs of life asked of a server: where there are others, one that is silent is left within a few of these."""


def servers(url: str) -> list[str]:
    """The servers named in an address, a comma between them."""
    return [one.strip() for one in url.split(",") if one.strip()]


def ping_interval(url: str) -> float:
    """Seconds between signs of life asked of the server one is connected to; two that are missing are the end of the connection."""
    return PING_AMONG if len(servers(url)) > 1 else PING_ALONE
