"""The embedded issuer: Ed25519 keys in the data directory, readable by their owner alone, and the tokens they sign.

One file per key, `identity/<kid>.pem`, mode 0600; the newest signs, all of them verify. Rotation: make a new key beside the old ones, and
remove an old one when all of its tokens have expired.
"""

from __future__ import annotations

import base64
import os
import secrets
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import jwt
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from headrace.contracts.messages.tokens import AUDIENCE, ISSUER, PROVIDER_TENANT, Grant, TokenRole

IDENTITY = "identity"
"""The directory of the keys, in an installation's data."""
ISSUER_KEY = "callout.key"
"""File in the same directory: the key that signs answers about logins to NATS."""
ALGORITHM = "EdDSA"
_LOOSE = 0o077


class SigningError(Exception):
    """The keys cannot be used; the text is one line with the way out."""


class _Key(NamedTuple):
    made_at: int
    name: str
    private: Ed25519PrivateKey


class SigningKeys:
    """The keys in a directory. Several processes may share it; a key added meanwhile is found when it is first needed."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._keys: dict[str, _Key] = {}

    def sign(self, grant: Grant) -> str:
        """The token, signed with the newest key; the first key is made on demand."""
        self._load()
        if not self._keys:
            self.rotate()
        newest = max(self._keys.values())
        claims = {
            "iss": ISSUER,
            "aud": AUDIENCE,
            "sub": _subject(grant),
            "jti": grant.id,
            "iat": grant.issued_at,
            "nbf": grant.issued_at,
            "exp": grant.expires_at,
            "role": str(grant.role),
            "tenant": grant.tenant,
            "handle": grant.handle,
        }
        return jwt.encode(claims, newest.private, algorithm=ALGORITHM, headers={"kid": newest.name})

    def public(self, name: str) -> Ed25519PublicKey | None:
        """The public half of a key by its name; None if it is unknown or was removed."""
        if not _is_there(self._directory, name):
            self._keys.pop(name, None)
            return None
        if name not in self._keys:
            self._load()
        key = self._keys.get(name)
        return None if key is None else key.private.public_key()

    def rotate(self) -> str:
        """Make a new key, which signs from now on; returns its name. The file is complete and on the disk before it is used."""
        private = Ed25519PrivateKey.generate()
        name = _thumbprint(private.public_key())
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            draft = self._directory / f".{name}.{secrets.token_hex(4)}"
            with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
                file.flush()
                os.fsync(file.fileno())
            draft.replace(self._directory / f"{name}.pem")
        except OSError as error:
            raise SigningError(f"{self._directory} cannot be written: {error.strerror}") from None
        self._load()
        return name

    def _load(self) -> None:
        """Read all keys in the directory."""
        found: dict[str, _Key] = {}
        try:
            for path in sorted(self._directory.glob("*.pem")):
                found[path.stem] = _read(path)
        except OSError as error:
            raise SigningError(f"{self._directory} cannot be read: {error.strerror}") from None
        self._keys = found


def _is_there(directory: Path, name: str) -> bool:
    """True if the file of a key exists. Names come from tokens: only those with the form of our own are looked up."""
    return (
        len(name) == _NAME_LENGTH and name.replace("-", "").replace("_", "").isalnum() and (directory / f"{name}.pem").exists()
    )


def _read(path: Path) -> _Key:
    """The key in a file. Raises SigningError if malformed, or readable by others."""
    status = path.stat()
    if status.st_mode & _LOOSE:
        raise SigningError(f"{path} may be read by others; `chmod 600 {path}`, and make a new key if others have read it")
    try:
        private = load_pem_private_key(path.read_bytes(), None)
    except ValueError:
        raise SigningError(f"{path} is not a key; remove it, and new tokens are signed with a new one") from None
    if not isinstance(private, Ed25519PrivateKey):
        raise SigningError(f"{path} is not an Ed25519 key; remove it")
    return _Key(status.st_mtime_ns, path.stem, private)


def _thumbprint(public: Ed25519PublicKey) -> str:
    digest = sha256(public.public_bytes(Encoding.Raw, PublicFormat.Raw)).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


_NAME_LENGTH = 43
"""Length of a SHA-256 digest in base64, in characters."""


def _subject(grant: Grant) -> str:
    match grant.role:
        case TokenRole.NODE | TokenRole.INSTANCE:
            return f"{grant.role}.{grant.handle}"
        case TokenRole.ADMIN | TokenRole.VIEWER:
            return f"{PROVIDER_TENANT}.{grant.handle}"
        case _:
            return f"{grant.tenant}.{grant.handle}"
