"""The node's connection to the bus: receives orders and sends records, heartbeats and answers, as long as the executor runs.

Incoming messages are used only if they decode and name this node, because others may be able to publish to a known subject.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, NamedTuple

import structlog
from nats import errors

from headrace.contracts.messages.orders import Heartbeat, LogsRequest, NodeAnswer, Orders
from headrace.contracts.messages.queries import LogsAnswer
from headrace.contracts.transport import subjects
from headrace.contracts.transport.codec import Malformed, decode, encode
from headrace.nats_client.append import append
from headrace.nats_client.connection import Address, Connection, Observer, is_refused
from headrace.nats_client.errors import LogError, LogUnavailable, WrongLast
from headrace.node_executor.reporting.ledger import FactWriter

if TYPE_CHECKING:
    from nats.aio.msg import Msg

    from headrace.nats_client.raw_message import Listener, RawMessage

CLOSE_WITHIN = 2.0
CONNECT_AGAIN = 0.2
REFUSED_AGAIN_MAX = 5.0
"""Seconds after which a connection is tried again while the bus is away, and at most while the bus refuses the login: the pause doubles."""
ASK_AGAIN, ASK_AGAIN_SOON = 1.0, 0.1
"""Seconds until the feed is asked again if it did not answer, and if it has not read yet what ended here."""

Handler = Callable[["Msg"], Coroutine[Any, Any, None]]

_log = structlog.get_logger("headrace.node_executor")


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


class _Logged(Observer):
    def __init__(self, url: str) -> None:
        self._url = url

    def lost(self, server: str) -> None:
        _log.warning("bus_lost", url=server or self._url)

    def back(self, server: str) -> None:
        _log.info("bus_back", url=server)

    def closed(self) -> None:
        self.lost("")

    def complained(self, complaint: str) -> None:
        _log.info("bus_complains", complaint=complaint)


class Link:
    """The connection of one node; its `FactWriter` uses `append` and `ask`. `dial` makes a connection that is not open yet."""

    def __init__(
        self,
        node: str,
        address: Address,
        pace: LinkTimings,
        now: Callable[[], int],
        dial: Callable[[Observer], Connection] = Connection,
    ) -> None:
        self.was_answered = False
        """True once the feed has answered what is to run here."""
        self._node = node
        self._address = address
        self._pace = pace
        self._now = now
        self._dial = dial
        self._connection: Connection | None = None
        self._ask_now = asyncio.Event()
        self._last_push = 0
        self._last_beat_at = 0.0

    async def run(self, listener: BusListener, ledger: FactWriter, running: Callable[[], int]) -> None:
        """Connect, however long it takes, then serve until cancelled."""
        self._last_beat_at = asyncio.get_running_loop().time()
        await self._connect(listener, ledger)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self.keep_asking(listener, ledger))
                tasks.create_task(self._keep_beating(listener, ledger, running))
                tasks.create_task(ledger.run())
        finally:
            await self._close()

    # Requests of `ledger.FactWriter` (`ledger.LedgerConnection`)

    async def append(self, payload: bytes, expected: int) -> int:
        """Store a record behind the one with sequence `expected`. Raises `LogError`, `WrongLast`."""
        try:
            return await append(self._open(), subjects.ledger(subjects.node_writer(self._node)), payload, expected)
        except WrongLast as error:
            if error.last is None:
                raise LogUnavailable(str(error)) from None
            raise

    async def ask(self) -> NodeAnswer:
        """Ask the feed for its state of this node. Raises `LogError`."""
        message = await self._open().ask(subjects.node_query(self._node))
        try:
            answer = decode(message.data, NodeAnswer)
        except Malformed as error:
            raise LogUnavailable(f"the answer cannot be read: {error}") from None
        if answer.node != self._node:
            raise LogUnavailable(f"the answer is about node {answer.node}")
        return answer

    def _open(self) -> Connection:
        if self._connection is None:
            raise LogUnavailable("the bus is away")
        return self._connection

    @property
    def is_connected(self) -> bool:
        """True while connected to the bus."""
        return self._connection is not None and self._connection.is_connected

    async def publish(self, kind: str, payload: bytes) -> None:
        """Publish telemetry of this kind to current listeners; lost while the bus is away."""
        connection = self._connection
        if connection is not None and connection.is_connected:
            with contextlib.suppress(errors.Error):
                await connection.publish(subjects.telemetry(self._node, kind), payload)

    # Connecting

    async def _connect(self, listener: BusListener, ledger: FactWriter) -> None:
        waiting, pause = "", CONNECT_AGAIN
        while True:
            connection = self._dial(_Logged(self._address.url))
            try:
                await connection.open(self._address, f"node {self._node}")
                break
            except (OSError, TimeoutError, errors.Error) as error:
                reason = str(error) or type(error).__name__
                if reason != waiting:
                    _log.warning("bus_awaited", url=self._address.url, reason=reason, **self._way_out(reason))
                waiting, pause = reason, min(2 * pause, REFUSED_AGAIN_MAX) if is_refused(error) else CONNECT_AGAIN
                await asyncio.sleep(pause)
        self._connection = connection
        connection.watch(self._ask_now.set)
        await connection.listen(subjects.orders(self._node), self._orders_to(listener, ledger))
        await connection.subscribe(subjects.node_logs(self._node), cb=self._logs_from(listener))
        _log.info("connected", url=self._address.url, node=self._node)

    def _way_out(self, reason: str) -> dict[str, str]:
        """Fields for the log that help if the bus refuses this node, which it does without a reason."""
        if not is_refused(reason):
            return {}
        return {
            "help": (
                f"its token has ended or is revoked (`headrace token list`), or the node is excluded for what it wrote (`headrace nodes` "
                f"says why, `headrace node uncordon {self._node}` lets it in); it tries again by itself"
            )
        }

    async def _close(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(errors.Error, TimeoutError, OSError):
                await asyncio.wait_for(self._connection.close(), CLOSE_WITHIN)

    # Questions and heartbeats

    def ask_now(self) -> None:
        """Ask at once what should run here."""
        self._ask_now.set()

    async def keep_asking(self, listener: BusListener, ledger: FactWriter) -> None:
        former_facts_stored = await ledger.former_facts_stored()
        while True:
            self._ask_now.clear()
            asked_at = asyncio.get_running_loop().time()
            try:
                answer = await self.ask()
            except LogError as error:
                _log.debug("no_answer", reason=str(error))
                await asyncio.sleep(ASK_AGAIN)
                continue
            if answer.last_record < former_facts_stored:  # the feed has not read yet what ended here under a former executor
                await asyncio.sleep(ASK_AGAIN_SOON)
                continue
            self.was_answered = True
            ledger.take_answer(answer, asked_at)
            listener.answered(answer)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ask_now.wait(), self._pace.ask)

    async def _keep_beating(self, listener: BusListener, ledger: FactWriter, running: Callable[[], int]) -> None:
        subject = subjects.telemetry(self._node, "heartbeat")
        while True:
            connection = self._connection
            if (
                connection is None or connection.is_closed
            ):  # the server disconnected this node, perhaps while its credentials changed
                await self._connect(listener, ledger)
            elif connection.is_connected:
                beat = Heartbeat(node=self._node, at=self._now(), running=running(), last_record=ledger.last_record)
                with contextlib.suppress(errors.Error):
                    await connection.publish(subject, encode(beat))
                self._beaten(listener)
            await asyncio.sleep(self._pace.heartbeat)

    def _beaten(self, listener: BusListener) -> None:
        """Note a heartbeat; if it comes long after the one before, the node may have been declared lost meanwhile."""
        now = asyncio.get_running_loop().time()
        silent, self._last_beat_at = now - self._last_beat_at, now
        if silent > max(self._pace.silence, 2 * self._pace.heartbeat):
            _log.warning("was_silent", seconds=round(silent, 1))
            listener.returned()
            self._ask_now.set()

    # Incoming messages

    def _orders_to(self, listener: BusListener, ledger: FactWriter) -> Listener:
        def receive(message: RawMessage) -> None:
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

        return receive

    def _logs_from(self, listener: BusListener) -> Handler:
        async def receive(message: Msg) -> None:
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

        return receive
