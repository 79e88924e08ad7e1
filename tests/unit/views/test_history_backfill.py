"""Stories that began before the snapshot with which a fold began."""

from __future__ import annotations

import pytest

from headrace.bus.log import LogUnavailable
from headrace.bus.memory import MemoryLog
from headrace.bus.nats.object_store import MemoryObjects
from headrace.service.snapshots import Snapshots
from headrace.views import history_backfill
from headrace.views.history import History
from headrace.views.history_backfill import backfill_history
from tests.unit.service.bus import running, until


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(history_backfill, "PIECE", 1)
    monkeypatch.setattr(history_backfill, "REST", 0)


async def test_what_was_about_a_job_before_the_snapshot_comes_before_what_came_after(hall):
    job = hall.job(1)
    hall.admit(job)
    hall.grant(job, ("gpu01", "g0"))
    behind = hall.state.sequence
    history = History()
    history.note([job], behind + 1)
    snapshots = Snapshots(MemoryObjects(), hall.log)
    async with running(backfill_history(history, hall.state, behind, hall.log, snapshots)):
        await until(lambda: len(history.of(job)) == 3)
    assert history.of(job) == (behind - 1, behind, behind + 1)


class Away(MemoryLog):
    async def read(self, after):
        raise LogUnavailable("no server")


async def test_a_ledger_that_cannot_be_read_leaves_stories_as_they_are(hall):
    hall.admit(hall.job(1))
    history, away = History(), Away(lambda: 0)
    task = backfill_history(history, hall.state, hall.state.sequence, away, Snapshots(MemoryObjects(), away))
    async with running(task) as work:
        await until(lambda: not work.done())
    assert history.of(hall.job(1)) == ()
