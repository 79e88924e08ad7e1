"""Reading on behind holes."""

from __future__ import annotations

from headrace.audit import verify_reading
from headrace.audit.verify_reading import stored_messages
from headrace.bus.log import LogBroken
from headrace.bus.memory import MemoryLog


class Reader:
    """Gives what is there, and stops at a hole as the readers of services do; in silence where `mute`."""

    def __init__(self, messages, after, *, mute=False):
        self.messages, self.after, self.mute = messages, after, mute

    async def batch(self, limit, _wait):
        found = []
        for message in self.messages:
            if self.after < message.sequence and len(found) < limit:
                if message.sequence != self.after + 1:
                    break
                found.append(message)
                self.after = message.sequence
        if not found and not self.mute:
            raise LogBroken("a hole")
        return found

    async def close(self):
        pass


class Damaged:
    """A log in which messages are missing."""

    def __init__(self, messages, *, mute=False):
        self.messages, self.mute = messages, mute

    async def read(self, after):
        return Reader(self.messages, after, mute=self.mute)

    async def following(self, after):
        return next((message for message in self.messages if message.sequence > after), None)


async def everything(log, through):
    return [message.sequence async for batch in stored_messages(log, 0, through) for message in batch]


async def test_a_whole_log_is_read_to_where_it_was_asked_for(written):
    log = MemoryLog(lambda: 1)
    for message in written:
        log.append_now(message.subject, message.payload, None)
    assert await everything(log, len(written)) == [message.sequence for message in written]
    assert await everything(log, 3) == [1, 2, 3]


async def test_what_stands_behind_a_hole_is_read_too(written, monkeypatch):
    monkeypatch.setattr(verify_reading, "BATCH", 2)
    left = [message for message in written if message.sequence not in (1, 5, 6, 9)]
    for mute in (False, True):
        assert await everything(Damaged(left, mute=mute), len(written)) == [message.sequence for message in left]


async def test_an_end_that_is_gone_is_not_counted(written):
    assert await everything(Damaged(written[:4]), len(written)) == [1, 2, 3, 4]
