"""Saves and loads a stream by the server's own snapshot: the same messages, sequences, times and headers, whatever is written meanwhile.

The server checks its messages before it sends them (`jsck`): if one is damaged, the copy fails with an error.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any, BinaryIO

import msgspec

from headrace.bus.log import LogBroken, LogRefused, LogUnavailable

if TYPE_CHECKING:
    from nats.aio.msg import Msg

    from headrace.nats_client.connection import Connection

CHUNK = 128 * 1024
BEGINS_WITHIN = 120.0
"""Timeout in seconds; the server checks every message before it begins."""
SILENCE = 30.0

LIST_WITHIN, LIST_AGAIN, LIST_PATIENCE = 5.0, 0.25, 60.0
"""Seconds: the servers ask each other before they list the streams, and have to elect leaders first."""

_OVER = ("", "204")
"""Status of the last piece of a complete copy."""

Progress = Callable[[int], None]
"""`progress(bytes)`: progress, the number of bytes so far."""


class Copied(msgspec.Struct, frozen=True):
    """Description of a stream by the server when it was copied."""

    config: dict[str, Any]
    state: dict[str, Any]

    @property
    def last(self) -> int:
        """The sequence of its last message."""
        return int(self.state.get("last_seq", 0))


class _Fault(msgspec.Struct):
    err_code: int = 0
    description: str = ""


class _Answer(msgspec.Struct):
    error: _Fault | None = None
    config: dict[str, Any] = {}
    state: dict[str, Any] = {}
    deliver_subject: str = ""


class _Cluster(msgspec.Struct):
    leader: str = ""


class _Listed(msgspec.Struct):
    config: dict[str, Any]
    cluster: _Cluster | None = None


class _Names(msgspec.Struct):
    streams: list[_Listed] | None = None
    missing: list[str] | None = None
    error: _Fault | None = None


async def durable_streams(connection: Connection, patience: float = LIST_PATIENCE) -> tuple[str, ...]:
    """Names of the streams on disk, once every one of them has a leader. Raises `LogUnavailable` after `patience` seconds."""
    deadline = asyncio.get_running_loop().time() + patience
    while True:
        try:
            return await _listed(connection)
        except LogUnavailable:
            if asyncio.get_running_loop().time() > deadline:
                raise
            await asyncio.sleep(LIST_AGAIN)


async def _listed(connection: Connection) -> tuple[str, ...]:
    answer = msgspec.json.decode((await connection.ask("$JS.API.STREAM.LIST", within=LIST_WITHIN)).data, type=_Names)
    if answer.error is not None:
        raise LogUnavailable(f"the NATS servers do not say which streams there are: {answer.error.description}")
    streams = answer.streams or []
    away = [*(answer.missing or ()), *(one.config["name"] for one in streams if one.cluster and not one.cluster.leader)]
    if away:
        raise LogUnavailable(f"no leader of {', '.join(sorted(away))}: are most of the NATS servers up?")
    return tuple(sorted(one.config["name"] for one in streams if one.config.get("storage") == "file"))


async def save(connection: Connection, stream: str, file: BinaryIO, progress: Progress = lambda _: None) -> Copied:
    """Write a stream into `file`, as it is at one time. Raises `LogBroken` if a message in it is damaged, and `LogUnavailable`."""
    pieces: asyncio.Queue[Msg] = asyncio.Queue()
    inbox = connection.new_inbox()
    subscription = await connection.subscribe(inbox, cb=pieces.put, pending_msgs_limit=0, pending_bytes_limit=0)
    try:
        request = {"deliver_subject": inbox, "no_consumers": True, "jsck": True, "chunk_size": CHUNK}
        answer = await _ask(connection, f"$JS.API.STREAM.SNAPSHOT.{stream}", request)
        if answer.error is not None:
            raise LogBroken(f"stream {stream} cannot be copied: {answer.error.description}")
        written = 0
        async for piece in _pieces(connection, stream, pieces):
            file.write(piece)
            written += len(piece)
            progress(written)
        return Copied(answer.config, answer.state)
    finally:
        await subscription.unsubscribe()


async def _pieces(connection: Connection, stream: str, pieces: asyncio.Queue[Msg]) -> AsyncIterator[bytes]:
    while True:
        try:
            async with asyncio.timeout(SILENCE):
                piece = await pieces.get()
        except TimeoutError:
            raise LogUnavailable(f"the copy of stream {stream} does not go on; try again") from None
        if not piece.data:
            status = (piece.headers or {}).get("Status", "")
            if status not in _OVER:
                raise LogBroken(f"the copy of stream {stream} was given up by the server: {status} {piece.headers}")
            return
        yield piece.data
        if piece.reply:
            await connection.publish(piece.reply)


async def load(connection: Connection, copied: Copied, file: BinaryIO, progress: Progress = lambda _: None) -> None:
    """Make a stream of what `save` wrote; its name must not exist. Raises `LogRefused`, `LogUnavailable`."""
    stream = str(copied.config["name"])
    request = {"config": copied.config, "state": copied.state}
    answer = await _ask(connection, f"$JS.API.STREAM.RESTORE.{stream}", request)
    _see(answer, stream)
    sent = 0
    while chunk := file.read(CHUNK):
        reply = (await connection.ask(answer.deliver_subject, chunk, within=SILENCE)).data
        if reply:
            _see(msgspec.json.decode(reply, type=_Answer), stream)
        sent += len(chunk)
        progress(sent)
    whole = msgspec.json.decode((await connection.ask(answer.deliver_subject, within=BEGINS_WITHIN)).data, type=_Answer)
    _see(whole, stream)
    if int(whole.state.get("last_seq", 0)) != copied.last or whole.state.get("messages") != copied.state.get("messages"):
        raise LogRefused(f"stream {stream} came back with other messages than were copied: {whole.state}")


def _see(answer: _Answer, stream: str) -> None:
    if answer.error is not None:
        raise LogRefused(f"stream {stream} cannot be restored: {answer.error.description}")


async def _ask(connection: Connection, subject: str, request: dict[str, Any]) -> _Answer:
    return msgspec.json.decode(
        (await connection.ask(subject, msgspec.json.encode(request), within=BEGINS_WITHIN)).data, type=_Answer
    )
