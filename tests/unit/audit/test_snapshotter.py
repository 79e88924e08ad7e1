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
def kept():
    return Kept(SnapshotPolicy(facts=4, every=10 * SECOND, least=1))


async def test_a_snapshot_is_stated_and_begun_with_and_what_it_costs_is_little(kept):
    kept.bus.hall("n1")
    await kept.catch_up()
    (fact,) = kept.bus.stated("audit")
    (name,) = await kept.snapshots.names()
    assert (fact.name, fact.sequence, fact.facts, name.facts) == (str(name), 2, 5, 5)
    state = await beginning(kept.snapshots)
    assert dump(state) == dump(kept.keeper.fold.state)
    assert (state.sequence, fact.bytes) == (2, len(dump(state)))
    assert (kept.keeper.last, kept.keeper.taken) == (2, 1)


async def test_nothing_is_taken_before_it_is_due(kept):
    kept.bus.register("n1")
    await kept.catch_up()
    assert kept.bus.stated("audit") == []
    kept.steady += 10 * SECOND
    await kept.catch_up()
    assert len(kept.bus.stated("audit")) == 1


async def test_one_that_cannot_be_kept_is_tried_again_later(kept, monkeypatch):
    put = kept.bus.objects.put

    async def full(name, data):
        raise LogRefused("the disk is full")

    monkeypatch.setattr(kept.bus.objects, "put", full)
    kept.bus.hall("n1")
    await kept.catch_up()
    monkeypatch.setattr(kept.bus.objects, "put", put)
    await kept.catch_up()
    assert (kept.bus.stated("audit"), kept.keeper.taken) == ([], 0)
    kept.steady += 50 * SECOND
    await kept.catch_up()
    assert len(kept.bus.stated("audit")) == 1


async def test_of_what_one_server_told_and_the_others_do_not_have_no_snapshot_is_made(kept):
    wrong = Bus()
    wrong.hall("n2")
    kept.bus.hall("n1")
    with pytest.raises(LogDiverged, match="the record at 2 is not the one that has been read"):
        await kept.keeper.take_in(wrong.ledger.messages_after(0))
    assert (kept.bus.stated("audit"), await kept.snapshots.names()) == ([], [])


async def test_what_is_not_there_yet_where_it_is_asked_for_is_tried_again_later(kept):
    ahead = Bus()
    ahead.hall("n1")
    await kept.keeper.take_in(ahead.ledger.messages_after(0))
    assert (kept.keeper.fold.sequence, await kept.snapshots.names()) == (2, [])
    kept.bus.hall("n1")
    kept.steady += 50 * SECOND
    await kept.catch_up()
    assert [fact.sequence for fact in kept.bus.stated("audit")] == [2]


async def test_one_that_was_put_and_not_stated_is_stated_after_all(kept):
    kept.bus.hall("n1")
    state = kept.bus.ledger.append_now
    kept.bus.ledger.append_now = _refuse
    await kept.catch_up()
    assert len(await kept.snapshots.names()) == 1
    kept.bus.ledger.append_now = state
    kept.steady += 50 * SECOND
    await kept.catch_up()
    assert len(await kept.snapshots.names()) == len(kept.bus.stated("audit")) == 1


def _refuse(*_):
    raise LogRefused("not now")


async def test_old_ones_are_let_go_of(kept):
    kept.bus.hall("n1")
    for number in range(8):
        await kept.catch_up()
        kept.bus.register(f"m{number}")
        kept.steady += 10 * SECOND
    assert [name.facts for name in await kept.snapshots.names()] == [5, 9, 13, 15, 17, 19]
    assert len(kept.bus.stated("audit")) == 8
