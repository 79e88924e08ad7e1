"""Seals: signed digests of ranges of the ledger, so that a copy of the seals proves whether the ledger is unchanged. Pure.

A seal covers the records `first` to `last`, each with its subject, its bytes and the server's time, and names the seal before it: so the
last one covers all. The records of nodes, which have no chain, and the last of every service are protected by it. Besides the two digests
it has marks, twelve bytes for each record, which show *which* record was changed or removed.
"""

from __future__ import annotations

from array import array
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from hashlib import blake2b
from typing import TYPE_CHECKING, Protocol

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from headrace.contracts.facts import LedgerSealedV1

if TYPE_CHECKING:
    from headrace.domain.fold.ledger import StoredMessage

SEALED_MAX = 1_000
"""Maximum number of records under one seal."""
CONTENT = 32
"""Bytes of the digest of one record."""
MARK_CONTENT, MARK_TIME = 8, 4
MARK = MARK_CONTENT + MARK_TIME
"""Bytes of a mark: the first of the content's digest, the last of the time's microseconds."""


class Signer(Protocol):
    """Interface of a signing key."""

    @property
    def public(self) -> str:
        """The public key, in base64."""

    def sign(self, statement: bytes) -> str:
        """The Ed25519 signature of the bytes, base64."""


class RecordRange:
    """Consecutive records, stored only as far as seals need them: 48 bytes each."""

    def __init__(self) -> None:
        self.sequences = array("q")
        self._contents = bytearray()
        self._times = array("q")

    def __len__(self) -> int:
        return len(self.sequences)

    def add(self, message: StoredMessage) -> None:
        """Add a record after the others."""
        content = blake2b(message.subject.encode() + b"\0", digest_size=CONTENT)
        content.update(message.payload)
        self.sequences.append(message.sequence)
        self._contents += content.digest()
        self._times.append(message.stamped)

    def drop(self, count: int) -> None:
        """Remove the first `count` records."""
        del self.sequences[:count], self._times[:count], self._contents[: count * CONTENT]

    def contents(self, count: int) -> str:
        """The digest of the contents of the first `count` records, in hexadecimal."""
        with memoryview(self._contents) as whole, whole[: count * CONTENT] as part:
            return blake2b(part, digest_size=CONTENT).hexdigest()

    def times(self, count: int) -> str:
        """The digest of the times of the first `count` records, in hexadecimal."""
        return blake2b(b"".join(_time(each) for each in self._times[:count]), digest_size=CONTENT).hexdigest()

    def marks(self, count: int, begin: int = 0) -> list[bytes]:
        """The marks of the first `count` records, from the place `begin` on."""
        contents, times = self._contents, self._times
        return [
            bytes(contents[place * CONTENT : place * CONTENT + MARK_CONTENT]) + _time(times[place])[-MARK_TIME:]
            for place in range(begin, min(count, len(times)))
        ]


def _time(stamped: int) -> bytes:
    return stamped.to_bytes(8, "big", signed=True)


def statement(seal: LedgerSealedV1) -> bytes:
    """The signed bytes: everything in a seal except the signature."""
    marks = blake2b(seal.marks.encode(), digest_size=CONTENT).hexdigest()
    fields = (seal.number, seal.first, seal.last, seal.prev, seal.contents, seal.times, marks, seal.key)
    return "\n".join(("headrace seal 1", *map(str, fields))).encode()


def name_of(seal: LedgerSealedV1) -> str:
    """The digest by which the next seal names this one, in hexadecimal."""
    return blake2b(statement(seal), digest_size=CONTENT).hexdigest()


def sealed(records: RecordRange, count: int, before: LedgerSealedV1 | None, signer: Signer) -> LedgerSealedV1:
    """The seal of the first `count` records of a range, which begins after the seal `before`."""
    draft = LedgerSealedV1(
        number=1 if before is None else before.number + 1,
        first=records.sequences[0],
        last=records.sequences[count - 1],
        prev="" if before is None else name_of(before),
        contents=records.contents(count),
        times=records.times(count),
        marks=b64encode(b"".join(records.marks(count))).decode(),
        key=signer.public,
        signature="",
    )
    return LedgerSealedV1(
        number=draft.number,
        first=draft.first,
        last=draft.last,
        prev=draft.prev,
        contents=draft.contents,
        times=draft.times,
        marks=draft.marks,
        key=draft.key,
        signature=signer.sign(statement(draft)),
    )


def marks_of(seal: LedgerSealedV1) -> list[bytes]:
    """The mark of each record under a seal; empty if malformed."""
    try:
        whole = b64decode(seal.marks, validate=True)
    except NotBase64:
        return []
    return [whole[at : at + MARK] for at in range(0, len(whole), MARK)]


def flaw(seal: LedgerSealedV1, key: str) -> str:
    """Why a seal is not a valid one made with `key` (empty: any), regardless of the seal before it; empty if it is valid."""
    if seal.last < seal.first or len(marks_of(seal)) != seal.last - seal.first + 1:
        return f"it has no mark for each of the records {seal.first} to {seal.last}"
    if key and seal.key != key:
        return f"it was made with another key, {seal.key}"
    try:
        public = Ed25519PublicKey.from_public_bytes(b64decode(seal.key, validate=True))
        public.verify(b64decode(seal.signature, validate=True), statement(seal))
    except (InvalidSignature, ValueError):
        return "its signature is not that of what it says"
    return ""


def is_behind(seal: LedgerSealedV1, before: LedgerSealedV1 | None) -> bool:
    """True if a seal begins where the seal `before` ends, and names it."""
    if before is None:
        return (seal.number, seal.prev) == (1, "")
    return (seal.number, seal.first, seal.prev) == (before.number + 1, before.last + 1, name_of(before))
