"""Storage apart from the ledger, in the installation's data: the signing key, the seals, and marks of records not sealed yet.

One directory, `seals`: `key.pem` (0600), `.seals.jsonl` (a seal a line, as `headrace audit seals --out` writes them), and `.tail`
(sequence and mark of each record after the last seal; used as far as it is whole). Files with a dot follow the ledger of this installation
now, and are not part of a backup: a restored installation takes the seals from the ledger again.
"""

from __future__ import annotations

import os
import struct
from base64 import b64encode
from typing import TYPE_CHECKING

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from headrace.archive import atomic_files
from headrace.audit.seals import MARK, flaw
from headrace.contracts.facts import LedgerSealedV1
from headrace.contracts.transport.codec import Malformed, decode, encode

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

SEALS = "seals"
"""The directory, in an installation's data."""
KEY, KEPT, TAIL = "key.pem", ".seals.jsonl", ".tail"
_NOTE = struct.Struct(f">q{MARK}s")
_LOOSE = 0o077


class SealStoreError(Exception):
    """Stored seals or keys cannot be used; one line with the file, and the way out."""


class SealKey:
    """The installation's key for seals."""

    def __init__(self, private: Ed25519PrivateKey) -> None:
        self._private = private
        self.public = b64encode(private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)).decode()

    def sign(self, statement: bytes) -> str:
        return b64encode(self._private.sign(statement)).decode()

    @classmethod
    def at(cls, path: Path) -> SealKey:
        """The key in a file; a new one if the file does not exist. Raises `SealStoreError`."""
        try:
            if not path.exists():
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                new = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
                atomic_files.write(path, new)
            if path.stat().st_mode & _LOOSE:
                raise SealStoreError(f"{path} may be read by others; `chmod 600 {path}`")
            private = load_pem_private_key(path.read_bytes(), None)
        except OSError as error:
            raise SealStoreError(f"{path} cannot be used: {error.strerror}") from None
        except ValueError:
            raise SealStoreError(f"{path} is not a key; put the one from a backup there") from None
        if not isinstance(private, Ed25519PrivateKey):
            raise SealStoreError(f"{path} is not an Ed25519 key")
        return cls(private)


class SealStore:
    """The seals and the tail in a directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._tail = directory / TAIL

    def key(self) -> SealKey:
        """The signing key. Raises `SealStoreError`, also if seals were stored and the key that signed them is gone."""
        path, kept = self.directory / KEY, self.directory / KEPT
        if not path.exists() and kept.exists() and kept.stat().st_size:
            raise SealStoreError(
                f"{path} is gone, and the seals in {kept} were signed with it: put it back from a backup; where it is lost for good, "
                f"move {self.directory} away, and a new key signs what comes"
            )
        return SealKey.at(path)

    def public(self) -> str:
        """The public key; empty without a key."""
        return self.key().public if (self.directory / KEY).exists() else ""

    def seals(self) -> list[LedgerSealedV1]:
        """All stored seals. Raises `SealStoreError`."""
        path = self.directory / KEPT
        return read_seals(path) if path.exists() else []

    def keep(self, seal: LedgerSealedV1) -> None:
        """Add a seal, on the disk when this returns; the tail begins anew."""
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(os.open(self.directory / KEPT, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as file:
            file.write(encode(seal) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        self._tail.unlink(missing_ok=True)

    def note(self, first: int, marks: Iterable[bytes]) -> None:
        """Add marks of the records from `first` on, which are not sealed yet."""
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(os.open(self._tail, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as file:
            file.write(b"".join(_NOTE.pack(first + place, mark) for place, mark in enumerate(marks)))

    def tail(self, after: int) -> list[bytes]:
        """Marks of the records after `after`, up to the first gap."""
        try:
            data = self._tail.read_bytes()
        except FileNotFoundError:
            return []
        marks: list[bytes] = []
        for sequence, mark in _NOTE.iter_unpack(data[: len(data) - len(data) % _NOTE.size]):
            if sequence == after + len(marks) + 1:
                marks.append(mark)
        return marks


def read_seals(path: Path) -> list[LedgerSealedV1]:
    """The seals in a file, a line each, every one as it was signed. Raises `SealStoreError`."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise SealStoreError(f"{path} cannot be read: {error.strerror}") from None
    seals = []
    for number, line in enumerate(lines, 1):
        try:
            seal = decode(line, LedgerSealedV1)
        except Malformed as error:
            raise SealStoreError(
                f"{path}, line {number}, is not a seal: {error}; take a copy of the file that is whole"
            ) from None
        wrong = flaw(seal, "")
        if wrong:
            raise SealStoreError(
                f"{path}, line {number}: seal {seal.number} is invalid: {wrong}; take a copy of the file that is whole"
            )
        seals.append(seal)
    return seals
