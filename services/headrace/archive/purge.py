"""Purges records from the stream that the archive has: each is compared first, and the manifest is written before the first is purged.

Of each subject the last record stays, however old: a writer's next append is conditional on it. An interrupted purge can be repeated.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from headrace.archive import manifest as manifests
from headrace.archive.archive_reader import read_piece
from headrace.archive.export import READ_AT_ONCE, SILENCE, Progress, alone
from headrace.archive.manifest import ArchiveBroken, Manifest
from headrace.bus.log import LogRefused, LogUnavailable, StoredMessage
from headrace.bus.nats.jetstream import JetStreamLog

if TYPE_CHECKING:
    from headrace.nats_client.connection import Connection

WITHIN = 120.0
"""Timeout in seconds for the purge of one subject."""


class _Info(msgspec.Struct):
    class State(msgspec.Struct):
        """Number of messages by subject."""

        subjects: dict[str, int] | None = None

    state: State


async def last_before(log: JetStreamLog, moment: int) -> int:
    """The last record stored before a time (microseconds since 1970); purged records count as stored before it."""
    low, high = 0, await log.tip()
    while low < high:
        middle = (low + high + 1) // 2
        message = await log.get(middle)
        low, high = (middle, high) if message is None or message.stamped < moment else (low, middle - 1)
    return low


async def readers(connection: Connection, stream: str) -> dict[str, int]:
    """Sequence that each reader of a stream has been sent."""
    found: dict[str, int] = {}
    while True:
        request = msgspec.json.encode({"offset": len(found)})
        answer: dict[str, Any] = msgspec.json.decode((await connection.ask(f"$JS.API.CONSUMER.LIST.{stream}", request)).data)
        page = answer.get("consumers") or ()
        found |= {f"reader {each['name']}": each["delivered"]["stream_seq"] for each in page}
        if not page or len(found) >= answer.get("total", 0):
            return found


async def purge(connection: Connection, stream: str, directory: Path, through: int, progress: Progress) -> Manifest:
    """Purge the records up to `through`. Whether they may be purged is decided by `retention`.

    Raises `ArchiveBroken` if the archive differs from the stream: then nothing is purged; and `LogUnavailable`, `LogRefused`.
    """
    log = JetStreamLog(connection, stream)
    with alone(directory):
        manifest = manifests.read(directory)
        await _compare(log, directory, manifest, through, progress)
        manifest = replace(manifest, purged=max(manifest.purged, through))
        await asyncio.to_thread(manifests.write, directory, manifest)
        for subject in await _subjects(connection, stream):
            last = await log.last(subject)
            before = min(through + 1, last.sequence if last is not None else 0)
            await _request(connection, f"STREAM.PURGE.{stream}", {"filter": subject, "seq": before})
    return manifest


async def _compare(log: JetStreamLog, directory: Path, manifest: Manifest, through: int, progress: Progress) -> None:
    """Compare every record to be purged in the stream and in the archive: bytes, headers, time and sequence."""
    reader = await log.read_stored(manifest.purged)
    try:
        left: list[StoredMessage] = []
        for piece in manifest.pieces:
            first, last = max(piece.first, manifest.purged + 1), min(piece.last, through)
            if first > last:
                continue
            archived = await asyncio.to_thread(read_piece, directory, piece, first, last)
            while len(left) < len(archived):
                batch = await reader.batch(READ_AT_ONCE, SILENCE)
                if not batch:
                    raise LogUnavailable(f"the ledger gives nothing behind record {first + len(left) - 1}; try again")
                left += batch
            for stored, held in zip(left, archived, strict=False):
                if stored != held:
                    raise ArchiveBroken(
                        f"record {held.sequence} is another one in the stream than in {directory / piece.path}: one of them was changed"
                    )
            left = left[len(archived) :]
            progress(last, through)
    finally:
        await reader.close()


async def _subjects(connection: Connection, stream: str) -> list[str]:
    found: dict[str, int] = {}
    while True:
        info = msgspec.json.decode(
            await _request(connection, f"STREAM.INFO.{stream}", {"subjects_filter": ">", "offset": len(found)}), type=_Info
        )
        page = info.state.subjects or {}
        if not page.keys() - found.keys():
            return sorted(found)
        found |= page


async def _request(connection: Connection, what: str, request: dict[str, Any]) -> bytes:
    data = (await connection.ask(f"$JS.API.{what}", msgspec.json.encode(request), within=WITHIN)).data
    error = msgspec.json.decode(data).get("error")
    if error is not None:
        raise LogRefused(f"{what}: {error.get('description')}")
    return data
