"""The node's connection to the bus: receives orders and sends records, heartbeats and answers, as long as the executor runs.

Strategy: one reply inbox for the life of the connection, and a counter as token, instead of the client library's requests: a tenth of
their cost. Incoming messages are used only if they decode and name this node, because others may be able to publish to a known subject.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec
import structlog
from nats import errors

from headrace.client.nats_client import ReconnectingClient
from headrace.contracts.messages.orders import Heartbeat, LogsAnswer, LogsRequest, NodeAnswer, Orders
from headrace.contracts.messages.tokens import inbox_prefix
from headrace.contracts.transport import subjects
from headrace.contracts.transport.codec import Malformed, decode, encode
from headrace.contracts.transport.servers import ping_interval, servers
from headrace.contracts.transport.tls import tls_context
from headrace.node_executor.reporting.ledger import FactWriter, Unavailable, WrongLast

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.aio.msg import Msg

ANSWER_TIMEOUT, ANSWER_AMONG = 3.0, 1.0
"""Seconds that an answer may take; less if there are several servers: what is asked while they have no leader is never answered."""
CONNECT_TIMEOUT = 2.0
RECONNECT_WAIT = 0.1

T = TypeVar("T")
Handler = Callable[["Msg"], Coroutine[Any, Any, None]]

_EXPECTED = "Nats-Expected-Last-Subject-Sequence"
_WRONG_LAST = 10071
_LAST = re.compile(r"wrong last sequence: (\d+)")
_NO_RESPONDERS = "503"
_NOT_LET_IN = "authorization violation"

_log = structlog.get_logger("headrace.node_executor")


class Address(NamedTuple):
    """Address of the bus, and this node's name there."""

    url: str
    user: str = ""
    password: str = ""


class BusListener(NamedTuple):
    """Callbacks for incoming messages; all are called in the loop."""

    pushed: Callable[[Orders], None]
    answered: Callable[[NodeAnswer], None]
    returned: Callable[[], None]
    logs: Callable[[LogsRequest], LogsAnswer]


class LinkTimings(NamedTuple):
    """Seconds between heartbeats, between questions, and of silence after which the node may have been declared lost (R32)."""

    heartbeat: float = 5.0
    ask: float = 15.0
    silence: float = 15.0


class _AckError(msgspec.Struct):
    err_code: int = 0
    description: str = ""


class _Ack(msgspec.Struct):
    seq: int = 0
    error: _AckError | None = None


class Link:
    """The connection of one node; its `FactWriter` uses `append` and `ask`. `dial` makes a client that is not connected yet."""

    def __init__(
        self, node: str, address: Address, pace: LinkTimings, now: Callable[[], int], dial: Callable[[], Client] | None = None
    ) -> None:
        self.was_answered = False
        """True once the feed has answered what is to run here."""
        self._node = node
        self._address = address
        self._patience = ANSWER_AMONG if len(servers(address.url)) > 1 else ANSWER_TIMEOUT
        self._pace = pace
        self._now = now
        self._dial = dial or ReconnectingClient
        self._client: Client | None = None
        self._inbox = ""
        self._asked = 0
        self._unanswered: dict[str, asyncio.Future[Msg]] = {}
        self._ask_now = asyncio.Event()
        self._last_push = 0
        self._heard_at = 0.0

    async def run(self, listener: BusListener, ledger: FactWriter, running: Callable[[], int]) -> None:
        """Connect, however long it takes, then serve until cancelled."""
        self._heard_at = asyncio.get_running_loop().time()
        await self._connect(listener, ledger)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._keep_asking(listener, ledger))
                tasks.create_task(self._keep_beating(listener, ledger, running))
                tasks.create_task(ledger.run())
        finally:
            await self._close()

    # Requests of `ledger.FactWriter` (`ledger.LedgerConnection`)

    async def append(self, payload: bytes, expected: int) -> int:
        """Store a record behind the one with sequence `expected`. Raises `Unavailable`, `WrongLast`."""
        subject = subjects.ledger(subjects.node_writer(self._node))
        message = await self._request(subject, payload, {_EXPECTED: str(expected)})
        ack = _decoded(message, _Ack)
        if ack.error is None and ack.seq > 0:
            return ack.seq
        error = ack.error or _AckError()
        last = _LAST.search(error.description)
        if error.err_code == _WRONG_LAST and last is not None:
            raise WrongLast(int(last[1]))
        raise Unavailable(f"the ledger refuses the record: {error.description or 'no sequence came back'}")

    async def ask(self) -> NodeAnswer:
        """Ask the feed for its state of this node. Raises `Unavailable`."""
        answer = _decoded(await self._request(subjects.node_query(self._node), b""), NodeAnswer)
        if answer.node != self._node:
            raise Unavailable(f"the answer is about node {answer.node}")
        return answer

    @property
    def is_connected(self) -> bool:
        """True while connected to the bus."""
        return self._client is not None and self._client.is_connected

    async def publish(self, kind: str, payload: bytes) -> None:
        """Publish telemetry of this kind to current listeners; lost while the bus is away."""
        client = self._client
        if client is not None and client.is_connected:
            with contextlib.suppress(errors.Error):
                await client.publish(subjects.telemetry(self._node, kind), payload)

    # Connecting

    async def _connect(self, listener: BusListener, ledger: FactWriter) -> None:
        waiting = ""
        while True:
            try:
                client = self._dial()
                await client.connect(
                    servers(self._address.url),
                    name=f"node {self._node}",
                    user=self._address.user or None,
                    password=self._address.password or None,
                    tls=tls_context(self._address.url),
                    inbox_prefix=inbox_prefix(self._address.user, self._address.password),
                    error_cb=self._complained,
                    disconnected_cb=self._lost,
                    reconnected_cb=self._back,
                    allow_reconnect=False,  # until the first connection: otherwise the library hides why it fails
                    connect_timeout=CONNECT_TIMEOUT,  # type: ignore[arg-type]  # nats-py counts any seconds
                    reconnect_time_wait=RECONNECT_WAIT,  # type: ignore[arg-type]
                    ping_interval=ping_interval(self._address.url),  # type: ignore[arg-type]  # the same
                )
                self._client = client
                break
            except (OSError, TimeoutError, errors.Error) as error:
                reason = str(error) or type(error).__name__
                if reason != waiting:
                    _log.warning("bus_awaited", url=self._address.url, reason=reason, **self._way_out(reason))
                waiting = reason
                await asyncio.sleep(2 * RECONNECT_WAIT)
        client.options["allow_reconnect"] = True
        client.options["max_reconnect_attempts"] = -1
        self._inbox = f"{client.new_inbox()}."
        await client.subscribe(f"{self._inbox}*", cb=self._answer_came)
        await client.subscribe(subjects.orders(self._node), cb=self._orders_to(listener, ledger))
        await client.subscribe(subjects.node_logs(self._node), cb=self._logs_from(listener))
        _log.info("connected", url=self._address.url, node=self._node)

    def _way_out(self, reason: str) -> dict[str, str]:
        """Fields for the log that help if the bus refuses this node, which it does without a reason."""
        if _NOT_LET_IN not in reason.lower():
            return {}
        return {
            "help": (
                f"its token has ended or is revoked (`headrace token list`), or the node is excluded for what it wrote (`headrace nodes` "
                f"says why, `headrace node uncordon {self._node}` lets it in); it tries again by itself"
            )
        }

    async def _close(self) -> None:
        if self._client is not None:
            with contextlib.suppress(errors.Error, TimeoutError, OSError):
                await asyncio.wait_for(self._client.close(), CONNECT_TIMEOUT)

    async def _lost(self) -> None:
        _log.warning("bus_lost", url=self._address.url)
        for future in self._unanswered.values():
            if not future.done():
                future.set_exception(Unavailable("the bus went away before it answered"))

    async def _back(self) -> None:
        _log.info("bus_back", url=self._address.url)
        self._ask_now.set()

    async def _complained(self, error: Exception) -> None:
        _log.info("bus_complains", complaint=str(error) or type(error).__name__)

    # Questions and heartbeats

    def ask_now(self) -> None:
        """Ask at once what should run here."""
        self._ask_now.set()

    async def _keep_asking(self, listener: BusListener, ledger: FactWriter) -> None:
        former_facts_stored = await ledger.former_facts_stored()
        while True:
            self._ask_now.clear()
            try:
                answer = await self.ask()
            except Unavailable as error:
                _log.debug("no_answer", reason=str(error))
                await asyncio.sleep(10 * RECONNECT_WAIT)
                continue
            if answer.last_record < former_facts_stored:  # the feed has not read yet what ended here under a former executor
                await asyncio.sleep(RECONNECT_WAIT)
                continue
            self.was_answered = True
            ledger.heard(answer)
            listener.answered(answer)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ask_now.wait(), self._pace.ask)

    async def _keep_beating(self, listener: BusListener, ledger: FactWriter, running: Callable[[], int]) -> None:
        subject = subjects.telemetry(self._node, "heartbeat")
        while True:
            client = self._client
            if client is None or client.is_closed:  # the server disconnected this node, perhaps while its credentials changed
                await self._connect(listener, ledger)
            elif client.is_connected:
                beat = Heartbeat(node=self._node, at=self._now(), running=running(), last_record=ledger.last_record)
                with contextlib.suppress(errors.Error):
                    await client.publish(subject, encode(beat))
                self._beaten(listener)
            await asyncio.sleep(self._pace.heartbeat)

    def _beaten(self, listener: BusListener) -> None:
        """Note a heartbeat; if it comes long after the one before, the node may have been declared lost meanwhile."""
        now = asyncio.get_running_loop().time()
        silent, self._heard_at = now - self._heard_at, now
        if silent > max(self._pace.silence, 2 * self._pace.heartbeat):
            _log.warning("was_silent", seconds=round(silent, 1))
            listener.returned()
            self._ask_now.set()

    async def _request(self, subject: str, payload: bytes, headers: Mapping[str, str] | None = None) -> Msg:
        client = self._client
        if client is None or not client.is_connected:
            raise Unavailable("the bus is away")
        self._asked += 1
        token = str(self._asked)
        future: asyncio.Future[Msg] = asyncio.get_running_loop().create_future()
        self._unanswered[token] = future
        try:
            await client.publish(subject, payload, reply=self._inbox + token, headers=dict(headers) if headers else None)
            async with asyncio.timeout(self._patience):
                message = await future
        except TimeoutError:
            raise Unavailable(f"no answer on {subject} within {self._patience:g} s") from None
        except errors.Error as error:
            raise Unavailable(f"the bus is away: {error}") from None
        finally:
            del self._unanswered[token]
        if message.headers and not message.data and message.headers.get("Status") == _NO_RESPONDERS:
            raise Unavailable(f"{subject} has no subscriber")
        return message

    async def _answer_came(self, message: Msg) -> None:
        future = self._unanswered.get(message.subject[len(self._inbox) :])
        if future is not None and not future.done():
            future.set_result(message)

    # Incoming messages

    def _orders_to(self, listener: BusListener, ledger: FactWriter) -> Handler:
        async def hear(message: Msg) -> None:
            try:
                orders = decode(message.data, Orders)
            except Malformed as error:
                _log.warning("orders_unreadable", reason=str(error))
                return
            if orders.node != self._node:
                _log.warning("orders_for_another", node=orders.node)
                return
            if orders.number != self._last_push + 1:
                self._ask_now.set()
            self._last_push = orders.number
            ledger.as_of = max(ledger.as_of, orders.through)
            listener.pushed(orders)

        return hear

    def _logs_from(self, listener: BusListener) -> Handler:
        async def hear(message: Msg) -> None:
            try:
                answer = listener.logs(decode(message.data, LogsRequest))
            except Malformed as error:
                answer = LogsAnswer(ended=True, error=str(error))
            with contextlib.suppress(errors.Error):
                try:
                    await message.respond(encode(answer))
                except errors.MaxPayloadError:
                    await message.respond(
                        encode(LogsAnswer(ended=True, error="the piece is too long; ask with a smaller limit"))
                    )

        return hear


def _decoded(message: Msg, kind: type[T]) -> T:
    try:
        return decode(message.data, kind)
    except Malformed as error:
        raise Unavailable(f"the answer cannot be read: {error}") from None
