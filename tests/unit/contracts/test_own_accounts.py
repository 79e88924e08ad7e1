from __future__ import annotations

import os

import pytest

from headrace.contracts.own_accounts import closed_to_others, mapped, why_shared
from headrace.contracts.values.account_numbers import COUNT, FIRST


def test_the_first_directory_on_the_way_that_others_cannot_pass_is_named(tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    assert closed_to_others(str(closed / "not" / "there" / "yet")) == str(closed)
    assert closed_to_others("/tmp") == ""


def test_who_is_not_root_cannot_and_root_can_where_others_can_pass(tmp_path, monkeypatch):
    monkeypatch.setattr("headrace.contracts.own_accounts.mapped", lambda: True)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert why_shared("/tmp/x") == "only root can run jobs under other accounts"
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert why_shared("/tmp/x") == ""
    tmp_path.chmod(0o700)
    assert why_shared(str(tmp_path / "x" / "y")).startswith("others cannot pass through /")
    monkeypatch.setattr("headrace.contracts.own_accounts.mapped", lambda: False)
    assert "user namespace" in why_shared("/tmp/x")


@pytest.mark.parametrize(
    ("ranges", "all_there"),
    [
        ("0 0 4294967295", True),
        (f"0 100000 65536\n{FIRST} {FIRST} {COUNT}", True),
        (f"{FIRST} 1000 {COUNT - 1}", False),
        ("0 100000 65536", False),
    ],
)
def test_in_a_user_namespace_all_numbers_have_to_be_mapped(tmp_path, monkeypatch, ranges, all_there):
    (tmp_path / "uid_map").write_text(ranges + "\n")
    real = open
    monkeypatch.setattr("builtins.open", lambda _path, **more: real(tmp_path / "uid_map", **more))
    assert mapped() is all_there
