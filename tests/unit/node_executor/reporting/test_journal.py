from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import NoReturn

import msgspec
import pytest

from headrace.contracts.documents.model import Mount
from headrace.contracts.facts import LeaseEndedV1, LeaseResumedV1, LeaseStartedV1, LeaseSuspendedV1
from headrace.contracts.facts.fact import Ladder
from headrace.contracts.messages.orders import StartOrder
from headrace.node_executor.reporting.journal import Journal, Open, Sending
from tests.unit.node_executor.conftest import JOB, order

LEASE = f"{JOB}/1/0"
STARTED = LeaseStartedV1(job=JOB, attempt=1, at=1)
ENDED = LeaseEndedV1(job=JOB, attempt=1, outcome="exited", exit_code=0, exited_at=1, at=2)
LADDER = Ladder(cause="preempted", callback_grace=60, term_grace=30)


TEXTS: dict[str, object] = {
    "command": ("train", "text-command"),
    "env": {"KEY": "text-env"},
    "secret_env": ("TOKEN",),
    "secrets": {"TOKEN": "file:text-secret"},
    "on_abort": ("text-abort",),
    "workdir": "/text-workdir",
    "image": "text-image",
    "name": "text-name",
    "resume_from": "/text-checkpoint",
    "trace": "text-trace",
    "mounts": (Mount(source="/text-mount", target="/text-mount"),),
}


WRITTEN_BEFORE = """\
{"step":"stored","count":0,"sequence":0}
{"step":"open","order":{"lease":"JOB/1/0","job":"JOB","attempt":1,"granted":5,"devices":[{"device":"gpu0","units":126000}],\
"amounts":{"gpu":126000},"name":"train","queue":"ai-dev/one","command":["true"]},\
"started":false,"suspended":false,"ended":false,"ladder":null,"told_at":0}
{"step":"said","fact":{"type":"lease.started.v1","job":"JOB","attempt":1,"at":5}}
{"step":"told","lease":"JOB/1/0","ladder":{"cause":"preempted","callback_grace":60,"term_grace":30},"at":7}
{"step":"sending","count":1,"last":0,"now":6,"as_of":3,"engine":"headrace-node/0.1.0","level":1}
{"step":"stored","count":1,"sequence":9}
{"step":"open","order":{"lease":"JOB/2/0","job":"JOB","attempt":2,"granted":5,"amounts":{"gpu":126000},"command":["true"]},\
"started":false,"suspended":false,"ended":false,"ladder":null,"told_at":0}
{"step":"forgotten","lease":"JOB/2/0"}
""".replace("JOB", JOB)
"""A journal of an executor before its classes were renamed: the words of its steps never change."""


def test_what_began_in_another_start_of_the_machine_is_known_where_both_are(tmp_path) -> None:
    path = str(tmp_path / "journal")
    first = Journal(path, boot="one")
    first.began(order())
    first.close()
    unnamed = Journal(path)
    unnamed.began(order(attempt=2))
    unnamed.close()
    for boot, expected in (("one", [False, False]), ("two", [True, False]), ("", [False, False])):
        later = Journal(path, boot=boot)
        assert [later.is_of_another_boot(left) for left in later.open.values()] == expected
        later.close()


def over(attempt: int) -> StartOrder:
    """What is known of an order that is over."""
    return msgspec.structs.replace(order(attempt=attempt), name="", queue="", command=())


def ended(attempt: int) -> LeaseEndedV1:
    return msgspec.structs.replace(ENDED, attempt=attempt)


def texts(directory: Path) -> int:
    """How many texts of jobs stand in the files of a journal."""
    return sum(path.read_bytes().count(b"text-") for path in directory.iterdir())


def reopened(path) -> Journal:
    journal = Journal(str(path))
    journal.close()
    return journal


def test_a_journal_of_an_earlier_release_is_read(tmp_path) -> None:
    path = tmp_path / "journal"
    path.write_text(WRITTEN_BEFORE)
    journal = reopened(path)
    assert journal.open == {LEASE: Open(order(), started=True, ladder=LADDER, notified_at=7)}
    assert (list(journal.unsent), journal.sending, journal.last) == ([], None, 9)


def test_it_remembers_what_was_begun_how_far_it_came_and_what_was_not_stored(tmp_path) -> None:
    path = tmp_path / "journal"
    journal = Journal(str(path))
    for attempt in (1, 2, 3, 4):
        journal.began(order(attempt=attempt))
    journal.note_fact(STARTED)
    journal.note_stop_order(LEASE, LADDER, 77)
    journal.note_fact(msgspec.structs.replace(ENDED, attempt=2))
    journal.note_fact(msgspec.structs.replace(ENDED, attempt=3))
    journal.forgotten(f"{JOB}/4/0")
    journal.stored(2, 19)
    journal.close()
    for _ in range(2):  # once from the steps, once from what was written anew
        found = reopened(path)
        assert found.open == {
            LEASE: Open(order(), started=True, ladder=LADDER, notified_at=77),
            f"{JOB}/3/0": Open(over(3), ended=True),
        }
        assert list(found.unsent) == [msgspec.structs.replace(ENDED, attempt=3)]
        assert (found.last, found.sending) == (19, None)


def test_a_lease_is_suspended_until_it_goes_on_and_then_it_was_never_told(tmp_path) -> None:
    """R29."""
    path = tmp_path / "journal"
    journal = Journal(str(path))
    journal.began(order())
    journal.note_stop_order(LEASE, LADDER, 7)
    journal.note_fact(LeaseSuspendedV1(job=JOB, attempt=1, at=8))
    assert journal.open[LEASE] == Open(order(), suspended=True, notified_at=7)
    journal.note_fact(LeaseResumedV1(job=JOB, attempt=1, at=9))
    journal.note_stop_order(LEASE, LADDER, 10)
    journal.close()
    assert reopened(path).open[LEASE] == Open(order(), ladder=LADDER, notified_at=10)


def test_a_record_that_was_perhaps_sent_can_be_made_again(tmp_path) -> None:
    path = tmp_path / "journal"
    journal = Journal(str(path))
    journal.note_fact(STARTED)
    sending = Sending(1, last=5, now=42, as_of=3, engine="test/1")
    journal.sends(sending)
    size = path.stat().st_size
    journal.sends(sending)
    assert path.stat().st_size == size
    journal.close()
    assert reopened(path).sending == sending


def test_torn_and_foreign_lines_are_skipped(tmp_path) -> None:
    path = tmp_path / "journal"
    journal = Journal(str(path))
    journal.began(order())
    journal.close()
    with path.open("ab") as file:
        file.write(b'{"step":"open","order":{"lease":"b","gran\n\xff\xfe\n{"step":"other"}\n[[[\n')
        file.write(msgspec.json.encode(Open(order(attempt=2))))
    assert list(reopened(path).open) == [LEASE, f"{JOB}/2/0"]


def test_it_is_rewritten_when_it_has_grown(tmp_path) -> None:
    path = tmp_path / "journal"
    journal = Journal(str(path), rewrite_at=4_000)
    journal.began(order(attempt=500))
    for attempt in range(1, 100):
        journal.began(order(attempt=attempt))
        journal.note_fact(msgspec.structs.replace(ENDED, attempt=attempt))
        journal.stored(1, attempt)
    journal.close()
    assert path.stat().st_size < 5_000
    assert list(reopened(path).open) == [f"{JOB}/500/0"]


def test_a_full_disk_refuses_a_beginning_and_costs_no_fact(tmp_path, monkeypatch) -> None:
    path = tmp_path / "journal"
    journal = Journal(str(path))
    journal.began(order())
    real, full = os.write, True

    def write(descriptor: int, data: bytes) -> int:
        if not full:
            return real(descriptor, data)
        if len(data) > 20:
            return real(descriptor, data[:20])
        raise OSError(errno.ENOSPC, "No space left on device")

    def rename(source: str, target: str) -> None:
        if full:
            raise OSError(errno.ENOSPC, "No space left on device")
        os.replace(source, target)

    monkeypatch.setattr(os, "write", write)
    monkeypatch.setattr(os, "rename", rename)
    journal.note_fact(STARTED)
    with pytest.raises(OSError, match="No space left"):
        journal.began(order(attempt=2))
    full = False
    journal.began(order(attempt=3))
    journal.close()
    found = reopened(path)
    assert found.open == {LEASE: Open(order(), started=True), f"{JOB}/3/0": Open(order(attempt=3))}
    assert list(found.unsent) == [STARTED]


def test_what_a_lease_ran_leaves_the_file_when_it_is_over_though_the_ledger_has_not_heard(tmp_path) -> None:
    journal = Journal(str(tmp_path / "journal"))
    journal.began(order(**TEXTS))
    journal.began(order(attempt=2, env={"KEY": "value"}))
    journal.note_fact(STARTED)
    assert (journal.clean(), texts(tmp_path) > 0) == (False, True)
    journal.note_fact(ENDED)
    assert (journal.clean(), texts(tmp_path), journal.clean()) == (True, 0, False)
    journal.close()
    found = reopened(tmp_path / "journal")
    assert found.open == {
        LEASE: Open(over(1), started=True, ended=True),
        f"{JOB}/2/0": Open(order(attempt=2, env={"KEY": "value"})),
    }
    assert list(found.unsent) == [STARTED, ENDED]


def test_what_a_lease_would_have_run_that_never_started_leaves_the_file(tmp_path) -> None:
    journal = Journal(str(tmp_path / "journal"))
    journal.began(order(**TEXTS))
    journal.forgotten(LEASE)
    crashed = Journal(str(tmp_path / "journal"))
    assert (crashed.open, texts(tmp_path)) == ({}, 0)
    crashed.began(order(attempt=2, **TEXTS))
    crashed.forgotten(f"{JOB}/2/0")
    assert (crashed.clean(), texts(tmp_path)) == (True, 0)
    crashed.close()
    journal.close()


def test_the_next_start_removes_what_a_crash_left_and_so_does_an_orderly_end(tmp_path) -> None:
    for crashes in (True, False):
        journal = Journal(str(tmp_path / "journal"))
        journal.began(order(**TEXTS))
        journal.note_fact(ENDED)
        if crashes:
            assert texts(tmp_path) > 0
        else:
            journal.close()
            assert texts(tmp_path) == 0
        found = reopened(tmp_path / "journal")
        assert (texts(tmp_path), ENDED in found.unsent) == (0, True)


@pytest.mark.parametrize("at", ["open", "write", "fsync", "rename"])
def test_a_crash_while_the_file_is_written_anew_loses_nothing(tmp_path, monkeypatch, at) -> None:
    journal = Journal(str(tmp_path / "journal"))
    journal.began(order(**TEXTS))
    journal.began(order(attempt=2))
    journal.note_stop_order(f"{JOB}/2/0", LADDER, 77)
    journal.note_fact(ENDED)
    if at == "write":  # half of the new file was written
        half = (tmp_path / "journal").read_bytes()[:40]
        (tmp_path / "journal.new").write_bytes(half)
    else:

        def crash(*_: object, **__: object) -> NoReturn:
            raise OSError(errno.EIO, "Input/output error")

        monkeypatch.setattr(os, at, crash)
        assert not journal.clean()
        monkeypatch.undo()
    found = Journal(str(tmp_path / "journal"))  # the former one is not closed: it crashed
    assert found.open == {LEASE: Open(over(1), ended=True), f"{JOB}/2/0": Open(order(attempt=2), ladder=LADDER, notified_at=77)}
    assert (list(found.unsent), texts(tmp_path)) == ([ENDED], 0)
    found.close()


def test_a_file_that_could_not_be_written_anew_is_tried_again(tmp_path, monkeypatch) -> None:
    journal = Journal(str(tmp_path / "journal"))
    journal.began(order(**TEXTS))
    journal.note_fact(ENDED)

    def full(*_: object) -> NoReturn:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", full)
        assert not journal.clean()
    assert (journal.clean(), texts(tmp_path)) == (True, 0)
    journal.note_fact(STARTED)
    journal.close()
    assert list(reopened(tmp_path / "journal").unsent) == [ENDED, STARTED]


@pytest.mark.parametrize("way", ["grown", "damaged", "opened"])
def test_facts_that_wait_are_on_the_disk_before_the_new_file_takes_the_place_of_the_old(tmp_path, monkeypatch, way) -> None:
    done: list[str] = []
    journal = Journal(str(tmp_path / "journal"), rewrite_at=1)
    journal.note_fact(STARTED)
    journal.note_fact(ENDED)
    for name in ("fsync", "rename"):
        real = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *words, name=name, real=real: (done.append(name), real(*words)))
    if way == "grown":
        journal.stored(1, 5)
    elif way == "damaged":
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", lambda *_: 0)
            journal.note_fact(STARTED)
        journal.note_fact(STARTED)
    else:
        Journal(str(tmp_path / "journal")).close()
    assert done == ["fsync", "rename"]
    journal.close()


def test_without_facts_that_wait_nothing_is_synced(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: pytest.fail("it was synced"))
    journal = Journal(str(tmp_path / "journal"))
    journal.began(order())
    journal.forgotten(LEASE)
    assert journal.clean()
    journal.close()
