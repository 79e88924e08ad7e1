"""The feed on the bus: follows the ledger, pushes orders to nodes, then tells tenants, and answers who asks.

Strategy: what a node waits for goes first. A batch of records is folded, its orders are on the wire, and only then are its facts made into
FEED messages, which another task publishes; nothing is awaited for a single fact. A feed that comes up folds the whole ledger in
silence, tells nodes what they may have missed while there was no feed, and goes on with FEED behind the last message it holds; an
empty FEED (the server has restarted, it is in memory) begins with now.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import msgspec
import structlog
from nats import errors

from headrace.archive.history import ARCHIVE, WholeLedger
from headrace.bus.jetstream import JetStreamLog
from headrace.bus.log import Log, LogUnavailable, Message
from headrace.bus.logtime import LogTime
from headrace.bus.loop import follow, steady_clock
from headrace.bus.process import Service, settle
from headrace.bus.sealing import KEYS, Keyring
from headrace.bus.telemetry import span
from headrace.contracts.codec import MESSAGE_BYTES_MAX, Malformed, decode, encode
from headrace.contracts.durations import SECOND
from headrace.contracts.facts import JobAdmittedV1
from headrace.contracts.ids import is_token
from headrace.contracts.implied import spelled_out
from headrace.contracts.orders import Orders, StartOrder
from headrace.contracts.queries import ServiceView
from headrace.contracts.subjects import FEED_STREAM, LEDGER_STREAM, node_query, orders, telemetry
from headrace.feed import orders as node_orders
from headrace.feed.counted import Counted, Standing
from headrace.feed.counted import show as show_installation
from headrace.feed.facts_out import Place, Projector
from headrace.feed.heads import Heads
from headrace.feed.outlet import Outlet
from headrace.feed.texts import Open, Texts
from headrace.service.answering import serve, status
from headrace.service.fold import LedgerFold, wall_clock
from headrace.service.snapshots import Snapshots, beginning
from headrace.service.together import together
from headrace.service.watched import Following, watch_fold
from headrace.views.history import History
from headrace.views.queries import Queries, Sources
from headrace.views.roster import Roster, jobs_of
from headrace.views.stories import tell_stories

if TYPE_CHECKING:
    from nats.aio.msg import Msg

    from headrace.bus.connection import Connection
    from headrace.contracts.records import Record
    from headrace.domain.state import State
    from headrace.health.health import Health
    from headrace.views.roster import Changes

T = TypeVar("T")

BATCH = 100
"""Records folded before their orders go out."""
STARTS_AT_ONCE = 50
"""Starts in one push, so that with the largest texts it still fits in a message."""
HEADS_EVERY = 0.25
RETRY = 0.5
FIRST = Place(0, 0)

_log = structlog.get_logger("headrace.feed")


class Told(NamedTuple):
    """A record that has been folded, for FEED."""

    record: Record
    sequence: int
    changes: Changes


class Feed:
    """The feed over one ledger and one connection. `open_sealed` opens a job's text; `clock`: microseconds since 1970."""

    def __init__(
        self,
        connection: Connection,
        ledger: Log,
        feed: Log,
        open_sealed: Open,
        clock: Callable[[], int] = wall_clock,
        *,
        snapshots: Snapshots | None = None,
        state: State | None = None,
    ) -> None:
        self.fold = LedgerFold(state)
        self.outlet = Outlet(connection)
        self.caught_up = asyncio.Event()
        state = self.fold.state
        self._connection = connection
        self._snapshots = snapshots
        self._ledger = ledger
        self._feed = feed
        self._clock = clock
        self._time = LogTime(clock, steady_clock)
        self._texts = Texts(ledger, open_sealed)
        self._roster = Roster(state)
        self._history = History()
        self._heads = Heads(state, self._roster)
        self._counted = Counted(state)
        self._heads_at = 0
        self._projector = Projector(state)
        self._place = FIRST
        self._pushes: dict[str, int] = {}
        self._heard: dict[str, int] = {}

    async def run(self) -> None:
        """Work until cancelled. Raises `LogBroken`, `LogRefused`: the process has to stop."""
        stories = tell_stories(self._history, self.fold.state, self.fold.sequence, self._ledger, self._snapshots)
        await together(self._follow(), self.outlet.run(), stories)

    async def _follow(self) -> None:
        """Fold what is in the ledger in silence, then whatever comes."""
        tip = await _patiently(self._ledger.tip)
        self._place = await resume_at(self._feed, tip)
        if self.fold.sequence >= tip:
            await self._at_tip()
        async for batch in follow(self._ledger, self.fold.sequence, BATCH, HEADS_EVERY):
            await self._take(batch)
            if not self.caught_up.is_set() and self.fold.sequence >= tip:
                await self._at_tip()
            await asyncio.sleep(0)

    async def _take(self, batch: list[Message]) -> None:
        """Fold a batch; its orders first, its facts after, the heads of the queues now and then."""
        news = node_orders.News()
        told = [note for message in batch if (note := self._note(message, news)) is not None]
        if self.caught_up.is_set():
            await self._push(news)
        for record, sequence, changes in told:
            self._tell(record, sequence, changes)
        if self.caught_up.is_set() and not 0 <= self._clock() - self._heads_at < HEADS_EVERY * SECOND:
            self._tell_heads()

    def _note(self, message: Message, news: node_orders.News) -> Told | None:
        """Fold one message, and note whom it concerns."""
        record = self.fold.read(message)
        if record is None:
            return None
        jobs = jobs_of(record)
        changes = self._roster.note(record, jobs)
        self._history.note(jobs, message.sequence)
        self._heads.touch(changes.queues)
        live = self.caught_up.is_set()
        for _, fact in spelled_out(record.facts):
            news.note(fact, message.sequence)
            if live:
                self._counted.note(fact)
            if isinstance(fact, JobAdmittedV1):
                self._texts.keep(fact.job, fact.text)
        for key in changes.ended:
            self._texts.drop(key)
        return Told(record, message.sequence, changes)

    def _tell(self, record: Record, sequence: int, changes: Changes) -> None:
        if sequence < self._place.sequence:
            self._projector.skip(record)
            return
        messages = self._projector.messages(record, sequence, changes.started)
        if sequence == self._place.sequence:
            messages = [message for message in messages if message.number > self._place.number]
        self.outlet.put(messages)

    def _tell_heads(self) -> None:
        self._heads_at = self._clock()
        now = max(self.fold.now, self._heads_at)
        self.outlet.put(self._projector.head(queue, head, now) for queue, head in self._heads.changes(now))

    async def _at_tip(self) -> None:
        """All that was in the ledger is folded: be there for others from now on."""
        settle()
        self._projector.resume(self._place)
        self.caught_up.set()
        await self._push(node_orders.unconfirmed(self.fold.state))
        self._tell_heads()
        sources = Sources(
            self.fold.state,
            self._roster,
            self._history,
            self._ledger,
            self._connection,
            self._heard,
            self._clock,
            self._snapshots,
        )
        handlers = Queries(sources).handlers() | {"status": lambda _tenant, _user, _payload: self.status()}
        await self._connection.subscribe(telemetry("*", "heartbeat"), cb=self._hear)
        await self._connection.subscribe(node_query("*"), cb=self._answer_node)
        await serve(self._connection, "feed", self.fold, handlers)
        _log.info("caught_up", sequence=self.fold.sequence, feed_after=self._place.sequence)

    async def _push(self, news: node_orders.News) -> None:
        """Tell nodes. A push that does not arrive is made good when the node asks."""
        if not news:
            return
        sealed = await self._texts.of(node_orders.to_start(self.fold.state, news))
        told = node_orders.tell(self.fold.state, news, self._opened(sealed))
        try:
            for node, what in told.items():
                for start in range(0, max(1, len(what.starts)), STARTS_AT_ONCE):
                    starts = tuple(_traced(order, node) for order in what.starts[start : start + STARTS_AT_ONCE])
                    stops = tuple(what.stops) if start == 0 else ()
                    number = self._pushes[node] = self._pushes.get(node, 0) + 1
                    push = Orders(node=node, number=number, through=self.fold.sequence, starts=starts, stops=stops)
                    await self._connection.publish(orders(node), encode(push))
        except errors.Error as error:
            _log.warning("orders_lost", reason=str(error), help="the nodes will ask for what they should be running")
        await asyncio.sleep(0)  # the connection writes when it gets its turn

    def _opened(self, sealed: dict[str, str]) -> node_orders.TextOf:
        return lambda job: self._texts.open(job, sealed[job.key])

    async def _answer_node(self, message: Msg) -> None:
        """A node asks for all it should be running; which node, its subject says."""
        node = message.subject.rpartition(".")[2]
        if not message.reply or not is_token(node):
            return
        now = await self._log_time()
        state, sealed = self.fold.state, dict[str, str]()
        while missing := [job for job in node_orders.jobs_on(state, node) if job.key not in sealed]:
            sealed |= await self._texts.of(missing)  # meanwhile more may have been granted
        opened = self._opened(sealed)
        payload = encode(node_orders.answer(state, node, opened, now))
        if len(payload) > MESSAGE_BYTES_MAX:
            _log.warning("answer_too_large", node=node, bytes=len(payload), help="texts of jobs that run already are left out")
            payload = encode(node_orders.answer(state, node, lambda job: None if job.started_at else opened(job), now))
        try:
            await self._connection.publish(message.reply, payload)
        except errors.Error as error:
            _log.error("answer_lost", node=node, reason=str(error))

    async def _log_time(self) -> int:
        """The log's time, for nodes to hold their clocks against; 0 where the log does not say."""
        if self._time.unsure:
            try:
                self._time.answered(await self._ledger.now())
            except LogUnavailable:
                return 0
        return max(self.fold.now, self._time.now())

    async def _hear(self, message: Msg) -> None:
        """A heartbeat, of whom its subject names."""
        node = message.subject.split(".")[2]
        if node in self.fold.state.nodes:
            self._heard[node] = self._clock()

    def show(self, health: Health) -> None:
        """Let be seen how it is, and how the installation is."""
        following = Following(lambda: self.fold.sequence, lambda: self.fold.now, self._ledger.tip, self.caught_up.is_set)
        watch_fold(health, following, self.fold)
        figures, outlet = health.figures, self.outlet
        figures.counter("headrace_order_pushes_total", "messages of orders to nodes", lambda: sum(self._pushes.values()))
        figures.counter("headrace_feed_published_total", "messages published on FEED", lambda: outlet.published)
        figures.counter("headrace_feed_dropped_total", "messages that FEED never got: it was too slow", lambda: outlet.dropped)
        figures.gauge("headrace_feed_waiting_messages", "messages that wait for FEED", lambda: outlet.waiting)
        standing = Standing(self.fold.state, self._roster, self._heads, self._heard)
        show_installation(figures, self._counted, standing, self._clock)

    def status(self) -> ServiceView:
        """How the feed is: how far it has folded, what it has said, and what waits to be said."""
        detail = {
            "pushes": sum(self._pushes.values()),
            "feed_published": self.outlet.published,
            "feed_waiting": self.outlet.waiting,
            "feed_dropped": self.outlet.dropped,
        }
        view = status("feed", self.fold)
        return msgspec.structs.replace(view, detail=view.detail | detail)


async def resume_at(feed: Log, tip: int) -> Place:
    """Behind what FEED goes on: its last message; the ledger's tip where it holds none, or one of another ledger."""
    end = await _patiently(feed.tip)
    last = await _patiently(lambda: feed.get(end)) if end else None
    try:
        place = decode(last.payload, Place) if last is not None else None
    except Malformed:
        place = None
    if place is None or place.sequence > tip:
        return Place(tip + 1, 0)
    return place


def _traced(order: StartOrder, node: str) -> StartOrder:
    """The order inside the job's trace, where anybody records traces."""
    with span("feed.order", order.trace, job=order.job, node=node) as traced:
        if traced.traceparent == order.trace:
            return order
        return msgspec.structs.replace(order, trace=traced.traceparent)


async def _patiently(question: Callable[[], Awaitable[T]]) -> T:
    while True:
        try:
            return await question()
        except LogUnavailable as error:
            _log.warning("log_awaited", reason=str(error))
            await asyncio.sleep(RETRY)


async def main(service: Service) -> None:
    """Run until cancelled."""
    ledger = WholeLedger(JetStreamLog(service.connection, LEDGER_STREAM), service.data / ARCHIVE)
    feed = JetStreamLog(service.connection, FEED_STREAM)
    snapshots = Snapshots.over(service.connection, ledger)
    place = await resume_at(feed, await _patiently(ledger.tip))
    state = await beginning(snapshots, place.sequence - 1)
    texts = Keyring(service.data / KEYS)
    telling = Feed(service.connection, ledger, feed, texts.open, snapshots=snapshots, state=state)
    telling.show(service.health)
    await telling.run()
