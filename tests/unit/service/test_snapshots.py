"""Where a fold begins."""

from __future__ import annotations

from itertools import count

import pytest
from structlog.testing import capture_logs

from headrace.audit.ledger_writer import LedgerWriter
from headrace.audit.snapshot_policy import SnapshotPolicy
from headrace.audit.snapshotter import Snapshotter
from headrace.bus.log import LogRefused, LogUnavailable
from headrace.domain.snapshots import snapshot
from headrace.service.fold import LedgerFold
from headrace.service.snapshots import TRIES, SnapshotName, beginning
from tests.unit.service.bus import Bus


@pytest.fixture
def bus():
    return Bus()


@pytest.fixture
async def two(bus):
    """Two snapshots, behind the records 2 and 4."""
    policy, steady = SnapshotPolicy(facts=1, every=1, least=1), count().__next__
    keeper = Snapshotter(bus.ledger, LedgerFold(), bus.over(None), LedgerWriter(bus.ledger), policy=policy, steady=steady)
    bus.hall("n1")
    for _ in range(2):
        await keeper.take_in(bus.ledger.messages_after(keeper.fold.sequence))
        bus.register("n1")
    return bus.over(None)


def test_a_name_says_what_has_to_be_known_before_it_is_read():
    name = SnapshotName(12, 34, snapshot.SCHEMA, "0123456789abcdef")
    assert SnapshotName.parse(str(name)) == name
    assert SnapshotName.parse("something else") is None


async def test_it_begins_with_the_newest_or_the_newest_up_to_a_record(two):
    assert (await beginning(two)).sequence == 4
    assert (await beginning(two, 3)).sequence == 2
    assert (await beginning(two, 1)).sequence == 0


@pytest.mark.parametrize("harm", ["flip", "cut", "forge", "unstated", "mislabel", "stray"])
async def test_what_cannot_be_trusted_is_told_and_the_one_before_it_is_taken(two, bus, harm):
    newest = (await two.names())[-1]
    data = await bus.objects.get(str(newest))

    async def replace(other, name=newest):
        await bus.objects.delete(str(name))
        await bus.objects.put(str(name), other)

    if harm == "flip":
        await replace(data[:-1] + bytes([data[-1] ^ 1]))
    elif harm == "cut":
        await replace(data[: len(data) // 2])
    elif harm == "forge":
        state = snapshot.load(data)
        state.judged = 1_000
        await replace(snapshot.dump(state))
    elif harm == "unstated":
        await replace(data, newest._replace(sequence=5))
    elif harm == "stray":  # what it was made of was told by one server, and is not what stands in the ledger
        bus.ledger.replace_now(4, b"{}")
    else:
        await replace(await bus.objects.get(str((await two.names())[0])))
    with capture_logs() as logs:
        state = await beginning(two)
    assert state.sequence == (4 if harm == "unstated" else 2)
    assert [entry["event"] for entry in logs if entry["log_level"] == "error"] == ["snapshot_unusable"]


async def test_those_of_another_release_are_told_and_not_read(two, bus, monkeypatch):
    monkeypatch.setattr(snapshot, "SCHEMA", "9.other")
    with capture_logs() as logs:
        assert (await beginning(two)).sequence == 0
    assert {"event": "snapshots_of_another_release", "count": 2}.items() <= logs[0].items()
    monkeypatch.setattr(snapshot, "ALSO_READ", frozenset({(await two.names())[0].schema}))
    assert (await beginning(two)).sequence == 4


async def test_where_snapshots_cannot_be_read_the_ledger_is_and_who_is_away_is_waited_for(two, bus, monkeypatch):
    monkeypatch.setattr("headrace.service.snapshots.RETRY", 0)
    answers = [LogUnavailable("away"), LogRefused("no such stream")]

    async def names():
        raise answers.pop(0)

    monkeypatch.setattr(bus.objects, "names", names)
    with capture_logs() as logs:
        assert (await beginning(two)).sequence == 0
    assert [entry["event"] for entry in logs] == ["snapshots_awaited", "snapshots_unreadable"]


@pytest.mark.parametrize(
    ("times", "begins_behind", "says"),
    [(TRIES - 1, 4, "begins_with_snapshot"), (10 * TRIES, 0, "snapshots_unreadable")],
    ids=["read when they are back", "for good, the whole ledger is read"],
)
async def test_where_they_alone_are_away_it_is_told_once(two, bus, monkeypatch, times, begins_behind, says):
    monkeypatch.setattr("headrace.service.snapshots.RETRY", 0)
    asked = _away(monkeypatch, bus.objects, "names", times)
    with capture_logs() as logs:
        assert (await beginning(two)).sequence == begins_behind
    assert len(asked) == TRIES
    assert [entry["event"] for entry in logs] == ["snapshots_awaited", says]


async def test_as_long_as_the_ledger_is_away_as_well_they_are_waited_for(two, bus, monkeypatch):
    monkeypatch.setattr("headrace.service.snapshots.RETRY", 0)
    asked = _away(monkeypatch, bus.objects, "names", 10 * TRIES)
    _away(monkeypatch, bus.ledger, "tip", 10 * TRIES)
    assert (await beginning(two)).sequence == 4
    assert len(asked) == 10 * TRIES + 1


async def test_how_many_facts_a_beginning_has_behind_it_is_not_asked_where_it_is_nothing(two, bus, monkeypatch):
    hall, stated_and_registered = 5, 2
    assert [await two.facts_until(sequence) for sequence in (0, 2, 4)] == [0, hall, hall + stated_and_registered]
    _away(monkeypatch, bus.objects, "names", 1)
    assert await two.facts_until(0) == 0


def _away(monkeypatch, whom, question, times):
    """Whom it is asked of is away a number of times; a list of what was asked."""
    asked = []
    answer = getattr(whom, question)

    async def ask():
        asked.append(question)
        if len(asked) <= times:
            raise LogUnavailable("away")
        return await answer()

    monkeypatch.setattr(whom, question, ask)
    return asked
