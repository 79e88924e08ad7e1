"""The background task on a log in memory: it seals what held, keeps the seals apart, and tells what is not as it was."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from headrace.audit import verify_watch
from headrace.audit.ledger_writer import LedgerWriter
from headrace.audit.seal_store import KEPT, TAIL, SealStore
from headrace.audit.verify_watch import SEAL_EVERY, VerificationTask
from headrace.bus.log import LogBroken, LogRefused
from headrace.bus.memory import MemoryLog
from headrace.contracts.facts.writers import AUDIT
from headrace.contracts.transport.subjects import ledger
from headrace.simulate.virtual_system import ENGINE


class Steady:
    """A clock that goes when it is told to."""

    def __init__(self):
        self.now = 0

    def __call__(self):
        return self.now


class Verification:
    """A ledger, what is kept apart from it, and one watch after the other."""

    def __init__(self, directory, messages):
        self.kept = SealStore(directory)
        self.clock = Steady()
        self.log = MemoryLog(lambda: self.stamp)
        self.stamp = 0
        self.store(messages)
        self.watch = None

    def store(self, messages):
        for message in messages:
            self.stamp = message.stamped
            self.log.append_now(message.subject, message.payload, None)

    def begin(self):
        self.writer = LedgerWriter(self.log)
        self.watch = VerificationTask(self.log, self.writer, self.kept, ENGINE, every=SEAL_EVERY, steady=self.clock)
        self.watch.tip = self.log.last_sequence
        return self.watch

    async def go_on(self):
        """Everything that is there, until nothing comes any more."""
        while messages := self.log.messages_after(self.watch.verifier.chains.last):
            await self.watch.take(messages)
        await self.watch.take([])

    async def wait(self):
        self.clock.now += SEAL_EVERY
        await self.go_on()
        await self.go_on()

    def sealed(self):
        """(first, last) of the seals kept apart."""
        return [(seal.first, seal.last) for seal in self.kept.seals()]

    def lay(self, messages):
        """The log as another program has made it."""
        self.log = MemoryLog(lambda: self.stamp)
        self.store(messages)


@pytest.fixture
def verification(tmp_path, written):
    return Verification(tmp_path / "seals", written)


async def test_what_has_waited_long_enough_is_sealed_and_kept_when_it_has_come_back(verification, written):
    verification.begin()
    await verification.go_on()
    assert verification.sealed() == []
    await verification.wait()
    assert verification.sealed() == [(1, len(written))]
    assert verification.log.messages_after(len(written))[0].subject == ledger(AUDIT)
    assert verification.watch.report().sealed_through == len(written)


async def test_other_tasks_get_their_turn_while_many_records_are_verified_and_decisions_made_again(
    verification, written, monkeypatch
):
    monkeypatch.setattr(verify_watch, "AT_ONCE", 2)
    watch, seen = verification.begin(), set[tuple[int, int]]()

    async def look():
        while True:
            seen.add((watch.verifier.chains.last, watch.verifier.decisions.folded))
            await asyncio.sleep(0)

    looking = asyncio.create_task(look())
    await watch.take(verification.log.messages_after(0))
    looking.cancel()

    count = len(written)
    assert seen >= {(number, 0) for number in range(2, count, 2)}
    assert seen >= {(count, number) for number in range(2, count, 2)}


async def test_its_own_seals_alone_are_not_a_reason_for_another(verification, written):
    verification.begin()
    await verification.wait()
    await verification.wait()
    await verification.wait()
    assert verification.sealed() == [(1, len(written))]
    verification.store(written[1:2])
    await verification.wait()
    assert verification.sealed() == [(1, len(written)), (len(written) + 1, len(written) + 2)]


async def test_many_records_are_sealed_at_once_without_waiting(verification, written, monkeypatch):
    monkeypatch.setattr(verify_watch, "SEALED_MAX", 5)
    verification.begin()
    await verification.go_on()
    assert verification.sealed() == [(5 * n + 1, 5 * n + 5) for n in range(len(verification.sealed()))]
    assert verification.sealed()[-1][1] > len(written) - 5


async def test_a_watch_that_begins_again_goes_on_behind_the_seals(verification, written):
    verification.begin()
    await verification.wait()
    verification.begin()
    verification.store(written[1:2])
    await verification.wait()
    assert (verification.watch.found, verification.sealed()[-1]) == (0, (len(written) + 1, len(written) + 2))
    assert verification.watch.report().seals == 2


async def test_seals_that_were_lost_apart_are_taken_from_the_ledger_again(verification, written, monkeypatch):
    monkeypatch.setattr(verify_watch, "SEALED_MAX", 5)
    verification.begin()
    await verification.go_on()
    kept = verification.kept.seals()
    (verification.kept.directory / KEPT).unlink()
    verification.begin()
    await verification.go_on()
    assert (verification.watch.found, verification.kept.seals()) == (0, kept)


async def test_what_was_changed_while_it_was_away_is_found_and_nothing_is_sealed_any_more(verification, written):
    verification.begin()
    await verification.wait()
    stored = verification.log.messages_after(0)
    verification.lay([*stored[:2], stored[2]._replace(stamped=stored[2].stamped + 1), *stored[3:]])
    verification.begin()
    await verification.wait()
    verification.store(written[1:2])
    await verification.wait()
    assert [(finding.kind, finding.sequence) for finding in verification.watch.report().findings] == [("restamped", 3)]
    assert verification.sealed() == [(1, len(written))]


@pytest.mark.parametrize("left", [3, 10])
async def test_an_end_that_was_lost_while_it_was_away_is_found_by_seals_and_tail(verification, written, left):
    verification.lay(written[:8])
    verification.begin()
    await verification.wait()
    verification.store([written[1]] * 5)
    await verification.go_on()
    assert (verification.kept.directory / TAIL).exists()
    verification.lay(verification.log.messages_after(0)[:left])
    verification.begin()
    await verification.go_on()
    found = [(finding.kind, finding.sequence, finding.through) for finding in verification.watch.report().findings]
    assert found == ([("removed", left + 1, 14)])


async def test_records_behind_an_end_that_was_lost_do_not_hide_it(verification, written):
    verification.begin()
    await verification.wait()
    stored = verification.log.messages_after(0)
    verification.lay([*stored[: len(written) - 2], *[stored[1]._replace(payload=b"new")] * 5])
    verification.begin()
    await verification.go_on()
    assert verification.watch.report().findings[0].sequence == len(written) - 1


async def test_a_change_on_the_disk_is_found_when_all_is_looked_at_again(verification, written):
    verification.begin()
    await verification.wait()
    verification.log.replace_now(5, b"x")
    await verification.watch.verify_again()
    found = verification.watch.report().findings
    assert ("changed", 5) in [(finding.kind, finding.sequence) for finding in found]


async def test_nothing_is_looked_at_again_before_there_are_seals(verification):
    verification.begin()
    await verification.watch.verify_again()
    assert verification.watch.found == 0


async def test_what_was_kept_and_cannot_be_read_is_told(verification):
    verification.kept.directory.mkdir()
    (verification.kept.directory / KEPT).write_bytes(b"nonsense\n")
    verification.begin()
    await verification.wait()
    (finding,) = verification.watch.report().findings
    assert finding.kind == "seal"
    assert "line 1, is not a seal" in finding.text


async def test_a_seal_that_the_log_refuses_is_stated_later(verification, written, monkeypatch):
    verification.begin()
    await verification.go_on()

    async def refuse(*_):
        raise LogRefused("full")

    with monkeypatch.context() as broken:
        broken.setattr(verification.writer, "state", refuse)
        await verification.wait()
    assert verification.sealed() == []
    await verification.go_on()
    await verification.go_on()
    assert verification.sealed() == [(1, len(written))]


class Holed:
    """A log that has lost messages in its middle, whose readers stop there."""

    def __init__(self, log, missing):
        self.log, self.missing = log, missing

    async def read(self, after):
        return _Reader(self, after)

    async def following(self, after):
        return next((message for message in self.left() if message.sequence > after), None)

    async def tip(self):
        return self.log.last_sequence

    def left(self):
        return [message for message in self.log.messages_after(0) if message.sequence not in self.missing]


class _Reader:
    def __init__(self, log, after):
        self.log, self.after = log, after

    async def batch(self, _limit, _wait):
        found = []
        for message in self.log.left():
            if message.sequence == self.after + 1:
                found.append(message)
                self.after += 1
        if not found:
            raise LogBroken(f"behind {self.after} is a hole")
        return found

    async def close(self):
        pass


async def test_behind_a_hole_it_looks_at_the_rest_and_stays_to_tell(verification, written):
    log = Holed(verification.log, {5, 9})
    watch = VerificationTask(log, LedgerWriter(verification.log), verification.kept, ENGINE)
    task = asyncio.create_task(watch.run())
    while watch.verifier.chains.last < len(written) or not watch.reported:
        await asyncio.sleep(0)
    assert not task.done()
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    removed = [(finding.sequence, finding.through) for finding in watch.report().findings if finding.kind == "removed"]
    assert removed == [(5, 5), (9, 9)]
