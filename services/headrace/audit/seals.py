"""Seals: what a stretch of the ledger holds, signed, so that whoever keeps the seals elsewhere can tell whether it still does. Pure.

A seal covers the records `first` to `last`, each with its subject, its bytes and the server's time, and names the seal before it: so the
last one covers all. The records of nodes, which no chain holds, and the last of every service are held by this. Beside the two digests
stand marks, twelve bytes for each record, from which it is told *which* record is another one, or where one is gone.
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
"""Records under one seal."""
CONTENT = 32
"""Bytes of the digest of one record."""
MARK_CONTENT, MARK_TIME = 8, 4
MARK = MARK_CONTENT + MARK_TIME
"""Bytes of a mark: the first of the content's digest, the last of the time's microseconds."""


class Signer(Protocol):
    """Who signs."""

    @property
    def public(self) -> str:
        """The public key, base64."""

    def sign(self, statement: bytes) -> str:
        """The Ed25519 signature of the bytes, base64."""


class Stretch:
    """Records in order, of which only what seals say is kept: 48 bytes each."""

    def __init__(self) -> None:
        self.sequences = array("q")
        self._contents = bytearray()
        self._times = array("q")

    def __len__(self) -> int:
        return len(self.sequences)

    def add(self, message: StoredMessage) -> None:
        """One more, behind the others."""
        content = blake2b(message.subject.encode() + b"\0", digest_size=CONTENT)
        content.update(message.payload)
        self.sequences.append(message.sequence)
        self._contents += content.digest()
        self._times.append(message.stamped)

    def drop(self, count: int) -> None:
        """Forget the first ones."""
        del self.sequences[:count], self._times[:count], self._contents[: count * CONTENT]

    def contents(self, count: int) -> str:
        """The digest of what the first ones hold, in hexadecimal."""
        with memoryview(self._contents) as whole, whole[: count * CONTENT] as part:
            return blake2b(part, digest_size=CONTENT).hexdigest()

    def times(self, count: int) -> str:
        """The digest of when the first ones were stored, in hexadecimal."""
        return blake2b(b"".join(_time(each) for each in self._times[:count]), digest_size=CONTENT).hexdigest()

    def marks(self, count: int, begin: int = 0) -> list[bytes]:
        """The marks of the first ones, those before the place `begin` left out."""
        contents, times = self._contents, self._times
        return [
            bytes(contents[place * CONTENT : place * CONTENT + MARK_CONTENT]) + _time(times[place])[-MARK_TIME:]
            for place in range(begin, min(count, len(times)))
        ]


def _time(stamped: int) -> bytes:
    return stamped.to_bytes(8, "big", signed=True)


def statement(seal: LedgerSealedV1) -> bytes:
    """What is signed: everything that a seal says."""
    marks = blake2b(seal.marks.encode(), digest_size=CONTENT).hexdigest()
    fields = (seal.number, seal.first, seal.last, seal.prev, seal.contents, seal.times, marks, seal.key)
    return "\n".join(("headrace seal 1", *map(str, fields))).encode()


def name_of(seal: LedgerSealedV1) -> str:
    """The digest by which the next seal names this one, in hexadecimal."""
    return blake2b(statement(seal), digest_size=CONTENT).hexdigest()


def sealed(stretch: Stretch, count: int, before: LedgerSealedV1 | None, signer: Signer) -> LedgerSealedV1:
    """The seal of the first records of a stretch, which begins behind the seal `before`."""
    draft = LedgerSealedV1(
        number=1 if before is None else before.number + 1,
        first=stretch.sequences[0],
        last=stretch.sequences[count - 1],
        prev="" if before is None else name_of(before),
        contents=stretch.contents(count),
        times=stretch.times(count),
        marks=b64encode(b"".join(stretch.marks(count))).decode(),
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
    """The mark of each record under a seal; empty where they are none."""
    try:
        whole = b64decode(seal.marks, validate=True)
    except NotBase64:
        return []
    return [whole[at : at + MARK] for at in range(0, len(whole), MARK)]


def flaw(seal: LedgerSealedV1, key: str) -> str:
    """Why this is no seal made with `key` (empty: any), whatever stands before it; empty where it is one."""
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
    """Whether it goes on where the seal `before` ends, and names it."""
    if before is None:
        return (seal.number, seal.prev) == (1, "")
    return (seal.number, seal.first, seal.prev) == (before.number + 1, before.last + 1, name_of(before))
