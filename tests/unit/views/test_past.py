"""The state as it was, folded again while the feed goes on."""

from __future__ import annotations

import asyncio

import pytest

from headrace.bus.log import LogUnavailable
from headrace.bus.memory import MemoryLog
from headrace.service.answering import Refused
from headrace.views import past as module
from headrace.views.past import Past


@pytest.mark.parametrize("sequence", [1, 2, 4])
async def test_behind_a_record_is_what_was_true_then(hall, sequence):
    for number in (1, 2):
        hall.admit(hall.job(number))
    state = await Past(hall.log).behind(sequence, 0, hall.state.sequence)
    assert (state.sequence, len(state.jobs)) == (sequence, max(0, sequence - (hall.state.sequence - 2)))


async def test_at_a_moment_is_behind_the_last_record_stored_by_then(hall):
    hall.admit(hall.job(1))
    then, behind = hall.now, hall.state.sequence
    hall.now += 1_000_000
    hall.admit(hall.job(2))
    state = await Past(hall.log).behind(0, then, hall.state.sequence)
    assert (state.sequence, list(state.jobs)) == (behind, [hall.job(1)])


async def test_before_the_beginning_there_is_nothing(hall):
    assert (await Past(hall.log).behind(0, 1, hall.state.sequence)).sequence == 0


async def test_too_many_at_once_are_told_to_come_again(hall, monkeypatch):
    monkeypatch.setattr(module, "PIECE", 1)
    past = Past(hall.log, at_once=1)
    tip = hall.state.sequence
    first = asyncio.ensure_future(past.behind(tip, 0, tip))
    await asyncio.sleep(0)
    with pytest.raises(Refused, match="try again"):
        await past.behind(tip, 0, tip)
    assert (await first).sequence == tip
    assert (await past.behind(tip, 0, tip)).sequence == tip


class Away(MemoryLog):
    async def read(self, after):
        raise LogUnavailable("no server")


async def test_a_ledger_that_is_away_or_silent_is_told_in_a_line(monkeypatch):
    monkeypatch.setattr(module, "SILENCE", 0.01)
    with pytest.raises(Refused, match="the ledger cannot be read now: no server"):
        await Past(Away(lambda: 0)).behind(1, 0, 1)
    with pytest.raises(Refused, match="the ledger gives nothing behind record 0"):
        await Past(MemoryLog(lambda: 0)).behind(1, 0, 1)
