"""The state as it was, folded again while the feed goes on."""

from __future__ import annotations

import asyncio

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


async def test_what_was_worked_out_is_kept_for_the_next_page(long, hall):
    tip = await hall.log.tip()
    first = await long.at(LedgerPoint(at=hall.now - 1_000_000), tip, hall.now)
    assert await long.at(LedgerPoint(at=hall.now - 1_000_000), tip, hall.now) is first
    assert await long.at(LedgerPoint(sequence=first.sequence), tip, hall.now) is first
    assert await long.at(LedgerPoint(sequence=2), tip, hall.now) is not first
    assert len(hall.log.read_behind) == 2


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
        await long.at(point, await hall.log.tip(), hall.now)
    assert refused.value.code == code
