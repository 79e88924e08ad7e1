from __future__ import annotations

import asyncio

import pytest

from headrace.bus.log import LogUnavailable
from headrace.client.wishing import make_wish
from headrace.contracts.codec import decode_submit
from headrace.governance.api.gathering import Gathering

SUBJECT = "hr.submit.acme.alice.dev.half"


class Log:
    """A log that stores when it is told to."""

    def __init__(self):
        self.stored = []
        self.go = asyncio.Event()
        self.trouble = None

    async def append(self, subject, payload, _expected, message_id):
        await self.go.wait()
        if self.trouble is not None:
            raise self.trouble
        self.stored.append((subject, [wish.id for wish in decode_submit(payload)], message_id))


def wishes(count=1):
    return [make_wish(["true"]) for _ in range(count)]


async def test_who_comes_while_a_message_is_stored_shares_the_next():
    log, gathering = Log(), Gathering()
    sent = [wishes(), wishes(2), wishes()]
    waiting = []
    for one in sent:
        waiting.append(asyncio.create_task(gathering.store(log, SUBJECT, one)))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    log.go.set()
    await asyncio.gather(*waiting)
    first, *rest = [wish.id for one in sent for wish in one]
    assert log.stored == [(SUBJECT, [first], f"acme.alice.{first}"), (SUBJECT, rest, f"acme.alice.{rest[0]}")]


async def test_who_comes_alone_waits_for_nobody_and_other_subjects_go_their_own_way():
    log, gathering = Log(), Gathering()
    log.go.set()
    alone, other = wishes(), wishes()
    await gathering.store(log, SUBJECT, alone)
    await gathering.store(log, "hr.submit.emca.eve.dev.half", other)
    assert [(subject, ids) for subject, ids, _ in log.stored] == [
        (SUBJECT, [alone[0].id]),
        ("hr.submit.emca.eve.dev.half", [other[0].id]),
    ]


async def test_what_is_not_stored_is_told_to_all_who_wait_for_it_and_the_next_go_on():
    log, gathering = Log(), Gathering()
    log.go.set()
    log.trouble = LogUnavailable("away")
    for ended in await asyncio.gather(*(gathering.store(log, SUBJECT, wishes()) for _ in range(3)), return_exceptions=True):
        assert isinstance(ended, LogUnavailable)
    log.trouble = None
    await gathering.store(log, SUBJECT, wishes())
    assert len(log.stored) == 1


async def test_who_gives_up_waiting_harms_nobody():
    log, gathering = Log(), Gathering()
    gone = asyncio.create_task(gathering.store(log, SUBJECT, wishes()))
    await asyncio.sleep(0)
    gone.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gone
    log.go.set()
    await gathering.store(log, SUBJECT, wishes())
    assert len(log.stored) == 2
