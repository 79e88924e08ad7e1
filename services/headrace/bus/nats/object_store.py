"""Objects too large for a message, in chunks, in a bucket of JetStream's object store: each written, read and deleted as a whole.

Strategy: the layout is NATS' own, so that its tools can read it, with one restriction: a name is used once. So objects are never replaced,
the stream refuses roll-up headers, and an object whose upload broke off has no name and is never seen. What is read is compared with the
digest beside it; whether that is the right one, only the ledger can tell.
"""

from __future__ import annotations

import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from contextlib import suppress
from hashlib import sha256
from typing import Protocol

import msgspec

from headrace.bus.log import LogError, LogRefused
from headrace.bus.nats.jetstream import JetStreamLog
from headrace.bus.nats.streams import PIECE
from headrace.nats_client.acknowledgement import PublishError
from headrace.nats_client.append import refusal
from headrace.nats_client.connection import Connection


class ObjectDamaged(Exception):
    """The object is incomplete or differs from what was written; the text says how."""


class Objects(Protocol):
    """One bucket of objects."""

    async def names(self) -> list[str]:
        """Names of all objects, sorted. Raises `LogError`."""

    async def put(self, name: str, data: bytes) -> None:
        """Store durably, under a name that is not used yet. Raises `LogError` if nothing was stored."""

    async def get(self, name: str) -> bytes:
        """Contents of an object. Raises `ObjectDamaged` if it is missing, incomplete or changed, and `LogUnavailable`."""

    async def delete(self, name: str) -> None:
        """Delete an object if it exists. Raises `LogError`."""


class _Meta(msgspec.Struct, frozen=True):
    """Metadata of an object, with NATS' field names."""

    name: str
    bucket: str
    nuid: str
    size: int
    chunks: int
    digest: str


class _Subjects(msgspec.Struct):
    subjects: dict[str, int] | None = None


class _Info(msgspec.Struct):
    state: _Subjects = msgspec.field(default_factory=_Subjects)
    error: PublishError | None = None


class JetStreamObjects:
    """A bucket on a NATS server."""

    def __init__(self, connection: Connection, bucket: str, *, piece: int = PIECE) -> None:
        self._connection = connection
        self._bucket = bucket
        self._stream = f"OBJ_{bucket}"
        self._log = JetStreamLog(connection, self._stream)
        self._piece = piece

    async def names(self) -> list[str]:
        request = msgspec.json.encode({"subjects_filter": self._meta_subject(">")})
        answer = await self._connection.ask(f"$JS.API.STREAM.INFO.{self._stream}", request)
        info = msgspec.json.decode(answer.data, type=_Info)
        if info.error is not None:
            raise refusal(info.error, self._stream)
        ends = (subject.rpartition(".")[2] for subject in info.state.subjects or ())
        return sorted(urlsafe_b64decode(end).decode() for end in ends)

    async def put(self, name: str, data: bytes) -> None:
        nuid = secrets.token_hex(11)
        pieces = [data[start : start + self._piece] for start in range(0, len(data), self._piece)]
        meta = _Meta(name, self._bucket, nuid, len(data), len(pieces), _digest(data))
        try:
            for piece in pieces:
                await self._log.append(self._pieces_subject(nuid), piece, None)
            await self._log.append(self._meta_subject(_encoded(name)), msgspec.json.encode(meta), 0)
        except LogError:
            with suppress(LogError):
                await self._purge(self._pieces_subject(nuid))
            raise

    async def get(self, name: str) -> bytes:
        meta = await self._meta(name)
        if meta is None:
            raise ObjectDamaged(f"{name} does not exist in {self._bucket}")
        pieces: list[bytes] = []
        after = 0
        for number in range(meta.chunks):
            piece = await self._log.next(self._pieces_subject(meta.nuid), after)
            if piece is None:
                raise ObjectDamaged(f"{name}: only {number} of its {meta.chunks} pieces are there")
            after = piece.sequence
            pieces.append(piece.payload)
        data = b"".join(pieces)
        if _digest(data) != meta.digest:
            raise ObjectDamaged(f"{name}: its {len(data)} bytes are not those that were put there")
        return data

    async def delete(self, name: str) -> None:
        meta = await self._meta(name)
        await self._purge(self._meta_subject(_encoded(name)))
        if meta is not None:
            await self._purge(self._pieces_subject(meta.nuid))

    async def _meta(self, name: str) -> _Meta | None:
        message = await self._log.last(self._meta_subject(_encoded(name)))
        if message is None:
            return None
        try:
            return msgspec.json.decode(message.payload, type=_Meta)
        except msgspec.DecodeError as error:
            raise ObjectDamaged(f"{name}: what stands beside it cannot be read: {error}") from None

    async def _purge(self, subject: str) -> None:
        request = msgspec.json.encode({"filter": subject})
        answer = await self._connection.ask(f"$JS.API.STREAM.PURGE.{self._stream}", request)
        info = msgspec.json.decode(answer.data, type=_Info)
        if info.error is not None:
            raise refusal(info.error, self._stream)

    def _meta_subject(self, end: str) -> str:
        return f"$O.{self._bucket}.M.{end}"

    def _pieces_subject(self, nuid: str) -> str:
        return f"$O.{self._bucket}.C.{nuid}"


class MemoryObjects:
    """The in-memory implementation of `Objects`."""

    def __init__(self) -> None:
        self._objects: dict[str, bytes] = {}

    async def names(self) -> list[str]:
        return sorted(self._objects)

    async def put(self, name: str, data: bytes) -> None:
        if name in self._objects:
            raise LogRefused(f"there is a {name} already")
        self._objects[name] = bytes(data)

    async def get(self, name: str) -> bytes:
        if name not in self._objects:
            raise ObjectDamaged(f"{name} does not exist")
        return self._objects[name]

    async def delete(self, name: str) -> None:
        self._objects.pop(name, None)


def _encoded(name: str) -> str:
    return urlsafe_b64encode(name.encode()).decode()


def _digest(data: bytes) -> str:
    return "SHA-256=" + urlsafe_b64encode(sha256(data).digest()).decode()
