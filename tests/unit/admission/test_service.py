from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from headrace.admission import service
from headrace.admission.decide import Admission
from headrace.admission.service import UnjudgedBytes, _purge_judged, _read_submissions
from headrace.bus.log import LogUnavailable, Message
from headrace.bus.memory import MemoryLog
from headrace.bus.text_encryption import KEYS, Keyring
from headrace.contracts.facts import JobAdmittedV1, WishesJudgedV1, WishRefusedV1
from headrace.contracts.messages.submissions import JobSubmission, JobText
from headrace.contracts.transport.codec import decode, encode
from headrace.contracts.transport.subjects import cancel, submit
from headrace.domain.state.state import State
from headrace.service import hosting
from headrace.service.hosting import Part, alone
from tests.unit.service.bus import JOB, JOB_ID, Bus, running, until

QUEUE = submit("default", "ann", "q", "one")


class FakeDeciding:
    """Has caught up, and judges nothing by itself: the test takes the messages away."""

    def __init__(self, judged=0):
        self.decider = Admission(State(judged=judged), lambda *_: "")
        self.fold = SimpleNamespace(state=self.decider.state)
        self.caught_up = asyncio.Event()
        self.caught_up.set()
        self.nudged = 0

    def wake(self):
        self.nudged += 1

    @property
    def waiting(self):
        return [message.sequence for message in self.decider.waiting]


def test_what_is_held_is_counted_in_bytes_until_its_batch_is_judged():
    def batch(*sequences):
        return [Message(sequence, QUEUE, 0, b"x" * 10) for sequence in sequences]

    held = UnjudgedBytes()
    held.add([])
    assert held.after(0) == 0
    held.add(batch(1, 2))
    held.add(batch(3))
    assert [held.after(judged) for judged in (0, 1, 2, 3)] == [30, 30, 10, 0]


class Submits(MemoryLog):
    """Remembers its purges; the first `failing` of them fail."""

    def __init__(self, messages=0, failing=0):
        super().__init__(lambda: 0, begins_late=True)
        self.purges = []
        self.failing = failing
        for _ in range(messages):
            self.append_now(QUEUE, b"{}", None)

    async def purge_through(self, sequence):
        self.purges.append(sequence)
        if len(self.purges) <= self.failing:
            raise LogUnavailable("away")
        await super().purge_through(sequence)


class TestTheService:
    @pytest.fixture
    def bus(self, monkeypatch):
        bus = Bus()
        bus.hall("n1")
        monkeypatch.setattr(service, "JetStreamLog", bus.log)
        monkeypatch.setattr(service, "PURGE_EVERY", 0)
        monkeypatch.setattr(hosting, "JetStreamLog", bus.log)
        monkeypatch.setattr(hosting.Snapshots, "over", bus.over)
        monkeypatch.setattr(hosting, "wall_clock", bus.clock)
        monkeypatch.setattr(hosting, "freeze_present_objects", lambda: None)
        return bus

    async def test_a_submission_is_judged_its_text_sealed_and_the_message_forgotten(self, bus, tmp_path):
        submission = JobSubmission(id=JOB_ID, command=("train", "it"), env={"A": "b"})
        bus.submits.append_now(QUEUE, encode(submission), None)
        async with running(alone(Part(service.prepare))(bus.service("admission", tmp_path))):
            await until(lambda: bus.submits.first == 2)
        admitted, judged = bus.stated("admission")
        assert (type(admitted), admitted.job, judged) == (JobAdmittedV1, JOB, WishesJudgedV1(through=1))
        assert decode(Keyring(tmp_path / KEYS).open("default.ann", admitted.text, JOB), JobText) == JobText(
            command=("train", "it"), env={"A": "b"}
        )

    async def test_a_restart_goes_on_behind_the_last_submission_judged(self, bus, tmp_path):
        for _ in range(3):
            bus.submits.append_now(QUEUE, b"no submission", None)
        bus.state("admission", WishesJudgedV1(through=2))
        async with running(alone(Part(service.prepare))(bus.service("admission", tmp_path))):
            await until(lambda: bus.submits.first == 4)
        _, refused, judged = bus.stated("admission")
        assert (type(refused), refused.wish, judged) == (WishRefusedV1, 3, WishesJudgedV1(through=3))

    async def test_what_is_not_there_cannot_be_cancelled(self, bus, tmp_path):
        async with running(alone(Part(service.prepare))(bus.service("admission", tmp_path))):
            bus.submits.append_now(cancel("default", "ann", JOB_ID), b"", None)
            await until(lambda: bus.submits.first == 2)
        assert bus.stated("admission") == [
            WishRefusedV1(
                wish=1, subject=f"hr.cancel.default.ann.{JOB_ID}", reason="NOT_ALLOWED", message=f"ann has no job {JOB_ID}"
            ),
            WishesJudgedV1(through=1),
        ]


class TestReadingSubmissions:
    async def test_nothing_is_read_before_the_ledger_has_been(self):
        submits, fake = Submits(messages=1), FakeDeciding()
        fake.caught_up.clear()
        async with running(_read_submissions(submits, fake)):
            for _ in range(5):
                await asyncio.sleep(0)
            assert (fake.waiting, fake.nudged) == ([], 0)
            fake.caught_up.set()
            await until(lambda: fake.nudged)
            assert fake.waiting == [1]

    async def test_messages_are_handed_over_in_order_from_the_first_that_is_not_judged(self):
        submits, fake = Submits(messages=4), FakeDeciding(judged=2)
        async with running(_read_submissions(submits, fake)):
            await until(lambda: fake.nudged == 1)
            submits.append_now(QUEUE, b"{}", None)
            await until(lambda: fake.nudged == 2)
        assert fake.waiting == [3, 4, 5]

    async def test_what_was_purged_was_judged(self):
        submits, fake = Submits(messages=3), FakeDeciding(judged=1)
        await submits.purge_through(2)
        async with running(_read_submissions(submits, fake)):
            await until(lambda: fake.nudged == 1)
        assert fake.waiting == [3]

    async def test_no_more_is_read_than_can_be_held(self, monkeypatch):
        monkeypatch.setattr(service, "WAITING_MAX", 3)
        submits, fake = Submits(messages=3), FakeDeciding()
        async with running(_read_submissions(submits, fake)):
            await until(lambda: fake.nudged == 1)
            submits.append_now(QUEUE, b"{}", None)
            for _ in range(5):
                await asyncio.sleep(0)
            assert fake.waiting == [1, 2, 3]
            fake.decider.waiting.popleft()
            await until(lambda: fake.nudged == 2)
        assert fake.waiting == [2, 3, 4]

    async def test_who_stops_reading_closes_the_reader(self):
        submits, fake = Submits(messages=1), FakeDeciding()
        async with running(_read_submissions(submits, fake)):
            await until(lambda: fake.nudged == 1)
            assert len(submits.readers) == 1
        assert len(submits.readers) == 0

    async def test_submissions_are_read_for_admission_only(self):
        fake = FakeDeciding()
        fake.decider = object()
        with pytest.raises(TypeError, match="admission reads submissions for its own decider only"):
            await _read_submissions(Submits(), fake)


class TestForgettingWhatIsJudged:
    @pytest.fixture(autouse=True)
    def _at_once(self, monkeypatch):
        monkeypatch.setattr(service, "PURGE_EVERY", 0)

    async def test_it_is_purged_once_and_what_is_not_judged_stays(self):
        submits, fake = Submits(messages=3), FakeDeciding(judged=2)
        async with running(_purge_judged(submits, fake)):
            await until(lambda: submits.purges)
            for _ in range(5):
                await asyncio.sleep(0)
            assert (submits.purges, submits.first) == ([2], 3)
            fake.decider.state.judged = 3
            await until(lambda: len(submits.purges) == 2)
        assert (submits.purges, submits.first) == ([2, 3], 4)

    async def test_where_nothing_is_judged_nothing_is_asked(self):
        submits = Submits(messages=3)
        async with running(_purge_judged(submits, FakeDeciding())):
            for _ in range(5):
                await asyncio.sleep(0)
        assert submits.purges == []

    async def test_a_purge_that_fails_is_tried_again(self):
        submits, fake = Submits(messages=3, failing=2), FakeDeciding(judged=2)
        async with running(_purge_judged(submits, fake)):
            await until(lambda: submits.first == 3)
        assert submits.purges == [2, 2, 2]
