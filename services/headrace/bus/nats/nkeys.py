"""NATS keys and tokens, as far as the auth callout needs them: Ed25519, in NATS' encoding.

A key is encoded in base32: one byte for the kind of its owner (`A` account, `U` user, `N` server), 32 bytes of key, and a checksum
(CRC-16, little-endian). A NATS token is a JWT with the algorithm `ed25519-nkey`.
"""

from __future__ import annotations

import base64
import binascii
import os
import secrets
from pathlib import Path
from typing import Any

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

ACCOUNT, USER, SERVER = 0, 20 << 3, 13 << 3
"""The first byte of a public key, by the kind of its owner."""

KEY_BYTES = 32
CLAIMS_BYTES_MAX = 1024 * 1024
_HEADER = {"typ": "JWT", "alg": "ed25519-nkey"}


class NkeyError(ValueError):
    """Malformed or invalid key or token; the text is one line."""


def spell(whose: int, key: bytes) -> str:
    """A public key in NATS' encoding."""
    body = bytes((whose,)) + key
    return base64.b32encode(body + binascii.crc_hqx(body, 0).to_bytes(2, "little")).decode().rstrip("=")


def read_key(whose: int, text: str) -> bytes:
    """The 32 bytes of a public key of an account, a user or a server. Raises NkeyError if malformed."""
    try:
        raw = base64.b32decode(text + "=" * (-len(text) % 8))
    except ValueError:
        raise NkeyError("not a key: it is not base32") from None
    body, checksum = raw[:-2], raw[-2:]
    if len(body) != 1 + KEY_BYTES or body[0] != whose or binascii.crc_hqx(body, 0).to_bytes(2, "little") != checksum:
        raise NkeyError("not a key of that kind, or damaged")
    return body[1:]


def read_claims(token: str) -> dict[str, Any]:
    """The claims of a NATS token signed by the server that it names as its issuer. Raises NkeyError if it is not."""
    parts = token.split(".")
    if len(parts) != 3 or len(token) > CLAIMS_BYTES_MAX:
        raise NkeyError("not a token: it does not have three parts")
    try:
        header, claims = (msgspec.json.decode(_bytes(part), type=dict[str, Any]) for part in parts[:2])
        key = Ed25519PublicKey.from_public_bytes(read_key(SERVER, str(claims.get("iss"))))
        key.verify(_bytes(parts[2]), f"{parts[0]}.{parts[1]}".encode())
    except InvalidSignature:
        raise NkeyError("the token is not signed by the issuer that it names") from None
    except (ValueError, RecursionError) as error:
        raise NkeyError(f"not a token: {error}") from None
    if header.get("alg") != _HEADER["alg"]:
        raise NkeyError("the token is signed in another way")
    return claims


class AccountKey:
    """The key of the account that signs the answers of the auth callout."""

    def __init__(self, private: Ed25519PrivateKey) -> None:
        self._private = private
        self.public = spell(ACCOUNT, private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw))

    @classmethod
    def at(cls, path: Path) -> AccountKey:
        """The key in a file of mode 0600, which is made if it does not exist. Raises NkeyError if damaged."""
        if not path.exists():
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
            with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(secrets.token_bytes(KEY_BYTES))
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
        seed = path.read_bytes()
        if len(seed) != KEY_BYTES:
            raise NkeyError(
                f"{path} is not a key: it has {len(seed)} bytes instead of {KEY_BYTES}; remove it, and a new one is made"
            )
        return cls(Ed25519PrivateKey.from_private_bytes(seed))

    def sign(self, claims: dict[str, Any]) -> str:
        """A NATS token of these claims, issued by this account."""
        body = ".".join(_text(msgspec.json.encode(part)) for part in (_HEADER, {**claims, "iss": self.public}))
        return f"{body}.{_text(self._private.sign(body.encode()))}"


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _bytes(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
