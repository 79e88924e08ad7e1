"""The feed at work, on the log's in-memory twin and a connection that only remembers."""

from __future__ import annotations

import asyncio
import contextlib
import json
from types import SimpleNamespace

import pytest
from nats import errors

from headrace.bus import follower as following
from headrace.bus.follower import Follower
from headrace.bus.log import LogBroken, LogRefused, LogUnavailable
from headrace.bus.loop import Fenced
from headrace.bus.memory import MemoryLog
from headrace.bus.text_encryption import KeyGone
from headrace.contracts import facts as f
from headrace.contracts.facts.fact import DeviceShare, Ladder
from headrace.contracts.messages.orders import NodeAnswer, Orders, StartOrder
from headrace.contracts.messages.queries import Answer, ServiceView
from headrace.contracts.messages.submissions import JobText
from headrace.contracts.transport.codec import decode, encode
from headrace.contracts.transport.subjects import feed as feed_subject
from headrace.feed import queue_heads
from headrace.feed import service as module
from headrace.feed.service import Feed
from headrace.service.fold import LedgerFold
from headrace.service.task_group import run_until_first_ends
from tests.patience import PATIENCE


class FakeConnection:
    """Remembers what is published, keeps FEED, and delivers to who has subscribed."""

    def __init__(self, clock):
        self.feed = MemoryLog(clock, begins_late=True)
        self.published = []
        self.subscriptions = {}
        self.broken = False

    async def publish(self, subject, payload=b"", reply="", headers=None):
        if self.broken:
            raise errors.ConnectionClosedError
        if subject.startswith("hr.feed."):
            self.wrong = int(headers["Nats-Expected-Last-Sequence"]) != self.feed.last_sequence
            if not self.wrong:
                self.feed.append_now(subject, payload, None, headers["Nats-Msg-Id"])
        else:
            self.published.append((subject, payload))

    async def ask(self, subject, payload=b"", headers=None):
        await self.publish(subject, payload, headers=headers)
        wrong = b'{"error":{"err_code":10071,"description":"wrong last sequence"}}'
        return SimpleNamespace(data=wrong if self.wrong else b'{"seq":%d}' % self.feed.last_sequence)

    async def subscribe(self, subject, queue="", cb=None):
        self.subscriptions[subject] = cb

        async def unsubscribe():
            del self.subscriptions[subject]

        return SimpleNamespace(unsubscribe=unsubscribe)

    async def send(self, subscription, subject, payload=b"", reply="_INBOX.answer"):
        """What a subscriber answers to a message; None without an answer."""
        before = len(self.published)
        await self.subscriptions[subscription](SimpleNamespace(subject=subject, data=payload, reply=reply))
        return next((data for to, data in self.published[before:] if to == reply), None)

    def orders(self):
        """All pushes, in order."""
        return [decode(payload, Orders) for subject, payload in self.published if subject.startswith("hr.orders.")]

    def feed_messages(self):
        """(sequence, subject) of all on FEED."""
        messages = self.feed.messages_after(0)
        return [(json.loads(message.payload)["sequence"], message.subject.removeprefix("hr.feed.")) for message in messages]


def open_sealed(tenant, sealed, key):
    """A text is sealed as its command; `gone` is one whose key was destroyed."""
    if sealed == "gone":
        raise KeyGone("erased")
    return encode(JobText(command=(sealed,)))


class Running:
    """A feed that runs beside the story."""

    def __init__(self, story, connection, **more):
        self.connection = connection
        follower = Follower(story.log, LedgerFold(), lambda: story.now)
        self.feed = Feed(connection, follower, story.log, connection.feed, open_sealed, clock=lambda: story.now, **more)
        self.turn = more.get("turn")
        self._story = story
        self._task = asyncio.create_task(self._run(follower))

    async def _run(self, follower):
        await self.feed.find_place()
        await run_until_first_ends(follower.run(), self.feed.run())

    async def until(self, condition):
        async with asyncio.timeout(PATIENCE):
            while not condition():
                if self._task.done():
                    self._task.result()
                await asyncio.sleep(0)

    async def still(self):
        """All of the story is folded and told."""
        await self.until(lambda: self.feed.caught_up.is_set() and self.feed.fold.sequence == self._story.log.last_sequence)
        await self.until(lambda: self.feed.active or self.turn is not None)
        for _ in range(20):
            await asyncio.sleep(0)
        await self.until(lambda: not self.feed.publisher.waiting)

    async def stop(self):
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


@pytest.fixture
async def run(hall):
    """`await run()`: a feed on the story's ledger; another one later is a restart."""
    connection = FakeConnection(lambda: hall.now)
    feeds = []

    async def run(connection=connection):
        for feed in feeds:
            await feed.stop()
        feeds.append(Running(hall, connection))
        await feeds[-1].still()
        return feeds[-1]

    yield run
    for feed in feeds:
        await feed.stop()


def granted(key, sequence, device="g0", **more):
    usual = {
        "lease": f"{key}/1/0",
        "job": key,
        "attempt": 1,
        "peers": ("gpu01",),
        "granted": sequence,
        "devices": (DeviceShare(device=device, units=126_000),),
        "amounts": {"gpu": 126_000, "job": 1},
        "queue": "dev/one",
        "command": ("sealed",),
    }
    return StartOrder(**(usual | more))


async def test_a_grant_is_pushed_to_its_node_and_told_to_its_tenant(hall, run):
    running = await run()
    job = hall.job(1)
    hall.admit(job, text="sealed")
    hall.grant(job, ("gpu01", "g0"))
    await running.still()
    assert running.connection.orders() == [Orders(node="gpu01", number=1, through=4, starts=(granted(job, 4),))]
    assert [message for message in running.connection.feed_messages() if message[0] in (3, 4)] == [
        (3, f"acme.job.admitted.{job[-26:]}"),
        (4, f"acme.lease.granted.{job[-26:]}"),
    ]


async def test_one_batch_is_one_push_for_each_node_numbered_by_node(hall, run):
    hall.node("gpu02")
    running = await run()
    jobs = [hall.job(number) for number in range(3)]
    for job in jobs:
        hall.append("admission", f.JobAdmittedV1(job=job, policy="dev", profile="one", request={"gpu": 126_000}, text="sealed"))
    for job, place in zip(jobs, [("gpu01", "g0"), ("gpu02", "g0"), ("gpu01", "g1")], strict=True):
        hall.append("allocator", *hall.grants(job, place))
    await running.still()
    hall.append(
        "allocator", f.StopOrderedV1(job=jobs[0], attempt=1, ladder=Ladder(cause="cancelled", callback_grace=0, term_grace=0))
    )
    await running.still()
    pushes = [(push.node, push.number, push.through, len(push.starts), len(push.stops)) for push in running.connection.orders()]
    assert pushes == [("gpu01", 1, 9, 2, 0), ("gpu02", 1, 9, 1, 0), ("gpu01", 2, 10, 0, 1)]


async def test_many_starts_for_one_node_are_several_pushes(hall, run, monkeypatch):
    monkeypatch.setattr(module, "STARTS_AT_ONCE", 2)
    running = await run()
    jobs = [hall.job(number) for number in range(3)]
    for job in jobs:
        hall.append("admission", f.JobAdmittedV1(job=job, policy="dev", profile="one", request={"gpu": 126_000}, text="sealed"))
    for number, job in enumerate(jobs):
        hall.append("allocator", *hall.grants(job, ("gpu01", f"g{number}")))
    await running.still()
    assert [(push.number, len(push.starts)) for push in running.connection.orders()] == [(1, 2), (2, 1)]


async def test_a_text_whose_key_is_gone_goes_out_without_a_command(hall, run):
    running = await run()
    job = hall.job(1)
    hall.admit(job, text="gone")
    hall.grant(job, ("gpu01", "g0"))
    await running.still()
    ((start,),) = (push.starts for push in running.connection.orders())
    assert start.command == ()


async def test_orders_that_cannot_be_sent_do_not_end_the_feed(hall, run):
    running = await run()
    running.connection.broken = True
    hall.admit(hall.job(1), text="sealed")
    hall.grant(hall.job(1), ("gpu01", "g0"))
    await running.until(lambda: running.feed.fold.sequence == 4)
    running.connection.broken = False
    await running.still()
    answer = await running.connection.send("hr.query.orders.node.*", "hr.query.orders.node.gpu01")
    assert decode(answer, NodeAnswer).starts == (granted(hall.job(1), 4),)


async def test_a_node_that_asks_hears_all_it_should_be_running(hall, run):
    job = hall.job(1)
    hall.admit(job, text="sealed")
    hall.grant(job, ("gpu01", "g0"))
    hall.start(job)
    running = await run()
    send = running.connection.send
    answer = await send("hr.query.orders.node.*", "hr.query.orders.node.gpu01")
    digest = hall.state.writers["node.gpu01"][1]
    assert decode(answer, NodeAnswer) == NodeAnswer(
        node="gpu01", through=5, last_record=5, last_digest=digest, now=hall.now, starts=(granted(job, 4, started=True),)
    )
    assert await send("hr.query.orders.node.*", "hr.query.orders.node.gpu01", reply="") is None
    assert await send("hr.query.orders.node.*", "hr.query.orders.node.GPU") is None


async def test_an_answer_that_is_too_large_leaves_out_the_texts_of_what_runs_already(hall, run, monkeypatch):
    running_job, new = hall.job(1), hall.job(2)
    for job, device in ((running_job, "g0"), (new, "g1")):
        hall.admit(job, text="sealed")
        hall.grant(job, ("gpu01", device))
    hall.start(running_job)
    running = await run()
    monkeypatch.setattr(module, "MESSAGE_BYTES_MAX", 10)
    answer = await running.connection.send("hr.query.orders.node.*", "hr.query.orders.node.gpu01")
    assert [start.command for start in decode(answer, NodeAnswer).starts] == [(), ("sealed",)]


async def test_a_feed_that_comes_up_tells_nodes_what_they_may_have_missed(hall, run):
    started, new = hall.job(1), hall.job(2)
    for job, device in ((started, "g0"), (new, "g1")):
        hall.admit(job, text="sealed")
        hall.grant(job, ("gpu01", device))
    hall.start(started)
    running = await run()
    assert running.connection.orders() == [Orders(node="gpu01", number=1, through=7, starts=(granted(new, 6, device="g1"),))]


async def test_an_empty_feed_begins_with_now(hall, run):
    hall.admit(hall.job(1))
    running = await run()
    assert running.connection.feed_messages() == [(3, "acme.queue.head.dev")]
    hall.admit(hall.job(2, tenant="rival"))
    await running.still()
    assert running.connection.feed_messages()[1] == (4, f"rival.job.admitted.{hall.job(2)[-26:]}")


async def test_a_restarted_feed_goes_on_behind_the_last_message_even_in_the_middle_of_a_record(hall, run):
    running = await run()
    jobs = [hall.job(number) for number in range(1, 4)]
    hall.append("admission", *(f.JobAdmittedV1(job=job, policy="dev", profile="one", request={"gpu": 126_000}) for job in jobs))
    hall.append("admission", f.JobCancelRequestedV1(job=jobs[0], by="acme.alice"))
    await running.still()
    whole = running.connection.feed.messages_after(0)
    half = FakeConnection(lambda: hall.now)
    for message in whole[:2]:
        half.feed.append_now(message.subject, message.payload, None)
    restarted = await run(half)
    published = restarted.connection.feed.messages_after(0)
    assert [(message.subject, message.payload) for message in published[:4]] == [
        (message.subject, message.payload) for message in whole
    ]
    assert json.loads(published[4].payload)["type"] == "queue.head.feed"
    assert len(published) == 5


@pytest.mark.parametrize("payload", [b"no JSON", b'{"sequence": 99, "number": 1}'])
async def test_a_feed_of_another_ledger_or_of_none_is_gone_on_from_now(hall, run, payload):
    connection = FakeConnection(lambda: hall.now)
    connection.feed.append_now(feed_subject("acme", "job", "admitted", "x"), payload, None)
    hall.admit(hall.job(1))
    await run(connection)
    assert connection.feed.last_sequence == 2
    assert json.loads(connection.feed.messages_after(1)[0].payload)["type"] == "queue.head.feed"


async def test_an_empty_ledger_is_served_at_once(story):
    connection = FakeConnection(lambda: story.now)
    running = Running(story, connection)
    await running.still()
    assert set(connection.subscriptions) == {"hr.telemetry.*.heartbeat", "hr.query.orders.node.*", "hr.query.feed.status.>"}
    await running.stop()


async def test_the_operator_is_answered_how_the_feed_is(hall, run):
    running = await run()
    hall.admit(hall.job(1), text="sealed")
    hall.grant(hall.job(1), ("gpu01", "g0"))
    await running.still()
    answer = decode(await running.connection.send("hr.query.feed.status.>", "hr.query.feed.status.acme.alice"), Answer)
    status = decode(bytes(answer.body), ServiceView)
    assert (answer.sequence, status.service, status.folded, status.now) == (4, "feed", 4, hall.now)
    assert {name: status.detail[name] for name in ("pushes", "feed_published", "feed_waiting", "feed_dropped")} == {
        "pushes": 1,
        "feed_published": running.connection.feed.last_sequence,
        "feed_waiting": 0,
        "feed_dropped": 0,
    }


async def test_heartbeats_of_known_nodes_are_noted(hall, run):
    running = await run()
    await running.connection.send("hr.telemetry.*.heartbeat", "hr.telemetry.gpu01.heartbeat")
    await running.connection.send("hr.telemetry.*.heartbeat", "hr.telemetry.gpu99.heartbeat")
    assert running.feed.views.last_seen == {"gpu01": hall.now}


async def test_a_void_record_tells_nothing(hall, run):
    running = await run()
    before = running.connection.feed.last_sequence
    hall.append("node.gpu01", f.NodeStoppedV1(node="gpu02", at=1))
    await running.still()
    assert running.connection.feed.last_sequence == before


async def test_a_broken_ledger_stops_the_feed(hall, run):
    running = await run()
    hall.append("allocator", f.NodeStoppedV1(node="gpu01", at=1))
    with pytest.raises(LogBroken):
        await running.until(lambda: False)


async def test_a_log_that_is_away_at_the_start_is_waited_for(hall, monkeypatch):
    monkeypatch.setattr(following, "RETRY", 0)
    connection = FakeConnection(lambda: hall.now)
    tip = hall.log.tip
    away = [LogUnavailable("away"), LogUnavailable("away")]

    async def late():
        if away:
            raise away.pop()
        return await tip()

    hall.log.tip = late
    running = Running(hall, connection)
    await running.still()
    await running.stop()


async def test_a_start_is_given_the_span_that_ordered_it(hall, run, monkeypatch):
    spans = []

    @contextlib.contextmanager
    def span(name, traceparent, **attributes):
        spans.append((name, traceparent, attributes))
        yield SimpleNamespace(traceparent="00-child")

    monkeypatch.setattr(module, "span", span)
    running = await run()
    job = hall.job(1)
    hall.admit(job, text="sealed", trace="00-parent")
    hall.grant(job, ("gpu01", "g0"))
    await running.still()
    assert running.connection.orders()[0].starts[0].trace == "00-child"
    assert spans == [("feed.order", "00-parent", {"job": job, "node": "gpu01"})]


async def test_a_feed_without_a_connection_does_not_go_on_in_silence(hall, run):
    running = await run()

    async def broken(*_, **__):
        raise ZeroDivisionError

    running.connection.ask = broken
    hall.append("admission", f.JobAdmittedV1(job=hall.job(1), policy="dev", profile="one", request={"gpu": 126_000}))
    with pytest.raises(ZeroDivisionError):
        await running.until(lambda: False)


def turn(mine=False, is_settled=True):
    return SimpleNamespace(mine=mine, is_settled=mine or is_settled)


@pytest.fixture
def alone(monkeypatch):
    """No election runs by itself: the tests decide."""

    async def run_election(*_):
        await asyncio.Event().wait()

    monkeypatch.setattr(module, "run_election", run_election)
    monkeypatch.setattr(queue_heads, "LOOK_EVERY", 1_000)
    monkeypatch.setattr(module, "FEED_SEEN_EVERY", 0)


@pytest.fixture
async def two(hall, alone):
    """One that tells and one that stands by, each on a connection of its own, and one FEED."""
    first = Running(hall, FakeConnection(lambda: hall.now), turn=turn(mine=True))
    other = FakeConnection(lambda: hall.now)
    other.feed = first.connection.feed
    second = Running(hall, other, turn=turn(), name="feed-standby")
    await first.until(lambda: first.feed.active)
    await second.still()
    yield first, second
    for feed in (first, second):
        await feed.stop()


async def test_one_that_stands_by_says_how_it_is_and_nothing_else(hall, two):
    first, second = two
    hall.admit(hall.job(1), text="sealed")
    hall.grant(hall.job(1), ("gpu01", "g0"))
    await first.still()
    await second.still()
    assert second.connection.published == []
    await second.until(lambda: "hr.query.feed-standby.status.>" in second.connection.subscriptions)
    assert set(second.connection.subscriptions) == {"hr.telemetry.*.heartbeat", "hr.query.feed-standby.status.>"}
    answer = await second.connection.send("hr.query.feed-standby.status.>", "hr.query.feed-standby.status.acme.alice")
    status = decode(bytes(decode(answer, Answer).body), ServiceView)
    assert (status.service, status.folded, status.detail["decides"]) == ("feed-standby", 4, 0)


async def test_one_whose_turn_comes_goes_on_where_the_other_stopped_and_tells_nothing_twice(hall, two):
    first, second = two
    jobs = [hall.job(number) for number in range(1, 4)]
    hall.admit(jobs[0], text="sealed")
    hall.grant(jobs[0], ("gpu01", "g0"))
    await first.still()
    await first.stop()
    before = len(first.connection.feed.messages_after(0))
    hall.start(jobs[0])
    hall.append(
        "admission", *(f.JobAdmittedV1(job=job, policy="dev", profile="one", request={"gpu": 126_000}) for job in jobs[1:])
    )
    await second.still()
    second.turn.mine = True
    await second.until(lambda: second.feed.active)
    await second.still()
    whole = [json.loads(message.payload) for message in second.connection.feed.messages_after(0)]
    places = [(fact["sequence"], fact["number"]) for fact in whole]
    assert places == sorted(set(places))
    assert [fact["type"] for fact in whole[before:]] == [
        *("lease.started.v1", "job.started.feed", "job.admitted.v1", "job.admitted.v1", "queue.head.feed")
    ]
    assert whole[before + 1] | {"at": 0} == {
        "type": "job.started.feed",
        "at": 0,
        "sequence": 5,
        "number": 2,
        "job": jobs[0],
        "attempt": 1,
        "nodes": ["gpu01"],
        "pool": "hall",
    }
    send = second.connection.send
    answer = decode(await send("hr.query.orders.node.*", "hr.query.orders.node.gpu01"), NodeAnswer)
    assert [start.job for start in answer.starts] == [jobs[0]]


async def test_what_an_attempt_was_when_it_started_is_told_also_when_it_has_ended_since(hall, two):
    first, second = two
    job = hall.job(1)
    hall.admit(job, text="sealed")
    hall.grant(job, ("gpu01", "g0"))
    await first.still()
    await first.stop()
    hall.start(job)
    await second.still()
    hall.end(job, exit_code=1)
    hall.append_facts("allocator", f.JobRequeuedV1(job=job, attempt=1, cause="failed"))
    hall.grant(job, ("gpu01", "g1"), attempt=2)
    await second.still()
    second.turn.mine = True
    await second.until(lambda: second.feed.active)
    await second.still()
    (started,) = [
        fact
        for message in second.connection.feed.messages_after(0)
        if (fact := json.loads(message.payload))["type"] == "job.started.feed"
    ]
    assert (started["attempt"], started["nodes"]) == (1, ["gpu01"])


async def test_one_that_sleeps_while_another_takes_over_is_deposed(hall, two):
    first, second = two
    hall.admit(hall.job(1), text="sealed")
    await first.still()
    await second.still()
    second.turn.mine = True
    await second.until(lambda: second.feed.active)
    hall.admit(hall.job(2), text="sealed")
    with pytest.raises(Fenced, match="another instance publishes on FEED"):
        await first.until(lambda: False)
    whole = [json.loads(message.payload) for message in second.connection.feed.messages_after(0)]
    assert [fact["job"] for fact in whole if fact["type"] == "job.admitted.v1"] == [hall.job(1), hall.job(2)]


async def test_the_first_of_two_answers_how_it_is_also_while_the_other_one_tells(hall, alone):
    connection = FakeConnection(lambda: hall.now)
    running = Running(hall, connection, turn=turn(is_settled=False))
    await running.until(running.feed.caught_up.is_set)
    for _ in range(20):
        await asyncio.sleep(0)
    assert set(connection.subscriptions) == {"hr.telemetry.*.heartbeat"}
    running.turn.is_settled = True
    await running.until(lambda: "hr.query.feed.status.>" in connection.subscriptions)
    running.turn.mine = True
    await running.until(lambda: "hr.query.orders.node.*" in connection.subscriptions)
    answer = await connection.send("hr.query.feed.status.>", "hr.query.feed.status.acme.alice")
    assert decode(bytes(decode(answer, Answer).body), ServiceView).detail["decides"] == 1
    await running.stop()


@pytest.fixture
def buffers(monkeypatch):
    """The buffers of the feeds that are begun, in order, each with its lengths behind each record."""
    made = []

    class Watched(module.StandbyBuffer):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            self.lengths = []
            made.append(self)

        def add(self, folded):
            super().add(folded)
            self.lengths.append(len(self))

    monkeypatch.setattr(module, "StandbyBuffer", Watched)
    return made


async def test_what_feed_has_is_let_go_of_while_standing_by(hall, buffers, two):
    first, second = two
    hall.admit(hall.job(1), text="sealed")
    hall.admit(hall.job(2), text="sealed")
    await first.still()
    await second.still()
    await second.until(lambda: len(buffers[1]) == 1)
    assert [record.sequence for record in buffers[1].take()] == [4]


async def test_heads_told_on_an_empty_feed_are_numbered_on_by_the_one_that_takes_over(hall, alone):
    hall.admit(hall.job(1), text="sealed")
    first = Running(hall, FakeConnection(lambda: hall.now), turn=turn())
    other = FakeConnection(lambda: hall.now)
    other.feed = first.connection.feed
    second = Running(hall, other, turn=turn(), name="feed-standby")
    for one in (first, second):
        await one.until(one.feed.caught_up.is_set)
    for one in (first, second):
        one.turn.mine = True
        await one.until(lambda one=one: one.feed.active)
        await one.still()
        await one.stop()
    published = [json.loads(message.payload) for message in other.feed.messages_after(0)]
    assert [(fact["type"], fact["sequence"], fact["number"]) for fact in published] == [
        ("queue.head.feed", 3, 1),
        ("queue.head.feed", 3, 2),
    ]


async def test_a_feed_that_is_missing_for_a_moment_ends_no_standby(hall, two):
    first, second = two
    there, asked = second.connection.feed.tip, []

    async def missing():
        asked.append(True)
        raise LogRefused("FEED: stream not found (10059)")

    second.connection.feed.tip = missing
    hall.admit(hall.job(1), text="sealed")
    await second.until(lambda: len(asked) > 1)
    second.connection.feed.tip = there
    await first.still()
    await first.stop()
    second.turn.mine = True
    await second.until(lambda: second.feed.active)
    hall.admit(hall.job(2), text="sealed")
    await second.still()
    whole = [json.loads(message.payload) for message in second.connection.feed.messages_after(0)]
    assert [fact["job"] for fact in whole if fact["type"] == "job.admitted.v1"] == [hall.job(1), hall.job(2)]


async def test_who_comes_up_keeps_nothing_that_feed_has(hall, alone, buffers, monkeypatch):
    monkeypatch.setattr(following, "BATCH", 1)
    for number in range(1, 4):
        hall.admit(hall.job(number), text="sealed")
    running = Running(hall, FakeConnection(lambda: hall.now), turn=turn(is_settled=False))
    await running.until(running.feed.caught_up.is_set)
    assert buffers[0].lengths == [1] * hall.log.last_sequence
    await running.stop()


async def test_what_exceeded_the_room_is_counted_as_dropped(hall, alone, monkeypatch):
    monkeypatch.setattr(module, "FEED_MESSAGES", 2)
    running = Running(hall, FakeConnection(lambda: hall.now), turn=turn())
    await running.until(running.feed.caught_up.is_set)
    for number in range(1, 5):
        hall.admit(hall.job(number), text="sealed")
    await running.still()
    running.turn.mine = True
    await running.until(lambda: running.feed.active)
    await running.still()
    published = [json.loads(message.payload) for message in running.connection.feed.messages_after(0)]
    assert [fact["job"] for fact in published if fact["type"] == "job.admitted.v1"] == [hall.job(3), hall.job(4)]
    assert running.feed.status().detail["feed_dropped"] == 2
    await running.stop()


async def test_nodes_hear_of_a_take_over_and_of_what_came_before_it_also_while_feed_is_away(hall, two, monkeypatch):
    monkeypatch.setattr(following, "RETRY", 0.001)
    first, second = two
    there = second.connection.feed.tip

    async def away():
        raise LogUnavailable("FEED has no leader")

    await first.stop()
    second.connection.feed.tip = away
    hall.admit(hall.job(1), text="sealed")
    hall.grant(hall.job(1), ("gpu01", "g0"))
    await second.until(lambda: second.feed.fold.sequence == 4)
    second.turn.mine = True
    await second.until(lambda: "hr.query.orders.node.*" in second.connection.subscriptions)
    assert second.connection.orders() == [Orders(node="gpu01", number=1, through=4, starts=(granted(hall.job(1), 4),))]
    answer = await second.connection.send("hr.query.orders.node.*", "hr.query.orders.node.gpu01")
    assert decode(answer, NodeAnswer).starts == (granted(hall.job(1), 4),)
    assert second.connection.feed_messages() == []
    second.connection.feed.tip = there
    await second.until(second.connection.feed_messages)
    await second.still()
    assert [sequence for sequence, subject in second.connection.feed_messages() if ".head." not in subject] == [3, 4]
