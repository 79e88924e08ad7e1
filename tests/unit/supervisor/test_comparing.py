"""Two copies of the streams are the same, or it is said where they are not."""

from __future__ import annotations

from headrace.supervisor import comparing
from headrace.supervisor.comparing import Compared, compared
from tests.unit.supervisor.stores import RECORDS, store, without


def test_copies_in_files_that_end_elsewhere_are_the_same(tmp_path):
    ours = store(tmp_path / "a", RECORDS[:2], RECORDS[2:5], RECORDS[5:])
    others = store(tmp_path / "b", RECORDS[:4], RECORDS[4:])
    assert compared(ours, others) == Compared("", behind=False)
    assert compared(store(tmp_path / "c", RECORDS[:3]), others) == Compared("", behind=False)
    assert compared(others, tmp_path / "c") == Compared("", behind=True)


def test_a_record_that_was_left_out_is_where_they_differ(tmp_path):
    ours, others = store(tmp_path / "a", without(5)), store(tmp_path / "b", RECORDS)
    assert compared(ours, others) == Compared("LEDGER 5", behind=False)
    assert compared(others, ours) == Compared("LEDGER 5", behind=False)


def test_the_other_streams_are_held_against_each_other_too_but_one_that_let_go_of_its_end_is_not_behind(tmp_path):
    ours, others = store(tmp_path / "a", RECORDS), store(tmp_path / "b", RECORDS)
    store(ours, RECORDS[4:], stream="SUBMIT")
    store(others, (), stream="SUBMIT")
    assert compared(ours, others) == Compared("", behind=False)
    store(others, without(6)[4:], stream="SUBMIT")
    assert compared(ours, others) == Compared("SUBMIT 6", behind=False)


def test_a_store_with_nothing_in_it_is_not_another_one(tmp_path):
    others = store(tmp_path / "b", RECORDS)
    assert compared(tmp_path / "a", others) == Compared("", behind=False)
    assert compared(store(tmp_path / "c", ()), others) == Compared("", behind=False)
    assert compared(others, tmp_path / "a") == Compared("", behind=True)


def test_only_the_end_of_a_long_stream_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(comparing, "_end", _Counted(comparing._end, size=1))
    ours = store(tmp_path / "a", RECORDS[:2], RECORDS[2:6], RECORDS[6:])
    assert compared(ours, store(tmp_path / "b", RECORDS[:4], RECORDS[4:5], RECORDS[5:])) == Compared("", behind=False)
    assert comparing._end.read == [[7, 8], [6, 7, 8]]


class _Counted:
    """What was read, with so few bytes at the end."""

    def __init__(self, end, size):
        self._end, self._size = end, size
        self.read = []

    def __call__(self, directory, until, size=0):
        found = self._end(directory, until, self._size if size == 0 else size)
        self.read.append(sorted(found))
        return found
