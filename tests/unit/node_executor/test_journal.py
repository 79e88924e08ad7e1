from __future__ import annotations

import errno
import os

import pytest

from headrace.contracts.facts import LeaseEndedV1
from headrace.node_executor.journal import Began, Ended, Journal

FACT = LeaseEndedV1(job="acme.alice.x", attempt=1, outcome="exited", exit_code=0, exited_at=1, at=2)


def reopened(path) -> dict[str, Began | Ended]:
    journal = Journal(str(path))
    journal.close()
    return journal.open


def test_it_remembers_what_was_begun_and_what_is_not_stated_yet(tmp_path) -> None:
    path = tmp_path / "journal"
    journal = Journal(str(path))
    for lease in ("a", "b", "c"):
        journal.began(lease, 5)
    journal.ended("b", 5, FACT)
    journal.ended("c", 5, FACT)
    journal.stated(("c", "unknown"))
    journal.close()
    left = {"a": Began("a", 5), "b": Ended("b", 5, FACT)}
    assert reopened(path) == left
    assert reopened(path) == left


def test_torn_and_foreign_lines_are_skipped(tmp_path) -> None:
    path = tmp_path / "journal"
    journal = Journal(str(path))
    journal.began("a", 5)
    journal.close()
    with path.open("ab") as file:
        file.write(
            b'{"step":"began","lease":"b","gran\n\xff\xfe\n{"step":"other"}\n[[[\n{"step":"began","lease":"c","granted":7}'
        )
    assert reopened(path) == {"a": Began("a", 5), "c": Began("c", 7)}


def test_it_is_rewritten_when_it_has_grown(tmp_path) -> None:
    path = tmp_path / "journal"
    journal = Journal(str(path), rewrite_at=2_000)
    journal.began("stays", 1)
    for number in range(100):
        journal.began(str(number), number)
        journal.stated((str(number),))
    journal.close()
    assert path.stat().st_size < 2_200
    assert reopened(path) == {"stays": Began("stays", 1)}


def test_a_full_disk_refuses_a_beginning_and_forgives_an_end(tmp_path, monkeypatch) -> None:
    path = tmp_path / "journal"
    journal = Journal(str(path))
    journal.began("a", 5)
    real, full = os.write, True

    def write(descriptor: int, data: bytes) -> int:
        if not full:
            return real(descriptor, data)
        if len(data) > 20:
            return real(descriptor, data[:20])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", write)
    journal.ended("a", 5, FACT)
    with pytest.raises(OSError, match="No space left"):
        journal.began("b", 6)
    full = False
    journal.began("c", 7)
    journal.close()
    assert reopened(path) == {"a": Began("a", 5), "c": Began("c", 7)}
