"""Seals made over a ledger in memory, with a key of the test's own."""

from __future__ import annotations

from base64 import b64encode

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from headrace.audit.seal_store import SealKey
from headrace.audit.seals import RecordRange, sealed

KEY = SealKey(Ed25519PrivateKey.from_private_bytes(bytes(range(32))))
OTHER = SealKey(Ed25519PrivateKey.from_private_bytes(bytes(32)))


def seals_over(messages, size, key=KEY):
    """Seals of `size` records each, as many as are whole."""
    stretch, made = RecordRange(), []
    for message in messages:
        stretch.add(message)
        if len(stretch) == size:
            made.append(sealed(stretch, size, made[-1] if made else None, key))
            stretch.drop(size)
    return made


def marks(messages):
    """The marks of all of them."""
    stretch = RecordRange()
    for message in messages:
        stretch.add(message)
    return stretch.marks(len(messages))


def altered_base64(text):
    """Other text of the same form."""
    return b64encode(bytes(len(text) * 3 // 4)).decode()
