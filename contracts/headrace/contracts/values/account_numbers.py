"""The numbers of users' own accounts on nodes: where they lie, and how they were made before level 2."""

from __future__ import annotations

from hashlib import blake2b

FIRST, COUNT = 0x70000000, 0x0FFFFFFF
"""Above what systems and containers hand out, below what programs take for negative."""


def former_number(tenant: str, user: str) -> int:
    """The number that release 0.1.0 gave a user on every node: a hash, so two people may have the same."""
    digest = blake2b(f"{tenant}.{user}".encode(), digest_size=8).digest()
    return FIRST + int.from_bytes(digest) % COUNT
