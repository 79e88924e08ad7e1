"""The state as it was, folded again while the feed goes on."""

from __future__ import annotations

import asyncio
import random
from contextlib import AsyncExitStack

import pytest
from msgspec import structs

from headrace.audit.ledger_writer import LedgerWriter
from headrace.audit.snapshot_policy import SnapshotPolicy
from headrace.audit.snapshotter import Snapshotter
from headrace.bus.log import LogUnavailable
from headrace.bus.memory import MemoryLog
from headrace.bus.nats.object_store import MemoryObjects
from headrace.contracts.messages.history import LedgerPoint
from headrace.contracts.transport.codec import encode
from headrace.domain.snapshots.snapshot import dump
from headrace.domain.state.state import State
from headrace.service.answering import Refused
from headrace.service.fold import LedgerFold
from headrace.service.snapshots import Snapshots
from headrace.views import state_at as module
from headrace.views.difference import difference
from headrace.views.replay import past_view
from headrace.views.state_at import PastStates
from headrace.views.visibility import ALL_TENANTS


@pytest.mark.parametrize("sequence", [1, 2, 4])
async def test_behind_a_record_is_what_was_true_then(hall, sequence):
    for number in (1, 2):
        hall.admit(hall.job(number))
    state = await PastStates(hall.log).behind(sequence, 0, hall.state.sequence)
    assert (state.sequence, len(state.jobs)) == (sequence, max(0, sequence - (hall.state.sequence - 2)))


async def test_who_was_erased_since_is_called_so_in_every_past(hall):
    hall.admit(hall.job(1))
    erased = {}
    past = PastStates(hall.log, erased=erased)
    erased["acme", "alice"] = "erased-1"  # later: the same that the fold has
    state = await past.behind(hall.state.sequence, 0, hall.state.sequence)
    view = past_view(state, ALL_TENANTS, hall.state.sequence, 0)
    assert [job.job for job in view.jobs] == [hall.job(1).replace("alice", "erased-1")]
    assert b"alice" not in encode(structs.replace(view, next=""))
    assert b"alice" not in encode(difference(State(), state, ALL_TENANTS))


async def test_at_a_moment_is_behind_the_last_record_stored_by_then(hall):
    hall.admit(hall.job(1))
    then, behind = hall.now, hall.state.sequence
    hall.now += 1_000_000
    hall.admit(hall.job(2))
    state = await PastStates(hall.log).behind(0, then, hall.state.sequence)
    assert (state.sequence, list(state.jobs)) == (behind, [hall.job(1)])


async def test_before_the_beginning_there_is_nothing(hall):
    assert (await PastStates(hall.log).behind(0, 1, hall.state.sequence)).sequence == 0


async def test_too_many_at_once_are_told_to_come_again(hall, monkeypatch):
    monkeypatch.setattr(module, "PIECE", 1)
    past = PastStates(hall.log, at_once=(2, 1))
    tip = hall.state.sequence
    first = asyncio.ensure_future(past.behind(tip, 0, tip, "acme"))
    await asyncio.sleep(0)
    with pytest.raises(
        Refused, match="^another question of your tenant about the past is being answered; try again in a moment$"
    ):
        await past.behind(tip, 0, tip, "acme")
    second = asyncio.ensure_future(past.behind(tip, 0, tip, "other"))
    await asyncio.sleep(0)
    with pytest.raises(Refused, match="^other questions about the past are being answered; try again in a moment$"):
        await past.behind(tip, 0, tip, "third")
    assert (await first).sequence == (await second).sequence == tip
    assert (await past.behind(tip, 0, tip, "acme")).sequence == tip


async def test_an_answer_without_a_waiter_is_not_worked_out_further(hall, monkeypatch):
    monkeypatch.setattr(module, "PIECE", 1)
    past = PastStates(hall.log, at_once=(1, 1))
    tip = hall.state.sequence
    first = asyncio.ensure_future(past.behind(tip, 0, tip, "acme"))
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert (await past.behind(tip, 0, tip, "acme")).sequence == tip


class Away(MemoryLog):
    async def read(self, after):
        raise LogUnavailable("no server")


async def test_a_ledger_that_is_away_or_silent_is_told_in_a_line(monkeypatch):
    monkeypatch.setattr(module, "SILENCE", 0.01)
    with pytest.raises(Refused, match="the ledger cannot be read now: no server"):
        await PastStates(Away(lambda: 0)).behind(1, 0, 1)
    with pytest.raises(Refused, match="the ledger gives nothing behind record 0"):
        await PastStates(MemoryLog(lambda: 0)).behind(1, 0, 1)


class Counting(MemoryLog):
    """Knows from where on it was read."""

    def __init__(self, log):
        self.__dict__.update(log.__dict__)
        self.read_behind = []

    async def read(self, after):
        self.read_behind.append(after)
        return await super().read(after)


@pytest.fixture
async def long(hall):
    """A history with a snapshot behind every record but the last two, and a second between records."""
    snapshots = Snapshots(MemoryObjects(), hall.log)
    pen = LedgerWriter(hall.log)
    steady = [0]
    keeper = Snapshotter(
        hall.log, LedgerFold(), snapshots, pen, policy=SnapshotPolicy(facts=1, every=1, least=1), steady=lambda: steady[0]
    )
    for number in range(1, 5):
        hall.pass_time()
        hall.admit(hall.job(number))
        await keeper.take_in(hall.log.messages_after(keeper.fold.sequence))
        hall.ledger.read(hall.log.messages_after(hall.state.sequence)[0])  # what audit states is folded by all services
    hall.log = Counting(hall.log)
    return PastStates(hall.log, snapshots)


@pytest.mark.parametrize(("sequence", "begins"), [(2, 0), (3, 3), (4, 3), (7, 7), (10, 9)])
async def test_the_last_snapshot_before_it_is_where_it_begins(long, hall, sequence, begins):
    tip = await hall.log.tip()
    state = await long.behind(sequence, 0, tip)
    naive = await PastStates(hall.log).behind(sequence, 0, tip)
    assert (hall.log.read_behind, dump(state)) == ([begins, 0], dump(naive))


async def test_at_a_moment_it_begins_with_the_last_snapshot_of_then(long, hall):
    tip = await hall.log.tip()
    state = await long.behind(0, hall.now - 1_000_000, tip)
    assert (state.sequence, hall.log.read_behind) == (8, [7])


async def at(past, log, **point) -> State:
    """The state, which the caller must not read after it has asked again."""
    async with past.at(LedgerPoint(**point), await log.tip(), NOW) as state:
        return state


NOW = 2**60


async def test_what_was_worked_out_is_kept_for_the_next_page(long, hall):
    time = hall.now - 1_000_000
    first = await at(long, hall.log, at=time)
    assert await at(long, hall.log, at=time) is first
    assert await at(long, hall.log, sequence=first.sequence) is first
    assert await at(long, hall.log, sequence=2) is not first
    assert len(hall.log.read_behind) == 2


async def test_a_later_moment_is_folded_on_from_the_last_one(long, hall):
    first = await at(long, hall.log, sequence=6)
    assert await at(long, hall.log, sequence=9) is first
    assert hall.log.read_behind == [5, 6]


async def test_one_that_is_held_is_not_moved_and_others_get_a_state_of_their_own(long, hall):
    async with long.at(LedgerPoint(sequence=6), await hall.log.tip(), NOW) as held:
        other = await at(long, hall.log, sequence=8)
        assert (held.sequence, other.sequence, other is held) == (6, 8, False)
    assert await at(long, hall.log, sequence=7) is held


async def test_a_long_way_leaves_a_mark_for_steps_back(hall, monkeypatch):
    monkeypatch.setattr(module, "BACK", 2)
    for number in range(1, 9):
        hall.admit(hall.job(number))
    log = Counting(hall.log)
    past, tip = PastStates(log), await log.tip()
    for sequence in (tip, tip - 1, tip - 2):
        assert dump(await at(past, log, sequence=sequence)) == dump(await PastStates(hall.log).behind(sequence, 0, tip))
    assert log.read_behind == [0, tip - 2, tip - 2]


async def test_moments_by_chance_are_those_of_a_fold_from_the_beginning_while_records_arrive(long, hall):
    chance = random.Random(7)
    for number in range(5, 45):
        hall.pass_time()
        hall.admit(hall.job(number))
        tip = await hall.log.tip()
        asked = chance.sample(range(1, tip + 1), min(tip, 4))
        async with AsyncExitStack() as held:
            for sequence in asked:
                point = LedgerPoint(sequence=sequence)
                if number % 3:
                    point = LedgerPoint(at=(await hall.log.get(sequence)).stamped)
                entered = await held.enter_async_context(long.at(point, tip, NOW))
                naive = await PastStates(hall.log).behind(point.sequence, point.at, tip)
                assert (entered.sequence, dump(entered)) == (naive.sequence, dump(naive))
                if chance.random() < 0.7:
                    await held.aclose()


async def test_who_was_erased_since_is_called_so_after_a_step_and_the_fold_is_not_changed_by_that(hall):
    erased = {}
    past = PastStates(hall.log, erased=erased)
    hall.admit(hall.job(1))
    assert (await at(past, hall.log, sequence=3)).tokens.erased == {}
    erased["acme", "alice"] = "erased-1"
    assert (await at(past, hall.log, sequence=3)).tokens.erased == erased
    hall.admit(hall.job(2))
    state = await at(past, hall.log, sequence=4)
    assert state.tokens.erased == erased
    erased.clear()
    hall.admit(hall.job(3))
    assert dump(await at(past, hall.log, sequence=5)) == dump(await PastStates(hall.log).behind(5, 0, 5))


async def test_who_goes_away_while_it_is_folded_leaves_it_for_the_next(hall, monkeypatch):
    monkeypatch.setattr(module, "PIECE", 1)
    hall.admit(hall.job(1))
    log = Counting(hall.log)
    past, tip = PastStates(log), await log.tip()
    first = asyncio.ensure_future(at(past, log, sequence=tip))
    while not log.read_behind:
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert (await at(past, log, sequence=tip)).sequence == tip
    begun, went_on = log.read_behind
    assert begun == 0 < went_on


async def test_what_is_kept_is_forgotten_when_no_question_comes(long, hall, monkeypatch):
    monkeypatch.setattr(module, "KEPT_FOR", 0)
    first = await at(long, hall.log, sequence=6)
    await asyncio.sleep(0.01)
    assert await at(long, hall.log, sequence=6) is not first


@pytest.mark.parametrize(
    ("point", "code", "says"),
    [
        (LedgerPoint(sequence=11), "INVALID", "record 11 does not exist; records are numbered from 1 to 10 so far"),
        (LedgerPoint(sequence=-1), "INVALID", "record -1 does not exist"),
        (
            LedgerPoint(at=2_000_000_000_000_000),
            "INVALID",
            "2033-05-18T03:33:20.000Z is still to come; it is 2027-01-15T08:00:04.000Z",
        ),
        (
            LedgerPoint(at=1),
            "NOT_FOUND",
            "there was nothing before 2027-01-15T08:00:00.000Z, when the first record was written",
        ),
    ],
)
async def test_a_point_that_there_is_not_is_told(long, hall, point, code, says):
    with pytest.raises(Refused, match=says) as refused:
        await long.at(point, await hall.log.tip(), hall.now).__aenter__()
    assert refused.value.code == code
