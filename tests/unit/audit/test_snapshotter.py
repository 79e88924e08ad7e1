"""Snapshots taken, stated, begun with, and let go of."""

from __future__ import annotations

import pytest

from headrace.audit.ledger_writer import LedgerWriter
from headrace.audit.snapshot_policy import SnapshotPolicy
from headrace.audit.snapshotter import Snapshotter
from headrace.bus.log import LogDiverged, LogRefused
from headrace.contracts.values.durations import SECOND
from headrace.domain.snapshots.snapshot import dump
from headrace.service.fold import LedgerFold
from headrace.service.snapshots import beginning
from tests.unit.service.bus import Bus


class Kept:
    """A keeper over a ledger in memory, whose clock the test moves."""

    def __init__(self, pace):
        self.bus = Bus()
        self.steady = 0
        self.snapshots = self.bus.over(None)
        self.keeper = Snapshotter(
            self.bus.ledger,
            LedgerFold(),
            self.snapshots,
            LedgerWriter(self.bus.ledger),
            policy=pace,
            steady=lambda: self.steady,
        )

    async def catch_up(self):
        await self.keeper.take_in(self.bus.ledger.messages_after(self.keeper.fold.sequence))


@pytest.fixture
def taken_by_policy():
    return Kept(SnapshotPolicy(facts=4, every=10 * SECOND, least=1))


async def test_a_snapshot_is_stated_and_begun_with_and_what_it_costs_is_little(taken_by_policy):
    taken_by_policy.bus.hall("n1")
    await taken_by_policy.catch_up()
    (fact,) = taken_by_policy.bus.stated("audit")
    (name,) = await taken_by_policy.snapshots.names()
    assert (fact.name, fact.sequence, fact.facts, name.facts) == (str(name), 2, 5, 5)
    state = await beginning(taken_by_policy.snapshots)
    assert dump(state) == dump(taken_by_policy.keeper.fold.state)
    assert (state.sequence, fact.bytes) == (2, len(dump(state)))
    assert (taken_by_policy.keeper.last, taken_by_policy.keeper.taken) == (2, 1)


async def test_nothing_is_taken_before_it_is_due(taken_by_policy):
    taken_by_policy.bus.register("n1")
    await taken_by_policy.catch_up()
    assert taken_by_policy.bus.stated("audit") == []
    taken_by_policy.steady += 10 * SECOND
    await taken_by_policy.catch_up()
    assert len(taken_by_policy.bus.stated("audit")) == 1


async def test_one_that_cannot_be_kept_is_tried_again_later(taken_by_policy, monkeypatch):
    put = taken_by_policy.bus.objects.put

    async def full(name, data):
        raise LogRefused("the disk is full")

    monkeypatch.setattr(taken_by_policy.bus.objects, "put", full)
    taken_by_policy.bus.hall("n1")
    await taken_by_policy.catch_up()
    monkeypatch.setattr(taken_by_policy.bus.objects, "put", put)
    await taken_by_policy.catch_up()
    assert (taken_by_policy.bus.stated("audit"), taken_by_policy.keeper.taken) == ([], 0)
    taken_by_policy.steady += 50 * SECOND
    await taken_by_policy.catch_up()
    assert len(taken_by_policy.bus.stated("audit")) == 1


async def test_of_what_one_server_told_and_the_others_do_not_have_no_snapshot_is_made(taken_by_policy):
    wrong = Bus()
    wrong.hall("n2")
    taken_by_policy.bus.hall("n1")
    with pytest.raises(LogDiverged, match="the record at 2 is not the one that has been read"):
        await taken_by_policy.keeper.take_in(wrong.ledger.messages_after(0))
    assert (taken_by_policy.bus.stated("audit"), await taken_by_policy.snapshots.names()) == ([], [])


async def test_what_is_not_there_yet_where_it_is_asked_for_is_tried_again_later(taken_by_policy):
    ahead = Bus()
    ahead.hall("n1")
    await taken_by_policy.keeper.take_in(ahead.ledger.messages_after(0))
    assert (taken_by_policy.keeper.fold.sequence, await taken_by_policy.snapshots.names()) == (2, [])
    taken_by_policy.bus.hall("n1")
    taken_by_policy.steady += 50 * SECOND
    await taken_by_policy.catch_up()
    assert [fact.sequence for fact in taken_by_policy.bus.stated("audit")] == [2]


async def test_one_that_was_put_and_not_stated_is_stated_after_all(taken_by_policy):
    taken_by_policy.bus.hall("n1")
    state = taken_by_policy.bus.ledger.append_now
    taken_by_policy.bus.ledger.append_now = _refuse
    await taken_by_policy.catch_up()
    assert len(await taken_by_policy.snapshots.names()) == 1
    taken_by_policy.bus.ledger.append_now = state
    taken_by_policy.steady += 50 * SECOND
    await taken_by_policy.catch_up()
    assert len(await taken_by_policy.snapshots.names()) == len(taken_by_policy.bus.stated("audit")) == 1


def _refuse(*_):
    raise LogRefused("not now")


async def test_old_ones_are_let_go_of(taken_by_policy):
    taken_by_policy.bus.hall("n1")
    for number in range(8):
        await taken_by_policy.catch_up()
        taken_by_policy.bus.register(f"m{number}")
        taken_by_policy.steady += 10 * SECOND
    assert [name.facts for name in await taken_by_policy.snapshots.names()] == [5, 9, 13, 15, 17, 19]
    assert len(taken_by_policy.bus.stated("audit")) == 8
