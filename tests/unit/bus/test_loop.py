"""The service loop does what its docstring says, on the in-memory log."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from headrace.bus.follower import Follower
from headrace.bus.log import LogBroken, Message
from headrace.bus.loop import Draft, Fenced, ServiceLoop
from headrace.bus.memory import MemoryLog
from headrace.bus.writer_chain import Chain
from headrace.contracts.facts import NodeCordonedV1
from headrace.contracts.facts.records import digest
from headrace.contracts.transport.codec import decode_record
from headrace.service.task_group import run_until_first_ends
from tests.patience import PATIENCE

SECOND = 1_000_000
WRITER = "governance"


class Tally:
    """A fold that remembers the nodes named, and each writer's last record."""

    def __init__(self) -> None:
        self.sequence = 0
        self.now = 0
        self.nodes: list[str] = []
        self._last: dict[str, tuple[int, str]] = {}

    def read(self, message: Message) -> None:
        assert message.sequence == self.sequence + 1
        self.sequence = message.sequence
        record = decode_record(message.payload)
        self.now = max(self.now, record.now)
        self._last[record.by] = (message.sequence, digest(message.payload))
        self.nodes += [fact.node for fact in record.facts if isinstance(fact, NodeCordonedV1)]

    def last_of(self, writer: str) -> tuple[int, str]:
        return self._last.get(writer, (0, ""))


class Nodes:
    """A decider that states one of its nodes a round, and says what it saw when it was asked."""

    def __init__(self, fold: Tally, nodes: Iterable[str] = (), wakeup: int | None = None) -> None:
        self.fold = fold
        self.nodes = list(nodes)
        self.wakeup = wakeup
        self.asked: list[tuple[int, int]] = []
        self.idle = asyncio.Event()

    def decide(self, now: int) -> Draft | None:
        self.asked.append((self.fold.sequence, now))
        if self.nodes:
            return Draft((_fact(self.nodes.pop(0)),), cause="a node")
        self.idle.set()
        return None

    def next_wakeup(self) -> int | None:
        return self.wakeup

    async def wait_until_idle(self) -> None:
        await asyncio.wait_for(self.idle.wait(), PATIENCE)
        self.idle.clear()


def _fact(node: str) -> NodeCordonedV1:
    return NodeCordonedV1(node=node, author="alice")


def _clock() -> int:
    return 100 * SECOND


def _log(*others: str, clock: Callable[[], int] = _clock) -> MemoryLog:
    """A ledger with a record of admission for each node in `others`."""
    log = MemoryLog(clock)
    chain = Chain(log, "admission", "1")
    for now, node in enumerate(others):
        _state(log, chain, now, node)
    return log


def _state(log: MemoryLog, chain: Chain, now: int, *nodes: str) -> None:
    payload = chain.encode(now, 0, tuple(map(_fact, nodes)))
    chain.stored(log.append_now(f"hr.ledger.{chain.writer}", payload, chain.last), payload)


class Running:
    """A process with one follower and one service for each decider, all on one log."""

    def __init__(
        self,
        log: MemoryLog,
        *deciders: Nodes,
        clock: Callable[[], int] = _clock,
        steady: Callable[[], int] | None = None,
        writers: tuple[str, ...] = (WRITER,),
        **hooks: Any,
    ) -> None:
        self.follower = Follower(log, deciders[0].fold, clock, **({} if steady is None else {"steady": steady}))
        self.services = [
            ServiceLoop(self.follower, log, Chain(log, writer, "1"), decider, **hooks)
            for writer, decider in zip(writers, deciders, strict=True)
        ]

    def wake(self) -> None:
        self.services[0].wake()

    async def run(self) -> None:
        await run_until_first_ends(self.follower.run(), *(service.run() for service in self.services))


@asynccontextmanager
async def _running(process: Running) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.ensure_future(process.run())
    yield task
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def _loop(log: MemoryLog, decider: Nodes, clock: Callable[[], int] = _clock, **hooks: Any) -> Running:
    return Running(log, decider, clock=clock, **hooks)


async def test_what_is_in_the_log_is_folded_before_the_first_decision() -> None:
    log = _log(*(f"n{n}" for n in range(500)))
    decider = Nodes(Tally())
    async with _running(_loop(log, decider)):
        await decider.wait_until_idle()
    assert decider.asked == [(500, 100 * SECOND)]


async def test_each_decision_is_one_record_that_comes_back_before_the_next() -> None:
    log = _log("other")
    decider = Nodes(Tally(), ["a", "b"])
    async with _running(_loop(log, decider)):
        await decider.wait_until_idle()
    assert decider.asked == [(1, 100 * SECOND), (2, 100 * SECOND), (3, 100 * SECOND)]
    assert decider.fold.nodes == ["other", "a", "b"]
    records = [decode_record(message.payload) for message in log.messages_after(1)]
    assert [(r.by, r.as_of, r.cause, r.facts) for r in records] == [
        (WRITER, 1, "a node", (_fact("a"),)),
        (WRITER, 2, "a node", (_fact("b"),)),
    ]


async def test_a_restarted_service_goes_on_behind_its_last_record() -> None:
    log = _log()
    for node in ("a", "b"):
        decider = Nodes(Tally(), [node])
        async with _running(_loop(log, decider)):
            await decider.wait_until_idle()
    first, second = log.messages_after(0)
    assert decode_record(second.payload).prev == digest(first.payload)


async def test_a_message_of_another_writer_is_folded_and_decided_on() -> None:
    log = _log()
    decider = Nodes(Tally())
    async with _running(_loop(log, decider)):
        await decider.wait_until_idle()
        _state(log, Chain(log, "admission", "1"), 1, "x", "y")
        await decider.wait_until_idle()
    assert (decider.asked[-1][0], decider.fold.nodes) == (1, ["x", "y"])


async def test_wake_makes_it_look_again_and_is_not_lost_while_it_works() -> None:
    log = _log()
    decider = Nodes(Tally())
    loop = _loop(log, decider)
    loop.wake()  # before it runs: harmless
    async with _running(loop):
        await decider.wait_until_idle()
        decider.nodes.append("a")
        loop.wake()
        await decider.wait_until_idle()
        decider.nodes.append("b")
        loop.wake()
        loop.wake()
        await decider.wait_until_idle()
    assert decider.fold.nodes == ["a", "b"]


async def test_it_decides_again_when_the_next_wakeup_is_reached() -> None:
    now = [100 * SECOND]
    decider = Nodes(Tally(), wakeup=100 * SECOND + 2_000)
    async with _running(_loop(_log(), decider, lambda: now[0])):
        await decider.wait_until_idle()
        now[0] += 2_000
        decider.wakeup = None
        decider.nodes.append("late")
        await decider.wait_until_idle()
    assert decider.asked[0] == (0, 100 * SECOND)
    assert (decider.asked[-1], decider.fold.nodes) == ((1, 100 * SECOND + 2_000), ["late"])


async def test_time_never_runs_backwards_where_the_fold_is_ahead_of_the_clock() -> None:
    log = _log()
    _state(log, Chain(log, "admission", "1"), 101 * SECOND, "x")
    decider = Nodes(Tally(), ["a"])
    async with _running(_loop(log, decider)):
        await decider.wait_until_idle()
    assert decode_record(log.messages_after(1)[0].payload).now == 101 * SECOND


async def test_a_clock_far_ahead_of_the_logs_is_not_believed() -> None:
    log = _log(clock=lambda: 50 * SECOND)
    decider = Nodes(Tally(), ["a", "b"])
    async with _running(_loop(log, decider, steady=lambda: 7 * SECOND)):
        await decider.wait_until_idle()
    assert [decode_record(message.payload).now for message in log.messages_after(0)] == [50 * SECOND, 50 * SECOND]


async def test_a_clock_that_is_set_far_ahead_later_is_not_believed_for_a_single_record() -> None:  # R34
    now = [50 * SECOND]
    log = _log(clock=lambda: 50 * SECOND)
    decider = Nodes(Tally())
    loop = _loop(log, decider, lambda: now[0], steady=lambda: 7 * SECOND)
    async with _running(loop):
        await decider.wait_until_idle()
        now[0] = 55 * SECOND
        decider.nodes += ["a", "b"]
        loop.wake()
        await decider.wait_until_idle()
    assert [decode_record(message.payload).now for message in log.messages_after(0)] == [50 * SECOND, 50 * SECOND]


async def test_the_log_is_asked_for_its_time_again_before_a_decision_that_comes_much_later() -> None:  # R34
    time = {"log": 50 * SECOND, "clock": 50 * SECOND, "steady": 7 * SECOND}
    log, decider = _log(clock=lambda: time["log"]), Nodes(Tally())
    loop = _loop(log, decider, lambda: time["clock"], steady=lambda: time["steady"])
    async with _running(loop):
        await decider.wait_until_idle()
        time |= {"log": 4_000 * SECOND, "clock": 4_005 * SECOND, "steady": 3_962 * SECOND}  # both our clocks go too fast
        decider.nodes.append("a")
        loop.wake()
        await decider.wait_until_idle()
    assert [decode_record(message.payload).now for message in log.messages_after(0)] == [4_000 * SECOND]


async def test_another_process_writing_in_this_name_deposes_it_though_it_has_nothing_to_say() -> None:
    log = _log("other")
    decider = Nodes(Tally(), ["a"])
    async with _running(_loop(log, decider)) as task:
        await decider.wait_until_idle()
        other = Chain(log, WRITER, "1")
        other.restore(*decider.fold.last_of(WRITER))
        _state(log, other, 1, "stolen")
        with pytest.raises(Fenced, match="another instance has written as governance: record 3"):
            await asyncio.wait_for(task, PATIENCE)
    assert decider.fold.nodes == ["other", "a"]


async def test_another_process_being_faster_in_this_name_deposes_it() -> None:
    log = _log()
    decider = Nodes(Tally(), ["a"])
    decide = decider.decide

    def slowly(now: int) -> Draft | None:
        _state(log, Chain(log, WRITER, "1"), 1, "stolen")
        return decide(now)

    decider.decide = slowly  # type: ignore[method-assign]
    with pytest.raises(Fenced, match="another instance (writes|has written) as governance"):
        await asyncio.wait_for(_loop(log, decider).run(), PATIENCE)
    assert log.last_sequence == 1


async def test_a_gap_in_the_log_stops_it() -> None:
    log = _log("a", "b")
    await log.purge_through(1)
    with pytest.raises(LogBroken):
        await _loop(log, Nodes(Tally())).run()


async def test_the_hooks_hear_of_the_tip_of_each_append_and_of_each_batch() -> None:
    log = _log("x", "y")
    decider = Nodes(Tally(), ["a"])
    calls: list[object] = []
    process = _loop(log, decider, on_appended=lambda draft, sequence: calls.append((draft.facts, sequence)))
    process.follower.before_first.append(lambda: calls.append(("tip", decider.fold.sequence)))
    process.follower.listeners.append(lambda: calls.append(decider.fold.sequence))
    async with _running(process):
        await decider.wait_until_idle()
    assert calls == [2, ("tip", 2), ((_fact("a"),), 3), 3]


async def test_without_a_service_the_follower_only_folds() -> None:
    log, fold = _log("x"), Tally()
    follower = Follower(log, fold, _clock)
    task = asyncio.ensure_future(follower.run())
    await asyncio.wait_for(follower.caught_up.wait(), PATIENCE)
    _state(log, Chain(log, "allocator", "1"), 1, "y")
    await asyncio.wait_for(follower.until(lambda: fold.sequence == 2), PATIENCE)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert fold.nodes == ["x", "y"]


async def test_several_wait_for_the_state_and_one_that_gives_up_disturbs_no_other() -> None:
    log, fold = _log(), Tally()
    follower = Follower(log, fold, _clock)
    task = asyncio.ensure_future(follower.run())
    await asyncio.wait_for(follower.caught_up.wait(), PATIENCE)
    never, stays = (asyncio.ensure_future(follower.until(lambda: fold.sequence == 1)) for _ in range(2))
    await asyncio.sleep(0)
    never.cancel()
    _state(log, Chain(log, "allocator", "1"), 1, "y")
    await asyncio.wait_for(stays, PATIENCE)
    task.cancel()
    await asyncio.gather(task, never, return_exceptions=True)
    assert fold.nodes == ["y"]


async def test_two_services_of_a_process_share_the_fold_and_write_a_chain_each() -> None:
    log, fold = _log("other"), Tally()
    one, two = Nodes(fold, ["a", "c"]), Nodes(fold, ["b"])
    async with _running(Running(log, one, two, writers=(WRITER, "allocator"))):
        async with asyncio.timeout(PATIENCE):
            while len(fold.nodes) < 4:
                await asyncio.sleep(0)
    assert sorted(fold.nodes) == ["a", "b", "c", "other"]
    records = [decode_record(message.payload) for message in log.messages_after(1)]
    first, _ = (message for message in log.messages_after(1) if message.subject == f"hr.ledger.{WRITER}")
    assert [(record.facts, record.prev) for record in records if record.by == WRITER] == [
        ((_fact("a"),), ""),
        ((_fact("c"),), digest(first.payload)),
    ]
    assert [(record.facts, record.prev) for record in records if record.by == "allocator"] == [((_fact("b"),), "")]


class SlowAnswers(MemoryLog):
    """Stores a record at once and says so only when `may_answer` is set."""

    def __init__(self) -> None:
        super().__init__(_clock)
        self.may_answer = asyncio.Event()

    async def append(self, subject: str, payload: bytes, expected_last: int | None) -> int:
        sequence = self.append_now(subject, payload, expected_last)
        await self.may_answer.wait()
        return sequence


async def test_a_record_that_is_read_before_its_append_is_answered_is_folded_after_the_answer() -> None:
    log = SlowAnswers()
    decider = Nodes(Tally(), ["a"])
    sequences: list[int] = []
    process = _loop(log, decider, on_appended=lambda _draft, _sequence: sequences.append(decider.fold.sequence))
    async with _running(process):
        async with asyncio.timeout(PATIENCE):
            while not log.last_sequence:
                await asyncio.sleep(0)
        for _ in range(20):
            await asyncio.sleep(0)
        assert (decider.fold.sequence, process.follower.at_tip) == (0, False)
        log.may_answer.set()
        await decider.wait_until_idle()
    assert (sequences, decider.fold.nodes) == ([0], ["a"])


async def test_two_services_of_a_process_cannot_write_in_one_name() -> None:
    log, fold = _log(), Tally()
    with pytest.raises(ValueError, match=r"two services of one process write hr\.ledger\.governance"):
        Running(log, Nodes(fold), Nodes(fold), writers=(WRITER, WRITER))


class Waits:
    """A turn that comes when the test says so."""

    mine = False


async def test_who_waits_for_its_turn_folds_along_and_goes_on_behind_who_decided_before() -> None:
    log, turn = _log("other"), Waits()
    before = Chain(log, WRITER, "1")
    decider = Nodes(Tally(), ["b"])
    loop = _loop(log, decider, turn=turn)  # type: ignore[arg-type]
    async with _running(loop):
        _state(log, before, 1, "a")
        while decider.fold.nodes != ["other", "a"]:
            await asyncio.sleep(0)
        assert decider.asked == []
        turn.mine = True
        loop.wake()
        await decider.wait_until_idle()
    assert decider.fold.nodes == ["other", "a", "b"]
    assert decode_record(log.messages_after(2)[0].payload).prev == before.digest
