"""The path of users' submissions into SUBMIT: each is published again without its headers, and the stream's answer is returned.

Strategy: a stream obeys the headers of its publishers (an expected sequence, a message id), whose answers show what other tenants have
published, and the server cannot be configured to ignore them. So users publish to subjects outside of all streams (`subjects.intake`).
Every instance of the services that run this subscribes in one queue group: each message reaches one instance, and one running instance is
enough. Nothing is acknowledged that the stream has not acknowledged, and nothing is judged here; *admission* does that.

A few messages are in flight to the stream at a time; the rest wait in a queue per tenant, so a tenant that floods delays itself. A second
connection of the process carries all of it, so that a flood does not reach the first one, on which the service reads the ledger.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from nats import errors

from headrace.bus.log import LogRefused, LogUnavailable
from headrace.bus.process import second_connection
from headrace.contracts.transport.subjects import SUBMIT_STREAM, awaits_answer, from_intake, intake
from headrace.nats_client.acknowledgement import TOO_MANY_REQUESTS, Acknowledgement
from headrace.service.concurrency_limit import LimitReached
from headrace.service.hosting import Part
from headrace.service.lines import BoundedQueues
from headrace.service.task_group import run_until_first_ends

if TYPE_CHECKING:
    from headrace.bus.process import Service
    from headrace.health.metrics import MetricSources
    from headrace.nats_client.connection import Connection
    from headrace.nats_client.raw_message import RawMessage
    from headrace.service.hosting import LedgerFollower, Work

QUEUE = "intake"
SUBJECTS = intake("hr.>")

UNDER_WAY_MAX = 64
"""Maximum number of messages in flight: enough to keep the stream busy, few enough to be stored within seconds on a slow disk."""
WAITING_MAX, WAITING_BYTES = 16_384, 64 * 1024 * 1024
"""Maximum number of messages, and of their bytes, that wait to be sent to the stream; half of either for one tenant."""
ENDS_WITHIN = 2.0
"""Seconds in which an instance that stops finishes what it has received."""

STORED = msgspec.json.encode({"stream": SUBMIT_STREAM, "seq": 1})
"""The answer to a user for a stored message. The true `seq` would tell how much other tenants submit; clients need a positive number."""
UNHEARD = {"Status": "503"}
"""Header of an empty answer that means "no responders". Clients try again, as if the server itself had sent it."""

_ack = msgspec.json.Decoder(Acknowledgement)


class _Answer(NamedTuple):
    data: bytes
    headers: dict[str, str] | None = None


class Intake:
    """One instance, on a connection of its own."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lines = BoundedQueues[tuple[str, str, bytes]](WAITING_MAX, WAITING_BYTES)
        self._under_way = 0
        self._doing: set[asyncio.Task[None]] = set()
        self._refused = 0

    def show(self, metrics: MetricSources) -> None:
        """Register the metrics of the intake."""
        metrics.gauge(
            "headrace_intake_waiting_wishes", "number of submissions that wait to be stored", lambda: len(self._lines)
        )
        metrics.counter(
            "headrace_intake_refused_total", "number of submissions refused because the queue was full", lambda: self._refused
        )

    async def run(self) -> None:
        """Publish again what arrives, until cancelled; then finish what has arrived.

        Raises LogUnavailable if NATS closes the connection.
        """
        subscription = await self._connection.listen(SUBJECTS, self.take, QUEUE)
        try:
            await self._connection.closed_for_good.wait()
            raise LogUnavailable("the NATS server has closed the connection of the intake for good")
        finally:
            with suppress(errors.Error, TimeoutError):
                async with asyncio.timeout(ENDS_WITHIN):
                    await subscription.drain()  # type: ignore[no-untyped-call]
                    while self._doing:
                        await asyncio.wait(self._doing)

    def take(self, message: RawMessage) -> None:
        """Queue a message. Messages whose reply subject is not a client's inbox are dropped."""
        if message.reply and not awaits_answer(message.reply):
            return
        subject = from_intake(message.subject)
        try:
            self._lines.put(subject.split(".", 3)[2], (subject, message.reply, message.data), len(message.data))
        except LimitReached:
            self._refused += 1
            if message.reply:
                self._do(self._reply(message.reply, _BUSY))
        else:
            self._go_on()

    def _go_on(self) -> None:
        while len(self._lines) and self._under_way < UNDER_WAY_MAX:
            self._under_way += 1
            self._do(self._forward(*self._lines.take()))

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._doing.add(task)
        task.add_done_callback(self._doing.discard)

    async def _forward(self, subject: str, reply: str, payload: bytes) -> None:
        try:
            answer = await self._stored(subject, payload)
        finally:
            self._under_way -= 1
            self._go_on()
        await self._reply(reply, answer)

    async def _stored(self, subject: str, payload: bytes) -> _Answer:
        """Publish without headers; returns the answer for the user."""
        try:
            answer = (await self._connection.ask(subject, payload)).data
            ack = _ack.decode(answer)
        except LogRefused as refusal:
            return _fault(400, 10_003, str(refusal))
        except (LogUnavailable, msgspec.DecodeError):
            return _Answer(b"", UNHEARD)
        if ack.error is not None:
            return _Answer(answer)
        return _Answer(STORED) if ack.seq else _Answer(b"", UNHEARD)

    async def _reply(self, reply: str, answer: _Answer) -> None:
        if reply:
            with suppress(errors.Error):  # the connection closed meanwhile: the client asks again
                await self._connection.publish(reply, answer.data, headers=answer.headers)


def _fault(code: int, number: int, description: str) -> _Answer:
    """A refusal in the format of JetStream."""
    fault = {"code": code, "err_code": number, "description": description}
    return _Answer(msgspec.json.encode({"error": fault, "stream": SUBMIT_STREAM, "seq": 0}))


_BUSY = _fault(429, TOO_MANY_REQUESTS, "too many requests")


def with_intake(part: Part) -> Part:
    """The same service with the intake beside it, whether or not the instance leads."""

    async def prepare(service: Service, follower: LedgerFollower) -> Work:
        work = await part.prepare(service, follower)

        async def both() -> None:
            await run_until_first_ends(_take_in(service), work())

        return both

    return part._replace(prepare=prepare)


async def _take_in(service: Service) -> None:
    connection = await second_connection(service, QUEUE)
    try:
        intake_here = Intake(connection)
        intake_here.show(service.health.metrics)
        await intake_here.run()
    finally:
        await connection.close()
