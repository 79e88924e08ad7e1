"""The files in which the NATS server stores a stream's messages, record by record: read as far as possible, and written. Pure.

A record is: length (4 bytes, the top bit for headers), sequence (8), nanoseconds (8), length of the subject (2), the subject, the length
of the headers (4) and the headers if the top bit is set, the payload, and eight bytes of HighwayHash over all of it except lengths, under
a key made of the stream's name and the file's number. Deleted records are marked by bits of the sequence. The writer of a file has to let
the server read it afterwards, and compare: a later release of the server may change the format.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import sha256
from struct import Struct
from typing import NamedTuple

from headrace.archive.highwayhash import Highway
from headrace.bus.log import StoredMessage

_HEAD = Struct("<IQQH")
_LENGTH = Struct("<I")
_CHECK = 8
_HAS_HEADERS = 1 << 31
_ERASED, _TOMB = 1 << 63, 1 << 62
SIZE_MAX = 32 * 1024 * 1024
"""Maximum length of a record in bytes; a greater length is invalid."""


class StoredRecord(NamedTuple):
    """A record, and the eight bytes of its hash."""

    record: StoredMessage
    check: bytes


class StreamBlock:
    """The files of one number of one stream."""

    def __init__(self, stream: str, number: int) -> None:
        self._hash = Highway(sha256(f"{stream}-{number}".encode()).digest())

    def check(self, record: StoredMessage) -> bytes:
        """Hash of a record."""
        head = record.sequence.to_bytes(8, "little") + record.time.to_bytes(8, "little")
        return self._hash.digest(head + record.subject.encode() + record.headers + record.payload)

    def write(self, records: Iterable[StoredMessage]) -> Iterator[bytes]:
        """The bytes of each record."""
        for record in records:
            subject = record.subject.encode()
            headers = _LENGTH.pack(len(record.headers)) + record.headers if record.headers else b""
            length = _HEAD.size + len(subject) + len(headers) + len(record.payload) + _CHECK
            head = _HEAD.pack(length | (_HAS_HEADERS if headers else 0), record.sequence, record.time, len(subject))
            yield head + subject + headers + record.payload + self.check(record)


def read(data: bytes) -> tuple[list[StoredRecord], int]:
    """The records in a file, and the byte up to which it could be read: less than its size after an invalid length."""
    found: list[StoredRecord] = []
    position = 0
    while position + _HEAD.size + _CHECK <= len(data):
        length, sequence, time, subject_length = _HEAD.unpack_from(data, position)
        headed, length = bool(length & _HAS_HEADERS), length & (_HAS_HEADERS - 1)
        end = position + length
        begin = position + _HEAD.size + subject_length
        if not _HEAD.size + _CHECK <= length <= SIZE_MAX or end > len(data) or begin > end - _CHECK:
            break
        if not sequence & (_ERASED | _TOMB):
            headers = b""
            body = begin
            if headed:
                (size,) = _LENGTH.unpack_from(data, begin)
                body = begin + _LENGTH.size + size
                if body > end - _CHECK:
                    break
                headers = data[begin + _LENGTH.size : body]
            subject = data[position + _HEAD.size : begin].decode("utf-8", "replace")
            record = StoredMessage(sequence, subject, time, headers, data[body : end - _CHECK])
            found.append(StoredRecord(record, data[end - _CHECK : end]))
        position = end
    return found, position
