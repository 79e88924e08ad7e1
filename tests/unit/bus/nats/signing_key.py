"""A key and the tokens that it signs."""

from __future__ import annotations

import base64
import json

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

SERVER_KEY = Ed25519PrivateKey.generate()

RAW = SERVER_KEY.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)


def part(value):
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def signed(claims, key=SERVER_KEY, algorithm="ed25519-nkey"):
    body = f"{part({'typ': 'JWT', 'alg': algorithm})}.{part(claims)}"
    return f"{body}.{part(key.sign(body.encode()))}"
