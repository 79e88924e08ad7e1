"""The numbers (user ids) of users' own accounts on nodes: their range, and how they were made before level 2."""

from __future__ import annotations

from hashlib import blake2b

FIRST, COUNT = 0x70000000, 0x0FFFFFFF
"""First number and count: above the ranges of operating systems and containers, below those that programs take for negative."""


def former_number(tenant: str, user: str) -> int:
    """The number that release 0.1.0 gave a user on every node: a hash, so two users may have the same number."""
    digest = blake2b(f"{tenant}.{user}".encode(), digest_size=8).digest()
    return FIRST + int.from_bytes(digest) % COUNT
