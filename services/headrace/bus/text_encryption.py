"""Encryption of texts in the log: the commands of jobs and the identities of people, each under the person's own key.

Erasing a person, or a tenant, destroys keys, never a record. A sealed text names its key, so that a destroyed key is distinguished from a
text that was tampered with.
"""

from __future__ import annotations

import os
import secrets
from base64 import b64decode, b64encode
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from headrace.contracts.values.ids import IdError, is_token

if TYPE_CHECKING:
    from collections.abc import Iterator

KEYS = "keys"
"""The directory of the keys, in an installation's data."""

KEY_BYTES = 32
_NAME_BYTES = 8
_NONCE_BYTES = 12
_TAG_BYTES = 16
_VERSION = b"\x01"
_BESIDE = ".beside-"
"""Part of the file name of a key made while the user's own was missing. Handles have no dot, so it cannot be another user's."""


class SealError(Exception):
    """A sealed text cannot be opened.

    SealError
    ├── SealBroken   it was changed, has another purpose, or is malformed
    └── KeyGone      its key does not exist: it was destroyed, which the ledger records, or is missing
    """


class SealBroken(SealError):
    """The text was changed, or sealed for another purpose."""


class KeyGone(SealError):
    """The key of this text does not exist."""


class _Key(NamedTuple):
    path: str
    inode: int
    name: bytes
    cipher: AESGCM


class Keyring:
    """The keys in `directory`, one file for each owner, readable by this user only. Several processes may share it.

    An owner is a person, `<tenant>.<handle>`, or a tenant, whose key opens what was sealed before each person had one.
    """

    def __init__(self, directory: Path) -> None:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._directory = directory
        self._keys: dict[str, _Key] = {}

    def seal(self, owner: str, text: bytes, aad: str, *, beside: bool = False) -> str:
        """`text` as base64 that only this owner's key opens, and only for the same `aad` (its context, such as a job's key).

        `beside`: if the owner's key is missing and may come back, it is sealed with an additional key.
        """
        key = self._key(owner) or (self._spare(owner) if beside else self._make(owner))
        nonce = secrets.token_bytes(_NONCE_BYTES)
        return b64encode(_VERSION + key.name + nonce + key.cipher.encrypt(nonce, text, aad.encode())).decode()

    def open(self, owner: str, sealed: str, aad: str) -> bytes:
        """The text that was sealed for `owner`, or its tenant, and `aad`. Raises `KeyGone`, `SealBroken`."""
        try:
            raw = b64decode(sealed, validate=True)
        except ValueError:
            raise SealBroken("not a sealed text: it is not base64") from None
        if len(raw) < 1 + _NAME_BYTES + _NONCE_BYTES + _TAG_BYTES or raw[:1] != _VERSION:
            raise SealBroken("not a sealed text: it is too short, or of another version")
        name, nonce, hidden = raw[1:9], raw[9:21], raw[21:]
        keys = map(self._key, self._holders(owner))
        key = next((key for key in keys if key is not None and key.name == name), None)
        if key is None:
            raise KeyGone(f"the key of {owner} for this text is gone: {self._directory} has none of that name")
        try:
            return key.cipher.decrypt(nonce, hidden, aad.encode())
        except InvalidTag:
            raise SealBroken(f"a text of {owner} has been changed, or was sealed for something else than {aad}") from None

    def is_missing(self, person: str) -> bool:
        """True if a person has no key of their own, and their tenant has none from before each person had one."""
        return not self._path(person).exists() and not self._path(person.partition(".")[0]).exists()

    def has(self, owner: str) -> bool:
        """True if a key exists of a person, or of a tenant or a person in it."""
        return self._path(owner).exists() or ("." not in owner and any(self._directory.glob(f"{owner}.*.key")))

    def destroy(self, owner: str) -> None:
        """Destroy the keys of a person, or of a tenant and all its people: what was sealed with them is erased for good."""
        others = f"{owner}{_BESIDE}*.key" if "." in owner else f"{owner}.*.key"
        for path in (self._path(owner), *self._directory.glob(others)):
            path.unlink(missing_ok=True)
            self._keys.pop(path.name.removesuffix(".key"), None)
        _sync(self._directory)

    def _key(self, owner: str) -> _Key | None:
        """The key as it is on the disk now: another process may have made or destroyed it."""
        key = self._keys.get(owner)
        path = str(self._path(owner)) if key is None else key.path
        try:
            inode = os.stat(path).st_ino  # called for every text: `Path.stat` takes five times as long
        except FileNotFoundError:
            self._keys.pop(owner, None)
            return None
        if key is None or key.inode != inode:
            secret = Path(path).read_bytes()
            if len(secret) != KEY_BYTES:
                raise SealBroken(f"{path} is not a key: it has {len(secret)} bytes instead of {KEY_BYTES}")
            key = self._keys[owner] = _Key(path, inode, blake2b(secret, digest_size=_NAME_BYTES).digest(), AESGCM(secret))
        return key

    def _holders(self, owner: str) -> Iterator[str]:
        """Names of the keys that may open a text of a person; the directory is searched only if the first two do not."""
        yield owner
        yield owner.partition(".")[0]
        yield from self._spares(owner)

    def _spares(self, owner: str) -> list[str]:
        """Names of the additional keys of a person."""
        return (
            sorted(path.name.removesuffix(".key") for path in self._directory.glob(f"{owner}{_BESIDE}*.key"))
            if "." in owner
            else []
        )

    def _spare(self, owner: str) -> _Key:
        for name in self._spares(owner):
            key = self._key(name)
            if key is not None:
                return key
        return self._make(f"{owner}{_BESIDE}{secrets.token_hex(4)}")

    def _make(self, owner: str) -> _Key:
        """A new key, on the disk before it is used; if another process was faster, its key."""
        draft = self._directory / f".{owner}.{secrets.token_hex(8)}"
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(secrets.token_bytes(KEY_BYTES))
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(draft, self._path(owner))
        except FileExistsError:
            pass
        finally:
            draft.unlink()
        _sync(self._directory)
        key = self._key(owner)
        if key is None:
            raise KeyGone(f"the key of {owner} was destroyed in the moment it was made")
        return key

    def _path(self, owner: str) -> Path:
        if not is_owner(owner.partition(_BESIDE)[0]):
            raise IdError(f"invalid owner {owner!r}: it is neither a tenant nor a person in one")
        return self._directory / f"{owner}.key"


def is_owner(owner: str) -> bool:
    """True if a key may have that owner: a tenant, or a person in a tenant."""
    parts = owner.split(".")
    return len(parts) <= 2 and all(map(is_token, parts))


def _sync(directory: Path) -> None:
    """Make changes in `directory` survive a power failure."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
