"""The hash is the published one."""

from __future__ import annotations

import pytest

from headrace.archive.highwayhash import Highway

KEY = bytes(range(32))
VECTORS = {0: "907a56de22c26e53", 1: "7eab43aac7cddd78", 2: "b8d0569ab0b53d62", 3: "5c6befab8a463d80"}
"""Of its authors: the hash of the bytes 0, 1, 2, ... under the key of the bytes 0 to 31."""


@pytest.mark.parametrize(("size", "hexadecimal"), VECTORS.items())
def test_it_gives_what_its_authors_published(size, hexadecimal):
    assert Highway(KEY).digest(bytes(range(size)))[::-1].hex() == hexadecimal


def test_every_byte_and_every_length_counts():
    data = bytes(range(100))
    digests = {Highway(KEY).digest(data[:size]) for size in range(101)}
    digests |= {Highway(KEY).digest(data[:place] + b"\xff" + data[place + 1 :]) for place in range(100)}
    assert len(digests) == 201
    assert Highway(KEY[::-1]).digest(data) != Highway(KEY).digest(data)
