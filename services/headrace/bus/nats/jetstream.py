"""The log on NATS JetStream. Durable when the server runs with `sync_interval: always`: what is acknowledged is on the disk."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import msgspec

from headrace.bus.log import LogUnavailable, Message, StoredMessage
from headrace.bus.nats.jetstream_reader import BEHIND_MOST, JetStreamReader, M, as_message, as_stored
from headrace.bus.nats.streams import BEGINS_LATE
from headrace.nats_client.acknowledgement import Acknowledgement, PublishError
from headrace.nats_client.append import append, refusal
from headrace.nats_client.connection import Connection

if TYPE_CHECKING:
    from headrace.nats_client.raw_message import RawMessage

EXPECTED_LAST_OF_ALL = "Nats-Expected-Last-Sequence"
MESSAGE_ID = "Nats-Msg-Id"

CLUSTER_TIMEOUT = 0.5
"""Timeout in seconds of a read from a stream of several servers, or of a conditional append.

Without a leader they do not answer, and the request is repeated. A repeated append finds its own record if that was stored.
"""

_NOT_FOUND = (10037, 404)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class _Stored(msgspec.Struct):
    subject: str
    seq: int
    time: str
    data: str = ""


class _Found(msgspec.Struct):
    message: _Stored | None = None
    error: PublishError | None = None


class StreamState(msgspec.Struct):
    """First and last sequence of a stream; `first_seq` is `last_seq + 1` in an empty one."""

    first_seq: int
    last_seq: int


class _Group(msgspec.Struct):
    leader: str = ""


class _Info(msgspec.Struct):
    state: StreamState | None = None
    ts: str = ""
    error: PublishError | None = None
    cluster: _Group | None = None


_ack = msgspec.json.Decoder(Acknowledgement)
_found = msgspec.json.Decoder(_Found)
_info = msgspec.json.Decoder(_Info)


class JetStreamLog:
    """One stream of a NATS server. `timeout`: seconds until an unanswered request raises `LogUnavailable` (None: see `Connection.ask`).

    `begins_late`: the stream is purged on purpose; by default true for SUBMIT and FEED.
    """

    def __init__(
        self, connection: Connection, stream: str, *, timeout: float | None = None, begins_late: bool | None = None
    ) -> None:
        self._connection = connection
        self._stream = stream
        self._timeout = timeout
        self._begins_late = stream in BEGINS_LATE if begins_late is None else begins_late

    @property
    def _asked_again_after(self) -> float | None:
        return CLUSTER_TIMEOUT if self._timeout is None and self._connection.several else self._timeout

    @property
    def doubt(self) -> float:
        return BEHIND_MOST if self._connection.several else 0.0

    async def append(self, subject: str, payload: bytes, expected_last: int | None) -> int:
        within = self._timeout if expected_last is None else self._asked_again_after
        return await append(self._connection, subject, payload, expected_last, within)

    async def read(self, after: int) -> JetStreamReader[Message]:
        return self._reader(after, as_message)

    async def read_stored(self, after: int) -> JetStreamReader[StoredMessage]:
        """A reader of `StoredMessage`, otherwise as `read`."""
        return self._reader(after, as_stored)

    def _reader(self, after: int, convert: Callable[[int, RawMessage, int], M]) -> JetStreamReader[M]:
        late = self._begins_late
        return JetStreamReader(self._connection, self._stream, after, self.state, self.at, convert, begins_late=late)

    async def last(self, subject: str) -> Message | None:
        """See `Log.last`. The stream's leader answers, so that a writer sees what it has just written."""
        return await self._get_message(msgspec.json.encode({"last_by_subj": subject}))

    async def get(self, sequence: int) -> Message | None:
        """See `Log.get`. Any replica answers; if it does not have the message, the leader is asked."""
        request = b'{"seq":%d}' % sequence
        answer = await self._connection.ask(f"$JS.API.DIRECT.GET.{self._stream}", request, within=self._asked_again_after)
        headers = answer.headers
        if "Nats-Sequence" not in headers:
            return await self.at(sequence)
        stamped = _microseconds(headers["Nats-Time-Stamp"])
        return Message(int(headers["Nats-Sequence"]), headers["Nats-Subject"], stamped, answer.data)

    async def next(self, subject: str, after: int) -> Message | None:
        """See `Log.next`. The stream's leader answers."""
        return await self._get_message(msgspec.json.encode({"seq": after + 1, "next_by_subj": subject}))

    async def following(self, after: int) -> Message | None:
        return await self.next(">", after)

    async def tip(self) -> int:
        return (await self.state()).last_seq

    async def now(self) -> int:
        return _microseconds((await self._inform())[1])

    async def state(self) -> StreamState:
        """First and last sequence of the stream, from its leader."""
        return (await self._inform())[0]

    async def at(self, sequence: int) -> Message | None:
        """The message at a sequence, from the stream's leader."""
        return await self._get_message(b'{"seq":%d}' % sequence)

    async def purge_through(self, sequence: int) -> None:
        keep_from = min(sequence, await self.tip()) + 1  # beyond the end the server would skip sequences
        request = b'{"seq":%d}' % keep_from
        answer = await self._connection.ask(f"$JS.API.STREAM.PURGE.{self._stream}", request, within=self._timeout)
        ack = _ack.decode(answer.data)
        if ack.error is not None:
            raise refusal(ack.error, self._stream)

    async def _get_message(self, request: bytes) -> Message | None:
        answer = await self._connection.ask(f"$JS.API.STREAM.MSG.GET.{self._stream}", request, within=self._asked_again_after)
        found = _found.decode(answer.data)
        if found.error is not None:
            if found.error.err_code in _NOT_FOUND or found.error.code in _NOT_FOUND:
                return None
            raise refusal(found.error, self._stream)
        stored = found.message
        return (
            None if stored is None else Message(stored.seq, stored.subject, _microseconds(stored.time), b64decode(stored.data))
        )

    async def _inform(self) -> tuple[StreamState, str]:
        info = _info.decode(
            (await self._connection.ask(f"$JS.API.STREAM.INFO.{self._stream}", within=self._asked_again_after)).data
        )
        if info.error is not None:
            raise refusal(info.error, self._stream)
        if info.cluster is not None and not info.cluster.leader:  # any server answers then, also one that has begun empty
            raise LogUnavailable(f"{self._stream} has no leader")
        return info.state or StreamState(1, 0), info.ts


def _microseconds(time: str) -> int:
    """Microseconds since 1970 of the server's RFC 3339 time with nanoseconds."""
    return (datetime.fromisoformat(time) - _EPOCH) // _MICROSECOND
