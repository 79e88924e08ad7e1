from __future__ import annotations

import os
import pwd
import stat

import pytest

from headrace.contracts import own_accounts as module
from headrace.contracts.values.account_numbers import COUNT, FIRST
from headrace.node_executor.system.account_numbers import AccountNumbers
from headrace.node_executor.system.accounts import Accounts, AccountUnknown, NumberTaken, UserAccount, chosen

JOB = "acme.alice.01j9z3k4m5n6p7q8r9s0t1v2w3"


@pytest.fixture
def root(monkeypatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)


def test_each_user_of_each_tenant_has_an_account_that_is_the_same_everywhere(root) -> None:
    own = Accounts("own")
    alice = own.of(JOB)
    assert alice == own.of("acme.alice.01j9z3k4m5n6p7q8r9s0t1v2w4") == UserAccount(2132224254, 2132224254, "alice")
    assert FIRST <= alice.uid < FIRST + COUNT
    assert len({own.of(job) for job in (JOB, JOB.replace("alice", "bob"), JOB.replace("acme", "other"))}) == 3
    assert own.others


@pytest.mark.parametrize(
    ("mode", "owner", "groups"),
    [
        pytest.param(stat.S_IFCHR | 0o660, 109, (109,), id="a node that is open to its group"),
        pytest.param(stat.S_IFCHR | 0o666, 109, (), id="a node that is open to everybody"),
        pytest.param(stat.S_IFCHR | 0o600, 109, (), id="a node that is closed to its group"),
        pytest.param(stat.S_IFCHR | 0o660, 0, (), id="never the group of root"),
        pytest.param(stat.S_IFREG | 0o660, 109, (), id="no node"),
    ],
)
def test_who_was_given_devices_is_in_the_groups_that_they_take(monkeypatch, mode, owner, groups) -> None:
    there = {"/dev/kfd": os.stat_result((mode, 0, 0, 1, 0, owner, 0, 0, 0, 0))}

    def stat_of(path: str) -> os.stat_result:
        if path not in there:
            raise FileNotFoundError(path)
        return there[path]

    monkeypatch.setattr("headrace.node_executor.system.accounts.os.stat", stat_of)
    alice = UserAccount(77, 78, "alice")
    assert alice.with_devices(("/dev/kfd", "/dev/kfd", "/dev/dri/renderD128")) == alice._replace(groups=groups)


def test_the_number_in_the_order_counts_and_is_refused_where_it_is_of_another_user_here(root, tmp_path) -> None:
    own = Accounts("own", AccountNumbers(str(tmp_path / "numbers.json")))
    alice = own.of(JOB, FIRST + 7)
    assert alice == UserAccount(FIRST + 7, FIRST + 7, "alice")
    own.claim(JOB, alice)
    mallory = JOB.replace("acme.alice", "evil.mallory")
    with pytest.raises(
        NumberTaken, match=f"knows the number {FIRST + 7} as another user's, so evil.mallory cannot run under it"
    ):
        own.claim(mallory, own.of(mallory, FIRST + 7))
    for number in (1, 1000, FIRST - 1, FIRST + COUNT):
        with pytest.raises(NumberTaken, match="is not an account number of a user"):
            own.claim(JOB, own.of(JOB, number))
    Accounts("self").claim(JOB, None)


def test_the_executors_own_user_runs_as_it_does() -> None:
    assert (Accounts("self").of(JOB), Accounts("self").others) == (None, False)


def test_one_account_may_be_named_for_all(root) -> None:
    found = pwd.getpwuid(os.getuid())
    assert Accounts(found.pw_name).of(JOB) == UserAccount(found.pw_uid, found.pw_gid, found.pw_name)
    with pytest.raises(AccountUnknown, match="account 'no-such-user' does not exist"):
        Accounts("no-such-user")


def test_only_root_may_run_jobs_as_others(monkeypatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(AccountUnknown, match="write --run-as self"):
        Accounts("own")
    assert chosen("auto", "/") == ("self", "")


def test_left_to_itself_root_gives_each_user_an_own_account_where_that_works(tmp_path, root, monkeypatch) -> None:
    monkeypatch.setattr(module, "mapped", lambda: True)
    monkeypatch.setattr(module, "closed_to_others", lambda _: "")
    assert chosen("auto", str(tmp_path)) == ("own", "")
    monkeypatch.undo()
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    choice, why = chosen("auto", str(closed / "node"))
    assert choice == "self"
    assert why
    assert chosen("own", str(closed / "node")) == ("own", "")
