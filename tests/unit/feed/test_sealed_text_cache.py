"""The jobs' sealed texts at hand."""

from __future__ import annotations

import pytest

from headrace.bus.log import LogUnavailable
from headrace.bus.text_encryption import KeyGone, Keyring, SealBroken
from headrace.contracts import facts as f
from headrace.contracts.messages.submissions import JobText
from headrace.contracts.transport.codec import encode
from headrace.feed import sealed_text_cache as module
from headrace.feed.sealed_text_cache import NONE, SealedTextCache


class CountingLog:
    """The story's log, and which records were read from it. The first `away` reads fail."""

    def __init__(self, log, away=0):
        self.read = []
        self._log = log
        self._away = away

    async def get(self, sequence):
        self.read.append(sequence)
        if len(self.read) <= self._away:
            raise LogUnavailable("away")
        return await self._log.get(sequence)


def admitted(key, text):
    return f.JobAdmittedV1(job=key, policy="dev", profile="one", request={}, text=text)


@pytest.fixture
def jobs(hall):
    """Three jobs: two admitted by one record, one by another."""
    keys = [hall.job(number) for number in range(3)]
    hall.append_facts("admission", admitted(keys[0], "sealed 0"), admitted(keys[1], "sealed 1"))
    hall.append_facts("admission", admitted(keys[2], "sealed 2"))
    return [hall.state.jobs[key] for key in keys]


async def test_a_text_seen_at_admission_needs_no_look_at_the_log(hall, jobs):
    log = CountingLog(hall.log)
    texts = SealedTextCache(log, None)
    texts.add(jobs[0].key, "seen")
    assert await texts.of([jobs[0]]) == {jobs[0].key: "seen"}
    assert log.read == []


async def test_a_text_that_is_not_at_hand_is_read_with_all_that_stand_beside_it(hall, jobs):
    log = CountingLog(hall.log)
    texts = SealedTextCache(log, None)
    assert await texts.of([jobs[0]]) == {jobs[0].key: "sealed 0"}
    assert await texts.of(jobs) == {job.key: f"sealed {number}" for number, job in enumerate(jobs)}
    assert log.read == [3, 4]


async def test_the_oldest_texts_make_room_and_are_read_again(hall, jobs):
    log = CountingLog(hall.log)
    texts = SealedTextCache(log, None, bytes_max=20)
    for number, job in enumerate(jobs):
        texts.add(job.key, f"sealed {number}")
    assert await texts.of(jobs[1:]) == {jobs[1].key: "sealed 1", jobs[2].key: "sealed 2"}
    assert log.read == []
    assert await texts.of(jobs) == {job.key: f"sealed {number}" for number, job in enumerate(jobs)}
    assert log.read == [3, 4]


async def test_more_text_than_may_be_kept_is_still_answered(hall, jobs):
    texts = SealedTextCache(CountingLog(hall.log), None, bytes_max=1)
    assert await texts.of(jobs) == {job.key: f"sealed {number}" for number, job in enumerate(jobs)}


async def test_an_ended_job_leaves_no_text_behind(hall, jobs):
    log = CountingLog(hall.log)
    texts = SealedTextCache(log, None)
    texts.add(jobs[2].key, "seen")
    texts.drop(jobs[2].key)
    texts.drop(jobs[2].key)
    assert await texts.of([jobs[2]]) == {jobs[2].key: "sealed 2"}
    assert log.read == [4]


async def test_a_log_that_is_away_is_waited_for(hall, jobs, monkeypatch):
    monkeypatch.setattr(module, "RETRY", 0)
    log = CountingLog(hall.log, away=2)
    assert await SealedTextCache(log, None).of([jobs[2]]) == {jobs[2].key: "sealed 2"}
    assert log.read == [4, 4, 4]


async def test_a_text_that_no_record_holds_is_empty(hall, jobs):
    await hall.log.purge_through(4)
    assert await SealedTextCache(hall.log, None).of([jobs[2]]) == {jobs[2].key: ""}


def test_a_text_is_opened_for_its_tenant_and_its_job_only(jobs, tmp_path):
    keys = Keyring(tmp_path)
    text = JobText(command=("true",), env={"A": "1"})
    sealed = keys.seal("acme", encode(text), jobs[0].key)
    texts = SealedTextCache(None, keys.open)
    assert texts.open(jobs[0], sealed) == text
    assert texts.open(jobs[1], sealed) is NONE
    keys.destroy("acme")
    assert texts.open(jobs[0], sealed) is None


def test_what_is_sealed_but_no_text_has_no_command(jobs):
    assert SealedTextCache(None, lambda *_: b"[]").open(jobs[0], "sealed") is NONE


def test_a_broken_seal_has_no_command(jobs):
    def broken(*_):
        raise SealBroken("changed")

    assert SealedTextCache(None, broken).open(jobs[0], "sealed") is NONE


def test_a_key_that_is_missing_may_come_back_and_one_that_was_erased_does_not(jobs):
    def gone(*_):
        raise KeyGone("gone")

    erased = {(jobs[0].tenant, jobs[0].user)}
    assert [SealedTextCache(None, gone, known).open(jobs[0], "sealed") for known in ((), erased)] == [None, NONE]
