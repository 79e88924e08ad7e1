"""The service loop does what its docstring says, on the in-memory log."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager

import pytest

from headrace.bus.log import LogBroken, Message
from headrace.bus.loop import Draft, Fenced, ServiceLoop, follow
from headrace.bus.memory import MemoryLog
from headrace.bus.writer_chain import Chain
from headrace.contracts.facts import NodeCordonedV1
from headrace.contracts.facts.records import digest
from headrace.contracts.transport.codec import decode_record
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

    async def settled(self) -> None:
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


@asynccontextmanager
async def _running(loop: ServiceLoop) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.ensure_future(loop.run())
    yield task
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def _loop(log: MemoryLog, decider: Nodes, clock: Callable[[], int] = _clock, **hooks: Callable[..., None]) -> ServiceLoop:
    return ServiceLoop(log, decider.fold, clock, chain=Chain(log, WRITER, "1"), decider=decider, **hooks)  # type: ignore[arg-type]


async def test_what_is_in_the_log_is_folded_before_the_first_decision() -> None:
    log = _log(*(f"n{n}" for n in range(500)))
    decider = Nodes(Tally())
    async with _running(_loop(log, decider)):
        await decider.settled()
    assert decider.asked == [(500, 100 * SECOND)]


async def test_each_decision_is_one_record_that_comes_back_before_the_next() -> None:
    log = _log("other")
    decider = Nodes(Tally(), ["a", "b"])
    async with _running(_loop(log, decider)):
        await decider.settled()
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
            await decider.settled()
    first, second = log.messages_after(0)
    assert decode_record(second.payload).prev == digest(first.payload)


async def test_a_message_of_somebody_else_is_folded_and_decided_on() -> None:
    log = _log()
    decider = Nodes(Tally())
    async with _running(_loop(log, decider)):
        await decider.settled()
        _state(log, Chain(log, "admission", "1"), 1, "x", "y")
        await decider.settled()
    assert (decider.asked[-1][0], decider.fold.nodes) == (1, ["x", "y"])


async def test_a_nudge_makes_it_look_again_and_is_not_lost_while_it_works() -> None:
    log = _log()
    decider = Nodes(Tally())
    loop = _loop(log, decider)
    loop.wake()  # before it runs: harmless
    async with _running(loop):
        await decider.settled()
        decider.nodes.append("a")
        loop.wake()
        await decider.settled()
        decider.nodes.append("b")
        loop.wake()
        loop.wake()
        await decider.settled()
    assert decider.fold.nodes == ["a", "b"]


async def test_it_decides_again_when_the_next_wakeup_is_reached() -> None:
    now = [100 * SECOND]
    decider = Nodes(Tally(), wakeup=100 * SECOND + 2_000)
    async with _running(_loop(_log(), decider, lambda: now[0])):
        await decider.settled()
        now[0] += 2_000
        decider.wakeup = None
        decider.nodes.append("late")
        await decider.settled()
    assert decider.asked[0] == (0, 100 * SECOND)
    assert (decider.asked[-1], decider.fold.nodes) == ((1, 100 * SECOND + 2_000), ["late"])


async def test_time_never_runs_backwards_where_the_fold_is_ahead_of_the_clock() -> None:
    log = _log()
    _state(log, Chain(log, "admission", "1"), 101 * SECOND, "x")
    decider = Nodes(Tally(), ["a"])
    async with _running(_loop(log, decider)):
        await decider.settled()
    assert decode_record(log.messages_after(1)[0].payload).now == 101 * SECOND


async def test_a_clock_far_ahead_of_the_logs_is_not_believed() -> None:
    log = _log(clock=lambda: 50 * SECOND)
    decider = Nodes(Tally(), ["a", "b"])
    async with _running(_loop(log, decider, steady=lambda: 7 * SECOND)):
        await decider.settled()
    assert [decode_record(message.payload).now for message in log.messages_after(0)] == [50 * SECOND, 50 * SECOND]


async def test_a_clock_that_is_set_far_ahead_later_is_not_believed_for_a_single_record() -> None:  # R34
    now = [50 * SECOND]
    log = _log(clock=lambda: 50 * SECOND)
    decider = Nodes(Tally())
    loop = _loop(log, decider, lambda: now[0], steady=lambda: 7 * SECOND)
    async with _running(loop):
        await decider.settled()
        now[0] = 55 * SECOND
        decider.nodes += ["a", "b"]
        loop.wake()
        await decider.settled()
    assert [decode_record(message.payload).now for message in log.messages_after(0)] == [50 * SECOND, 50 * SECOND]


async def test_the_log_is_asked_for_its_time_again_before_a_decision_that_comes_much_later() -> None:  # R34
    time = {"log": 50 * SECOND, "clock": 50 * SECOND, "steady": 7 * SECOND}
    log, decider = _log(clock=lambda: time["log"]), Nodes(Tally())
    loop = _loop(log, decider, lambda: time["clock"], steady=lambda: time["steady"])
    async with _running(loop):
        await decider.settled()
        time |= {"log": 4_000 * SECOND, "clock": 4_005 * SECOND, "steady": 3_962 * SECOND}  # both our clocks go too fast
        decider.nodes.append("a")
        loop.wake()
        await decider.settled()
    assert [decode_record(message.payload).now for message in log.messages_after(0)] == [4_000 * SECOND]


async def test_somebody_else_writing_in_this_name_deposes_it_though_it_has_nothing_to_say() -> None:
    log = _log("other")
    decider = Nodes(Tally(), ["a"])
    async with _running(_loop(log, decider)) as task:
        await decider.settled()
        other = Chain(log, WRITER, "1")
        other.restore(*decider.fold.last_of(WRITER))
        _state(log, other, 1, "stolen")
        with pytest.raises(Fenced, match="another instance has written as governance: record 3"):
            await asyncio.wait_for(task, PATIENCE)
    assert decider.fold.nodes == ["other", "a"]


async def test_somebody_else_being_faster_in_this_name_deposes_it() -> None:
    log = _log()
    decider = Nodes(Tally(), ["a"])
    decide = decider.decide

    def slowly(now: int) -> Draft | None:
        _state(log, Chain(log, WRITER, "1"), 1, "stolen")
        return decide(now)

    decider.decide = slowly  # type: ignore[method-assign]
    with pytest.raises(Fenced, match="another instance writes as governance"):
        await asyncio.wait_for(_loop(log, decider).run(), PATIENCE)
    assert log.last_sequence == 1


async def test_a_gap_in_the_log_stops_it() -> None:
    log = _log("a", "b")
    await log.purge_through(1)
    with pytest.raises(LogBroken):
        await _loop(log, Nodes(Tally())).run()


async def test_the_hooks_hear_of_the_tip_of_each_message_and_of_each_append() -> None:
    log = _log("x", "y")
    decider = Nodes(Tally(), ["a"])
    heard: list[object] = []
    loop = _loop(
        log,
        decider,
        at_tip=lambda: heard.append("tip"),
        after_fold=lambda message: heard.append(message.sequence),
        on_appended=lambda draft, sequence: heard.append((draft.facts, sequence)),
    )
    async with _running(loop):
        await decider.settled()
    assert heard == [1, 2, "tip", ((_fact("a"),), 3), 3]


async def test_without_a_decider_it_only_follows() -> None:
    log = _log("x")
    fold, reached = Tally(), asyncio.Event()
    loop = ServiceLoop(log, fold, _clock, after_fold=lambda message: reached.set() if message.sequence == 2 else None)
    async with _running(loop):
        _state(log, Chain(log, "allocator", "1"), 1, "y")
        await asyncio.wait_for(reached.wait(), PATIENCE)
    assert fold.nodes == ["x", "y"]
    with pytest.raises(ValueError, match="pass both or neither"):
        ServiceLoop(log, fold, _clock, decider=Nodes(fold))


async def test_following_gives_batches_and_with_a_wait_also_the_silence() -> None:
    log = _log("a", "b", "c")
    sizes = []
    async for batch in follow(log, 1, limit=1, wait=0.001):
        sizes.append(len(batch))
        if not batch:
            break
    assert sizes == [1, 1, 0]
    async for batch in follow(log, 0):
        assert [message.sequence for message in batch] == [1, 2, 3]
        break


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
        await decider.settled()
    assert decider.fold.nodes == ["other", "a", "b"]
    assert decode_record(log.messages_after(2)[0].payload).prev == before.digest
