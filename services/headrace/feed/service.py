"""The feed on the bus: follows the ledger, sends orders to nodes, publishes facts to tenants, and answers queries.

Strategy: what a node waits for goes first. A batch of records is folded, its orders are sent, and only then are its facts made into FEED
messages, which another task publishes; no single fact is awaited. A feed that starts folds the whole ledger without publishing, tells
nodes what they may have missed while no feed ran, and continues FEED after the last message it holds; an empty FEED (the server has
restarted, it is in memory) begins with now.

Of two instances one is a standby: it folds, receives heartbeats, answers status queries only, and begins in the same way when it becomes
the leader.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec
import structlog
from nats import errors

from headrace.archive.history import ARCHIVE, WholeLedger
from headrace.bus.leader_election import LeaderElection, election_of, run_election
from headrace.bus.log import Log, LogRefused, LogUnavailable, Message
from headrace.bus.log_clock import LogTime
from headrace.bus.loop import follow, retrying, steady_clock
from headrace.bus.nats.jetstream import JetStreamLog
from headrace.bus.nats.streams import FEED_MESSAGES
from headrace.bus.process import Service, settle
from headrace.bus.telemetry import span
from headrace.bus.text_encryption import KEYS, Keyring
from headrace.contracts.facts import JobAdmittedV1
from headrace.contracts.facts.derived_facts import with_implied_facts
from headrace.contracts.messages.orders import Orders, StartOrder
from headrace.contracts.messages.queries import ServiceView
from headrace.contracts.transport.codec import MESSAGE_BYTES_MAX, encode
from headrace.contracts.transport.subjects import FEED_STREAM, LEDGER_STREAM, awaits_answer, node_query, orders, telemetry
from headrace.contracts.values.durations import SECOND
from headrace.contracts.values.ids import is_token
from headrace.feed import orders as node_orders
from headrace.feed.metrics import Counted, InstallationMetrics
from headrace.feed.metrics import show as show_installation
from headrace.feed.outgoing_message import FeedPosition, started
from headrace.feed.public_facts import Projector
from headrace.feed.publisher import Publisher, behind, feed_end
from headrace.feed.queue_heads import Heads
from headrace.feed.sealed_text_cache import Open, SealedTextCache
from headrace.feed.standby_buffer import FoldedRecord, StandbyBuffer
from headrace.service.answering import serve, status
from headrace.service.fold import LedgerFold, wall_clock
from headrace.service.follower_status import Following, watch_fold
from headrace.service.snapshots import Snapshots, beginning
from headrace.service.task_group import together
from headrace.views.history import History
from headrace.views.history_backfill import backfill_history
from headrace.views.job_index import JobIndex, jobs_of
from headrace.views.queries import Queries, Sources

if TYPE_CHECKING:
    from nats.aio.msg import Msg
    from nats.aio.subscription import Subscription

    from headrace.domain.state.state import State
    from headrace.health.health import Health
    from headrace.health.metrics import Labels, MetricSources
    from headrace.nats_client.connection import Connection


BATCH = 100
"""Records folded before their orders go out."""
STARTS_AT_ONCE = 50
"""Starts in one message, so that with the largest texts it still fits."""
HEADS_EVERY = 0.25
FEED_SEEN_EVERY = 1.0
"""Seconds between two looks of a standby at what FEED has."""
FIRST = FeedPosition(0, 0)
FEED, STATUS = "feed", "status"

_log = structlog.get_logger("headrace.feed")


class Feed:
    """The feed over one ledger and one connection. `open_sealed` opens a job's text; `clock`: microseconds since 1970.

    `turn`: the leader election among the instances (None: always leads); `name`: the name of this instance. `caught_up` is set once the
    ledger has been folded to its tip; `active` is true from when on it publishes.
    """

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
        turn: LeaderElection | None = None,
        name: str = FEED,
    ) -> None:
        self.fold = LedgerFold(state)
        self.publisher = Publisher(connection, feed)
        self.caught_up = asyncio.Event()
        self.active = False
        state = self.fold.state
        self._connection = connection
        self._snapshots = snapshots
        self._ledger = ledger
        self._feed = feed
        self._clock = clock
        self._time = LogTime(clock, steady_clock)
        self._texts = SealedTextCache(ledger, open_sealed, state.tokens.erased)
        self._job_index = JobIndex(state)
        self._history = History()
        self._heads = Heads(state, self._job_index)
        self._counted = Counted(state)
        self._heads_at = 0
        self._projector = Projector(state)
        self._buffer = StandbyBuffer(self._projector.skip, FEED_MESSAGES)
        self._turn = turn
        self._name = name
        self._status_only: Subscription | None = None
        self._place = self._seen = FIRST
        """Position after which it publishes, and the end of FEED when last seen; they differ if FEED was empty and then got heads only."""
        self._seen_at = 0
        self._metrics: MetricSources | None = None
        self._pushes: dict[str, int] = {}
        self._heard: dict[str, int] = {}

    async def run(self) -> None:
        """Work until cancelled. Raises `LogBroken`, `LogRefused`: the process has to stop."""
        stories = backfill_history(self._history, self.fold.state, self.fold.sequence, self._ledger, self._snapshots)
        turns = () if self._turn is None else (self._run_election(self._turn),)
        await together(self._follow(), self.publisher.run(), stories, *turns)

    async def _run_election(self, turn: LeaderElection) -> None:
        await self.caught_up.wait()  # an instance leads only after it has read the whole ledger
        await run_election(self._connection, FEED, turn, lambda: None)

    async def _follow(self) -> None:
        tip = await retrying(self._ledger.tip)
        _, place = await retrying(lambda: feed_end(self._feed))
        self._place = behind(place, tip)
        if self.fold.sequence >= tip:
            await self._at_tip()
        async for batch in follow(self._ledger, self.fold.sequence, BATCH, HEADS_EVERY):
            await self._take(batch)
            if not self.caught_up.is_set() and self.fold.sequence >= tip:
                await self._at_tip()
            elif self.caught_up.is_set() and not self.active:
                await self._stand_by()
            await asyncio.sleep(0)

    async def _take(self, batch: list[Message]) -> None:
        """Fold a batch; send its orders, then its facts, and the heads of the queues at intervals."""
        news = node_orders.JobChanges()
        folded = [note for message in batch if (note := self._note(message, news)) is not None]
        if not self.active:
            for one in folded:
                self._buffer.add(one)
            self._buffer.drop_published(self._place)
            return
        await self._push(news)
        for one in folded:
            self._publish_facts(one)
        if not 0 <= self._clock() - self._heads_at < HEADS_EVERY * SECOND:
            self._publish_heads()

    def _note(self, message: Message, news: node_orders.JobChanges) -> FoldedRecord | None:
        record = self.fold.read(message)
        if record is None:
            return None
        jobs = jobs_of(record)
        changes = self._job_index.note(record, jobs)
        self._history.note(jobs, message.sequence)
        self._heads.touch(changes.queues)
        for _, fact in with_implied_facts(record.facts):
            news.note(fact, message.sequence)
            if self.active:
                self._counted.note(fact)
            if isinstance(fact, JobAdmittedV1):
                self._texts.add(fact.job, fact.text)
        for key in changes.ended:
            self._texts.drop(key)
        return FoldedRecord(record, message.sequence, tuple(map(started, changes.started)), len(message.payload))

    def _publish_facts(self, folded: FoldedRecord) -> None:
        record, sequence, began, _ = folded
        if sequence < self._place.sequence:
            self._projector.skip(record)
            return
        messages = self._projector.messages(record, sequence, began)
        if sequence == self._place.sequence:
            messages = [message for message in messages if message.number > self._place.number]
        self.publisher.put(messages)

    def _publish_heads(self) -> None:
        self._heads_at = self._clock()
        now = max(self.fold.now, self._heads_at)
        self.publisher.put(self._projector.head(queue, head, now) for queue, head in self._heads.changes(now))

    async def _at_tip(self) -> None:
        settle()
        self.caught_up.set()
        await self._connection.subscribe(telemetry("*", "heartbeat"), cb=self._hear)
        _log.info("caught_up", sequence=self.fold.sequence, feed_after=self._place.sequence)
        await self._stand_by()

    async def _stand_by(self) -> None:
        """Begin if this instance leads; else look what the leader has published."""
        turn = self._turn
        if turn is None:
            await self._begin()
        elif turn.mine:
            if self.fold.sequence >= await retrying(self._ledger.tip):
                await self._begin()
        elif turn.is_settled and self._status_only is None:  # before there is a leader, its answer would mislead people
            self._status_only = await serve(self._connection, self._name, self.fold, {STATUS: self._status}, only=STATUS)
        elif self._buffer and not 0 <= self._clock() - self._seen_at < FEED_SEEN_EVERY * SECOND:
            with suppress(LogUnavailable):  # it is tried again; orders for nodes do not wait for FEED
                await self._see()

    async def _see(self) -> int:
        """Look how far FEED is, and drop what it has; returns its own last sequence.

        If its server has restarted, FEED is missing until it has been made again: then it is empty.
        """
        self._seen_at = self._clock()
        try:
            end, place = await feed_end(self._feed)
        except LogRefused as error:
            _log.warning("feed_missing", reason=str(error))
            return 0
        if place is not None and place.sequence <= self.fold.sequence:
            self._place, self._seen = max(self._place, place), place
        self._buffer.drop_published(self._place)
        return end

    async def _begin(self) -> None:
        """Lead from now on: orders to nodes first, then FEED, then answers to queries."""
        self.active = True
        await self._push(node_orders.unconfirmed(self.fold.state))
        await self._connection.subscribe(node_query("*"), cb=self._answer_node)
        self.publisher.begin(await retrying(self._see))
        self.publisher.dropped += self._buffer.lost
        for folded in self._buffer.take():
            self._publish_facts(folded)
        self._projector.resume(self._seen)
        self._publish_heads()
        await self._answer_people()
        if self._metrics is not None:  # from now on, so that only one of two instances shows them
            standing = InstallationMetrics(self.fold.state, self._job_index, self._heads, self._heard)
            show_installation(self._metrics, self._counted, standing, self._clock)
        _log.info("active", sequence=self.fold.sequence, feed_after=self._place.sequence)

    async def _answer_people(self) -> None:
        """Answer queries of the feed; status under the instance's own name only."""
        sources = Sources(
            self.fold.state,
            self._job_index,
            self._history,
            self._ledger,
            self._connection,
            self._heard,
            self._clock,
            self._snapshots,
        )
        handlers = Queries(sources).handlers() | {STATUS: self._status}
        if self._name != FEED:
            if self._status_only is None:
                await serve(self._connection, self._name, self.fold, {STATUS: self._status}, only=STATUS)
            await serve(self._connection, FEED, self.fold, handlers, but=STATUS)
            return
        await serve(self._connection, FEED, self.fold, handlers)
        if self._status_only is not None:
            await self._status_only.unsubscribe()

    async def _push(self, news: node_orders.JobChanges) -> None:
        """Send orders to nodes. If a message is lost the node asks again."""
        if not news:
            return
        sealed = await self._texts.of(node_orders.to_start(self.fold.state, news))
        by_node = node_orders.orders_for(self.fold.state, news, self._opened(sealed))
        try:
            for node, what in by_node.items():
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
        """Answer a node, named by the subject, with all it should be running."""
        node = message.subject.rpartition(".")[2]
        if not awaits_answer(message.reply) or not is_token(node):
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
        """The log's time, against which nodes check their clocks; 0 if the log does not answer."""
        if self._time.unsure:
            try:
                self._time.answered(await self._ledger.now())
            except LogUnavailable:
                return 0
        return max(self.fold.now, self._time.now())

    async def _hear(self, message: Msg) -> None:
        node = message.subject.split(".")[2]
        if node in self.fold.state.nodes:
            self._heard[node] = self._clock()

    def show(self, health: Health) -> None:
        """Declare the metrics of this service and, once it is active, of the installation."""
        following = Following(lambda: self.fold.sequence, lambda: self.fold.now, self._ledger.tip, self.caught_up.is_set)
        watch_fold(health, following, self.fold)
        metrics, publisher = health.metrics, self.publisher
        if self._turn is not None:
            health.role = lambda: "active" if self.active else "standby"
        metrics.gauge("headrace_decides", "1 where this instance decides, 0 where it stands by", self._decides, "writer")
        metrics.counter("headrace_order_pushes_total", "messages of orders to nodes", lambda: sum(self._pushes.values()))
        metrics.counter("headrace_feed_published_total", "messages published on FEED", lambda: publisher.published)
        metrics.counter(
            "headrace_feed_dropped_total", "messages that FEED never got: it was too slow", lambda: publisher.dropped
        )
        metrics.gauge("headrace_feed_waiting_messages", "messages that wait for FEED", lambda: publisher.waiting)
        self._metrics = metrics

    def _decides(self) -> dict[Labels, float]:
        return {(FEED,): self._turn is None or self._turn.mine}

    def _status(self, _tenant: str, _user: str, _payload: bytes) -> ServiceView:
        return self.status()

    def status(self) -> ServiceView:
        detail = {
            "pushes": sum(self._pushes.values()),
            "feed_published": self.publisher.published,
            "feed_waiting": self.publisher.waiting,
            "feed_dropped": self.publisher.dropped,
        }
        if self._turn is not None:
            detail["decides"] = int(self.active)
        view = status(self._name, self.fold)
        return msgspec.structs.replace(view, detail=view.detail | detail)


def _traced(order: StartOrder, node: str) -> StartOrder:
    """The order with a span of the job's trace if traces are recorded."""
    with span("feed.order", order.trace, job=order.job, node=node) as traced:
        if traced.traceparent == order.trace:
            return order
        return msgspec.structs.replace(order, trace=traced.traceparent)


async def main(service: Service) -> None:
    ledger = WholeLedger(JetStreamLog(service.connection, LEDGER_STREAM), service.data / ARCHIVE)
    feed = JetStreamLog(service.connection, FEED_STREAM)
    snapshots = Snapshots.over(service.connection, ledger)
    _, place = await retrying(lambda: feed_end(feed))
    place = behind(place, await retrying(ledger.tip))
    state = await beginning(snapshots, place.sequence - 1)
    texts = Keyring(service.data / KEYS)
    telling = Feed(
        service.connection,
        ledger,
        feed,
        texts.open,
        snapshots=snapshots,
        state=state,
        turn=election_of(os.environ),
        name=service.name,
    )
    telling.show(service.health)
    await telling.run()
