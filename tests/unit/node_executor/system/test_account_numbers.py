"""Whose number is which on a node, whatever the orders say."""

import os

import pytest

from headrace.contracts.values.account_numbers import FIRST
from headrace.node_executor.system.account_numbers import AccountNumbers

ULID = "01j9z3k4m5n6p7q8r9s0t1v2w3"


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "numbers.json")


def test_a_number_is_the_first_ones_who_claims_it_also_for_the_executor_after(path):
    numbers = AccountNumbers(path)
    assert [numbers.claim(FIRST, who) for who in ("acme.alice", "evil.mallory", "acme.alice")] == [True, False, True]
    again = AccountNumbers(path)
    assert [again.claim(FIRST, who) for who in ("evil.mallory", "acme.alice")] == [False, True]
    assert (again.owner(FIRST), again.owner(FIRST + 1)) == ("acme.alice", "")


def test_what_one_could_not_write_down_is_not_taken_for_known(path, monkeypatch):
    numbers = AccountNumbers(path)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        numbers.claim(FIRST, "acme.alice")
    monkeypatch.undo()
    assert numbers.claim(FIRST, "acme.bob")


def test_a_damaged_table_is_set_aside_and_begun_anew_from_what_lies_there(path, tmp_path):
    (tmp_path / "numbers.json").write_text("{")
    assert AccountNumbers(path).owner(FIRST) == ""
    assert (tmp_path / "numbers.json.damaged").read_text() == "{"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_without_a_table_the_owners_of_the_directories_of_jobs_are_known(path, tmp_path):
    places = [tmp_path / "leases", tmp_path / "checkpoints"]
    for place, name, number in (
        (places[0], f"acme.alice.{ULID}.1.0", FIRST + 7),
        (places[1], f"acme.bob.{ULID}.1", FIRST + 8),
        (places[1], "lost+found", FIRST + 9),
        (places[1], f"acme.carl.{ULID}.1", 1000),
    ):
        (place / name).mkdir(parents=True)
        os.chown(place / name, number, number)
    numbers = AccountNumbers(path, [*map(str, places), str(tmp_path / "not-there")])
    assert [numbers.owner(FIRST + number) for number in (7, 8, 9)] == ["acme.alice", "acme.bob", ""]
    assert AccountNumbers(path).owner(FIRST + 7) == "acme.alice"
