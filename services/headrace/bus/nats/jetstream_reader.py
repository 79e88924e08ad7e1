"""A read position in a JetStream stream that loses and repeats nothing, whatever happens to messages in transit.

Strategy: the server pushes to an ephemeral consumer, and every delivery has its position in the stream and in the deliveries. If either is
not the next one (a message lost in transit, a full buffer, a reconnect, missed heartbeats, a server that forgot the consumer), the
consumer is deleted and a new one starts at the first missing message. Only the stream itself can then still have a gap. nats-py's own
ordered consumer is not used: it counts before it drops, and so skips silently.

With several servers, the one that delivers may have another copy than the others (its disk was full). So whenever a consumer is deleted,
its last message is compared with the one of the stream's leader.

Backpressure: the server sends at most a window (32 MiB) beyond the last flow control message answered, and that is answered only when
everything before it has been returned.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

import msgspec
import structlog
from nats import errors

from headrace.bus.log import LogBroken, LogDiverged, LogError, LogUnavailable, Message, StoredMessage
from headrace.bus.notifier import Notifier
from headrace.nats_client.connection import Connection

if TYPE_CHECKING:
    from nats.aio.subscription import Subscription

    from headrace.nats_client.raw_message import RawMessage

BUFFER_MESSAGES = 65_536
"""Messages buffered for a slow reader before the rest is requested again; many small ones fit into the server's window."""

HEARTBEAT = 1.0
SILENCE = 2.5
"""Seconds between heartbeats of an idle consumer, and seconds without one after which it counts as gone."""

RETRY_FIRST, RETRY_MOST = 0.05, 0.25
BEHIND_MOST, DOUBTED_AGAIN = 30.0, 10.0
"""Seconds for which one of several servers may answer as if what has been read did not exist, because it leads no longer or not yet.

And seconds after which an earlier answer of that kind no longer counts.
"""
FORGOTTEN_AFTER = 5.0
"""Seconds after which the server forgets a consumer without a listener."""

_ACK_PREFIX = "$JS.ACK."
_TOKENS_WITHOUT_DOMAIN = 9
_NANOSECONDS = 1_000_000_000

_log = structlog.get_logger("headrace.bus")


class StreamBounds(Protocol):
    """First and last sequence of the stream."""

    first_seq: int
    last_seq: int


class _Flow(NamedTuple):
    """Answer `reply` once the message `after` has been returned."""

    after: int
    reply: str


class _Fault(msgspec.Struct):
    code: int = 0
    err_code: int = 0
    description: str = ""


class _Created(msgspec.Struct):
    error: _Fault | None = None


_created = msgspec.json.Decoder(_Created)


M = TypeVar("M", Message, StoredMessage)


def as_message(sequence: int, delivered: RawMessage, time: int) -> Message:
    """A delivery as `Message`; `time` in nanoseconds."""
    return Message(sequence, delivered.subject, time // 1_000, delivered.data)


def as_stored(sequence: int, delivered: RawMessage, time: int) -> StoredMessage:
    """A delivery as `StoredMessage`; `time` in nanoseconds."""
    return StoredMessage(sequence, delivered.subject, time, delivered.raw, delivered.data)


class JetStreamReader(Generic[M]):
    """See `LogReader`. `state` asks the stream's leader for the bounds of the stream, and `at` for the message at a sequence.

    `convert` converts a delivery into what is returned.
    """

    def __init__(
        self,
        connection: Connection,
        stream: str,
        after: int,
        state: Callable[[], Awaitable[StreamBounds]],
        at: Callable[[int], Awaitable[Message | None]],
        convert: Callable[[int, RawMessage, int], M],
        *,
        begins_late: bool,
        buffer_messages: int = BUFFER_MESSAGES,
    ) -> None:
        self._connection = connection
        self._stream = stream
        self._state = state
        self._at = at
        self._convert: Callable[[int, RawMessage, int], M] = convert
        self._begins_late = begins_late
        self._buffer_messages = buffer_messages
        self._buffer: deque[M] = deque()
        self._next = after + 1
        self._handed = after
        self._last: M | None = None
        self._place = 0
        self._generation = 0
        self._subscription: Subscription | None = None
        self._intact = False
        self._gap = 0
        self._doubts: tuple[float, float] | None = None
        self._last_received = 0.0
        self._flow: _Flow | None = None
        self._trouble = ""
        self._retry = RETRY_FIRST
        self._closed = False
        self._nudged = False
        self._wakeup = Notifier()
        self._unwatch = connection.watch(self._reconnected)

    @property
    def buffered(self) -> int:
        return len(self._buffer)

    def wake(self) -> None:
        self._nudged = True
        self._wakeup.ring()

    async def batch(self, limit: int = 1_000, wait: float | None = None) -> list[M]:
        loop = asyncio.get_running_loop()
        deadline = None if wait is None else loop.time() + wait
        while not self._buffer:
            if self._closed:
                raise LogUnavailable("this reader has been closed")
            await self._release()
            left = SILENCE if deadline is None else min(SILENCE, deadline - loop.time())
            if not self._intact:
                await self._ask_again(left)
            else:
                await self._wakeup.sleep(left)
                if loop.time() - self._last_received > SILENCE:
                    self._lose("heartbeats missed")
            if not self._buffer and (self._nudged or (deadline is not None and loop.time() >= deadline)):
                self._nudged = False
                return []
        buffer = self._buffer
        messages = [buffer.popleft() for _ in range(min(limit, len(buffer)))]
        self._last = messages[-1]
        self._handed = self._last.sequence
        await self._release()
        return messages

    async def close(self) -> None:
        self._closed = True
        self._unwatch()
        self._wakeup.ring()
        await self._unsubscribe()

    async def _ask_again(self, patience: float) -> None:
        """Try once to get a consumer that starts at the next message; if that fails, sleep at most `patience` seconds."""
        try:
            await self._unsubscribe()
            await self._check_last()
            await self._check_bounds()
            await self._subscribe()
        except LogUnavailable as error:
            if str(error) != self._trouble:
                self._trouble = str(error)
                _log.warning("reader_waits", stream=self._stream, after=self._next - 1, reason=self._trouble)
            self._retry = min(2 * self._retry, RETRY_MOST)
            await self._wakeup.sleep(min(self._retry, patience))
        else:
            self._trouble = ""
            self._retry = RETRY_FIRST

    async def _check_last(self) -> None:
        """Check that the leader has the last message that has come; one of several servers may have left out a message before it.

        Raises `LogDiverged` if it has another one.
        """
        last = self._buffer[-1] if self._buffer else self._last
        if last is None or not self._connection.several:
            return
        there = await self._at(last.sequence)
        if there is not None and (there.subject, there.payload) != (last.subject, last.payload):
            raise LogDiverged(
                f"{self._stream}: one of the servers has another message at {last.sequence} than the others, and it has been read"
            )

    async def _check_bounds(self) -> None:
        """Check that the stream still holds the next message. Raises `LogBroken` or, while in doubt, `LogUnavailable`."""
        state: StreamBounds = await self._state()
        if state.last_seq < self._next - 1:
            raise self._broken(f"ends at {state.last_seq}, but {self._next - 1} has been read: it lost its end")
        if state.first_seq > self._next:
            if not self._begins_late:
                missing = f"records {self._next} to {state.first_seq - 1} are missing, or damaged"
                raise self._broken(f"begins at {state.first_seq}, but {self._next} has not been read: {missing}")
            self._next = state.first_seq
            self._handed = self._next - 1
            self._gap = 0
        elif self._gap:
            gap, self._gap = self._gap, 0
            missing = f"records {self._next} to {gap - 1} are missing, or damaged"
            raise self._broken(f"has a gap: after {self._next - 1} comes {gap}: {missing}")

    def _broken(self, how: str) -> LogError:
        """`LogBroken` with one server. With several it is `LogUnavailable` for a while: another of them may have the messages."""
        now = asyncio.get_running_loop().time()
        since, last = self._doubts or (now, now)
        self._doubts = (since if now - last < DOUBTED_AGAIN else now, now)
        if self._connection.several and now - self._doubts[0] < BEHIND_MOST:
            return LogUnavailable(f"{self._stream} {how}, says one of the servers")
        return LogBroken(f"{self._stream} {how}")

    async def _subscribe(self) -> None:
        self._generation += 1
        self._place = 1
        self._flow = None
        inbox = self._connection.new_inbox()
        try:
            self._subscription = await self._connection.listen(inbox, partial(self.receive, self._generation))
        except errors.Error as error:
            raise LogUnavailable(f"NATS is away: {error}") from error
        self._intact = True
        self._last_received = asyncio.get_running_loop().time()
        name = inbox.rpartition(".")[2]
        request = msgspec.json.encode({"stream_name": self._stream, "action": "create", "config": self._config(name, inbox)})
        try:
            answer = await self._connection.ask(f"$JS.API.CONSUMER.CREATE.{self._stream}.{name}", request)
            fault = _created.decode(answer.data).error
            if fault is not None:
                raise LogUnavailable(f"{self._stream}: {fault.description} ({fault.err_code})")
        except LogError:
            self._intact = False
            raise

    def _config(self, name: str, inbox: str) -> dict[str, Any]:
        return {
            "name": name,
            "deliver_subject": inbox,
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": self._next,
            "ack_policy": "none",
            "max_deliver": 1,
            "flow_control": True,
            "idle_heartbeat": int(HEARTBEAT * _NANOSECONDS),
            "inactive_threshold": int(FORGOTTEN_AFTER * _NANOSECONDS),
            "mem_storage": True,
            "num_replicas": 1,
        }

    def receive(self, generation: int, message: RawMessage) -> None:
        """Take in one delivery. The publisher chose the headers, so only the reply subject tells what it is."""
        if generation != self._generation or not self._intact:
            return
        self._last_received = asyncio.get_running_loop().time()
        reply = message.reply
        if not reply.startswith(_ACK_PREFIX):
            self._control(message)
            return
        tokens = reply.split(".")
        base = 5 if len(tokens) == _TOKENS_WITHOUT_DOMAIN else 7
        sequence = int(tokens[base])
        if int(tokens[base + 1]) != self._place:
            self._lose("a delivery was lost")
        elif sequence != self._next:
            self._gap = sequence if self._place == 1 else 0  # asked for the next one, the server has only a later one
            self._lose("a message is missing")
        elif len(self._buffer) >= self._buffer_messages:
            self._lose("the buffer is full")
        else:
            self._buffer.append(self._convert(sequence, message, int(tokens[base + 2])))
            self._next = sequence + 1
            self._place += 1
            self._doubts = None
            if self._wakeup.asleep:
                self._wakeup.ring()

    def _control(self, message: RawMessage) -> None:
        """Handle a heartbeat, or the server's question whether it may send more."""
        headers = message.headers
        delivered = headers.get("Nats-Last-Consumer")
        if delivered is not None and int(delivered) != self._place - 1:
            self._lose("a delivery was lost")
            return
        question = message.reply or headers.get("Nats-Consumer-Stalled")
        if question:
            self._flow = _Flow(self._next - 1, question)
            self._wakeup.ring()

    async def _release(self) -> None:
        """Let the server continue once what it sent before its question has been returned."""
        if self._flow is not None and self._handed >= self._flow.after:
            reply, self._flow = self._flow.reply, None
            with suppress(errors.Error):  # if it is lost, so is the connection, and with it the consumer
                await self._connection.publish(reply)

    def _lose(self, why: str) -> None:
        if self._intact:
            self._intact = False
            _log.info("reader_asks_again", stream=self._stream, after=self._next - 1, why=why)
            if self._wakeup.asleep:
                self._wakeup.ring()

    def _reconnected(self) -> None:
        self._lose("the server was away")
        if self._wakeup.asleep:
            self._wakeup.ring()

    async def _unsubscribe(self) -> None:
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            with suppress(errors.Error):
                await subscription.unsubscribe()
