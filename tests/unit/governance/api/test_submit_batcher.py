from __future__ import annotations

import asyncio

import pytest

from headrace.bus.log import LogFull, LogUnavailable, NoStorage
from headrace.client.submissions import make_submission
from headrace.contracts.transport.codec import decode_submit, encode
from headrace.governance.api import submit_batcher as gathering_module
from headrace.governance.api.submit_batcher import SubmitBatcher, append

SUBJECT = "hr.submit.acme.alice.dev.half"
LONG, SHORT = 60.0, 0.03


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(gathering_module, "TRY_AGAIN", 0.001)


class Log:
    """A log that stores when it is told to."""

    def __init__(self):
        self.stored = []
        self.go = asyncio.Event()
        self.trouble = None
        self.tries = 0

    async def append(self, subject, payload, _expected):
        await self.go.wait()
        self.tries += 1
        if self.trouble is not None:
            raise self.trouble
        self.stored.append((subject, [submission.id for submission in decode_submit(payload)]))
        return len(self.stored)


def submissions(count=1):
    return [make_submission(["true"]) for _ in range(count)]


async def test_who_comes_while_a_message_is_stored_shares_the_next():
    log, gathering = Log(), SubmitBatcher()
    sent = [submissions(), submissions(2), submissions()]
    waiting = []
    for one in sent:
        waiting.append(asyncio.create_task(gathering.store(log, SUBJECT, one, LONG)))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    log.go.set()
    assert await asyncio.gather(*waiting) == [1, 2, 2]
    first, *rest = [submission.id for one in sent for submission in one]
    assert log.stored == [(SUBJECT, [first]), (SUBJECT, rest)]


async def test_a_single_submission_waits_for_no_other_and_other_subjects_go_their_own_way():
    log, gathering = Log(), SubmitBatcher()
    log.go.set()
    alone, other = submissions(), submissions()
    await gathering.store(log, SUBJECT, alone, LONG)
    await gathering.store(log, "hr.submit.emca.eve.dev.half", other, LONG)
    assert log.stored == [
        (SUBJECT, [alone[0].id]),
        ("hr.submit.emca.eve.dev.half", [other[0].id]),
    ]


@pytest.mark.parametrize("trouble", [LogFull("full"), NoStorage("the disk is full")])
async def test_what_is_refused_is_told_at_once_to_all_who_wait_for_it_and_the_next_go_on(trouble):
    log, gathering = Log(), SubmitBatcher()
    log.go.set()
    log.trouble = trouble
    for ended in await asyncio.gather(
        *(gathering.store(log, SUBJECT, submissions(), LONG) for _ in range(3)), return_exceptions=True
    ):
        assert ended is trouble
    log.trouble = None
    await gathering.store(log, SUBJECT, submissions(), LONG)
    assert len(log.stored) == 1


async def test_while_the_bus_is_away_it_is_tried_again_for_callers_that_still_wait():
    log, gathering = Log(), SubmitBatcher()
    log.go.set()
    log.trouble = LogUnavailable("nobody listens")
    patient, hasty = submissions(), submissions()
    first = asyncio.create_task(gathering.store(log, SUBJECT, patient, LONG))
    with pytest.raises(LogUnavailable, match="is not stored within 0.03 s; it may be yet: repeat it with the same ids"):
        await gathering.store(log, SUBJECT, hasty, SHORT)
    assert not first.done()
    log.trouble = None
    assert await first == 1
    await gathering.store(log, SUBJECT, hasty, LONG)
    assert [ids for _, ids in log.stored][-1] == [hasty[0].id]


async def test_a_bus_that_stays_away_is_told_once_all_have_run_out_of_time():
    log, gathering = Log(), SubmitBatcher()
    log.go.set()
    log.trouble = LogUnavailable("nobody listens")
    with pytest.raises(LogUnavailable):
        await gathering.store(log, SUBJECT, submissions(), SHORT)
    tries = log.tries
    assert tries > 1
    with pytest.raises(LogUnavailable, match="^nobody listens$"):
        await append(log, SUBJECT, encode(submissions()[0]), lambda: False)
    assert log.tries <= tries + 2


async def test_giving_up_a_wait_harms_no_other():
    log, gathering = Log(), SubmitBatcher()
    gone = asyncio.create_task(gathering.store(log, SUBJECT, submissions(), LONG))
    await asyncio.sleep(0)
    gone.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gone
    log.go.set()
    await gathering.store(log, SUBJECT, submissions(), LONG)
    assert len(log.stored) == 2
