"""The feed on the bus: follows the ledger, sends orders to nodes, and publishes facts to tenants.

Strategy: what a node waits for goes first. The follower folds a batch of records, its orders are sent, and only then are its facts made
into FEED messages, which another task publishes; no single fact is awaited. A feed that starts reads the whole ledger without publishing,
sends nodes what they may have missed while no feed ran, and continues FEED after the last message it holds; an empty FEED (the server has
restarted, it is in memory) begins with now.

Of two instances one is a standby: it keeps what FEED may not have yet, answers status queries only, and begins in the same way when it
becomes the leader.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec
import structlog
from nats import errors

from headrace.bus.follower import retrying
from headrace.bus.leader_election import LeaderElection, election_of, run_election
from headrace.bus.log import Log, LogRefused, LogUnavailable
from headrace.bus.nats.jetstream import JetStreamLog
from headrace.bus.nats.streams import FEED_MESSAGES
from headrace.bus.notifier import Notifier
from headrace.bus.process import Service
from headrace.bus.telemetry import span
from headrace.bus.text_encryption import KEYS, Keyring
from headrace.contracts.facts import JobAdmittedV1
from headrace.contracts.facts.derived_facts import with_implied_facts
from headrace.contracts.messages.orders import Orders, StartOrder
from headrace.contracts.messages.queries import ServiceView
from headrace.contracts.transport.codec import MESSAGE_BYTES_MAX, encode
from headrace.contracts.transport.subjects import FEED_STREAM, awaits_answer, node_query, orders
from headrace.contracts.values.durations import SECOND
from headrace.contracts.values.ids import is_token
from headrace.feed import orders as node_orders
from headrace.feed.metrics import FeedCounts, InstallationMetrics
from headrace.feed.metrics import show as show_installation
from headrace.feed.outgoing_message import FeedPosition, started
from headrace.feed.public_facts import Projector
from headrace.feed.publisher import Publisher, behind, feed_end
from headrace.feed.queue_heads import Heads, Looks
from headrace.feed.sealed_text_cache import Open, SealedTextCache
from headrace.feed.standby_buffer import FoldedRecord, StandbyBuffer
from headrace.service.answering import serve, status
from headrace.service.fold import wall_clock
from headrace.service.follower_status import Following, watch_fold
from headrace.service.hosting import LedgerFollower, Part, Work, ledger_of
from headrace.service.snapshots import Snapshots
from headrace.service.task_group import run_until_first_ends
from headrace.views.live_views import LiveViews

if TYPE_CHECKING:
    from nats.aio.msg import Msg
    from nats.aio.subscription import Subscription

    from headrace.bus.log import Message
    from headrace.contracts.facts.records import Record
    from headrace.health.health import Health
    from headrace.health.metrics import Labels, MetricSources
    from headrace.nats_client.connection import Connection
    from headrace.views.job_index import IndexChanges


STARTS_AT_ONCE = 50
"""Starts in one message, so that with the largest texts it still fits."""
FEED_SEEN_EVERY = 1.0
"""Seconds between two looks of a standby at what FEED has."""
FIRST = FeedPosition(0, 0)
FEED, STATUS = "feed", "status"

_log = structlog.get_logger("headrace.feed")


class Feed:
    """The feed over one follower and one connection. `open_sealed` opens a job's text; `clock`: microseconds since 1970.

    `ledger`: over the service's own login. `turn`: the leader election among the instances (None: always leads); `name`: the name of this
    instance. `active` is true from when on it publishes.
    """

    def __init__(
        self,
        connection: Connection,
        follower: LedgerFollower,
        ledger: Log,
        feed: Log,
        open_sealed: Open,
        clock: Callable[[], int] = wall_clock,
        *,
        snapshots: Snapshots | None = None,
        turn: LeaderElection | None = None,
        name: str = FEED,
    ) -> None:
        self.fold = follower.fold
        self.caught_up = follower.caught_up
        self.publisher = Publisher(connection, feed)
        self.active = False
        self.views = follower.shared(LiveViews)
        state = self.fold.state
        self._connection = connection
        self._snapshots = snapshots
        self._ledger = ledger
        self._feed = feed
        self._clock = clock
        self._time = follower.time
        self._texts = SealedTextCache(ledger, open_sealed, state.tokens.erased)
        self._heads = Heads(state, self.views.job_index)
        self._counted = FeedCounts(state)
        self._looks = Looks()
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
        self._wakeup = Notifier()
        self._news = node_orders.JobChanges()
        self._folded: list[FoldedRecord] = []
        """Records that have been folded and whose facts have not been made into messages yet, while it leads."""
        self.views.listeners.append(self._note)
        follower.listeners.append(self._wakeup.ring)

    async def find_place(self) -> None:
        """Look where FEED ends. To be awaited before the follower runs: what FEED has is not kept."""
        tip = await retrying(self._ledger.tip)
        _, place = await retrying(lambda: feed_end(self._feed))
        self._place = behind(place, tip)

    async def run(self) -> None:
        """Work until cancelled. Raises `LogRefused`: the process has to stop."""
        views = self.views.keep(self._connection, self._ledger, self._snapshots, self._clock)
        turns = () if self._turn is None else (self._run_election(self._turn),)
        await run_until_first_ends(self._work(), self.publisher.run(), views, *turns)

    async def _run_election(self, turn: LeaderElection) -> None:
        await self.caught_up.wait()  # an instance leads only after it has read the whole ledger
        await run_election(self._connection, FEED, turn, self._wakeup.ring)

    async def _work(self) -> None:
        await self.caught_up.wait()
        _log.info("caught_up", sequence=self.fold.sequence, feed_after=self._place.sequence)
        while True:
            if not self.active:
                await self._stand_by()
            if self.active:
                await self._publish_news()
            await self._wakeup.sleep(self._rest())

    def _rest(self) -> float | None:
        """Seconds until something is to be done although no record comes; None: nothing is."""
        if self.active:
            return self._looks.pause / SECOND if self._heads.is_behind else None
        return FEED_SEEN_EVERY if self._status_only is not None else self._looks.pause / SECOND

    async def _publish_news(self) -> None:
        """Send the orders of what has been folded, then its facts, and the heads of the queues at intervals."""
        await self._push()
        folded, self._folded = self._folded, []
        for one in folded:
            self._publish_facts(one)
        if self._looks.is_due(self._clock()):
            self._publish_heads()

    def _note(self, record: Record, message: Message, changes: IndexChanges) -> None:
        self._heads.touch(changes.queues)
        for _, fact in with_implied_facts(record.facts):
            if self.active:
                self._news.note(fact, message.sequence)
                self._counted.note(fact)
            if isinstance(fact, JobAdmittedV1):
                self._texts.add(fact.job, fact.text)
        for key in changes.ended:
            self._texts.drop(key)
        folded = FoldedRecord(record, message.sequence, tuple(map(started, changes.started)), len(message.payload))
        if self.active:
            self._folded.append(folded)
        else:
            self._buffer.add(folded)
            self._buffer.drop_published(self._place)

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
        began = self._clock()
        now = max(self.fold.now, began)
        self.publisher.put(self._projector.head(queue, head, now) for queue, head in self._heads.changes(now))
        self._looks.note(began, self._clock())

    async def _stand_by(self) -> None:
        """Begin if this instance leads; else look what the leader has published."""
        turn = self._turn
        if turn is None:
            await self._begin()
        elif turn.mine:
            if self.fold.sequence >= await retrying(self._ledger.tip):
                await self._begin()
        elif turn.is_settled and self._status_only is None:  # before there is a leader, its answer would mislead people
            await self._answer_status()
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
        """Lead from now on: orders to nodes first, then FEED."""
        self.active = True
        self._news = node_orders.unconfirmed(self.fold.state)
        await self._push()
        await self._connection.subscribe(node_query("*"), cb=self._answer_node)
        self.publisher.begin(await retrying(self._see))
        self.publisher.dropped += self._buffer.lost
        for folded in self._buffer.take():
            self._publish_facts(folded)
        self._projector.resume(self._seen)
        self._publish_heads()
        await self._answer_status()
        if self._metrics is not None:  # from now on, so that only one of two instances shows them
            standing = InstallationMetrics(self.fold.state, self.views.job_index, self._heads, self.views.last_seen)
            show_installation(self._metrics, self._counted, standing, self._clock)
        _log.info("active", sequence=self.fold.sequence, feed_after=self._place.sequence)

    async def _answer_status(self) -> None:
        """Answer the operator's query for the status, under the instance's own name."""
        if self._status_only is None:
            self._status_only = await serve(self._connection, self._name, self.fold, {STATUS: self._status}, only=STATUS)

    async def _push(self) -> None:
        """Send orders to nodes. If a message is lost the node asks again."""
        state, sealed = self.fold.state, dict[str, str]()
        while missing := [job for job in node_orders.to_start(state, self._news) if job.key not in sealed]:
            sealed |= await self._texts.of(missing)  # meanwhile more may have been folded
        news, self._news = self._news, node_orders.JobChanges()
        if not news:
            return
        by_node, through = node_orders.orders_for(state, news, self._opened(sealed)), self.fold.sequence
        try:
            for node, what in by_node.items():
                for start in range(0, max(1, len(what.starts)), STARTS_AT_ONCE):
                    starts = tuple(_traced(order, node) for order in what.starts[start : start + STARTS_AT_ONCE])
                    stops = tuple(what.stops) if start == 0 else ()
                    number = self._pushes[node] = self._pushes.get(node, 0) + 1
                    push = Orders(node=node, number=number, through=through, starts=starts, stops=stops)
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

    def show(self, health: Health) -> None:
        """Declare the metrics of this service and, once it is active, of the installation."""
        following = Following(lambda: self.fold.sequence, lambda: self.fold.now, self._ledger.tip, self.caught_up.is_set)
        watch_fold(health, following, self.fold)
        metrics, publisher = health.metrics, self.publisher
        if self._turn is not None:
            health.role = lambda: "active" if self.active else "standby"
        metrics.gauge("headrace_decides", "1 if this instance decides, 0 if it is a standby", self._decides, "writer")
        metrics.counter("headrace_order_pushes_total", "messages of orders to nodes", lambda: sum(self._pushes.values()))
        metrics.counter("headrace_feed_published_total", "messages published on FEED", lambda: publisher.published)
        metrics.counter(
            "headrace_feed_dropped_total",
            "number of messages not published on FEED because it was too slow",
            lambda: publisher.dropped,
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


async def start(service: Service) -> int:
    """The last record whose facts FEED has in full, or the end of the ledger: the state may begin there or before."""
    feed = JetStreamLog(service.connection, FEED_STREAM)
    _, place = await retrying(lambda: feed_end(feed))
    return behind(place, await retrying(ledger_of(service).tip)).sequence - 1


async def prepare(service: Service, follower: LedgerFollower) -> Work:
    ledger = ledger_of(service)
    telling = Feed(
        service.connection,
        follower,
        ledger,
        JetStreamLog(service.connection, FEED_STREAM),
        Keyring(service.data / KEYS).open,
        wall_clock,
        snapshots=Snapshots.over(service.connection, ledger),
        turn=election_of(service.environment),
        name=service.name,
    )
    await telling.find_place()
    telling.show(service.health)
    return telling.run


PART = Part(prepare, start)
